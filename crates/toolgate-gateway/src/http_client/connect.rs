//! Opens a connection: name lookup, TCP, TLS.

use std::{io, net::SocketAddr};

use tokio::{
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};

use super::{
    connection::HttpConnection,
    stream::{ClientStream, CountingSocket},
    target::{Address, Target},
};

/// Opens a connection within `connect_timeout`. The error is a message for the operator.
pub(super) async fn connect(target: &Target) -> Result<Box<HttpConnection>, String> {
    let within = target.limits().connect_timeout;
    timeout(within, open(target)).await.unwrap_or_else(|_| {
        let (origin, seconds) = (target.origin(), within.as_secs_f32());
        Err(format!("cannot reach {origin}: no connection within {seconds} s"))
    })
}

async fn open(target: &Target) -> Result<Box<HttpConnection>, String> {
    let origin = target.origin();
    let stream = dial(target).await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("cannot reach {origin}: the connection was refused")
        }
        _ => format!("cannot reach {origin}: {error}"),
    })?;
    let stream = match &target.tls {
        None => ClientStream::Plain(CountingSocket::new(stream)),
        Some((connector, name)) => {
            let stream = connector.connect(name.clone(), CountingSocket::new(stream)).await;
            let stream =
                stream.map_err(|error| format!("no TLS connection to {origin}: {error}"))?;
            ClientStream::Tls(Box::new(stream))
        }
    };
    let connection = HttpConnection::new(stream, target.limits().max_head_bytes).await;
    connection.map(Box::new).map_err(|error| format!("no connection to {origin}: {error}"))
}

async fn dial(target: &Target) -> io::Result<TcpStream> {
    let stream = match &target.address {
        Address::Fixed(address) => TcpStream::connect(address).await?,
        Address::Named(name, port) => {
            let found = tokio::net::lookup_host((name.as_str(), *port)).await?;
            first_that_answers(found.collect(), target).await?
        }
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Tries the addresses in turn. Each gets an equal share of the remaining time, so that one that does not respond does
/// not use up the time of the others.
async fn first_that_answers(addresses: Vec<SocketAddr>, target: &Target) -> io::Result<TcpStream> {
    let end = Instant::now() + target.limits().connect_timeout;
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        let now = Instant::now();
        let share = end.saturating_duration_since(now) / left.max(1);
        left -= 1;
        failed = match timeout_at(now + share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error,
            Err(_) => io::Error::new(io::ErrorKind::TimedOut, "it does not answer"),
        };
    }
    Err(failed)
}

//! Opening a connection: the name, TCP, TLS.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use rustls_platform_verifier::Verifier;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, crypto::aws_lc_rs},
};

use super::{
    exchange::Connection,
    stream::Stream,
    target::{Address, Target},
    watched::Watched,
};

/// Opens a connection within the time that is given for it. An error says what failed, for people.
pub(super) async fn connect(target: &Target) -> Result<Box<Connection>, String> {
    let within = target.bounds().connect_within;
    timeout(within, open(target)).await.unwrap_or_else(|_| {
        let (origin, seconds) = (target.origin(), within.as_secs_f32());
        Err(format!("cannot reach {origin}: no connection within {seconds} s"))
    })
}

async fn open(target: &Target) -> Result<Box<Connection>, String> {
    let origin = target.origin();
    let stream = dial(target).await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("cannot reach {origin}: the connection was refused")
        }
        _ => format!("cannot reach {origin}: {error}"),
    })?;
    let stream = match &target.tls {
        None => Stream::Plain(stream),
        Some((connector, name)) => {
            let stream = connector.connect(name.clone(), Watched::new(stream)).await;
            let stream =
                stream.map_err(|error| format!("no TLS connection to {origin}: {error}"))?;
            Stream::Tls(Box::new(stream))
        }
    };
    Ok(Box::new(Connection::new(stream)))
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

/// Tries each address; one that is silent does not use up the time of the others.
async fn first_that_answers(addresses: Vec<SocketAddr>, target: &Target) -> io::Result<TcpStream> {
    let end = Instant::now() + target.bounds().connect_within;
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

/// TLS that trusts what the system trusts; made once, since that reads many files.
pub(super) fn system_tls() -> Result<TlsConnector, String> {
    static MADE: OnceLock<Result<TlsConnector, String>> = OnceLock::new();
    MADE.get_or_init(|| {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = Verifier::new(Arc::clone(&provider)).map_err(|error| error.to_string())?;
        tls(verifier, provider)
    })
    .clone()
}

/// TLS with a verifier of one's own choice.
pub(super) fn tls(
    verifier: Verifier,
    provider: Arc<tokio_rustls::rustls::crypto::CryptoProvider>,
) -> Result<TlsConnector, String> {
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?.dangerous();
    let config = config.with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

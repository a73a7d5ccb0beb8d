//! The HTTP server for Prometheus: serves `GET /metrics` only, on a thread of its own.

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Semaphore, oneshot};

use super::exposition::{self, OnDemandReader};

/// How long a client may take to send the head of its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one connection may take in all.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// The most connections at the same time.
const MAX_CONNECTIONS: usize = 32;
/// The most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The running server, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct MetricsServer {
    _stop: oneshot::Sender<()>,
}

impl MetricsServer {
    /// Listens on the address and starts the thread. The error is a message for the operator.
    pub(super) fn start(address: SocketAddr, metrics: OnDemandReader) -> Result<Self, String> {
        let failed = |error: std::io::Error| {
            format!(
                "cannot serve metrics at `{address}`: {error}; give each toolgate an address of its own \
                 in `telemetry.prometheus`"
            )
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let serving = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, metrics) => {}
                    _ = stopped => {}
                }
            });
        };
        thread::Builder::new().name("metrics".to_owned()).spawn(serving).map_err(failed)?;
        tracing::info!("metrics are at http://{address}/metrics");
        Ok(Self { _stop: stop })
    }
}

async fn serve(listener: TcpListener, metrics: OnDemandReader) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "metrics cannot be served"),
    };
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // The process may be out of file descriptors for a time.
                tracing::debug!(%error, "cannot accept a connection for metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request: Request<Incoming>| {
                let answer = answer(&request, is_local, &metrics);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).keep_alive(false);
            server.max_buf_size(MAX_HEAD_BYTES);
            let connection = server.serve_connection(TokioIo::new(stream), answer);
            if let Ok(Err(error)) = tokio::time::timeout(REQUEST_TIMEOUT, connection).await {
                tracing::debug!(%error, "a connection for metrics failed");
            }
            drop(permit);
        });
    }
}

fn answer<B>(
    request: &Request<B>,
    is_local: bool,
    metrics: &OnDemandReader,
) -> Response<Full<Bytes>> {
    if is_local && !names_this_machine(request.headers().get(HOST)) {
        // DNS rebinding: a web page can send requests to this machine under a host name of its own.
        return refused(StatusCode::FORBIDDEN, "metrics are for this machine only\n");
    }
    if request.uri().path() != "/metrics" {
        return refused(StatusCode::NOT_FOUND, "not found: use GET /metrics\n");
    }
    if request.method() != Method::GET {
        let mut answer = refused(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use GET\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return answer;
    }
    let mut answer = Response::new(Full::new(Bytes::from(metrics.text())));
    let kind = HeaderValue::from_static(exposition::CONTENT_TYPE);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// Whether `Host` is an IP address or `localhost`, or missing.
fn names_this_machine(host: Option<&HeaderValue>) -> bool {
    let Some(host) = host else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    let name = name.map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

fn refused(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(method: Method, path: &str, host: &str) -> u16 {
        let request = Request::builder().method(method).uri(path).header(HOST, host).body(());
        answer(&request.unwrap(), true, &OnDemandReader::default()).status().as_u16()
    }

    #[test]
    fn only_metrics_only_get_and_only_under_a_name_of_this_machine() {
        for host in ["127.0.0.1:9464", "localhost", "[::1]:9464", "[::1]"] {
            assert_eq!(status(Method::GET, "/metrics", host), 200, "{host}");
        }
        assert_eq!(status(Method::GET, "/", "localhost"), 404);
        assert_eq!(status(Method::GET, "/metrics/", "localhost"), 404);
        assert_eq!(status(Method::POST, "/metrics", "localhost"), 405);
        assert_eq!(status(Method::HEAD, "/metrics", "localhost"), 405);
        assert_eq!(status(Method::GET, "/metrics", "evil.example:9464"), 403);
    }
}

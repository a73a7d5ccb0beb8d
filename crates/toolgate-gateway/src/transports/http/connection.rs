//! Serves the requests of one connection, one after the other.

use std::{
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    header::{CONNECTION, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{
    Handler, HttpLimits,
    body::ResponseBody,
    collect::{BodyReadError, collect, is_here},
    connection_phase::{PhaseTracker, TrackedSocket},
    text,
};

/// The maximum size of a head in bytes. hyper's default limits the number of headers to 100: another limit would cost
/// an allocation for each request.
const HEAD: usize = 32 * 1024;
/// The maximum size of the connection's buffer in bytes.
const BUFFER: usize = 128 * 1024;

/// The state that the requests of one connection share. Each request counts a reference to this state and none to the
/// handler, whose reference count all cores share.
pub(super) struct ConnectionState<H> {
    pub(super) handler: Arc<H>,
    pub(super) settings: Arc<HttpLimits>,
    pub(super) phase: Arc<PhaseTracker>,
    /// The client's address.
    pub(super) peer: Option<SocketAddr>,
}

/// Serves a connection until it ends.
pub(super) async fn serve<H: Handler>(stream: TcpStream, site: ConnectionState<H>) {
    let site = Arc::new(site);
    let phase = Arc::clone(&site.phase);
    let socket = TokioIo::new(TrackedSocket::new(stream, Arc::clone(&phase)));
    let service = service_fn(move |request| {
        site.phase.begun();
        respond(Arc::clone(&site), request)
    });
    let mut server = http1::Builder::new();
    // The worker's sweeps enforce the timeout for heads.
    server.header_read_timeout(None).max_header_size(HEAD).max_buf_size(BUFFER);
    let mut connection = pin!(server.serve_connection(socket, service));
    let mut is_stopped = false;
    let ended = poll_fn(|cx| {
        if !is_stopped && phase.is_stopped(cx) {
            is_stopped = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    });
    if let Err(error) = ended.await {
        tracing::trace!(%error, "a connection ended");
    }
}

async fn respond<H: Handler>(
    site: Arc<ConnectionState<H>>,
    request: Request<Incoming>,
) -> Result<Response<TrackedBody>, Infallible> {
    let (head, mut body) = request.into_parts();
    if !has_one_length(&head.headers) {
        let refusal = "a request says once how long its body is: one `Content-Length`, or \
             `Transfer-Encoding: chunked`\n";
        let response = last(&site.phase, text(StatusCode::BAD_REQUEST, refusal));
        return Ok(response.map(|body| TrackedBody { body, phase: Arc::clone(&site.phase) }));
    }
    let response = match site.handler.check(&head) {
        Ok(()) => match collect(&mut body, site.handler.body_limit(&head), &site.settings).await {
            // Boxed: hyper keeps room for this future as long as the connection is open.
            Ok(body) => Box::pin(site.handler.respond(site.peer, head, body)).await,
            Err(not_read) => {
                let response = match not_read {
                    BodyReadError::TooLarge => site.handler.too_large(&head),
                    BodyReadError::TooSlow => {
                        text(StatusCode::REQUEST_TIMEOUT, "the message did not come in time\n")
                    }
                    BodyReadError::Broken => {
                        text(StatusCode::BAD_REQUEST, "the message did not come in whole\n")
                    }
                };
                let response = site.handler.rejected(site.peer, &head, response);
                last(&site.phase, response)
            }
        },
        Err(refusal) => {
            let refusal = site.handler.rejected(site.peer, &head, refusal);
            if is_here(&mut body).await { refusal } else { last(&site.phase, refusal) }
        }
    };
    Ok(response.map(|body| TrackedBody { body, phase: Arc::clone(&site.phase) }))
}

/// Whether the length of the body is unambiguous. Otherwise a proxy in front may see a different end of the body than
/// toolgate, which would then take a part of the body for a request.
fn has_one_length(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = match (encodings.next(), encodings.next()) {
        (None, _) => false,
        (Some(one), None) if one.as_bytes().eq_ignore_ascii_case(b"chunked") => true,
        _ => return false,
    };
    let lengths = headers.get_all(CONTENT_LENGTH).iter().count();
    lengths + usize::from(is_chunked) <= 1
}

/// Makes a response the last one of its connection, because the rest of the request stays unread.
fn last(phase: &PhaseTracker, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    phase.leave_unread();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A body whose end is recorded in the connection's progress.
struct TrackedBody {
    body: ResponseBody,
    phase: Arc<PhaseTracker>,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.phase.answered();
    }
}

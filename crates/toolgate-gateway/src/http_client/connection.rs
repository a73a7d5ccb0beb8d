//! An HTTP/1.1 connection. The task that waits for a response also polls hyper's connection future: there is no
//! separate task for each connection.

use std::{
    error::Error,
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::runtime::{Handle, Id};

use super::{
    head,
    stream::{ByteCounters, ClientStream},
};

/// A server closes idle connections by its own clock. The client stops using a connection this much earlier, so that it
/// does not send a request on a connection that the server is closing.
const MARGIN: Duration = Duration::from_secs(1);

/// The smallest read buffer that hyper accepts.
const MIN_BUFFER_BYTES: usize = 8192;

/// A connection, which is closed when it is dropped.
#[derive(Debug)]
pub(super) struct HttpConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<TokioIo<ClientStream>, Full<Bytes>>,
    counters: Arc<ByteCounters>,
    /// Whether hyper's connection future has ended.
    is_over: bool,
    /// Whether the connection can be used again after this response. hyper's own state counts as well.
    is_reusable: bool,
    /// The runtime that opened the connection and that reports its events.
    pub(super) runtime: Option<Id>,
    /// How long the server keeps the connection while it is idle, if the server announced a time.
    pub(super) keep_alive: Duration,
    pub(super) use_until: Instant,
    pub(super) idle_since: Instant,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum NoResponse {
    /// The connection ended or failed before a byte of the request was written.
    NotWritten(String),
    /// The connection ended or failed after a part of the request was written.
    Closed(String),
    /// The server sent no valid HTTP.
    Invalid(String),
}

impl HttpConnection {
    /// `most` is the most bytes of a response's head.
    pub(super) async fn new(stream: ClientStream, most: usize) -> hyper::Result<Self> {
        let counters = Arc::clone(stream.counters());
        let mut builder = http1::Builder::new();
        builder.max_header_size(most).max_buf_size(most.max(MIN_BUFFER_BYTES));
        let (sender, driver) = builder.handshake(TokioIo::new(stream)).await?;
        let now = Instant::now();
        Ok(Self {
            sender,
            driver,
            counters,
            is_over: false,
            is_reusable: true,
            runtime: runtime(),
            keep_alive: Duration::MAX,
            use_until: now,
            idle_since: now,
        })
    }

    /// Polls hyper's connection future, which reads and writes as far as it can without waiting.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        if !self.is_over {
            self.is_over = Pin::new(&mut self.driver).poll(context).is_ready();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the next request can be sent: the last response was read to its end, the server sent no bytes that
    /// belong to no response, and it has not closed the connection as far as the runtime knows. `checks_socket` also
    /// asks the operating system, which costs more.
    pub(super) fn is_idle(&mut self, checks_socket: bool) -> bool {
        if checks_socket {
            self.counters.check_socket();
        }
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.is_reusable && !self.is_over && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its response. `most` is the most bytes of the head, including the
    /// heads of interim responses before it.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        most: usize,
    ) -> Result<Response<Incoming>, NoResponse> {
        self.counters.reset();
        let mut sent = pin!(self.sender.try_send_request(request));
        let (driver, counters, is_over) = (&mut self.driver, &self.counters, &mut self.is_over);
        let response = poll_fn(|context| {
            *is_over = *is_over || Pin::new(&mut *driver).poll(context).is_ready();
            // The response comes from the driver, which this task polls itself: no waker is needed.
            match sent.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(response)) => Poll::Ready(Ok(response)),
                Poll::Ready(Err(mut error)) => {
                    let is_unsent = error.take_message().is_some();
                    Poll::Ready(Err(unanswered(&error.into_error(), is_unsent, counters)))
                }
                Poll::Pending => match counters.write_error() {
                    Some(error) if counters.written() == 0 => {
                        Poll::Ready(Err(NoResponse::NotWritten(error.to_string())))
                    }
                    _ if counters.read() > most => {
                        Poll::Ready(Err(NoResponse::Invalid("its head is too long".to_owned())))
                    }
                    // hyper saw the end of the connection before it took the request.
                    _ if *is_over && counters.written() == 0 => {
                        Poll::Ready(Err(NoResponse::NotWritten("it ended".to_owned())))
                    }
                    _ if *is_over => Poll::Ready(Err(NoResponse::Closed("it ended".to_owned()))),
                    _ => Poll::Pending,
                },
            }
        });
        let response = response.await?;
        let facts = head::check(&response).map_err(|why| NoResponse::Invalid(why.to_owned()))?;
        self.is_reusable &= facts.is_reusable && self.counters.write_error().is_none();
        if let Some(time) = facts.keep_alive {
            self.keep_alive = time.saturating_sub(MARGIN);
        }
        Ok(response)
    }
}

#[cold]
fn unanswered(error: &hyper::Error, is_unsent: bool, counters: &ByteCounters) -> NoResponse {
    let is_invalid = error.is_parse()
        || error
            .source()
            .and_then(|cause| cause.downcast_ref::<io::Error>())
            .is_some_and(|cause| cause.kind() == io::ErrorKind::InvalidData);
    if is_unsent || counters.written() == 0 {
        let why = counters.write_error().map_or_else(|| with_cause(error), ToString::to_string);
        NoResponse::NotWritten(why)
    } else if is_invalid {
        NoResponse::Invalid(with_cause(error))
    } else {
        NoResponse::Closed(with_cause(error))
    }
}

/// The text of an error and of its cause.
pub(super) fn with_cause(error: &hyper::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// The current runtime.
pub(super) fn runtime() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

//! A connection that the task which waits for a response drives itself: hyper's protocol, without a task of hyper's.

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
    stream::{ClientStream, Traffic},
};

/// A server that closes idle connections after some time does so at its own clock: so much earlier ours are not
/// used any more, lest a request meets a connection that is being closed.
const MARGIN: Duration = Duration::from_secs(1);

/// hyper reads no less at once.
const LEAST_BUFFER: usize = 8192;

/// A connection. Dropped, it is closed.
#[derive(Debug)]
pub(super) struct HttpConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<TokioIo<ClientStream>, Full<Bytes>>,
    traffic: Arc<Traffic>,
    /// Whether the driver has nothing left to do.
    is_over: bool,
    /// Whether it can be used again after this response, as far as our own rules go.
    keeps: bool,
    /// The runtime that opened it, and that tells when there is something to be read.
    pub(super) runtime: Option<Id>,
    /// For how long the server keeps it while nobody uses it, once it has said so.
    pub(super) kept_for: Duration,
    pub(super) use_until: Instant,
    pub(super) idle_since: Instant,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum NoResponse {
    /// Nothing was written.
    NotWritten(String),
    Closed(String),
    Invalid(String),
}

impl HttpConnection {
    /// `most` is the most bytes of a response's head.
    pub(super) async fn new(stream: ClientStream, most: usize) -> hyper::Result<Self> {
        let traffic = Arc::clone(stream.traffic());
        let mut builder = http1::Builder::new();
        builder.max_header_size(most).max_buf_size(most.max(LEAST_BUFFER));
        let (sender, driver) = builder.handshake(TokioIo::new(stream)).await?;
        let now = Instant::now();
        Ok(Self {
            sender,
            driver,
            traffic,
            is_over: false,
            keeps: true,
            runtime: runtime(),
            kept_for: Duration::MAX,
            use_until: now,
            idle_since: now,
        })
    }

    /// Reads and writes what can be read and written now.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        if !self.is_over {
            self.is_over = Pin::new(&mut self.driver).poll(context).is_ready();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the next request can be sent: the last response was read to its end, nothing came that belongs to no
    /// response, and the server is there as far as the runtime knows. `looks` asks the system itself, which costs more.
    pub(super) fn is_idle(&mut self, looks: bool) -> bool {
        if looks {
            self.traffic.look();
        }
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.keeps && !self.is_over && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its response. `most` is the most bytes of all heads of it.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        most: usize,
    ) -> Result<Response<Incoming>, NoResponse> {
        self.traffic.start();
        let mut sent = pin!(self.sender.try_send_request(request));
        let (driver, traffic, is_over) = (&mut self.driver, &self.traffic, &mut self.is_over);
        let response = poll_fn(|context| {
            *is_over = *is_over || Pin::new(&mut *driver).poll(context).is_ready();
            // What is waited for comes from the driver, within this task: nobody has to be woken for it.
            match sent.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(response)) => Poll::Ready(Ok(response)),
                Poll::Ready(Err(mut error)) => {
                    let is_unsent = error.take_message().is_some();
                    Poll::Ready(Err(unanswered(&error.into_error(), is_unsent, traffic)))
                }
                Poll::Pending => match traffic.failed() {
                    Some(error) if traffic.written() == 0 => {
                        Poll::Ready(Err(NoResponse::NotWritten(error.to_string())))
                    }
                    _ if traffic.read() > most => {
                        Poll::Ready(Err(NoResponse::Invalid("its head is too long".to_owned())))
                    }
                    // hyper saw the end of the connection before it took the request.
                    _ if *is_over && traffic.written() == 0 => {
                        Poll::Ready(Err(NoResponse::NotWritten("it ended".to_owned())))
                    }
                    _ if *is_over => Poll::Ready(Err(NoResponse::Closed("it ended".to_owned()))),
                    _ => Poll::Pending,
                },
            }
        });
        let response = response.await?;
        let told = head::check(&response).map_err(|why| NoResponse::Invalid(why.to_owned()))?;
        self.keeps &= told.keeps && self.traffic.failed().is_none();
        if let Some(time) = told.kept_for {
            self.kept_for = time.saturating_sub(MARGIN);
        }
        Ok(response)
    }
}

#[cold]
fn unanswered(error: &hyper::Error, is_unsent: bool, traffic: &Traffic) -> NoResponse {
    let is_invalid = error.is_parse()
        || error
            .source()
            .and_then(|cause| cause.downcast_ref::<io::Error>())
            .is_some_and(|cause| cause.kind() == io::ErrorKind::InvalidData);
    if is_unsent || traffic.written() == 0 {
        let why = traffic.failed().map_or_else(|| told(error), ToString::to_string);
        NoResponse::NotWritten(why)
    } else if is_invalid {
        NoResponse::Invalid(told(error))
    } else {
        NoResponse::Closed(told(error))
    }
}

/// An error with what caused it.
pub(super) fn told(error: &hyper::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// The runtime that this runs on.
pub(super) fn runtime() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

//! A stream of events to one client: a bounded queue between the sender and the connection.

use std::{
    collections::VecDeque,
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use hyper::body::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::{Instant, Sleep},
};
use toolgate_wire::sse::KEEP_ALIVE;

/// The capacity of the queue in bytes: beyond it, senders wait. A single message may be larger.
const MAX_QUEUED_BYTES: usize = 1024 * 1024;
/// The bytes of the capacity that even the smallest message takes: this limits the number of messages too.
const LEAST: usize = 1024;
/// After a silence of this length, the stream sends a keep-alive comment: proxies close silent streams.
const SILENCE: Duration = Duration::from_secs(15);

/// The client of a stream has disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client is gone")]
pub(crate) struct ClientGone;

/// Why a message was not queued at once, with the message.
#[cfg(test)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// The queue is full.
    Full(Bytes),
    /// The client is gone.
    ClientGone(Bytes),
}

/// The sending end. After it is dropped, the stream ends with the last queued message.
pub(crate) struct EventSender {
    stream: Arc<EventStreamState>,
}

/// The receiving end, which the connection reads.
pub(crate) struct EventBody {
    stream: Arc<EventStreamState>,
    silence: Duration,
    /// When the last event or keep-alive comment was taken from the stream.
    spoke: Instant,
    /// Set when the connection first finds the queue empty.
    alarm: Option<Pin<Box<Sleep>>>,
}

struct EventStreamState {
    queue: Mutex<Queue>,
    /// The free capacity in bytes.
    room: Semaphore,
    left: Notify,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Bytes>,
    /// The sender was dropped.
    ended: bool,
    /// The client has disconnected.
    gone: bool,
    reader: Option<Waker>,
}

/// Creates a stream. The sender formats the events.
pub(crate) fn stream() -> (EventSender, EventBody) {
    stream_with(SILENCE)
}

/// Creates a stream that sends a keep-alive comment after a silence of this length.
pub(super) fn stream_with(silence: Duration) -> (EventSender, EventBody) {
    let stream = Arc::new(EventStreamState {
        queue: Mutex::default(),
        room: Semaphore::new(MAX_QUEUED_BYTES),
        left: Notify::new(),
    });
    let sender = EventSender { stream: Arc::clone(&stream) };
    (sender, EventBody { stream, silence, spoke: Instant::now(), alarm: None })
}

impl EventSender {
    /// Queues bytes, and waits while the queue is full. Waiting senders are served in order.
    pub(crate) async fn send(&self, bytes: Bytes) -> Result<(), ClientGone> {
        match self.stream.room.acquire_many(cost(&bytes)).await {
            Ok(room) => self.stream.put(bytes, room).map_err(|_| ClientGone),
            Err(_closed) => Err(ClientGone),
        }
    }

    /// Queues bytes if the queue has room for them now.
    #[cfg(test)]
    pub(crate) fn try_send(&self, bytes: Bytes) -> Result<(), NotSent> {
        match self.stream.room.try_acquire_many(cost(&bytes)) {
            Ok(room) => self.stream.put(bytes, room).map_err(NotSent::ClientGone),
            Err(_) if self.is_closed() => Err(NotSent::ClientGone(bytes)),
            Err(_) => Err(NotSent::Full(bytes)),
        }
    }

    /// Whether the client is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.stream.room.is_closed()
    }

    /// Waits until the client is gone.
    pub(crate) async fn closed(&self) {
        let left = self.stream.left.notified();
        let mut left = std::pin::pin!(left);
        // Registers before the check, so that a disconnect between the check and the wait is not missed.
        left.as_mut().enable();
        if !self.is_closed() {
            left.await;
        }
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        let mut queue = self.stream.queue();
        queue.ended = true;
        let reader = queue.reader.take();
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl EventStreamState {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn put(&self, bytes: Bytes, room: SemaphorePermit<'_>) -> Result<(), Bytes> {
        let mut queue = self.queue();
        if queue.gone {
            return Err(bytes);
        }
        // The reader returns the capacity when it takes the message.
        room.forget();
        queue.messages.push_back(bytes);
        let reader = queue.reader.take();
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(())
    }
}

impl EventBody {
    /// The next bytes to write; `None` at the end of the stream.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut queue = self.stream.queue();
        if let Some(bytes) = queue.messages.pop_front() {
            drop(queue);
            self.stream.room.add_permits(cost(&bytes) as usize);
            self.spoke = Instant::now();
            return Poll::Ready(Some(bytes));
        }
        if queue.ended {
            return Poll::Ready(None);
        }
        if !queue.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
            queue.reader = Some(cx.waker().clone());
        }
        drop(queue);
        self.poll_silence(cx).map(|()| Some(Bytes::from_static(KEEP_ALIVE)))
    }

    /// Ready when the stream has been silent for too long.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.spoke + self.silence;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        while alarm.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if due <= now {
                self.spoke = now;
                alarm.as_mut().reset(now + self.silence);
                return Poll::Ready(());
            }
            // A message was sent since the timer was set: the timer is moved here, and not with each message.
            alarm.as_mut().reset(due);
        }
        Poll::Pending
    }

    pub(super) fn is_over(&self) -> bool {
        let queue = self.stream.queue();
        queue.ended && queue.messages.is_empty()
    }
}

impl Drop for EventBody {
    fn drop(&mut self) {
        let mut queue = self.stream.queue();
        queue.gone = true;
        let messages = mem::take(&mut queue.messages);
        drop(queue);
        drop(messages);
        self.stream.room.close();
        self.stream.left.notify_waiters();
    }
}

/// The capacity that a message takes.
fn cost(bytes: &Bytes) -> u32 {
    u32::try_from(bytes.len().clamp(LEAST, MAX_QUEUED_BYTES)).unwrap_or(u32::MAX)
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSender").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl fmt::Debug for EventBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBody").field("over", &self.is_over()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn next(body: &mut EventBody) -> Option<Bytes> {
        poll_fn(|cx| body.poll_next(cx)).await
    }

    /// Whether a future is not ready when it is first asked.
    async fn waits<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
        poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn what_was_sent_comes_before_the_end() {
        let (sender, mut body) = stream();
        sender.send(Bytes::from_static(b"a")).await.unwrap();
        sender.try_send(Bytes::from_static(b"b")).unwrap();
        drop(sender);
        assert!(!body.is_over());
        assert_eq!(next(&mut body).await.unwrap(), "a");
        assert_eq!(next(&mut body).await.unwrap(), "b");
        assert!(body.is_over());
        assert_eq!(next(&mut body).await, None);
    }

    #[tokio::test]
    async fn bytes_are_bounded_but_one_message_may_be_larger() {
        let (sender, mut body) = stream();
        let large = Bytes::from(vec![b'x'; 3 * MAX_QUEUED_BYTES]);
        sender.send(large.clone()).await.unwrap();
        let small = Bytes::from_static(b"s");
        assert_eq!(sender.try_send(small.clone()), Err(NotSent::Full(small.clone())));
        let mut waiting = Box::pin(sender.send(small.clone()));
        assert!(waits(&mut waiting).await);
        assert_eq!(next(&mut body).await.unwrap(), large);
        waiting.await.unwrap();
        // The other way round: what is large waits until nothing else is left.
        let mut waiting = Box::pin(sender.send(large.clone()));
        assert!(waits(&mut waiting).await);
        assert_eq!(next(&mut body).await.unwrap(), small);
        waiting.await.unwrap();
        assert_eq!(next(&mut body).await.unwrap(), large);
        assert_eq!(sender.stream.room.available_permits(), MAX_QUEUED_BYTES);
    }

    #[tokio::test]
    async fn messages_are_bounded_in_number() {
        let (sender, _body) = stream();
        let taken = (0..10_000).take_while(|_| sender.try_send(Bytes::new()).is_ok()).count();
        assert_eq!(taken, MAX_QUEUED_BYTES / LEAST);
    }

    #[tokio::test]
    async fn a_client_that_leaves_frees_whoever_waits() {
        let (sender, body) = stream();
        sender.send(Bytes::from(vec![b'x'; MAX_QUEUED_BYTES])).await.unwrap();
        let mut waiting = Box::pin(sender.send(Bytes::from_static(b"y")));
        assert!(waits(&mut waiting).await);
        let mut closed = Box::pin(sender.closed());
        assert!(waits(&mut closed).await);
        drop(body);
        assert_eq!(waiting.await, Err(ClientGone));
        closed.await;
        sender.closed().await;
        let late = Bytes::from_static(b"late");
        assert_eq!(sender.try_send(late.clone()), Err(NotSent::ClientGone(late)));
        assert!(sender.stream.queue().messages.is_empty());
    }

    #[tokio::test]
    async fn silence_is_filled_with_comments_and_what_is_said_puts_them_off() {
        let (sender, mut body) = stream_with(Duration::from_millis(40));
        let begun = Instant::now();
        assert_eq!(next(&mut body).await.unwrap(), KEEP_ALIVE);
        assert_eq!(next(&mut body).await.unwrap(), KEEP_ALIVE);
        assert!(begun.elapsed() >= Duration::from_millis(80));
        sender.try_send(Bytes::from_static(b"a")).unwrap();
        let spoken = Instant::now();
        assert_eq!(next(&mut body).await.unwrap(), "a");
        assert_eq!(next(&mut body).await.unwrap(), KEEP_ALIVE);
        assert!(spoken.elapsed() >= Duration::from_millis(40));
    }
}

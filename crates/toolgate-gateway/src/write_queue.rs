//! The way out: a bounded queue of messages, and the task that writes them in as few writes as it can.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::{Notify, Semaphore},
};
use toolgate_wire::single_line;

/// So many messages wait for the writer before senders have to.
const ROOM: usize = 1024;

/// Messages up to this size are copied together; larger ones are written from where they are.
const SMALL: usize = 16 * 1024;

/// A queue of messages for one pipe.
///
/// Each message gets a number in the order of the queue, and the writer tells up to which number it
/// has written. So after a crash one can say of each call whether the server may have seen it.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    queue: Mutex<Queue>,
    wake: Notify,
    room: Semaphore,
    written: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Bytes>,
    queued: u64,
    closed: bool,
}

impl WriteQueue {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::default(),
            wake: Notify::new(),
            room: Semaphore::new(ROOM),
            written: AtomicU64::new(0),
        }
    }

    /// Queues one message (with or without its newline) and waits while there is no room. Gives its number.
    pub(crate) async fn push(&self, line: Bytes) -> u64 {
        // Closed only when the outbox is: then nobody reads what is pushed.
        if let Ok(permit) = self.room.acquire().await {
            permit.forget();
        }
        self.put(line, 0)
    }

    /// Queues one message without waiting: for what must not wait, and is bounded by something else.
    pub(crate) fn push_now(&self, line: Bytes) -> u64 {
        self.put(line, 1)
    }

    fn put(&self, line: Bytes, borrowed: usize) -> u64 {
        // The last check: whoever made the line, one message is one line.
        let line = single_line(line);
        let mut queue = self.queue.lock();
        if queue.closed {
            return u64::MAX;
        }
        if borrowed > 0 {
            // Takes room if there is some, so that what the writer gives back adds up.
            self.room.forget_permits(borrowed);
        }
        queue.lines.push_back(line);
        queue.queued += 1;
        let number = queue.queued;
        drop(queue);
        self.wake.notify_one();
        number
    }

    /// Whether the message of this number was written, at least in part.
    pub(crate) fn was_written(&self, number: u64) -> bool {
        number <= self.written.load(Ordering::Acquire)
    }

    /// Takes no more messages; the writer ends when those in the queue are written.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.room.close();
        self.wake.notify_one();
    }

    /// Takes no more messages, and throws away those that nobody has begun to write: whoever waits for an answer to one
    /// of them can be told that it was not sent, and it never will be.
    pub(crate) fn abandon(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        queue.lines.clear();
        drop(queue);
        self.room.close();
        self.wake.notify_one();
    }

    /// Whether senders need not wait.
    pub(crate) fn has_room(&self) -> bool {
        self.room.available_permits() > 0
    }

    /// The next message, for a way that takes them one by one; `None` once the outbox is closed and empty.
    pub(crate) async fn next(&self) -> Option<Bytes> {
        loop {
            let closed = {
                let mut queue = self.queue.lock();
                if let Some(line) = queue.lines.pop_front() {
                    let number = queue.queued - queue.lines.len() as u64;
                    self.written.store(number, Ordering::Release);
                    self.room.add_permits(1);
                    return Some(line);
                }
                queue.closed
            };
            if closed {
                return None;
            }
            self.wake.notified().await;
        }
    }

    /// Writes messages until the outbox is closed and empty, or the pipe breaks.
    pub(crate) async fn drain(&self, mut pipe: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut batch = VecDeque::new();
        let mut small = Vec::with_capacity(SMALL);
        loop {
            let closed = {
                let mut queue = self.queue.lock();
                std::mem::swap(&mut queue.lines, &mut batch);
                if !batch.is_empty() {
                    // From here on the other side may see them.
                    self.written.store(queue.queued, Ordering::Release);
                }
                queue.closed
            };
            if batch.is_empty() {
                if closed {
                    return pipe.shutdown().await;
                }
                self.wake.notified().await;
                continue;
            }
            let count = batch.len();
            for line in batch.drain(..) {
                if line.len() > SMALL {
                    write_large(&mut pipe, &small, &line).await?;
                    small.clear();
                    continue;
                }
                small.extend_from_slice(&line);
                small.push(b'\n');
                if small.len() > SMALL {
                    pipe.write_all(&small).await?;
                    small.clear();
                }
            }
            if !small.is_empty() {
                pipe.write_all(&small).await?;
                small.clear();
            }
            pipe.flush().await?;
            self.room.add_permits(count);
        }
    }
}

/// Writes what is waiting and one large message in one go, without copying the large one.
async fn write_large(
    pipe: &mut (impl AsyncWrite + Unpin),
    before: &[u8],
    line: &Bytes,
) -> io::Result<()> {
    let mut parts = [IoSlice::new(before), IoSlice::new(line), IoSlice::new(b"\n")];
    let mut rest: &mut [IoSlice<'_>] = &mut parts;
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let written = pipe.write_vectored(rest).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn writes_in_order_with_one_newline_each_and_tells_what_was_written() {
        let outbox = WriteQueue::new();
        let large = Bytes::from(vec![b'x'; 3 * SMALL]);
        assert_eq!(outbox.push(Bytes::from_static(b"a\n")).await, 1);
        assert_eq!(outbox.push_now(large.clone()), 2);
        assert_eq!(outbox.push(Bytes::from_static(b"b")).await, 3);
        assert!(!outbox.was_written(1));
        outbox.close();
        assert_eq!(outbox.push_now(Bytes::from_static(b"late")), u64::MAX);
        let mut out = Vec::new();
        outbox.drain(&mut out).await.unwrap();
        let expected = [b"a\n", large.as_ref(), b"\nb\n"].concat();
        assert_eq!(out, expected);
        assert!(outbox.was_written(3) && !outbox.was_written(u64::MAX));
    }

    #[tokio::test]
    async fn a_message_is_one_line_whoever_made_it() {
        let outbox = WriteQueue::new();
        let large = format!("{{\r\n\"a\":\"{}\"\n}}\r\n", "x".repeat(3 * SMALL));
        outbox.push(Bytes::from_static(b"\n{\n\r}\r\n\n")).await;
        outbox.push_now(Bytes::from(large));
        outbox.close();
        assert_eq!(outbox.next().await.as_deref(), Some(&b" {  }"[..]));
        let mut out = Vec::new();
        outbox.drain(&mut out).await.unwrap();
        assert_eq!(out.iter().position(|byte| *byte == b'\n'), Some(out.len() - 1));
        assert!(out.ends_with(b"}\n") && !out.contains(&b'\r'));
    }

    #[tokio::test]
    async fn what_is_abandoned_is_never_written() {
        let outbox = WriteQueue::new();
        let number = outbox.push(Bytes::from_static(b"a")).await;
        outbox.abandon();
        let mut out = Vec::new();
        outbox.drain(&mut out).await.unwrap();
        assert!(out.is_empty() && !outbox.was_written(number));
        assert_eq!(outbox.next().await, None);
    }

    #[tokio::test]
    async fn a_full_queue_makes_senders_wait_and_a_reader_frees_them() {
        let outbox = std::sync::Arc::new(WriteQueue::new());
        for _ in 0..ROOM {
            outbox.push(Bytes::from_static(b"x")).await;
        }
        let waiting = tokio::spawn({
            let outbox = std::sync::Arc::clone(&outbox);
            async move { outbox.push(Bytes::from_static(b"y")).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let writer = tokio::spawn({
            let outbox = std::sync::Arc::clone(&outbox);
            async move { outbox.drain(tokio::io::sink()).await }
        });
        assert_eq!(waiting.await.unwrap(), ROOM as u64 + 1);
        outbox.close();
        writer.await.unwrap().unwrap();
    }
}

//! The write side of a pipe: a bounded queue of messages, and the task that writes them with as few system calls as
//! possible.

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

/// The number of messages that may wait for the writer. Beyond that, senders wait.
const MAX_QUEUED: usize = 1024;

/// Messages up to this size are copied into one buffer; larger ones are written without a copy.
const MAX_COPIED: usize = 16 * 1024;

/// A queue of messages for one pipe.
///
/// Each message gets a number in the order of the queue, and the writer publishes the number of the last message that
/// it has begun to write. So after a crash the gateway knows of each call whether the server may have seen it.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    queue: Mutex<QueuedLines>,
    wake: Notify,
    room: Semaphore,
    written: AtomicU64,
}

#[derive(Debug, Default)]
struct QueuedLines {
    lines: VecDeque<Bytes>,
    queued: u64,
    closed: bool,
}

impl WriteQueue {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::default(),
            wake: Notify::new(),
            room: Semaphore::new(MAX_QUEUED),
            written: AtomicU64::new(0),
        }
    }

    /// Queues one message (with or without its newline) and waits while the queue is full.
    /// `None` if the queue is closed: the message will not be written.
    pub(crate) async fn push(&self, line: Bytes) -> Option<u64> {
        // An error means that the queue is closed; `put` checks that.
        if let Ok(permit) = self.room.acquire().await {
            permit.forget();
        }
        self.put(line, 0)
    }

    /// Queues one message, and waits while the queue is full. A closed queue drops it.
    pub(crate) async fn send(&self, line: Bytes) {
        let _ = self.push(line).await;
    }

    /// Queues one message without waiting, for messages whose number something else limits.
    pub(crate) fn push_now(&self, line: Bytes) -> Option<u64> {
        self.put(line, 1)
    }

    fn put(&self, line: Bytes, borrowed: usize) -> Option<u64> {
        // The last check before writing: one message is one line.
        let line = single_line(line);
        let mut queue = self.queue.lock();
        if queue.closed {
            return None;
        }
        if borrowed > 0 {
            // Takes a permit if one is free, because the writer adds one permit for each message.
            self.room.forget_permits(borrowed);
        }
        queue.lines.push_back(line);
        queue.queued += 1;
        let number = queue.queued;
        drop(queue);
        self.wake.notify_one();
        Some(number)
    }

    /// Whether the writer has begun to write the message with this number.
    pub(crate) fn was_written(&self, number: u64) -> bool {
        number <= self.written.load(Ordering::Acquire)
    }

    /// Accepts no more messages; the writer ends once it has written those in the queue.
    pub(crate) fn close(&self) {
        self.queue.lock().closed = true;
        self.room.close();
        self.wake.notify_one();
    }

    /// Accepts no more messages, and drops those that the writer has not begun to write. Their senders learn from
    /// `was_written` that they were not sent.
    pub(crate) fn abandon(&self) {
        let mut queue = self.queue.lock();
        queue.closed = true;
        queue.lines.clear();
        drop(queue);
        self.room.close();
        self.wake.notify_one();
    }

    /// Whether `push` would not wait.
    pub(crate) fn has_room(&self) -> bool {
        self.room.available_permits() > 0
    }

    /// The next message, for transports that send them one by one; `None` once the queue is closed and empty.
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

    /// Writes messages until the queue is closed and empty, or the pipe breaks.
    pub(crate) async fn drain(&self, mut pipe: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut batch = VecDeque::new();
        let mut small = Vec::with_capacity(MAX_COPIED);
        loop {
            let closed = {
                let mut queue = self.queue.lock();
                std::mem::swap(&mut queue.lines, &mut batch);
                if !batch.is_empty() {
                    // From here on the reader of the pipe may see these messages.
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
                if line.len() > MAX_COPIED {
                    write_large(&mut pipe, &small, &line).await?;
                    small.clear();
                    continue;
                }
                small.extend_from_slice(&line);
                small.push(b'\n');
                if small.len() > MAX_COPIED {
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

/// Writes the buffer and one large message with vectored writes, without copying the large one.
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
        let queue = WriteQueue::new();
        let large = Bytes::from(vec![b'x'; 3 * MAX_COPIED]);
        assert_eq!(queue.push(Bytes::from_static(b"a\n")).await, Some(1));
        assert_eq!(queue.push_now(large.clone()), Some(2));
        assert_eq!(queue.push(Bytes::from_static(b"b")).await, Some(3));
        assert!(!queue.was_written(1));
        queue.close();
        assert_eq!(queue.push_now(Bytes::from_static(b"late")), None);
        let mut out = Vec::new();
        queue.drain(&mut out).await.unwrap();
        let expected = [b"a\n", large.as_ref(), b"\nb\n"].concat();
        assert_eq!(out, expected);
        assert!(queue.was_written(3) && !queue.was_written(4));
    }

    #[tokio::test]
    async fn a_message_is_one_line_whoever_made_it() {
        let queue = WriteQueue::new();
        let large = format!("{{\r\n\"a\":\"{}\"\n}}\r\n", "x".repeat(3 * MAX_COPIED));
        queue.push(Bytes::from_static(b"\n{\n\r}\r\n\n")).await;
        queue.push_now(Bytes::from(large));
        queue.close();
        assert_eq!(queue.next().await.as_deref(), Some(&b" {  }"[..]));
        let mut out = Vec::new();
        queue.drain(&mut out).await.unwrap();
        assert_eq!(out.iter().position(|byte| *byte == b'\n'), Some(out.len() - 1));
        assert!(out.ends_with(b"}\n") && !out.contains(&b'\r'));
    }

    #[tokio::test]
    async fn what_is_abandoned_is_never_written() {
        let queue = WriteQueue::new();
        let number = queue.push(Bytes::from_static(b"a")).await.unwrap();
        queue.abandon();
        let mut out = Vec::new();
        queue.drain(&mut out).await.unwrap();
        assert!(out.is_empty() && !queue.was_written(number));
        assert_eq!(queue.next().await, None);
    }

    #[tokio::test]
    async fn a_full_queue_makes_senders_wait_and_a_reader_frees_them() {
        let queue = std::sync::Arc::new(WriteQueue::new());
        for _ in 0..MAX_QUEUED {
            queue.push(Bytes::from_static(b"x")).await;
        }
        let waiting = tokio::spawn({
            let queue = std::sync::Arc::clone(&queue);
            async move { queue.push(Bytes::from_static(b"y")).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let writer = tokio::spawn({
            let queue = std::sync::Arc::clone(&queue);
            async move { queue.drain(tokio::io::sink()).await }
        });
        assert_eq!(waiting.await.unwrap(), Some(MAX_QUEUED as u64 + 1));
        queue.close();
        writer.await.unwrap().unwrap();
    }
}

//! Replay buffers of event streams, so that a client can resume a broken stream.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::usage::{Account, Reservation, UsageKind};

/// How long to keep a stream after its end.
const KEEP_ENDED: Duration = Duration::from_mins(1);
/// The number of streams to keep for one session.
const MAX_STREAMS: usize = 32;
/// The size of the events to keep for one stream.
const MAX_STREAM_BYTES: usize = 2 * 1024 * 1024;

/// The streams of one session.
#[derive(Debug)]
pub(crate) struct ReplayBuffer {
    streams: Mutex<StreamList>,
    account: Arc<Account>,
}

#[derive(Debug, Default)]
struct StreamList {
    /// The number of the last stream.
    last: u64,
    streams: VecDeque<Arc<ReplayStream>>,
}

impl ReplayBuffer {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self { streams: Mutex::default(), account }
    }

    fn lock(&self) -> MutexGuard<'_, StreamList> {
        self.streams.lock()
    }

    /// A new stream.
    pub(crate) fn stream(&self) -> Arc<ReplayStream> {
        let mut list = self.lock();
        list.last += 1;
        let stream = Arc::new(ReplayStream {
            number: list.last,
            account: Arc::clone(&self.account),
            log: Mutex::default(),
            wake: Notify::new(),
        });
        list.streams.push_back(Arc::clone(&stream));
        drop_expired(&mut list.streams);
        if list.streams.len() > MAX_STREAMS {
            // Drop a stream that has ended first: the client most likely has read it to its end.
            let done = list.streams.iter().position(|stream| stream.lock().done_at.is_some());
            drop(list.streams.remove(done.unwrap_or(0)));
        }
        stream
    }

    /// Drops streams that ended longer than `KEEP_ENDED` ago.
    pub(crate) fn sweep(&self) {
        drop_expired(&mut self.lock().streams);
    }

    /// The stream of an event id, and the number of the event.
    pub(crate) fn find(&self, event: &str) -> Option<(Arc<ReplayStream>, u64)> {
        let (stream, number) = event.split_once('-')?;
        let (stream, number): (u64, u64) = (stream.parse().ok()?, number.parse().ok()?);
        let list = self.lock();
        let found = list.streams.iter().find(|found| found.number == stream)?;
        Some((Arc::clone(found), number))
    }
}

fn drop_expired(streams: &mut VecDeque<Arc<ReplayStream>>) {
    streams.retain(|stream| stream.lock().done_at.is_none_or(|at| at.elapsed() < KEEP_ENDED));
}

/// The approximate memory of an event: its text and the overhead, which matters for many small events.
fn cost(line: &Bytes) -> usize {
    line.len() + 256
}

/// One stream with the events that were sent on it.
#[derive(Debug)]
pub(crate) struct ReplayStream {
    number: u64,
    account: Arc<Account>,
    log: Mutex<EventLog>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct EventLog {
    events: VecDeque<(u64, Bytes)>,
    next: u64,
    bytes: usize,
    /// The memory that the principal has reserved for the events.
    reservation: Option<Reservation>,
    done_at: Option<Instant>,
}

impl ReplayStream {
    fn lock(&self) -> MutexGuard<'_, EventLog> {
        self.log.lock()
    }

    /// Keeps a message and returns the id of its event.
    pub(crate) fn add(&self, line: &Bytes) -> String {
        let mut log = self.lock();
        let number = log.next;
        log.next += 1;
        while log.bytes + cost(line) > MAX_STREAM_BYTES
            && let Some((_, oldest)) = log.events.pop_front()
        {
            log.bytes -= cost(&oldest);
            if let Some(reservation) = &mut log.reservation {
                reservation.shrink(cost(&oldest));
            }
        }
        let taken = match &mut log.reservation {
            Some(reservation) => reservation.grow(cost(line)),
            none => self
                .account
                .take(UsageKind::ReplayBytes, cost(line))
                .map(|reservation| *none = Some(reservation)),
        };
        match taken {
            Ok(()) => {
                log.bytes += cost(line);
                log.events.push_back((number, line.clone()));
            }
            // The event is sent anyway, but cannot be replayed.
            Err(full) => {
                tracing::debug!("an event cannot be sent again if its stream breaks: {full}");
            }
        }
        drop(log);
        self.wake.notify_waiters();
        self.id(number)
    }

    /// The id of the event with this number.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.number)
    }

    /// The id of an event before the first one.
    pub(crate) fn first_id(&self) -> String {
        let mut log = self.lock();
        let number = log.next;
        log.next += 1;
        drop(log);
        self.id(number)
    }

    /// Marks the end of the stream.
    pub(crate) fn done(&self) {
        self.lock().done_at = Some(Instant::now());
        self.wake.notify_waiters();
    }

    /// The first event after this number; waits if there is none yet. `None` once the stream has ended. Cancel safe.
    pub(crate) async fn after(&self, number: u64) -> Option<(u64, Bytes)> {
        loop {
            let woken = self.wake.notified();
            tokio::pin!(woken);
            // Register before checking the log, so that an event added in between wakes the task.
            woken.as_mut().enable();
            {
                let log = self.lock();
                if let Some((at, line)) = log.events.iter().find(|(at, _)| *at > number) {
                    return Some((*at, line.clone()));
                }
                if log.done_at.is_some() {
                    return None;
                }
            }
            woken.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::{Share, Usage};

    fn replay() -> ReplayBuffer {
        let usage = Usage::new(Share::new(1.0, 1), 1, 1);
        ReplayBuffer::new(usage.account(&toolgate::Principal::local()))
    }

    #[tokio::test]
    async fn a_stream_is_taken_up_where_it_broke_off() {
        let replay = replay();
        let stream = replay.stream();
        let first = stream.first_id();
        let ids: Vec<String> = [&b"a"[..], b"b", b"c"]
            .into_iter()
            .map(|b| stream.add(&Bytes::from_static(b)))
            .collect();
        let (found, number) = replay.find(&ids[0]).unwrap();
        assert_eq!(found.after(number).await.unwrap().1, "b");
        let (found, number) = replay.find(&first).unwrap();
        assert_eq!(found.after(number).await.unwrap().1, "a");
        stream.done();
        let (found, number) = replay.find(&ids[2]).unwrap();
        assert_eq!(found.after(number).await, None);
        assert!(replay.find("99-0").is_none() && replay.find("x").is_none());
    }

    #[test]
    fn streams_and_bytes_are_bounded() {
        let replay = replay();
        let first = replay.stream();
        for _ in 0..2 * MAX_STREAMS {
            replay.stream();
        }
        assert!(replay.find(&first.id(0)).is_none());
        let stream = replay.stream();
        let large = Bytes::from(vec![0; MAX_STREAM_BYTES / 4]);
        (0..100).for_each(|_| drop(stream.add(&large)));
        assert!(stream.lock().bytes <= MAX_STREAM_BYTES);
    }
}

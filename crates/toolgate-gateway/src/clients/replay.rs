//! Streams of answers that can be taken up again where they broke off, as long as they are remembered.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::usage::{Account, Reservation, UsageKind};

/// So long a stream is remembered after its end.
const REMEMBERED: Duration = Duration::from_mins(1);
/// So many streams of one session are remembered.
const MOST_STREAMS: usize = 32;
/// So many bytes of one stream.
const MOST_BYTES: usize = 2 * 1024 * 1024;

/// The streams of one session.
#[derive(Debug)]
pub(crate) struct ReplayBuffer {
    streams: Mutex<(u64, VecDeque<Arc<ReplayStream>>)>,
    account: Arc<Account>,
}

impl ReplayBuffer {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self { streams: Mutex::default(), account }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, VecDeque<Arc<ReplayStream>>)> {
        self.streams.lock()
    }

    /// A new stream.
    pub(crate) fn stream(&self) -> Arc<ReplayStream> {
        let mut streams = self.lock();
        streams.0 += 1;
        let stream = Arc::new(ReplayStream {
            number: streams.0,
            account: Arc::clone(&self.account),
            log: Mutex::default(),
            wake: Notify::new(),
        });
        streams.1.push_back(Arc::clone(&stream));
        forget_old(&mut streams.1);
        if streams.1.len() > MOST_STREAMS {
            // One that is done first: it was most likely read to its end.
            let done = streams.1.iter().position(|stream| stream.lock().done_at.is_some());
            drop(streams.1.remove(done.unwrap_or(0)));
        }
        stream
    }

    /// Forgets streams that ended a while ago.
    pub(crate) fn sweep(&self) {
        forget_old(&mut self.lock().1);
    }

    /// The stream of an event, and the number of that event.
    pub(crate) fn find(&self, event: &str) -> Option<(Arc<ReplayStream>, u64)> {
        let (stream, number) = event.split_once('-')?;
        let (stream, number): (u64, u64) = (stream.parse().ok()?, number.parse().ok()?);
        let streams = self.lock();
        let found = streams.1.iter().find(|found| found.number == stream)?;
        Some((Arc::clone(found), number))
    }
}

fn forget_old(streams: &mut VecDeque<Arc<ReplayStream>>) {
    streams.retain(|stream| stream.lock().done_at.is_none_or(|at| at.elapsed() < REMEMBERED));
}

/// What an event takes in memory, about: many small ones take more than their text.
fn cost(line: &Bytes) -> usize {
    line.len() + 256
}

/// One stream: the events that were sent on it.
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
    /// What it takes of the memory for its principal.
    place: Option<Reservation>,
    done_at: Option<Instant>,
}

impl ReplayStream {
    fn lock(&self) -> MutexGuard<'_, EventLog> {
        self.log.lock()
    }

    /// Remembers a message and gives the id of its event.
    pub(crate) fn add(&self, line: &Bytes) -> String {
        let mut log = self.lock();
        let number = log.next;
        log.next += 1;
        while log.bytes + cost(line) > MOST_BYTES
            && let Some((_, oldest)) = log.events.pop_front()
        {
            log.bytes -= cost(&oldest);
            if let Some(place) = &mut log.place {
                place.shrink(cost(&oldest));
            }
        }
        let taken = match &mut log.place {
            Some(place) => place.grow(cost(line)),
            none => self
                .account
                .take(UsageKind::ReplayBytes, cost(line))
                .map(|place| *none = Some(place)),
        };
        match taken {
            Ok(()) => {
                log.bytes += cost(line);
                log.events.push_back((number, line.clone()));
            }
            // What finds no place is sent, but cannot be sent again.
            Err(full) => {
                tracing::debug!("an event cannot be sent again if its stream breaks: {full}");
            }
        }
        drop(log);
        self.wake.notify_waiters();
        self.id(number)
    }

    /// The id of the event of this number.
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

    /// Nothing follows.
    pub(crate) fn done(&self) {
        self.lock().done_at = Some(Instant::now());
        self.wake.notify_waiters();
    }

    /// What was sent after the event of this number; waits for more. `None` once nothing follows. Cancel safe.
    pub(crate) async fn after(&self, number: u64) -> Option<(u64, Bytes)> {
        loop {
            let woken = self.wake.notified();
            tokio::pin!(woken);
            // Before the look: what comes between the two wakes it.
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
        for _ in 0..2 * MOST_STREAMS {
            replay.stream();
        }
        assert!(replay.find(&first.id(0)).is_none());
        let stream = replay.stream();
        let large = Bytes::from(vec![0; MOST_BYTES / 4]);
        (0..100).for_each(|_| drop(stream.add(&large)));
        assert!(stream.lock().bytes <= MOST_BYTES);
    }
}

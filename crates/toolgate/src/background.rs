//! Background threads that write records, so that no call waits for a disk, a database or a network.

use std::{
    convert::Infallible,
    io,
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

/// A thread that writes the entries of a queue until the queue is closed and empty.
///
/// The owner of the writer provides the queue, because limits and the handling of a full queue differ.
#[derive(Debug)]
pub struct BackgroundWriter {
    name: &'static str,
    /// Receives no message: the channel closes when the thread ends.
    running: Mutex<mpsc::Receiver<Infallible>>,
}

impl BackgroundWriter {
    /// Starts a thread of this name. `write` returns when its queue is closed and empty.
    pub fn start(name: &'static str, write: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (end, running) = mpsc::channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            write();
            drop(end);
        })?;
        Ok(Self { name, running: Mutex::new(running) })
    }

    /// Like `start`, for an asynchronous writer: the thread runs its own runtime.
    pub fn start_async(
        name: &'static str,
        write: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Self::start(name, move || runtime.block_on(write))
    }

    /// Waits up to `timeout` until the thread has ended, and returns whether it has. Close the queue first. Blocks the
    /// thread: for the end of a program.
    pub fn finish(&self, timeout: Duration) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let is_finished =
            running.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Disconnected);
        if !is_finished {
            tracing::error!(
                "the writer `{}` did not finish in time: its last records are lost",
                self.name
            );
        }
        is_finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_the_writer_and_not_for_ever() {
        let (queue, items) = mpsc::sync_channel::<u32>(10);
        let (tell, told) = mpsc::channel();
        let writer = BackgroundWriter::start("test", move || {
            for item in items {
                tell.send(item).unwrap();
            }
        })
        .unwrap();
        assert!(!writer.finish(Duration::ZERO), "its queue is open");
        for item in 0..10 {
            queue.send(item).unwrap();
        }
        drop(queue);
        assert!(writer.finish(Duration::from_secs(10)));
        assert_eq!(told.iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert!(writer.finish(Duration::ZERO), "it stays finished");
    }
}

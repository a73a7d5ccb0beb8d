//! Threads that write what calls leave behind: no call waits for a disk, a database or a network.

use std::{
    convert::Infallible,
    io,
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

/// A thread that writes what is in a queue until the queue is closed and empty.
///
/// The queue belongs to the owner of the writer: what its bound counts, and what happens to a record that finds it
/// full, is different for each.
#[derive(Debug)]
pub struct BackgroundWriter {
    name: &'static str,
    /// Never gets anything: it ends when the thread does.
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

    /// The same for a writer that waits: its thread has a runtime of its own.
    pub fn start_async(
        name: &'static str,
        write: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Self::start(name, move || runtime.block_on(write))
    }

    /// Waits until the thread has written everything, for `timeout` at most; says whether it has. Close the queue
    /// first. Blocks: for the end of a program.
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

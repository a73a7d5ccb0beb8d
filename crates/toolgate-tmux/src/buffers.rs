//! The paste buffers that are ours. Others are the user's clipboard, and no tool reads or touches them.
//!
//! A name is `libtmux_mcp_<32 hex>_<logical name>`. The digits say which process made the buffer, so that those of a
//! process that is gone can be told from those of another that still runs.

use std::{
    collections::HashSet,
    fs,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use toolgate::Failure;

use crate::engine::{Batch, Command, Engine, Server, Socket, TmuxError};

const PREFIX: &str = "libtmux_mcp_";
/// The longest text that goes over the connection: tmux's parser takes as long for a few kilobytes as a process does
/// to start.
const MAX_ARGUMENT_BYTES: usize = 2048;
/// How long deleting may take at the end.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether a name is one of ours, or of another process like us.
pub(crate) fn is_ours(name: &str) -> bool {
    parts(name).is_some()
}

fn parts(name: &str) -> Option<(&str, &str)> {
    let (hex, logical) = name.strip_prefix(PREFIX)?.split_at_checked(32)?;
    let logical = logical.strip_prefix('_')?;
    let is_hex = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let is_logical = (1..=64).contains(&logical.len()) && logical.bytes().all(plain);
    (is_hex && is_logical).then_some((hex, logical))
}

/// A process as its buffers' names tell of it: its number, and when it started, by the kernel's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BufferOwner {
    pid: u32,
    started: u32,
}

impl BufferOwner {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // `PID (NAME) STATE …`, and a name may hold anything. The start is the 22nd field.
        let (_, rest) = stat.rsplit_once(')')?;
        let started = rest.split_whitespace().nth(19)?.parse::<u64>().ok()?;
        Some(Self { pid, started: u32::try_from(started & u64::from(u32::MAX)).ok()? })
    }

    /// The digits of a new name: the owner, something random, and a sum by which we know our own.
    fn digits(self, random: u32) -> String {
        let sum = sum(self, random);
        format!("{:08x}{:08x}{random:08x}{sum:08x}", self.pid, self.started)
    }

    /// Who made a buffer, if it was one of our kind, on this machine since it was started.
    fn read(digits: &str) -> Option<Self> {
        let word = |at: usize| u32::from_str_radix(digits.get(at * 8..at * 8 + 8)?, 16).ok();
        let owner = Self { pid: word(0)?, started: word(1)? };
        (sum(owner, word(2)?) == word(3)?).then_some(owner)
    }

    fn is_gone(self) -> bool {
        Self::of(self.pid) != Some(self)
    }
}

/// The place that numbers of processes belong to: a container has its own.
static PID_NAMESPACE: LazyLock<String> = LazyLock::new(|| {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{boot}{}", space.display())
});

/// FNV-1a: it tells names apart, and guards nothing.
fn sum(owner: BufferOwner, random: u32) -> u32 {
    let namespace = PID_NAMESPACE.bytes();
    let numbers = [owner.pid, owner.started, random].into_iter().flat_map(u32::to_be_bytes);
    namespace
        .chain(numbers)
        .fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// What this process made, and where it has tidied up.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    made: Mutex<HashSet<(String, Socket)>>,
    tidied: Mutex<HashSet<Socket>>,
}

impl Buffers {
    /// A name that nobody has, noted as ours.
    pub(crate) fn name(&self, server: &Server, logical: &str) -> Result<String, Failure> {
        let random = getrandom::u64().map_err(|_| Failure::internal("there is no randomness"))?;
        let [high, low] = [random >> 32, random & u64::from(u32::MAX)];
        let owner = BufferOwner::of(std::process::id());
        let digits = match owner {
            Some(owner) => owner.digits(u32::try_from(low).unwrap_or_default()),
            // Where processes cannot be told apart, nothing of ours is found again, and all of it stays.
            None => format!("{:032x}", u128::from(high) << 64 | u128::from(random)),
        };
        let name = format!("{PREFIX}{digits}_{logical}");
        lock(&self.made).insert((name.clone(), server.socket().clone()));
        Ok(name)
    }

    /// A buffer is gone.
    pub(crate) fn forget(&self, server: &Server, name: &str) {
        lock(&self.made).remove(&(name.to_owned(), server.socket().clone()));
    }

    /// Once for each server: deletes what processes like us left behind that are gone.
    pub(crate) async fn tidy(&self, server: &Server) -> Result<(), TmuxError> {
        if lock(&self.tidied).contains(server.socket()) {
            return Ok(());
        }
        let list = Command::new("list-buffers").option("-F", "#{buffer_name}");
        let names = server.ask(Batch::read([list])).await?;
        let left = names.lines().filter(|name| {
            let owner = parts(name).and_then(|(digits, _)| BufferOwner::read(digits));
            owner.is_some_and(BufferOwner::is_gone)
        });
        for name in left {
            match server.run(delete(name)).await {
                // Somebody else tidied up at the same time.
                Ok(_) | Err(TmuxError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        lock(&self.tidied).insert(server.socket().clone());
        Ok(())
    }

    /// Deletes what this process made and nobody deleted: at the end.
    pub(crate) async fn clear(&self, engine: &Engine) {
        let made = std::mem::take(&mut *lock(&self.made));
        let clear = async {
            for (name, socket) in made {
                let server = engine.server(socket);
                if server.is_listening().await {
                    // Its server may be another one by now.
                    let _ = server.run(delete(&name)).await;
                }
            }
        };
        let _ = tokio::time::timeout(CLEANUP_TIMEOUT, clear).await;
    }
}

/// The command that deletes a buffer.
pub(crate) fn delete(name: &str) -> Command {
    Command::new("delete-buffer").option("-b", name)
}

/// Puts a text into a buffer, exactly.
pub(crate) async fn fill(server: &Server, name: &str, text: &str) -> Result<(), TmuxError> {
    if let Some(set) = set(name, text) {
        return server.run(set).await.map(drop);
    }
    let load = Command::new("load-buffer").option("-b", name).argument("-");
    server.exchange(load, text.as_bytes()).await.map(drop)
}

/// The command that sets a buffer, if the text is short enough and tmux takes it as an argument.
pub(crate) fn set(name: &str, text: &str) -> Option<Command> {
    let fits = text.len() <= MAX_ARGUMENT_BYTES && !text.contains('\0');
    fits.then(|| Command::new("set-buffer").option("-b", name).end().argument(text))
}

/// A buffer for one paste: deleted also if the call is cancelled in between.
pub(crate) struct TemporaryBuffer {
    pub(crate) server: Arc<Server>,
    pub(crate) name: String,
    pub(crate) done: bool,
}

impl Drop for TemporaryBuffer {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let (server, name) = (Arc::clone(&self.server), std::mem::take(&mut self.name));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // It may never have come to be.
            runtime.spawn(async move { drop(server.run(delete(&name)).await) });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_whose_they_are() {
        let own = BufferOwner::of(std::process::id()).unwrap();
        let digits = own.digits(7);
        assert_eq!(BufferOwner::read(&digits), Some(own));
        assert!(!own.is_gone());
        let before = BufferOwner { started: own.started.wrapping_sub(1), ..own };
        assert!(
            BufferOwner::read(&before.digits(7)).unwrap().is_gone(),
            "the number was used again"
        );
        assert_eq!(
            BufferOwner::read("00112233445566778899aabbccddeeff"),
            None,
            "not one of our kind"
        );
        assert!(is_ours(&format!("{PREFIX}{digits}_a.b-c")));
        for other in [
            "buffer0",
            "libtmux_mcp_short_buf",
            &format!("{PREFIX}{digits}_"),
            &format!("{PREFIX}{digits}_a b"),
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}

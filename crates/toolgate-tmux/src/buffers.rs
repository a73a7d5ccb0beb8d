//! The paste buffers that this server creates. Other buffers are the user's clipboard: no tool reads or changes them.
//!
//! A name is `libtmux_mcp_<32 hex>_<logical name>`. The digits identify the process that created the buffer, so that
//! buffers of ended processes can be deleted.

use std::{
    collections::HashSet,
    fs,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use toolgate::Failure;

use crate::engine::{Batch, Command, Engine, Server, Socket, TmuxError};

const PREFIX: &str = "libtmux_mcp_";
/// The longest text that is sent over the connection: tmux needs as long to parse a few kilobytes as a process needs to
/// start.
const MAX_ARGUMENT_BYTES: usize = 2048;
/// How long the deletion of the buffers may take at the end.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether a buffer was created by this server or another process of it.
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

/// The process that created a buffer: its id and its start time, in ticks of the kernel's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BufferOwner {
    pid: u32,
    started: u32,
}

impl BufferOwner {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // `PID (NAME) STATE …`. NAME may contain any character, also `)`. The start time is the 22nd field.
        let (_, rest) = stat.rsplit_once(')')?;
        let started = rest.split_whitespace().nth(19)?.parse::<u64>().ok()?;
        Some(Self { pid, started: u32::try_from(started & u64::from(u32::MAX)).ok()? })
    }

    /// The hex digits of a new name: the owner, a random number, and a checksum.
    fn digits(self, random: u32) -> String {
        let sum = sum(self, random);
        format!("{:08x}{:08x}{random:08x}{sum:08x}", self.pid, self.started)
    }

    /// The creator of a buffer, if the checksum is right: a process of this server, on this machine, since its last
    /// boot.
    fn read(digits: &str) -> Option<Self> {
        let word = |at: usize| u32::from_str_radix(digits.get(at * 8..at * 8 + 8)?, 16).ok();
        let owner = Self { pid: word(0)?, started: word(1)? };
        (sum(owner, word(2)?) == word(3)?).then_some(owner)
    }

    fn is_gone(self) -> bool {
        Self::of(self.pid) != Some(self)
    }
}

/// What the process ids belong to: the boot of this machine and the PID namespace, since a container has its own ids.
static PID_NAMESPACE: LazyLock<String> = LazyLock::new(|| {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{boot}{}", space.display())
});

/// FNV-1a: a checksum, without protection against forgery.
fn sum(owner: BufferOwner, random: u32) -> u32 {
    let namespace = PID_NAMESPACE.bytes();
    let numbers = [owner.pid, owner.started, random].into_iter().flat_map(u32::to_be_bytes);
    namespace
        .chain(numbers)
        .fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The buffers of this process, and the tmux servers that were cleaned up.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    made: Mutex<HashSet<(String, Socket)>>,
    tidied: Mutex<HashSet<Socket>>,
}

impl Buffers {
    /// A new unique name, registered as a buffer of this process.
    pub(crate) fn name(&self, server: &Server, logical: &str) -> Result<String, Failure> {
        let random = getrandom::u64().map_err(|_| Failure::internal("there is no randomness"))?;
        let [high, low] = [random >> 32, random & u64::from(u32::MAX)];
        let owner = BufferOwner::of(std::process::id());
        let digits = match owner {
            Some(owner) => owner.digits(u32::try_from(low).unwrap_or_default()),
            // Without an owner the digits are random: the buffers cannot be recognised, and stay if this process does
            // not delete them.
            None => format!("{:032x}", u128::from(high) << 64 | u128::from(random)),
        };
        let name = format!("{PREFIX}{digits}_{logical}");
        lock(&self.made).insert((name.clone(), server.socket().clone()));
        Ok(name)
    }

    /// Removes a buffer that was deleted from the register.
    pub(crate) fn forget(&self, server: &Server, name: &str) {
        lock(&self.made).remove(&(name.to_owned(), server.socket().clone()));
    }

    /// Once for each tmux server: deletes the buffers of ended processes of this server.
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
                // Another process deleted it at the same time.
                Ok(_) | Err(TmuxError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        lock(&self.tidied).insert(server.socket().clone());
        Ok(())
    }

    /// Deletes the buffers of this process, at its end.
    pub(crate) async fn clear(&self, engine: &Engine) {
        let made = std::mem::take(&mut *lock(&self.made));
        let clear = async {
            for (name, socket) in made {
                let server = engine.server(socket);
                if server.is_listening().await {
                    // It fails if another tmux server listens there by now.
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

/// Sets a buffer to exactly this text.
pub(crate) async fn fill(server: &Server, name: &str, text: &str) -> Result<(), TmuxError> {
    if let Some(set) = set(name, text) {
        return server.run(set).await.map(drop);
    }
    let load = Command::new("load-buffer").option("-b", name).argument("-");
    server.exchange(load, text.as_bytes()).await.map(drop)
}

/// The command that sets a buffer; `None` if the text is too long for an argument or has a NUL.
pub(crate) fn set(name: &str, text: &str) -> Option<Command> {
    let fits = text.len() <= MAX_ARGUMENT_BYTES && !text.contains('\0');
    fits.then(|| Command::new("set-buffer").option("-b", name).end().argument(text))
}

/// A buffer for one paste. It is deleted on drop, unless `done` is set: also if the call is cancelled.
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
            // It fails if the buffer was never created.
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

//! The keeper: one small process beside toolgate, so that no server outlives toolgate.
//!
//! A process that is killed with SIGKILL cannot clean up after itself. So toolgate starts itself once more as a keeper when
//! it starts its first server, and tells it through a pipe which process groups there are: each server has one of its own.
//! When toolgate ends, however it ends, the system closes the pipe, and the keeper ends the groups that are left. One
//! keeper serves all servers; it ends with the last of them.
//!
//! For the case that somebody kills all processes called `toolgate` at once, toolgate does not start a server directly
//! either: it starts itself as a launcher, which asks the system to be killed with toolgate and then becomes the server.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    io::{self, BufRead as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, getppid, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The name of the hidden command that runs a keeper or a launcher.
pub const COMMAND: &str = "keep-server";

/// How long the processes of a server may take to end after they were asked to.
pub(super) const KEEPER_TIMEOUT: Duration = Duration::from_secs(2);

/// How often is looked whether they have.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The exit code for a command that does not exist, as shells have it.
pub const NOT_FOUND: u8 = 127;
/// The exit code for a command that cannot be run.
pub const NOT_RUNNABLE: u8 = 126;

/// What the hidden command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Ends all servers when toolgate is gone.
    Keep,
    /// Becomes a command that is killed with toolgate.
    Launch,
    /// Becomes a command that gets SIGTERM with toolgate. For clients of tmux: one that is killed while it starts crashes
    /// tmux 3.3a now and then.
    LaunchClient,
}

impl Role {
    const ALL: [Self; 3] = [Self::Keep, Self::Launch, Self::LaunchClient];

    /// The role's name on the command line.
    const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Launch => "launch",
            Self::LaunchClient => "launch-client",
        }
    }

    /// The role of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// Runs in this role, for the process `parent`, and gives the exit code to end with. A launcher becomes `command`.
pub fn run(role: Role, parent: u32, command: &[OsString]) -> io::Result<u8> {
    match role {
        Role::Keep => keep(),
        Role::Launch => launch(Signal::KILL, parent, command),
        Role::LaunchClient => launch(Signal::TERM, parent, command),
    }
}

/// Becomes the command, which gets the signal when the parent ends.
fn launch(signal: Signal, parent: u32, command: &[OsString]) -> io::Result<u8> {
    let Some((program, args)) = command.split_first() else { return Ok(NOT_FOUND) };
    end_with_parent(signal)?;
    if is_orphan(parent) {
        return Ok(1);
    }
    let error = Command::new(program).args(args).exec();
    Ok(not_started(program, &error))
}

/// Our own program and its arguments, to be followed by a client's command: it becomes that client, which ends with
/// toolgate.
pub fn client_launcher() -> io::Result<Vec<OsString>> {
    let mut launcher = vec![std::env::current_exe()?.into_os_string()];
    launcher.extend(arguments(Role::LaunchClient, &[]));
    Ok(launcher)
}

/// The arguments that make our own program play a role.
pub(crate) fn arguments(role: Role, command: &[OsString]) -> Vec<OsString> {
    let parent = std::process::id().to_string();
    let mut arguments: Vec<OsString> =
        [COMMAND, role.name(), &parent, "--"].into_iter().map(OsString::from).collect();
    arguments.extend_from_slice(command);
    arguments
}

/// Reads which groups there are until toolgate is gone, and ends those that are left.
fn keep() -> io::Result<u8> {
    // Only the end of toolgate ends it: whoever ends everything ends toolgate, too.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let mut groups: Vec<Pid> = Vec::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let pid = line.get(1..).and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        match (line.as_bytes().first(), pid) {
            (Some(b'+'), Some(pid)) => groups.push(pid),
            (Some(b'-'), Some(pid)) => groups.retain(|group| *group != pid),
            _ => {}
        }
    }
    groups.retain(|group| signal_group(*group, Signal::TERM));
    let deadline = Instant::now() + KEEPER_TIMEOUT;
    while !groups.is_empty() && Instant::now() < deadline {
        std::thread::sleep(POLL_INTERVAL);
        groups.retain(|group| is_there(*group));
    }
    for group in groups {
        signal_group(group, Signal::KILL);
    }
    Ok(0)
}

/// The keeper of this process, and the groups that it knows.
#[derive(Debug, Default)]
struct KeeperState {
    keeper: Option<(Child, ChildStdin)>,
    groups: BTreeSet<i32>,
}

static KEPT: Mutex<KeeperState> = Mutex::new(KeeperState { keeper: None, groups: BTreeSet::new() });

/// A process group that does not outlive toolgate. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    pid: Pid,
    is_over: AtomicBool,
}

impl ProcessGroup {
    /// Tells the keeper of a group.
    pub(super) fn of(pid: Pid) -> io::Result<Self> {
        let mut kept = kept();
        kept.groups.insert(pid.as_raw_nonzero().get());
        let group = Self { pid, is_over: AtomicBool::new(false) };
        let told = kept.tell(&format!("+{}\n", pid.as_raw_nonzero()));
        drop(kept);
        told.map(|()| group)
    }

    /// Signals everybody in it; `false` if there is nobody.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        signal_group(self.pid, signal)
    }

    /// Whether somebody is in it.
    pub(super) fn is_there(&self) -> bool {
        is_there(self.pid)
    }

    /// Nobody is in it any more: the keeper may forget it.
    pub(super) fn is_over(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            kept().forget(self.pid);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.is_over.load(Ordering::Relaxed) {
            self.signal(Signal::KILL);
            self.is_over();
        }
    }
}

fn kept() -> MutexGuard<'static, KeeperState> {
    KEPT.lock()
}

impl KeeperState {
    /// Tells the keeper; one that is not there, or not any more, is started and told everything.
    fn tell(&mut self, line: &str) -> io::Result<()> {
        if let Some((_, pipe)) = &mut self.keeper
            && pipe.write_all(line.as_bytes()).is_ok()
        {
            return Ok(());
        }
        self.let_go();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments(Role::Keep, &[])).env_clear();
        // A Ctrl-C in the terminal is for toolgate, which then ends its servers in order.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn()?;
        let Some(mut pipe) = child.stdin.take() else {
            return Err(io::Error::other("the keeper has no pipe"));
        };
        for pid in &self.groups {
            pipe.write_all(format!("+{pid}\n").as_bytes())?;
        }
        self.keeper = Some((child, pipe));
        Ok(())
    }

    fn forget(&mut self, pid: Pid) {
        let number = pid.as_raw_nonzero();
        if !self.groups.remove(&number.get()) {
            return;
        }
        if self.groups.is_empty() {
            self.let_go();
        } else if let Some((_, pipe)) = &mut self.keeper {
            // One that is gone is missed when the next server starts.
            let _ = pipe.write_all(format!("-{number}\n").as_bytes());
        }
    }

    /// The keeper has nothing to do any more.
    fn let_go(&mut self) {
        if let Some((mut child, pipe)) = self.keeper.take() {
            drop(pipe);
            // It ends at once, and is waited for, so that it does not stay as a zombie.
            drop(std::thread::Builder::new().spawn(move || child.wait()));
        }
    }
}

#[expect(clippy::print_stderr, reason = "the launcher has no log; toolgate forwards its stderr")]
fn not_started(program: &OsStr, error: &io::Error) -> u8 {
    eprintln!("cannot start `{}`: {error}", toolgate::printable::line(&program.to_string_lossy()));
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE }
}

/// Asks the system to signal this process, and what it becomes, with the thread that started it: toolgate's main thread.
#[cfg(target_os = "linux")]
fn end_with_parent(signal: Signal) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    Ok(())
}

/// Other systems do not offer it; there the keeper alone has to do.
#[cfg(not(target_os = "linux"))]
fn end_with_parent(_signal: Signal) -> io::Result<()> {
    Ok(())
}

fn is_orphan(parent: u32) -> bool {
    getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()) != Some(parent)
}

/// Whether there was anybody left to signal.
fn signal_group(group: Pid, signal: Signal) -> bool {
    kill_process_group(group, signal).is_ok()
}

/// Whether somebody is in the group. Processes that have ended and wait for their parent to notice do not count: in a
/// container nobody may ever notice.
fn is_there(group: Pid) -> bool {
    rustix::process::test_kill_process_group(group).is_ok() && !has_ended(group)
}

/// Whether all processes of a group have ended, as far as the system tells.
fn has_ended(group: Pid) -> bool {
    let group = group.as_raw_nonzero().get();
    if state_and_group(group).is_some_and(|(has_ended, _)| !has_ended) {
        return false;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let mut pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    !pids.any(|pid| state_and_group(pid).is_some_and(|(ended, of)| of == group && !ended))
}

/// Whether a process has ended, and the group that it is in; `None` where the system does not tell.
fn state_and_group(pid: i32) -> Option<(bool, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses, and may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    Some((has_ended, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_nobody_waited_for_is_not_there() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
        assert!(is_there(pid));
        signal_group(pid, Signal::KILL);
        let deadline = Instant::now() + Duration::from_secs(20);
        while is_there(pid) {
            assert!(Instant::now() < deadline, "a process that has ended is still there");
            std::thread::yield_now();
        }
        assert!(signal_group(pid, Signal::TERM), "nobody has waited for it yet");
        child.wait().unwrap();
        assert!(!is_there(pid) && !signal_group(pid, Signal::TERM));
    }
}

//! The keeper: one small process beside toolgate, so that no server outlives toolgate.
//!
//! A process that is killed with SIGKILL cannot clean up after itself. Therefore toolgate starts its own program once
//! more as a keeper when it starts its first server, and sends the keeper the process group of each server through a
//! pipe. When toolgate ends for any reason, the system closes the pipe, and the keeper ends the remaining groups. One
//! keeper serves all servers, and ends with the last of them.
//!
//! A user may kill all processes called `toolgate` at once, and with them the keeper. Therefore toolgate does not start
//! a server directly: toolgate starts its own program as a launcher, which asks the system to be killed with toolgate,
//! and then becomes the server.

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

/// How long the processes of a server may take to end after SIGTERM.
pub(super) const TERM_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval between two checks whether the processes have ended.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The exit code for a command that does not exist, as in shells.
pub const NOT_FOUND: u8 = 127;
/// The exit code for a command that cannot be run.
pub const NOT_RUNNABLE: u8 = 126;

/// The role in which the hidden command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Ends all servers after toolgate has ended.
    Keep,
    /// Becomes a command that is killed when toolgate ends.
    Launch,
    /// Becomes a command that gets SIGTERM when toolgate ends. For clients of tmux: tmux 3.3a sometimes crashes when a
    /// client is killed while it starts.
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

    /// The role with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// Runs in this role for the process `parent`, and returns the exit code. A launcher becomes `command`.
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

/// The command line of a launcher, without the client's command. The caller appends that command; the launcher becomes
/// the client, which ends with toolgate.
pub fn client_launcher() -> io::Result<Vec<OsString>> {
    let mut launcher = vec![std::env::current_exe()?.into_os_string()];
    launcher.extend(arguments(Role::LaunchClient, &[]));
    Ok(launcher)
}

/// The arguments with which toolgate's own program runs in a role.
pub(crate) fn arguments(role: Role, command: &[OsString]) -> Vec<OsString> {
    let parent = std::process::id().to_string();
    let mut arguments: Vec<OsString> =
        [COMMAND, role.name(), &parent, "--"].into_iter().map(OsString::from).collect();
    arguments.extend_from_slice(command);
    arguments
}

/// Tracks the process groups until toolgate has ended, then ends the remaining groups.
fn keep() -> io::Result<u8> {
    // The keeper ignores these signals, and ends after toolgate. A user who sends them to all processes ends toolgate
    // too.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let mut groups: Vec<Pid> = Vec::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let pid = line.get(1..).and_then(group);
        match (line.as_bytes().first(), pid) {
            (Some(b'+'), Some(pid)) => groups.push(pid),
            (Some(b'-'), Some(pid)) => groups.retain(|group| *group != pid),
            _ => {}
        }
    }
    groups.retain(|group| signal_group(*group, Signal::TERM));
    let deadline = Instant::now() + TERM_TIMEOUT;
    while !groups.is_empty() && Instant::now() < deadline {
        std::thread::sleep(POLL_INTERVAL);
        groups.retain(|group| is_there(*group));
    }
    for group in groups {
        signal_group(group, Signal::KILL);
    }
    Ok(0)
}

/// The group with this number. The system takes a signal to the group 1 as one to all processes, so a group of that number
/// is none.
fn group(number: &str) -> Option<Pid> {
    number.parse().ok().filter(|number| *number > 1).and_then(Pid::from_raw)
}

/// The keeper of this process, and the registered groups.
#[derive(Debug, Default)]
struct KeeperState {
    keeper: Option<(Child, ChildStdin)>,
    groups: BTreeSet<i32>,
}

static STATE: Mutex<KeeperState> =
    Mutex::new(KeeperState { keeper: None, groups: BTreeSet::new() });

/// A process group that does not outlive toolgate. Dropping this kills the group.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    pid: Pid,
    is_over: AtomicBool,
}

impl ProcessGroup {
    /// Registers a group with the keeper.
    pub(super) fn of(pid: Pid) -> io::Result<Self> {
        let mut state = state();
        state.groups.insert(pid.as_raw_nonzero().get());
        let group = Self { pid, is_over: AtomicBool::new(false) };
        let sent = state.send_line(&format!("+{}\n", pid.as_raw_nonzero()));
        drop(state);
        sent.map(|()| group)
    }

    /// Signals all processes of the group; `false` if the group has none.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        signal_group(self.pid, signal)
    }

    /// Whether a process of the group still runs.
    pub(super) fn is_there(&self) -> bool {
        is_there(self.pid)
    }

    /// Removes the group from the keeper, after all of its processes have ended.
    pub(super) fn unregister(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            state().forget(self.pid);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.is_over.load(Ordering::Relaxed) {
            self.signal(Signal::KILL);
            self.unregister();
        }
    }
}

fn state() -> MutexGuard<'static, KeeperState> {
    STATE.lock()
}

impl KeeperState {
    /// Sends a line to the keeper. If no keeper runs, starts one and sends it all groups.
    fn send_line(&mut self, line: &str) -> io::Result<()> {
        if let Some((_, pipe)) = &mut self.keeper
            && pipe.write_all(line.as_bytes()).is_ok()
        {
            return Ok(());
        }
        self.end_keeper();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments(Role::Keep, &[])).env_clear();
        // A Ctrl-C in the terminal reaches only toolgate, which then ends its servers in order.
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
            self.end_keeper();
        } else if let Some((_, pipe)) = &mut self.keeper {
            // If the keeper has ended, toolgate starts a new one with the next server.
            let _ = pipe.write_all(format!("-{number}\n").as_bytes());
        }
    }

    /// Ends the keeper by closing its pipe.
    fn end_keeper(&mut self) {
        if let Some((mut child, pipe)) = self.keeper.take() {
            drop(pipe);
            // The keeper ends at once. A thread waits for it, so that it does not remain as a zombie.
            drop(std::thread::Builder::new().spawn(move || child.wait()));
        }
    }
}

#[expect(clippy::print_stderr, reason = "the launcher has no log; toolgate forwards its stderr")]
fn not_started(program: &OsStr, error: &io::Error) -> u8 {
    eprintln!("cannot start `{}`: {error}", toolgate::printable::line(&program.to_string_lossy()));
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE }
}

/// Asks the system to signal this process, also after `exec`, when the thread that started it ends: toolgate's main
/// thread.
#[cfg(target_os = "linux")]
fn end_with_parent(signal: Signal) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    Ok(())
}

/// Other systems offer no such request: there, only the keeper ends the servers.
#[cfg(not(target_os = "linux"))]
fn end_with_parent(_signal: Signal) -> io::Result<()> {
    Ok(())
}

fn is_orphan(parent: u32) -> bool {
    getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()) != Some(parent)
}

/// Signals a group; `false` if the group has no process.
fn signal_group(group: Pid, signal: Signal) -> bool {
    kill_process_group(group, signal).is_ok()
}

/// Whether a process of the group still runs. Zombies do not count: in a container, their parent may never wait for
/// them.
fn is_there(group: Pid) -> bool {
    rustix::process::test_kill_process_group(group).is_ok() && !has_ended(group)
}

/// Whether all processes of a group have ended, as far as `/proc` shows.
fn has_ended(group: Pid) -> bool {
    let group = group.as_raw_nonzero().get();
    if state_and_group(group).is_some_and(|(has_ended, _)| !has_ended) {
        return false;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let mut pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    !pids.any(|pid| state_and_group(pid).is_some_and(|(ended, of)| of == group && !ended))
}

/// Whether a process has ended, and its group; `None` if `/proc` does not show the process.
fn state_and_group(pid: i32) -> Option<(bool, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name is in parentheses, and may contain any characters.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    Some((has_ended, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_means_other_processes_is_no_group() {
        for number in ["-1", "0", "1", "", "x"] {
            assert!(group(number).is_none(), "{number}");
        }
        assert!(group("2").is_some());
    }

    #[test]
    fn a_zombie_does_not_count_as_running() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
        assert!(is_there(pid));
        signal_group(pid, Signal::KILL);
        let deadline = Instant::now() + Duration::from_secs(20);
        while is_there(pid) {
            assert!(Instant::now() < deadline, "a process that has ended is still there");
            std::thread::yield_now();
        }
        assert!(signal_group(pid, Signal::TERM), "its parent has not waited for it yet");
        child.wait().unwrap();
        assert!(!is_there(pid) && !signal_group(pid, Signal::TERM));
    }
}

//! The keeper: a small process between toolgate and a server, so that no server outlives toolgate.
//!
//! A process that is killed with SIGKILL cannot clean up after itself. So toolgate does not start a
//! server directly; it starts itself as a keeper, and the keeper starts the server in a process group
//! of its own. The server reads and writes toolgate's pipes directly, the keeper is not in the way.
//! When toolgate ends, however it ends, the system tells the keeper, and the keeper ends the group.
//!
//! For the case that somebody kills all processes called `toolgate` at once, the keeper does not start
//! the server directly either: it starts itself as a launcher, which asks the system to be killed with
//! its keeper and then becomes the server.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitStatus},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, getppid, kill_process_group};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

/// The name of the hidden command that runs a keeper.
pub const COMMAND: &str = "keep-server";

/// How long a server may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// The exit code for a command that does not exist, as shells have it.
pub const NOT_FOUND: u8 = 127;
/// The exit code for a command that cannot be run.
pub const NOT_RUNNABLE: u8 = 126;

/// What the hidden command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Starts the server and ends it when toolgate is gone.
    Keep,
    /// Becomes the server.
    Launch,
}

/// Runs `command` in this role, for the process `parent`, and gives the exit code to end with.
pub fn run(role: Role, parent: u32, command: &[OsString]) -> io::Result<u8> {
    let Some((program, args)) = command.split_first() else { return Ok(NOT_FOUND) };
    match role {
        Role::Keep => keep(parent, command),
        Role::Launch => {
            watch_parent(Signal::KILL)?;
            if is_orphan(parent) {
                return Ok(1);
            }
            let error = Command::new(program).args(args).exec();
            Ok(not_started(program, &error))
        }
    }
}

/// The arguments that make our own program play a role.
pub(crate) fn arguments(role: Role, command: &[OsString]) -> Vec<OsString> {
    let role = match role {
        Role::Keep => "keep",
        Role::Launch => "launch",
    };
    let parent = std::process::id().to_string();
    let mut arguments: Vec<OsString> =
        [COMMAND, role, &parent, "--"].into_iter().map(OsString::from).collect();
    arguments.extend_from_slice(command);
    arguments
}

fn keep(parent: u32, command: &[OsString]) -> io::Result<u8> {
    let mut signals = Signals::new([SIGCHLD, SIGTERM, SIGINT, SIGHUP])?;
    watch_parent(Signal::TERM)?;
    let launcher = std::env::current_exe()?;
    let mut child =
        Command::new(launcher).args(arguments(Role::Launch, command)).process_group(0).spawn()?;
    release_pipes()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if is_orphan(parent) || signals.wait().any(|signal| signal != SIGCHLD) {
            end(&mut child);
            break child.wait()?;
        }
    };
    // What the server started and left behind in its group goes with it.
    end_group(&child);
    Ok(exit_code(status))
}

#[expect(clippy::print_stderr, reason = "the keeper has no log; toolgate forwards its stderr")]
fn not_started(program: &OsStr, error: &io::Error) -> u8 {
    eprintln!("cannot start `{}`: {error}", toolgate::printable::line(&program.to_string_lossy()));
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE }
}

/// Asks the system for a signal when the parent is gone.
#[cfg(target_os = "linux")]
fn watch_parent(signal: Signal) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    Ok(())
}

/// Looks for the parent now and then: other systems do not tell. A launcher loses this when it becomes
/// the server; there the keeper alone has to do.
#[cfg(not(target_os = "linux"))]
fn watch_parent(signal: Signal) -> io::Result<()> {
    let parent = getppid();
    std::thread::Builder::new().spawn(move || {
        while getppid() == parent {
            std::thread::sleep(Duration::from_millis(250));
        }
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    })?;
    Ok(())
}

fn is_orphan(parent: u32) -> bool {
    getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()) != Some(parent)
}

/// Lets go of the server's pipes: toolgate must see when the server closes its ends.
fn release_pipes() -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Asks the group to end, and ends it if it does not.
fn end(child: &mut Child) {
    signal_group(child, Signal::TERM);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    signal_group(child, Signal::KILL);
}

/// Ends what is left of the group after its leader is gone.
fn end_group(child: &Child) {
    if !signal_group(child, Signal::TERM) {
        return;
    }
    let deadline = Instant::now() + PATIENCE;
    // Signal 0 in effect: TERM again reaches only those that are still there.
    while Instant::now() < deadline && signal_group(child, Signal::TERM) {
        std::thread::sleep(Duration::from_millis(20));
    }
    signal_group(child, Signal::KILL);
}

/// Whether there was anybody left to signal.
fn signal_group(child: &Child, signal: Signal) -> bool {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process_group(pid, signal).is_ok())
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

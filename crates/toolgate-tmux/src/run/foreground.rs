//! Finds out which program reads what is typed into a pane: a shell at its prompt, or another program.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use super::shell::Shell;

/// The program in the foreground of a pane.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Foreground {
    /// A shell that waits for a line.
    Prompt(Shell),
    /// A known shell that is running something.
    Busy(String),
    /// Another program.
    Other(String),
}

/// Determines the foreground process of the terminal; without `/proc`, only tmux's name for it is known.
pub(super) fn foreground(pane_pid: u32, tty: &str, current: &str) -> Foreground {
    let Some(process) = Process::in_front(pane_pid) else {
        // The foreground process has just ended, and its parent is not yet in the foreground.
        if stat(pane_pid).is_some() {
            return Foreground::Busy(current.to_owned());
        }
        return match Shell::named(current) {
            Some(shell) if shell.edits() && is_canonical(tty) == Some(true) => {
                Foreground::Busy(current.to_owned())
            }
            Some(shell) => Foreground::Prompt(shell),
            None => Foreground::Other(current.to_owned()),
        };
    };
    let Some(shell) = process.shell() else {
        return Foreground::Other(process.name);
    };
    let busy = match is_canonical(tty) {
        // fish switches the terminal's line mode before it takes the foreground back from what it ran, for example from
        // the `sh` that runs our commands.
        Some(false) => {
            !process.waits_for(|what| what != "do_wait")
                || (!shell.edits() && process.runs_a_script())
        }
        Some(true) if shell.edits() => true,
        _ => {
            let reads = |what: &str| ["wait_woken", "n_tty_read"].contains(&what);
            process.runs_a_script() || !process.waits_for(reads) || process.has_children_in_front()
        }
    };
    // Another process may have come to the foreground in the meantime.
    let busy = busy || Process::in_front(pane_pid).is_none_or(|now| now.pid != process.pid);
    if busy { Foreground::Busy(process.name) } else { Foreground::Prompt(shell) }
}

/// Whether a process was started in the last two seconds.
pub(super) fn is_young(pid: u32) -> bool {
    let started = || stat(pid)?.get(19)?.parse::<u64>().ok();
    let uptime = || fs::read_to_string("/proc/uptime").ok()?.split('.').next()?.parse::<u64>().ok();
    let (Some(started), Some(uptime)) = (started(), uptime()) else { return false };
    uptime.saturating_sub(started / rustix::param::clock_ticks_per_second().max(1)) <= 2
}

/// Whether the kernel edits the terminal's lines. A line editor turns that off.
fn is_canonical(tty: &str) -> Option<bool> {
    Some(tcgetattr(open(tty)?).ok()?.local_modes.contains(LocalModes::ICANON))
}

/// Turns the terminal's echo off.
pub(super) fn disable_echo(tty: &str) {
    if let Some(tty) = open(tty)
        && let Ok(mut modes) = tcgetattr(&tty)
        && modes.local_modes.contains(LocalModes::ECHO)
    {
        modes.local_modes.remove(LocalModes::ECHO);
        // If this fails, the script is visible on the screen.
        let _ = tcsetattr(&tty, OptionalActions::Now, &modes);
    }
}

/// Opens a terminal without making it the controlling terminal of this process.
fn open(tty: &str) -> Option<File> {
    let flags = rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).ok()?;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(tty).ok()
}

struct Process {
    pid: u32,
    name: String,
}

impl Process {
    fn in_front(pane_pid: u32) -> Option<Self> {
        let pid = stat(pane_pid)?.get(5)?.parse().ok()?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned();
        Some(Self { pid, name })
    }

    /// The shell that it runs. `sh` is the program that its link points to.
    fn shell(&self) -> Option<Shell> {
        let program = fs::read_link(format!("/proc/{}/exe", self.pid)).ok();
        let program = program.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        let by_name = Shell::named(&self.name)?;
        Some(program.filter(|_| self.name == "sh").and_then(Shell::named).unwrap_or(by_name))
    }

    /// Whether the process sleeps in a kernel function that `known` accepts, if the kernel tells the function.
    fn waits_for(&self, known: impl FnOnce(&str) -> bool) -> bool {
        let asleep = stat(self.pid).is_some_and(|fields| fields.first().is_some_and(|s| s == "S"));
        let what = fs::read_to_string(format!("/proc/{}/wchan", self.pid)).unwrap_or_default();
        asleep && (matches!(&*what, "" | "0") || known(&what))
    }

    /// Whether it runs a script: `sh FILE` and `sh -c TEXT` read no lines from the terminal. A process that is ending
    /// has no arguments, and does not read lines either.
    fn runs_a_script(&self) -> bool {
        let words = fs::read_to_string(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let mut words = words.split_terminator('\0');
        if words.next().is_none() {
            return true;
        }
        while let Some(word) = words.next() {
            match word {
                "-o" | "+o" => drop(words.next()),
                "-c" => return true,
                _ if !word.starts_with(['-', '+']) => return true,
                _ => {}
            }
        }
        false
    }

    /// Whether children of the shell are in the foreground group. At the prompt, they have groups of their own.
    fn has_children_in_front(&self) -> bool {
        let pid = self.pid;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let group = pid.to_string();
        let in_front = |child: &str| {
            let group_of = child.parse().ok().and_then(stat);
            group_of.is_some_and(|fields| fields.get(2) == Some(&group))
        };
        children.split_whitespace().any(in_front)
    }
}

/// The fields of `/proc/PID/stat` after the name: state, parent, group, session, terminal, foreground group.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}

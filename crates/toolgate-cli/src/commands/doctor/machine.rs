//! What `toolgate doctor` looks at on the machine: the program, PATH, limits, clock, and the state folder.

use std::{
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::{fs::Access, process::Resource};

use super::{super::programs, Report};
use crate::chain_args::state_folder;

/// The fewest open files that suffice for a gateway with some servers.
const MIN_OPEN_FILES: u64 = 1_024;
/// The least free space for audit and call log.
const MIN_FREE_BYTES: u64 = 100 * 1024 * 1024;
/// A clock this far behind the program's file is wrong.
const CLOCK_TOLERANCE: Duration = Duration::from_hours(24);

pub(super) fn look(report: &mut Report) {
    report.begin("machine");
    program(report);
    open_files(report);
    clock(report);
    report.begin("state folder");
    state(report);
}

fn program(report: &mut Report) {
    let own = programs::own();
    let system = rustix::system::uname();
    let (name, release) = (system.sysname().to_string_lossy(), system.release().to_string_lossy());
    let version = env!("CARGO_PKG_VERSION");
    report.ok(format!("toolgate {version} at {}, {name} {release}", own.display()));
    match programs::find("toolgate", &programs::shell_path()) {
        Some(found) if programs::is_same(&found, &own) => {
            report.ok(format!("PATH finds it at {}", found.display()));
        }
        Some(other) => report.warn(
            format!("PATH finds another toolgate: {}", other.display()),
            "remove it, or write the path of the one you want into the configs of clients",
        ),
        None => report.warn(
            "PATH does not find toolgate",
            "run `cargo install --path crates/toolgate-cli`, or write its whole path into the configs of clients",
        ),
    }
}

fn open_files(report: &mut Report) {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    match limit {
        Some(limit) if limit < MIN_OPEN_FILES => report.warn(
            format!("a process may have {limit} files open"),
            format!("run `ulimit -n {MIN_OPEN_FILES}` or more before `toolgate serve`"),
        ),
        Some(limit) => report.ok(format!("a process may have {limit} files open")),
        None => report.ok("a process may have any number of files open"),
    }
}

fn clock(report: &mut Report) {
    let built = std::env::current_exe().and_then(|path| path.metadata()?.modified());
    let now = SystemTime::now();
    let is_behind = built.is_ok_and(|built| built > now + CLOCK_TOLERANCE);
    let shown = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M:%S UTC");
    if is_behind {
        report.error(
            format!("the clock says {shown}, which is before toolgate was installed"),
            "set the clock: approvals, sessions and certificates depend on it",
        );
    } else {
        report.ok(format!("the clock says {shown}"));
    }
}

fn state(report: &mut Report) {
    let folder = match state_folder() {
        Ok(folder) => folder,
        Err(error) => {
            report
                .error(error.to_string(), "systemd: `StateDirectory=toolgate` and XDG_STATE_HOME");
            return;
        }
    };
    // It is created when it is needed: look at the nearest folder that exists.
    let Some(existing) = folder.ancestors().find(|path| path.exists()) else { return };
    if rustix::fs::access(existing, Access::WRITE_OK).is_err() {
        report.error(
            format!("cannot write to {}, so there is no audit and no approval", existing.display()),
            "make it writable for this user, or set XDG_STATE_HOME to another folder",
        );
        return;
    }
    if existing == folder {
        owner(report, &folder);
    } else {
        report.ok(format!("{} will be created", folder.display()));
    }
    space(report, existing);
}

fn owner(report: &mut Report, folder: &Path) {
    let own = rustix::process::geteuid().as_raw();
    match folder.metadata() {
        Ok(about) if about.uid() != own => report.error(
            format!("{} belongs to user {}, not to {own}", folder.display(), about.uid()),
            "run toolgate as that user, or set XDG_STATE_HOME to another folder",
        ),
        Ok(about) if about.mode() & 0o022 != 0 => report.error(
            format!(
                "{} is writable by others, who can approve calls and change the audit",
                folder.display()
            ),
            format!("run `chmod go-w {}`", folder.display()),
        ),
        Ok(_) => report.ok(format!("{} is writable only by this user", folder.display())),
        Err(error) => report
            .error(format!("cannot read {}: {error}", folder.display()), "check its permissions"),
    }
}

fn space(report: &mut Report, folder: &Path) {
    let Ok(about) = rustix::fs::statvfs(folder) else { return };
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let shown = super::super::log::style::size(free);
    if free < MIN_FREE_BYTES {
        report.warn(
            format!("only {shown} are free there"),
            "free some space: calls that cannot be recorded are refused if `audit.required` is set",
        );
    } else {
        report.ok(format!("{shown} are free there"));
    }
}

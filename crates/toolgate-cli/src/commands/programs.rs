//! Where programs are: on the PATH of this process, and on the PATH of programs that the desktop starts.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// The file that a command starts: a path as it is, a name as PATH finds it.
pub(super) fn find(command: &str, path: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        let about = path.metadata();
        about.is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    if command.contains('/') {
        return Some(PathBuf::from(command)).filter(is_program);
    }
    std::env::split_paths(path).map(|folder| folder.join(command)).find(is_program)
}

/// The PATH of this process.
pub(super) fn shell_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// The PATH that a program gets that was started from the desktop: no shell has read its start files.
pub(super) fn desktop_path() -> String {
    if cfg!(target_os = "macos") {
        return "/usr/bin:/bin:/usr/sbin:/sbin".to_owned();
    }
    let set = std::fs::read_to_string("/etc/environment").unwrap_or_default();
    let mut set = set.lines().filter_map(|line| line.trim().strip_prefix("PATH="));
    let path = set.next_back().map(|path| path.trim_matches('"').to_owned());
    path.unwrap_or_else(|| {
        "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin".to_owned()
    })
}

/// The path of this program to write into the config of a client. Clients often have another PATH, so it is absolute.
/// A link on PATH that leads here wins: it stays valid when the program is updated.
pub(super) fn own() -> PathBuf {
    let Ok(program) = std::env::current_exe() else { return PathBuf::from("toolgate") };
    let linked = find("toolgate", &shell_path()).filter(|found| found.is_absolute());
    linked.filter(|found| is_same(found, &program)).unwrap_or(program)
}

/// Whether two paths lead to the same file.
pub(super) fn is_same(one: &Path, two: &Path) -> bool {
    match (one.canonicalize(), two.canonicalize()) {
        (Ok(one), Ok(two)) => one == two,
        _ => false,
    }
}

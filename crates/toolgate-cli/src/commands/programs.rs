//! Where programs are: on the PATH of this process, and on the PATH of programs that the desktop starts.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::bail;

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
/// A link that leads here wins: it stays valid when the program is updated.
pub(super) fn own() -> PathBuf {
    let Ok(program) = std::env::current_exe() else { return PathBuf::from("toolgate") };
    let started = std::env::args_os().next().map(PathBuf::from);
    stable(&program, started.as_deref(), &shell_path())
}

/// The same, for a file that stays when this process ends.
pub(super) fn own_to_keep() -> anyhow::Result<PathBuf> {
    let program = own();
    if let Some(runner) = cache_of(&program) {
        bail!(
            "this toolgate runs from the cache of `{runner}`, which removes it at some time: install toolgate first, then run \
             the installed one"
        );
    }
    if !program.is_absolute() {
        bail!("cannot find the path of toolgate itself: start it by its whole path");
    }
    Ok(program)
}

/// The path under which a program stays valid. `started` is the word with which it was started.
fn stable(program: &Path, started: Option<&Path>, path: &OsStr) -> PathBuf {
    // While a process runs, its file may be replaced: Linux then reports the old one as deleted.
    let text = program.to_string_lossy();
    let program = match text.strip_suffix(" (deleted)").map(PathBuf::from) {
        Some(replaced) if !program.exists() => replaced,
        _ => program.to_owned(),
    };
    let started = started.filter(|started| started.is_absolute()).map(Path::to_owned);
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or("toolgate");
    let linked = ["toolgate", name].into_iter().filter_map(|name| find(name, path));
    let mut linked = linked.chain(started).filter(|found| found.is_absolute());
    let found = linked.find(|found| is_same(found, &program));
    found.unwrap_or_else(|| program.clone())
}

/// The program that keeps a file in its cache.
fn cache_of(program: &Path) -> Option<&'static str> {
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    [program, &real].into_iter().find_map(|path| {
        let names: Vec<_> =
            path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        let has = |name: &str| names.iter().any(|other| other == name);
        if has("_npx") {
            return Some("npx");
        }
        let is_uv = has("uv") && names.iter().any(|name| name.starts_with("archive-v"));
        is_uv.then_some("uvx")
    })
}

/// Whether two paths lead to the same file.
pub(super) fn is_same(one: &Path, two: &Path) -> bool {
    match (one.canonicalize(), two.canonicalize()) {
        (Ok(one), Ok(two)) => one == two,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_link_of_a_package_manager_is_written_and_not_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        program(&at("Cellar/toolgate/1.0/bin/toolgate"));
        std::fs::create_dir(at("bin")).unwrap();
        std::os::unix::fs::symlink(at("Cellar/toolgate/1.0/bin/toolgate"), at("bin/toolgate"))
            .unwrap();
        let real = at("Cellar/toolgate/1.0/bin/toolgate");
        let bin = at("bin");
        assert_eq!(stable(&real, None, bin.as_os_str()), at("bin/toolgate"));
        assert_eq!(stable(&real, Some(&at("bin/toolgate")), OsStr::new("")), at("bin/toolgate"));
        assert_eq!(stable(&real, Some(Path::new("toolgate")), OsStr::new("")), real);
        // Another toolgate on PATH is not this one.
        program(&at("other/toolgate"));
        assert_eq!(stable(&real, None, at("other").as_os_str()), real);
    }

    #[test]
    fn a_replaced_program_is_named_without_the_mark_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toolgate");
        program(&path);
        let deleted = PathBuf::from(format!("{} (deleted)", path.display()));
        assert_eq!(stable(&deleted, None, OsStr::new("")), path);
    }

    #[test]
    fn a_cache_is_no_place_to_keep_a_program() {
        for (path, runner) in [
            ("/home/me/.npm/_npx/1a2b/node_modules/toolgate-linux-x64/toolgate", Some("npx")),
            ("/home/me/.cache/uv/archive-v0/x/bin/toolgate", Some("uvx")),
            ("/home/me/uv/bin/toolgate", None),
            ("/usr/local/bin/toolgate", None),
        ] {
            assert_eq!(cache_of(Path::new(path)), runner, "{path}");
        }
    }
}

//! Writes to files outside of the roots: redirects, and programs with an output file.

use super::ProgramCall;
use crate::commands::{
    Class,
    arg::{Arg, HOME},
    argv::{after_options, has, operands, value},
    judge::Judge,
    paths::{PathLocation, TEMPORARY},
};

pub(super) fn check(judge: &mut Judge<'_>, call: &ProgramCall<'_>) {
    for file in files(call) {
        judge.writes_to(&file, call.line);
    }
}

/// The files that a program writes, by its arguments.
fn files(call: &ProgramCall<'_>) -> Vec<Arg> {
    let named = |text: String| vec![Arg { text, ..Arg::default() }];
    let option = |short, long: &[&str]| {
        value(call.args, short, long).map_or_else(Vec::new, |(_, file)| named(file))
    };
    match call.name {
        "tee" | "sponge" => operands(call.args).into_iter().cloned().collect(),
        "truncate" => {
            let rest = after_options(call.args, "sr", &["size", "reference"]);
            operands(rest).into_iter().cloned().collect()
        }
        "install" if call.has("d", &["directory"]) => Vec::new(),
        "cp" | "gcp" | "mv" | "install" | "ln" => {
            if let Some((_, to)) = value(call.args, Some('t'), &["target-directory"]) {
                return named(to);
            }
            let takes = if call.name == "install" { "mgoS" } else { "S" };
            let words =
                operands(after_options(call.args, takes, &["mode", "owner", "group", "suffix"]));
            let last = words.last().filter(|to| words.len() > 1 && to.text != "/dev/null");
            last.map(|to| vec![(*to).clone()]).unwrap_or_default()
        }
        "dd" => {
            let of = call.args.iter().find_map(|arg| arg.text.strip_prefix("of="));
            // bash expands `~` here, too.
            of.map_or_else(Vec::new, |file| match file.strip_prefix('~') {
                Some(rest) => named(format!("{HOME}{rest}")),
                None => named(file.to_owned()),
            })
        }
        "sed" | "gsed" if has(call.args, "i", &["in-place"]) => edited(call),
        "perl" | "ruby" if has(call.args, "i", &[]) => edited(call),
        "sort" | "curl" => option(Some('o'), &["output"]),
        "wget" => option(Some('O'), &["output-document"]),
        _ => Vec::new(),
    }
}

/// The files that a stream editor changes in place: the operands after its script.
fn edited(call: &ProgramCall<'_>) -> Vec<Arg> {
    operands(call.args).into_iter().skip(1).cloned().collect()
}

impl Judge<'_> {
    /// Judges a file that is written.
    pub(in crate::commands) fn writes_to(&mut self, file: &Arg, line: &[Arg]) {
        let path = file.text.as_str();
        if super::disk::is_disk(path) {
            self.find(Class::Disk, line, super::disk::WHY);
        } else if path == "/proc/sysrq-trigger" || path.starts_with("/proc/sys/") {
            self.find(Class::System, line, "it speaks to the kernel");
        } else if TEMPORARY.contains(&path.trim_end_matches('/'))
            || path == "-"
            || path.starts_with("/dev/")
            || path.starts_with("/proc/self/fd/")
        {
            // What is written there is not kept.
        } else if self.context.remote {
            if is_systems(path) {
                self.find(Class::WriteOutsideRoot, line, "it writes to a file of a system");
            }
        } else {
            match self.location_of(file) {
                PathLocation::Outside if !self.is_below_pane(file) => {
                    let why = format!("it writes to a file {}", self.outside());
                    self.find(Class::WriteOutsideRoot, line, why);
                }
                PathLocation::Unknown => self.unknown(
                    Class::WriteOutsideRoot,
                    line,
                    "where it writes is only known when it runs",
                ),
                _ => {}
            }
        }
    }
}

fn is_systems(path: &str) -> bool {
    ["/etc/", "/boot/", "/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/"]
        .iter()
        .any(|folder| path.starts_with(folder))
        && !path.starts_with("/usr/local/")
}

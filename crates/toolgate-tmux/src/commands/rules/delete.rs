//! Commands that delete or empty files.

use super::ProgramCall;
use crate::commands::{
    Class,
    arg::{Arg, UNKNOWN},
    argv::{after_options, operands},
    judge::{Judge, PipeData},
    paths::PathLocation,
};

pub(super) fn check(judge: &mut Judge<'_>, call: &ProgramCall<'_>) {
    match call.name {
        "rm" | "grm" | "unlink" | "rmdir" | "trash" | "srm" | "rimraf" => {
            let recursive =
                call.has("rR", &["recursive"]) || matches!(call.name, "rimraf" | "trash");
            each(judge, call, &operands(call.args), recursive);
        }
        "shred" if !call.says(&["/dev"]) => {
            let files = operands(after_options(call.args, "ns", &["iterations", "size"]));
            each(judge, call, &files, true);
        }
        "find" | "gfind" | "fd" => find(judge, call),
        "mv" => {
            let files = operands(call.args);
            if let Some((to, from)) = files.split_last()
                && to.text == "/dev/null"
            {
                each(judge, call, from, true);
            }
        }
        "rsync"
            if call.has("", &["delete", "delete-after", "delete-before", "delete-excluded"])
                && !call.has("n", &["dry-run"]) =>
        {
            let files = operands(call.args);
            if let Some(to) = files.last() {
                if to.text.contains(':') {
                    judge.find(
                        Class::RemoteStorage,
                        call.line,
                        "it deletes on another machine what is not here",
                    );
                } else {
                    each(judge, call, &[to], true);
                }
            }
        }
        _ => {}
    }
}

/// Judges each file that would be deleted.
fn each(judge: &mut Judge<'_>, call: &ProgramCall<'_>, files: &[&Arg], recursive: bool) {
    for file in files {
        let why = match judge.location_of(file) {
            PathLocation::Inside => continue,
            PathLocation::Whole if !recursive => continue,
            PathLocation::Whole => "it deletes the whole folder".to_owned(),
            PathLocation::Outside => format!("it deletes {}", judge.outside()),
            PathLocation::Unknown => {
                let why = "what it deletes is only known when it runs";
                // One unknown file is only noted. With `-r`, an empty variable before a path could delete everything.
                if !(recursive || judge.context.bulk) || judge.context.defining {
                    judge.unknown(Class::DeleteOutsideRoot, call.line, why);
                    continue;
                }
                format!("{why}, and may be {}", judge.outside())
            }
        };
        judge.find(Class::DeleteOutsideRoot, call.line, why);
    }
}

fn find(judge: &mut Judge<'_>, call: &ProgramCall<'_>) {
    let options = ["-H", "-L", "-P"];
    let args = call.args.iter().filter(|arg| !options.contains(&&*arg.text));
    let mut paths: Vec<Arg> =
        args.take_while(|arg| !arg.text.starts_with(['-', '(', '!'])).cloned().collect();
    if paths.is_empty() || call.name == "fd" {
        paths = vec![Arg { text: ".".to_owned(), ..Arg::default() }];
    }
    let tests = [
        "-name",
        "-iname",
        "-path",
        "-type",
        "-mtime",
        "-newer",
        "-size",
        "-empty",
        "-regex",
        "-mmin",
        "-wholename",
        "-maxdepth",
        "-user",
        "-perm",
        "-atime",
    ];
    let narrowed = call.args.iter().any(|arg| tests.contains(&&*arg.text)) || call.name == "fd";
    // The files that `find` finds are below the path; without a filter, they are everything in it.
    let found = |path: &Arg| {
        let text = if narrowed {
            format!("{}/{UNKNOWN}", path.text.trim_end_matches('/'))
        } else {
            path.text.clone()
        };
        Arg { text, ..path.clone() }
    };
    if call.args.iter().any(|arg| arg.text == "-delete") {
        for path in &paths {
            let found = found(path);
            each(judge, call, &[&found], true);
        }
    }
    let mut rest = call.args;
    while let Some(at) = rest.iter().position(|arg| {
        matches!(&*arg.text, "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec")
    }) {
        let after = rest.get(at + 1..).unwrap_or_default();
        let end =
            after.iter().position(|arg| matches!(&*arg.text, ";" | "+")).unwrap_or(after.len());
        let command = after.get(..end).unwrap_or_default();
        for path in &paths {
            let found = found(path);
            let line: Vec<Arg> = command
                .iter()
                .map(|arg| if arg.text == "{}" { found.clone() } else { arg.clone() })
                .collect();
            let bulk = std::mem::replace(&mut judge.context.bulk, true);
            judge.program(&line, &PipeData::default());
            judge.context.bulk = bulk;
        }
        rest = after.get(end..).unwrap_or_default();
    }
}

//! What deletes or empties files.

use super::Called;
use crate::commands::{
    Class,
    argv::{after_options, operands},
    expand::{Arg, HOLE},
    paths::Spot,
    walk::{Input, Judge},
};

pub(super) fn check(judge: &mut Judge<'_>, call: &Called<'_>) {
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
        "truncate" => {
            let files = operands(after_options(call.args, "sr", &["size", "reference"]));
            each(judge, call, &files, false);
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
                        Class::DeleteOutsideRoot,
                        call.line,
                        "it deletes on another machine what is not here",
                    );
                } else {
                    each(judge, call, &[to], true);
                }
            }
        }
        _ => elsewhere(judge, call),
    }
}

/// Each file that would go.
fn each(judge: &mut Judge<'_>, call: &Called<'_>, files: &[&Arg], recursive: bool) {
    for file in files {
        match judge.spot(file) {
            Spot::Inside => {}
            Spot::Whole if !recursive => {}
            Spot::Whole => {
                judge.find(Class::DeleteOutsideRoot, call.line, "it deletes the whole folder");
            }
            Spot::Outside => judge.find(
                Class::DeleteOutsideRoot,
                call.line,
                "it deletes what is not below a root",
            ),
            Spot::Unknown => judge.unknown(
                Class::DeleteOutsideRoot,
                call.line,
                "what it deletes is only known when it runs",
            ),
        }
    }
}

fn find(judge: &mut Judge<'_>, call: &Called<'_>) {
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
    // What is found is below the path, unless nothing narrows the search.
    let found = |path: &Arg| {
        let text = if narrowed {
            format!("{}/{HOLE}", path.text.trim_end_matches('/'))
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
            judge.program(&line, &Input::default());
        }
        rest = after.get(end..).unwrap_or_default();
    }
}

/// What is deleted in places that have no path here.
fn elsewhere(judge: &mut Judge<'_>, call: &Called<'_>) {
    let words = call.words();
    let why = match (call.name, words.as_slice()) {
        ("aws", ["s3", "rm", ..]) if call.has("", &["recursive"]) => {
            "it deletes a whole prefix of a bucket"
        }
        ("aws", ["s3", "rb", ..]) => "it deletes a bucket",
        ("gsutil", ["rm", ..]) if call.has("rR", &[]) => "it deletes from a bucket",
        ("rclone", ["purge" | "delete", ..]) => "it deletes from a remote",
        ("docker" | "podman", ["system", "prune", ..]) => {
            "it deletes what no container uses right now"
        }
        ("docker" | "podman", ["volume", "rm" | "prune", ..]) => {
            "it deletes volumes, with the data in them"
        }
        ("docker", ["compose", "down", ..]) if call.has("v", &["volumes"]) => {
            "it deletes volumes, with the data in them"
        }
        ("aws", ["s3", "sync", ..]) if call.has("", &["delete"]) => {
            "it deletes from a bucket what is not here"
        }
        ("terraform" | "tofu", ["destroy", ..]) => "it deletes what it once made",
        ("kubectl" | "oc", ["delete", "ns" | "namespace" | "pvc" | "pv" | "crd", ..]) => {
            "it deletes from a cluster, with all that is inside"
        }
        ("gh", ["repo", "delete", ..]) => "it deletes a repository",
        ("crontab", _) if call.has("r", &[]) => "it deletes all of a user's cron jobs",
        _ => return,
    };
    judge.find(Class::DeleteOutsideRoot, call.line, why);
}

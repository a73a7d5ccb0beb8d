//! git commands that affect other users, or discard work.

use super::ProgramCall;
use crate::commands::{
    Class,
    arg::Arg,
    argv::{after_options, has, operands, texts},
    judge::{Judge, PipeData},
    paths::PathLocation,
};

pub(super) fn check(judge: &mut Judge<'_>, call: &ProgramCall<'_>) {
    if call.name != "git" {
        return;
    }
    let rest = after_options(call.args, "Cc", &["git-dir", "work-tree", "namespace"]);
    let Some((verb, args)) = rest.split_first() else { return };
    match &*verb.text {
        "push" => push(judge, call, args),
        "clean" => clean(judge, call, args),
        _ => {}
    }
    if let Some(why) = discards(&verb.text, args) {
        judge.find(Class::DiscardWork, call.line, why);
    }
    aliases(judge, call, &verb.text);
}

/// Commands that discard work that git does not keep.
fn discards(verb: &str, args: &[Arg]) -> Option<&'static str> {
    const CHANGES: &str = "it throws away changes that are not committed";
    const COMMITS: &str = "it throws away commits or what refers to them";
    let words = texts(&operands(args));
    let asks = has(args, "p", &["patch"]);
    Some(match verb {
        "checkout" if asks || has(args, "bt", &["orphan", "track"]) => return None,
        "checkout" => {
            let paths = args.iter().any(|arg| arg.text == "--") && args.last()?.text != "--";
            let is_path = |word: &&str| {
                word.starts_with(['.', ':', '/']) || word.ends_with('/') || word.contains('*')
            };
            let forced = has(args, "f", &["force"]) || words.iter().any(is_path);
            if !(paths || forced || words.len() > 1 && !has(args, "B", &[])) {
                return None;
            }
            CHANGES
        }
        "restore" if !asks => {
            let staged = has(args, "S", &["staged"]) && !has(args, "W", &["worktree"]);
            if staged {
                return None;
            }
            CHANGES
        }
        "switch" if has(args, "f", &["force", "discard-changes"]) => CHANGES,
        "reset" if has(args, "", &["hard"]) => CHANGES,
        "rm" if has(args, "f", &["force"]) && !has(args, "n", &["cached", "dry-run"]) => CHANGES,
        "read-tree" if has(args, "", &["reset"]) && has(args, "u", &[]) => CHANGES,
        "clean" if has(args, "f", &["force"]) && !has(args, "ni", &["dry-run", "interactive"]) => {
            "it deletes files that git does not know"
        }
        "stash" if matches!(words.first(), Some(&("drop" | "clear"))) => {
            "it throws away stashed changes"
        }
        "branch"
            if has(args, "D", &[]) || has(args, "d", &["delete"]) && has(args, "f", &["force"]) =>
        {
            "it deletes a branch, merged or not"
        }
        "reflog" if matches!(words.first(), Some(&("expire" | "delete"))) => COMMITS,
        "gc" if has(args, "", &["prune"]) => COMMITS,
        "prune" if !has(args, "n", &["dry-run"]) => COMMITS,
        "filter-branch" | "filter-repo" => "it rewrites the history",
        "update-ref" if has(args, "d", &[]) => COMMITS,
        "worktree" if words.first() == Some(&"remove") && has(args, "f", &["force"]) => CHANGES,
        "submodule" if words.first() == Some(&"deinit") && has(args, "f", &["force"]) => CHANGES,
        _ => return None,
    })
}

/// Aliases that begin with `!` are shell text.
fn aliases(judge: &mut Judge<'_>, call: &ProgramCall<'_>, verb: &str) {
    for arg in call.args {
        let text = match arg.text.split_once("=!") {
            Some((_, text)) => Some(text),
            None if verb == "config" => arg.text.strip_prefix('!'),
            None => None,
        };
        if let Some(text) = text {
            judge.text(text, arg.fetched, &PipeData::default());
        }
    }
}

fn push(judge: &mut Judge<'_>, call: &ProgramCall<'_>, args: &[Arg]) {
    if has(args, "n", &["dry-run"]) {
        return;
    }
    let why = if has(args, "f", &["force", "force-with-lease", "force-if-includes"]) {
        "it replaces what others may have pulled"
    } else if has(args, "", &["mirror", "prune"]) {
        "it deletes what is only at the other side"
    } else if has(args, "d", &["delete"]) {
        "it deletes a branch or a tag at the other side"
    } else if operands(args).iter().skip(1).any(|arg| arg.text.starts_with('+')) {
        "a `+` before a branch replaces what others may have pulled"
    } else if operands(args)
        .iter()
        .skip(1)
        .any(|arg| arg.text.starts_with(':') && arg.text.len() > 1)
    {
        "it deletes a branch or a tag at the other side"
    } else {
        return;
    };
    judge.find(Class::ForcePush, call.line, why);
}

/// `git clean`: ignored files are often the only copies of settings, keys and data.
fn clean(judge: &mut Judge<'_>, call: &ProgramCall<'_>, args: &[Arg]) {
    if !has(args, "f", &["force"]) || has(args, "n", &["dry-run"]) {
        return;
    }
    let paths = operands(after_options(args, "e", &["exclude"]));
    let here = Arg { text: ".".to_owned(), ..Arg::default() };
    let folder =
        call.args.iter().position(|arg| arg.text == "-C").and_then(|at| call.args.get(at + 1));
    let paths = match (paths.is_empty(), folder) {
        (_, Some(folder)) => vec![folder],
        (true, None) => vec![&here],
        (false, None) => paths,
    };
    for path in paths {
        match judge.location_of(path) {
            PathLocation::Inside => {}
            PathLocation::Whole if !has(args, "xX", &[]) => {}
            PathLocation::Whole => judge.find(
                Class::DeleteOutsideRoot,
                call.line,
                "it also deletes what git ignores, and so does not keep",
            ),
            PathLocation::Outside => {
                let why = format!("it deletes {}", judge.outside());
                judge.find(Class::DeleteOutsideRoot, call.line, why);
            }
            PathLocation::Unknown => judge.unknown(
                Class::DeleteOutsideRoot,
                call.line,
                "what it deletes is only known when it runs",
            ),
        }
    }
}

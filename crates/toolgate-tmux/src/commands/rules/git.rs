//! What git does to others, and to what it does not keep.

use super::Called;
use crate::commands::{
    Class,
    argv::{after_options, has, operands},
    expand::Arg,
    paths::Spot,
    walk::Judge,
};

pub(super) fn check(judge: &mut Judge<'_>, call: &Called<'_>) {
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
}

fn push(judge: &mut Judge<'_>, call: &Called<'_>, args: &[Arg]) {
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

/// What is ignored is often what nobody else has: settings, keys, data.
fn clean(judge: &mut Judge<'_>, call: &Called<'_>, args: &[Arg]) {
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
        match judge.spot(path) {
            Spot::Inside => {}
            Spot::Whole if !has(args, "xX", &[]) => {}
            Spot::Whole => judge.find(
                Class::DeleteOutsideRoot,
                call.line,
                "it also deletes what git ignores, and so does not keep",
            ),
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

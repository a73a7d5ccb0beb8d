//! Reads the options and operands of a program.

use super::arg::Arg;

/// The arguments after a program's own leading options. `with_value` has the short options that take the next argument,
/// `long` the long ones.
pub(super) fn after_options<'a>(args: &'a [Arg], with_value: &str, long: &[&str]) -> &'a [Arg] {
    let mut rest = args;
    while let Some((first, more)) = rest.split_first() {
        let text = first.text.as_str();
        if text == "--" {
            return more;
        }
        if !first.is_option() {
            break;
        }
        let takes = if let Some(name) = text.strip_prefix("--") {
            long.contains(&name)
        } else {
            let mut letters = text.chars().skip(1);
            letters.any(|c| with_value.contains(c)) && letters.next().is_none()
        };
        rest = if takes { more.get(1..).unwrap_or_default() } else { more };
    }
    rest
}

/// Whether an option is given, also in a cluster: `-rf` contains `f`.
pub(super) fn has(args: &[Arg], short: &str, long: &[&str]) -> bool {
    options(args).any(|text| match text.strip_prefix("--") {
        Some(name) => {
            let name = name.split('=').next().unwrap_or_default();
            // Most programs accept a unique prefix of a long option.
            long.iter().any(|long| *long == name || name.len() > 3 && long.starts_with(name))
        }
        None => text.chars().skip(1).any(|c| short.contains(c)),
    })
}

fn options(args: &[Arg]) -> impl Iterator<Item = &str> {
    let args = args.iter().take_while(|arg| arg.text != "--");
    args.filter(|arg| arg.is_option()).map(|arg| arg.text.as_str())
}

/// The arguments that are no options.
pub(super) fn operands(args: &[Arg]) -> Vec<&Arg> {
    let mut ended = false;
    let mut all = Vec::new();
    for arg in args {
        if !ended && arg.text == "--" {
            ended = true;
        } else if ended || !arg.is_option() {
            all.push(arg);
        }
    }
    all
}

/// The value of an option: `-c x`, `-cx`, `--command x`, `--command=x`. In a cluster of letters it is the last one.
pub(super) fn value<'a>(
    args: &'a [Arg],
    short: Option<char>,
    long: &[&str],
) -> Option<(&'a Arg, String)> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let text = arg.text.as_str();
        if let Some(name) = text.strip_prefix("--") {
            if let Some((name, value)) = name.split_once('=')
                && long.contains(&name)
            {
                return Some((arg, value.to_owned()));
            }
            if long.contains(&name) {
                return rest.next().map(|value| (value, value.text.clone()));
            }
        } else if let Some(letters) = text.strip_prefix('-')
            && let Some((_, value)) = short.and_then(|short| letters.split_once(short))
        {
            if value.is_empty() {
                return rest.next().map(|value| (value, value.text.clone()));
            }
            return Some((arg, value.to_owned()));
        }
    }
    None
}

/// The texts of arguments.
pub(super) fn texts<'a>(args: &[&'a Arg]) -> Vec<&'a str> {
    args.iter().map(|arg| arg.text.as_str()).collect()
}

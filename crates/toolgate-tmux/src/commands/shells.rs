//! Programs that run text: shells, interpreters, `eval`, `ssh`.

use super::{
    Class,
    argv::{after_options, has, operands, texts, value},
    expand::{Arg, HOLE},
    walk::{Input, Judge, Output},
};

const SHELLS: &[&str] =
    &["sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash", "csh", "tcsh"];
const DOWNLOADED: &str = "it runs what was just downloaded or decoded";

/// Whether a program brings text from elsewhere, or hides it.
pub(super) fn fetches(name: &str, args: &[Arg]) -> bool {
    match name {
        "curl" | "wget" | "fetch" | "aria2c" | "http" | "https" | "xh" | "lynx" | "w3m" | "nc"
        | "ncat" | "ftp" => true,
        "base64" | "base32" | "gbase64" => has(args, "dD", &["decode"]),
        "xxd" => has(args, "r", &["revert"]),
        "openssl" => args.iter().any(|arg| arg.text == "-d"),
        _ => false,
    }
}

pub(super) fn run(
    judge: &mut Judge<'_>,
    name: &str,
    line: &[Arg],
    args: &[Arg],
    input: &Input,
) -> Option<Output> {
    if SHELLS.contains(&name) {
        return Some(shell(judge, line, args, input));
    }
    match name {
        "eval" => {
            let text = texts(&args.iter().collect::<Vec<_>>()).join(" ");
            Some(judge.text(&text, args.iter().any(|arg| arg.fetched), input))
        }
        "source" | "." => {
            let file = operands(args).first().copied().cloned().unwrap_or_default();
            sourced(judge, line, &file, input);
            Some(Output::default())
        }
        "su" => {
            let (arg, text) = value(args, Some('c'), &["command"])?;
            Some(judge.text(&text, arg.fetched, input))
        }
        "script" | "flock" | "nix-shell" => {
            let short = if name == "nix-shell" { None } else { Some('c') };
            match value(args, short, &["command", "run"]) {
                Some((arg, text)) => Some(judge.text(&text, arg.fetched, input)),
                None if name == "flock" => {
                    let rest = after_options(args, "wE", &["timeout"]);
                    Some(judge.program(rest.get(1..).unwrap_or_default(), input))
                }
                None => Some(Output::default()),
            }
        }
        "watch" => {
            let rest = after_options(args, "n", &["interval"]);
            Some(judge.text(&texts(&rest.iter().collect::<Vec<_>>()).join(" "), false, input))
        }
        "trap" => {
            let text = operands(args).first().map(|arg| arg.text.clone())?;
            Some(judge.text(&text, false, input))
        }
        "alias" => {
            for arg in operands(args) {
                if let Some((_, text)) = arg.text.split_once('=') {
                    judge.text(text, false, input);
                }
            }
            Some(Output::default())
        }
        _ if is_interpreter(name) => Some(interpreter(judge, line, args, input)),
        _ => beyond(judge, name, args, input),
    }
}

/// Programs that run text in another place.
fn beyond(judge: &mut Judge<'_>, name: &str, args: &[Arg], input: &Input) -> Option<Output> {
    match name {
        "ssh" | "mosh" => {
            let rest = after_options(args, "BbcDEeFIiJLlmOopQRSWw", &[]);
            Some(elsewhere(judge, rest.get(1..).unwrap_or_default(), input))
        }
        "docker" | "podman" | "nerdctl" if is(args, "exec") => {
            let rest =
                after_options(args.get(1..)?, "euw", &["env", "user", "workdir", "env-file"]);
            Some(contained(judge, rest.get(1..).unwrap_or_default(), input))
        }
        "kubectl" | "oc" if is(args, "exec") => {
            let at = args.iter().position(|arg| arg.text == "--")?;
            Some(contained(judge, args.get(at + 1..).unwrap_or_default(), input))
        }
        "tmux" => {
            let at = args.iter().position(|arg| {
                matches!(
                    &*arg.text,
                    "send-keys"
                        | "send"
                        | "new-window"
                        | "neww"
                        | "split-window"
                        | "splitw"
                        | "respawn-pane"
                        | "respawn-window"
                        | "new-session"
                        | "new"
                        | "run-shell"
                        | "run"
                        | "if-shell"
                        | "if"
                )
            })?;
            let rest = after_options(args.get(at + 1..)?, "tcnNeFlp", &[]);
            let rest: Vec<&str> = texts(&rest.iter().collect::<Vec<_>>());
            Some(judge.text(
                &rest.join(" ").replace(" Enter", "\n").replace(" C-m", "\n"),
                false,
                input,
            ))
        }
        _ => None,
    }
}

fn is(args: &[Arg], text: &str) -> bool {
    args.first().is_some_and(|arg| arg.text == text)
}

/// A program in a container: no shell is between.
fn contained(judge: &mut Judge<'_>, line: &[Arg], input: &Input) -> Output {
    let was = std::mem::replace(&mut judge.remote, true);
    let output = judge.program(line, input);
    judge.remote = was;
    output
}

/// What a remote shell gets: its arguments, joined.
fn elsewhere(judge: &mut Judge<'_>, args: &[Arg], input: &Input) -> Output {
    if args.is_empty() {
        // A shell that reads what is piped into it.
        if let Some(text) = &input.text {
            let was = std::mem::replace(&mut judge.remote, true);
            judge.text(text, input.fetched, &Input::default());
            judge.remote = was;
        }
        return Output::default();
    }
    let was = std::mem::replace(&mut judge.remote, true);
    let text = texts(&args.iter().collect::<Vec<_>>()).join(" ");
    judge.text(&text, args.iter().any(|arg| arg.fetched), input);
    judge.remote = was;
    Output::default()
}

fn shell(judge: &mut Judge<'_>, line: &[Arg], args: &[Arg], input: &Input) -> Output {
    let rest = after_options(args, "oO", &["rcfile", "init-file"]);
    let options = args.get(..args.len() - rest.len()).unwrap_or_default();
    // It only reads.
    if has(options, "n", &["help", "version"]) {
        return Output::default();
    }
    if has(options, "c", &["command"]) {
        let Some(script) = rest.first() else { return Output::default() };
        return judge.text(&script.text, script.fetched, input);
    }
    let reads = has(options, "s", &[])
        || rest.is_empty()
        || rest.first().is_some_and(|arg| matches!(&*arg.text, "-" | "/dev/stdin"));
    if reads {
        standard_input(judge, line, input);
        if let Some(text) = &input.text {
            return judge.text(text, input.fetched, &Input::default());
        }
        return Output::default();
    }
    if let Some(file) = rest.first() {
        sourced(judge, line, file, input);
    }
    Output::default()
}

fn standard_input(judge: &mut Judge<'_>, line: &[Arg], input: &Input) {
    if input.fetched {
        judge.find(Class::PipeToShell, line, DOWNLOADED);
    }
}

/// A file that is run.
fn sourced(judge: &mut Judge<'_>, line: &[Arg], file: &Arg, input: &Input) {
    let downloaded = judge
        .downloaded
        .iter()
        .any(|one| one.trim_start_matches("./") == file.text.trim_start_matches("./"));
    if file.fetched || downloaded {
        judge.find(Class::PipeToShell, line, DOWNLOADED);
    } else if file.text == "/dev/stdin" {
        standard_input(judge, line, input);
    }
    if let Some(text) = &file.content {
        judge.text(text, false, &Input::default());
    }
}

fn is_interpreter(name: &str) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    matches!(
        plain,
        "python"
            | "pypy"
            | "perl"
            | "ruby"
            | "node"
            | "nodejs"
            | "php"
            | "lua"
            | "deno"
            | "bun"
            | "pwsh"
            | "osascript"
            | "Rscript"
            | "tclsh"
    )
}

/// Its text is in a language that is not read here; where it comes from can be told.
fn interpreter(judge: &mut Judge<'_>, line: &[Arg], args: &[Arg], input: &Input) -> Output {
    let inline = has(args, "cemrp", &["eval", "print", "exec", "module"]);
    let operands = operands(args);
    let inner = args.iter().find(|arg| arg.fetched && arg.text.starts_with(HOLE));
    if inline && inner.is_some()
        || !inline
            && operands
                .first()
                .is_some_and(|arg| arg.fetched || judge.downloaded.contains(&arg.text))
    {
        judge.find(Class::PipeToShell, line, DOWNLOADED);
    } else if !inline && operands.first().is_none_or(|arg| matches!(&*arg.text, "-" | "/dev/stdin"))
    {
        standard_input(judge, line, input);
    }
    Output { text: None, fetched: input.fetched }
}

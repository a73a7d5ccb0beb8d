//! Programs that run text: shells, interpreters, `eval`, `ssh`.

use super::{
    Class,
    arg::{Arg, UNKNOWN, VariableValue},
    argv::{after_options, has, operands, texts, value},
    judge::{Judge, PipeData},
};

const SHELLS: &[&str] =
    &["sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash", "csh", "tcsh"];
/// The file of a process substitution.
const PIPED: &str = "/dev/fd/63";
const UNSEEN: &str = "what it runs is only known when it runs";
const DOWNLOADED: &str = "it runs what was just downloaded or decoded";

/// Whether the output of a program is downloaded, or decoded from a text that hides it.
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

/// Programs whose output is meant to be run by a shell.
pub(super) fn sets_up(name: &str, args: &[Arg]) -> bool {
    let word = operands(args).first().map_or("", |arg| arg.text.as_str());
    match name {
        "ssh-agent"
        | "gpg-agent"
        | "keychain"
        | "dircolors"
        | "lesspipe"
        | "lesspipe.sh"
        | "resize"
        | "register-python-argcomplete"
        | "thefuck"
        | "direnv"
        | "starship"
        | "zoxide"
        | "brew"
        | "pyenv"
        | "rbenv"
        | "nodenv"
        | "goenv"
        | "jenv"
        | "opam"
        | "fnm"
        | "conda"
        | "mamba"
        | "micromamba"
        | "mise"
        | "rtx"
        | "asdf"
        | "atuin"
        | "luarocks"
        | "docker-machine"
        | "minikube"
        | "podman"
        | "nvm"
        | "volta" => true,
        _ => matches!(word, "completion" | "completions" | "shell-init" | "shell-hook"),
    }
}

pub(super) fn run(
    judge: &mut Judge<'_>,
    name: &str,
    line: &[Arg],
    args: &[Arg],
    input: &PipeData,
) -> Option<PipeData> {
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
            Some(PipeData::default())
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
                None => Some(PipeData::default()),
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
            Some(PipeData::default())
        }
        _ if is_interpreter(name) => Some(interpreter(judge, line, args, input)),
        _ => beyond(judge, name, args, input),
    }
}

/// Programs that run text on another machine or in a container.
fn beyond(judge: &mut Judge<'_>, name: &str, args: &[Arg], input: &PipeData) -> Option<PipeData> {
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

/// A program in a container, without a shell.
fn contained(judge: &mut Judge<'_>, line: &[Arg], input: &PipeData) -> PipeData {
    let was = std::mem::replace(&mut judge.context.remote, true);
    let output = judge.program(line, input);
    judge.context.remote = was;
    output
}

/// The text that a remote shell runs: its arguments, joined.
fn elsewhere(judge: &mut Judge<'_>, args: &[Arg], input: &PipeData) -> PipeData {
    if args.is_empty() {
        // A remote shell that reads its input.
        if let Some(text) = &input.text {
            let was = std::mem::replace(&mut judge.context.remote, true);
            judge.text(text, input.fetched, &PipeData::default());
            judge.context.remote = was;
        }
        return PipeData::default();
    }
    let was = std::mem::replace(&mut judge.context.remote, true);
    let text = texts(&args.iter().collect::<Vec<_>>()).join(" ");
    judge.text(&text, args.iter().any(|arg| arg.fetched), input);
    judge.context.remote = was;
    PipeData::default()
}

fn shell(judge: &mut Judge<'_>, line: &[Arg], args: &[Arg], input: &PipeData) -> PipeData {
    let rest = after_options(args, "oO", &["rcfile", "init-file"]);
    let options = args.get(..args.len() - rest.len()).unwrap_or_default();
    // A shell with this option reads, but runs nothing.
    if has(options, "n", &["help", "version"]) {
        return PipeData::default();
    }
    if has(options, "c", &["command"]) {
        let Some(script) = rest.first() else { return PipeData::default() };
        let before = judge.positional(rest.get(1..).unwrap_or_default());
        let output = judge.text(&script.text, script.fetched, input);
        for (name, value) in before {
            match value {
                Some(value) => judge.variables.insert(name, value),
                None => judge.variables.remove(&name),
            };
        }
        return output;
    }
    let reads = has(options, "s", &[]) || rest.is_empty() || rest.first().is_some_and(is_input);
    if let Some((file, _)) = value(options, None, &["rcfile", "init-file"]) {
        sourced(judge, line, file, input);
    }
    if reads {
        return standard_input(judge, line, input);
    }
    if let Some(file) = rest.first() {
        sourced(judge, line, file, input);
    }
    PipeData::default()
}

/// Whether a file is the program's standard input.
fn is_input(file: &Arg) -> bool {
    matches!(
        &*file.text,
        "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0" | "/proc/thread-self/fd/0"
    )
}

/// A shell that runs its input. Input from a terminal is typed later, and judged then.
fn standard_input(judge: &mut Judge<'_>, line: &[Arg], input: &PipeData) -> PipeData {
    match &input.text {
        _ if input.fetched => judge.find(Class::PipeToShell, line, DOWNLOADED),
        None if input.piped => judge.find(Class::Unparsed, line, UNSEEN),
        _ => {}
    }
    let text = input.text.as_deref().unwrap_or_default();
    judge.text(text, input.fetched, &PipeData::default())
}

/// Judges a file that a shell runs.
fn sourced(judge: &mut Judge<'_>, line: &[Arg], file: &Arg, input: &PipeData) {
    let downloaded = judge
        .downloaded
        .iter()
        .any(|one| one.trim_start_matches("./") == file.text.trim_start_matches("./"));
    match &file.content {
        _ if file.fetched || downloaded => judge.find(Class::PipeToShell, line, DOWNLOADED),
        Some(text) => drop(judge.text(text, false, &PipeData::default())),
        None if file.text == PIPED => judge.find(Class::Unparsed, line, UNSEEN),
        None if is_input(file) => {
            let input = PipeData { piped: true, ..input.clone() };
            standard_input(judge, line, &input);
        }
        None => {}
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

/// Judges an interpreter: its text is in another language, but may be known to be downloaded.
fn interpreter(judge: &mut Judge<'_>, line: &[Arg], args: &[Arg], input: &PipeData) -> PipeData {
    let inline = has(args, "cemrp", &["eval", "print", "exec", "module"]);
    let operands = operands(args);
    let inner = args.iter().find(|arg| arg.fetched && arg.text.starts_with(UNKNOWN));
    if inline && inner.is_some()
        || !inline
            && operands
                .first()
                .is_some_and(|arg| arg.fetched || judge.downloaded.contains(&arg.text))
        || !inline && input.fetched && operands.first().is_none_or(|arg| is_input(arg))
    {
        judge.find(Class::PipeToShell, line, DOWNLOADED);
    }
    PipeData { text: None, fetched: input.fetched, piped: false }
}

impl Judge<'_> {
    /// Sets `$0`, `$1` and so on, and `$@`; returns the previous values.
    fn positional(&mut self, args: &[Arg]) -> Vec<(String, Option<VariableValue>)> {
        let all = texts(&args.iter().skip(1).collect::<Vec<_>>()).join(" ");
        let fetched = args.iter().any(|arg| arg.fetched);
        let numbered = args.iter().enumerate().take(10).map(|(at, arg)| {
            (at.to_string(), VariableValue { text: arg.text.clone(), fetched: arg.fetched })
        });
        let joined =
            ["@", "*"].map(|name| (name.to_owned(), VariableValue { text: all.clone(), fetched }));
        let given: Vec<_> =
            if args.is_empty() { Vec::new() } else { numbered.chain(joined).collect() };
        let put = |(name, value): (String, VariableValue)| {
            let before = self.variables.insert(name.clone(), value);
            (name, before)
        };
        given.into_iter().map(put).collect()
    }
}

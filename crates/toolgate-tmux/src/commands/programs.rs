//! Judges one program with its arguments: the programs that it starts, its output, and the findings of the rules.

use std::rc::Rc;

use super::{
    Class,
    arg::{Arg, UNKNOWN, VariableValue},
    argv::{after_options, operands, value},
    judge::{Judge, PipeData},
    printf, rules, shell_programs,
};

/// Programs that run the program in their arguments: their options with values (short, long), and how many operands
/// come before it.
const WRAPPERS: &[(&str, &str, &[&str], usize)] = &[
    ("sudo", "ugCDhpRrtTU", &["user", "group", "chdir", "host", "prompt", "close-from"], 0),
    ("doas", "uC", &[], 0),
    ("pkexec", "", &["user"], 0),
    ("run0", "u", &["user", "unit"], 0),
    ("nohup", "", &[], 0),
    ("setsid", "", &[], 0),
    ("nice", "n", &["adjustment"], 0),
    ("ionice", "cnpPu", &[], 0),
    ("chrt", "TPD", &[], 1),
    ("taskset", "", &[], 1),
    ("timeout", "ks", &["kill-after", "signal"], 1),
    ("gtimeout", "ks", &[], 1),
    ("time", "fo", &[], 0),
    ("stdbuf", "ioe", &[], 0),
    ("unbuffer", "", &[], 0),
    ("strace", "eopsPuEaIObX", &[], 0),
    ("ltrace", "eopsu", &[], 0),
    ("builtin", "", &[], 0),
    ("exec", "a", &[], 0),
    ("noglob", "", &[], 0),
    ("busybox", "", &[], 0),
    ("toybox", "", &[], 0),
    ("caffeinate", "tw", &[], 0),
    ("chroot", "", &[], 1),
    ("unshare", "SGRw", &[], 0),
    ("nsenter", "tSGrw", &[], 0),
    ("systemd-run", "uptM", &["unit", "property", "slice", "description", "uid", "gid"], 0),
    ("systemd-inhibit", "", &[], 0),
    ("npx", "pc", &["package"], 0),
    ("bunx", "", &[], 0),
    ("uvx", "p", &["from", "with", "python"], 0),
    ("torsocks", "", &[], 0),
    ("proxychains", "f", &[], 0),
    ("entr", "", &[], 0),
];

impl Judge<'_> {
    pub(super) fn program(&mut self, line: &[Arg], input: &PipeData) -> PipeData {
        self.deeper(|judge| judge.run(line, input))
    }

    fn run(&mut self, line: &[Arg], input: &PipeData) -> PipeData {
        let Some((program, args)) = line.split_first() else { return PipeData::default() };
        if program.text.rsplit('/').next().is_some_and(|name| name.contains(UNKNOWN)) {
            if program.fetched || self.hidden {
                self.find(Class::PipeToShell, line, "it runs what was just downloaded");
            } else {
                let why = "its program is only known when it runs";
                if self.context.defining {
                    self.unknown(Class::Unparsed, line, why);
                } else {
                    self.find(Class::Unparsed, line, why);
                }
                // The program may be a shell.
                if let Some((arg, text)) = value(args, Some('c'), &[]) {
                    return self.text(&text, arg.fetched, input);
                }
            }
            return PipeData::default();
        }
        if self.downloaded.iter().any(|file| same_file(file, &program.text)) {
            self.find(Class::PipeToShell, line, "it runs a file that was just downloaded");
        }
        let name = program.text.rsplit('/').next().unwrap_or_default().to_owned();
        if let Some(body) = self.functions.get(&name).map(Rc::clone) {
            for (at, arg) in args.iter().enumerate().take(9) {
                let value = VariableValue { text: arg.text.clone(), fetched: arg.fetched };
                self.variables.insert((at + 1).to_string(), value);
            }
            let all = super::argv::texts(&args.iter().collect::<Vec<_>>()).join(" ");
            for name in ["@", "*"] {
                let value = VariableValue {
                    text: all.clone(),
                    fetched: args.iter().any(|arg| arg.fetched),
                };
                self.variables.insert(name.to_owned(), value);
            }
            return self.script(&body, input);
        }
        rules::check(self, &name, line, args, input);
        self.hook(&name, line, args);
        if let Some(output) = shell_programs::run(self, &name, line, args, input) {
            return output;
        }
        if let Some((_, short, long, before)) = WRAPPERS.iter().find(|wrapper| wrapper.0 == name) {
            let rest = assigned(after_options(args, short, long));
            return self.program(rest.get(*before..).unwrap_or_default(), input);
        }
        self.wrapper(&name, args, input).unwrap_or_else(|| self.prints(&name, args, input))
    }

    /// Programs that name the program that they run in a special way.
    fn wrapper(&mut self, name: &str, args: &[Arg], input: &PipeData) -> Option<PipeData> {
        match name {
            "env" => Some(self.env(args, input)),
            "command" if args.first().is_some_and(|arg| matches!(&*arg.text, "-v" | "-V")) => {
                let text = args.get(1).map(|arg| arg.text.clone());
                Some(PipeData { text, ..PipeData::default() })
            }
            "command" => Some(self.program(after_options(args, "", &[]), input)),
            "xargs" | "parallel" => Some(self.xargs(args, input)),
            "cd" | "pushd" => {
                let to = operands(args).first().copied().cloned();
                self.change_folder(to.as_ref());
                Some(PipeData { text: Some(String::new()), ..PipeData::default() })
            }
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                for arg in operands(args) {
                    if let Some((name, text)) = arg.text.split_once('=') {
                        let value = VariableValue { text: text.to_owned(), fetched: arg.fetched };
                        let name = name.trim_end_matches('+');
                        self.hook_variable(name, &value, false);
                        self.variables.insert(name.to_owned(), value);
                    }
                }
                Some(PipeData { text: Some(String::new()), ..PipeData::default() })
            }
            "read" | "mapfile" | "readarray" => {
                for arg in operands(args) {
                    let value = VariableValue { text: UNKNOWN.to_string(), fetched: input.fetched };
                    self.hook_variable(&arg.text, &value, false);
                    self.variables.insert(arg.text.clone(), value);
                }
                Some(PipeData::default())
            }
            "poetry" | "pipenv" | "pdm" | "uv" | "rye" | "hatch" if is(args, "run") => {
                Some(self.program(
                    after_options(args.get(1..)?, "", &["with", "python", "extra", "group"]),
                    input,
                ))
            }
            "bundle" | "mise" | "direnv" if is(args, "exec") => {
                let skip = if name == "direnv" { 2 } else { 1 };
                Some(self.program(after_options(args.get(skip..)?, "", &[]), input))
            }
            _ => None,
        }
    }

    /// `env -C folder -S 'words' NAME=value program …`
    fn env(&mut self, args: &[Arg], input: &PipeData) -> PipeData {
        let rest = after_options(args, "uCS", &["unset", "chdir", "split-string"]);
        let options = args.get(..args.len() - rest.len()).unwrap_or_default();
        let folder = self.folder.clone();
        if let Some((_, to)) = value(options, Some('C'), &["chdir"]) {
            self.change_folder(Some(&Arg { text: to, ..Arg::default() }));
        }
        let program = assigned(rest);
        for arg in rest.iter().take(rest.len() - program.len()) {
            let (name, text) = arg.text.split_once('=').unwrap_or_default();
            let value = VariableValue { text: text.to_owned(), fetched: arg.fetched };
            self.hook_variable(name, &value, true);
        }
        let output = match value(options, Some('S'), &["split-string"]) {
            // The words of `-S` come first, then the operands.
            Some((arg, text)) => {
                let operands = rest.iter().map(|arg| arg.text.replace('\'', r"'\''"));
                let text = operands.fold(text, |text, operand| format!("{text} '{operand}'"));
                self.text(&text, arg.fetched, input)
            }
            None if program.is_empty() => PipeData::default(),
            None => self.program(program, input),
        };
        self.folder = folder;
        output
    }

    /// `xargs`: its input becomes arguments, at the end or in place of a mark.
    fn xargs(&mut self, args: &[Arg], input: &PipeData) -> PipeData {
        let long = ["max-args", "max-procs", "delimiter", "arg-file", "jobs", "replace"];
        let rest = after_options(args, "ILnPsdEajSR", &long);
        let options = args.get(..args.len() - rest.len()).unwrap_or_default();
        let mark = value(options, Some('I'), &["replace"]).map(|(_, mark)| mark);
        let unknown =
            || vec![Arg { text: UNKNOWN.to_string(), fetched: input.fetched, ..Arg::default() }];
        let words = |text: &String| {
            text.split_whitespace()
                .map(|word| Arg { text: word.to_owned(), ..Arg::default() })
                .collect()
        };
        let read: Vec<Arg> = input.text.as_ref().map_or_else(unknown, words);
        if rest.is_empty() {
            return PipeData::default();
        }
        let bulk = std::mem::replace(&mut self.context.bulk, true);
        let Some(mark) = mark.filter(|mark| !mark.is_empty()) else {
            let output = self.program(&[rest, &read].concat(), &PipeData::default());
            self.context.bulk = bulk;
            return output;
        };
        for word in read.iter().take(16) {
            let put = |arg: &Arg| Arg {
                text: arg.text.replace(&mark, &word.text),
                fetched: arg.fetched || (word.fetched && arg.text.contains(&mark)),
                ..arg.clone()
            };
            let line: Vec<Arg> = rest.iter().map(put).collect();
            self.program(&line, &PipeData::default());
        }
        self.context.bulk = bulk;
        PipeData::default()
    }

    /// The output of a program, as far as its arguments determine it.
    fn prints(&mut self, name: &str, args: &[Arg], input: &PipeData) -> PipeData {
        let joined =
            |args: &[Arg]| args.iter().map(|arg| arg.text.as_str()).collect::<Vec<_>>().join(" ");
        let text = match name {
            "echo" => {
                let from = args
                    .iter()
                    .take_while(|arg| matches!(&*arg.text, "-n" | "-e" | "-E" | "-ne" | "-en"))
                    .count();
                let text = joined(args.get(from..).unwrap_or_default());
                let escapes = args.iter().take(from).any(|arg| arg.text.contains('e'));
                Some(if escapes { printf::unescaped(&text) } else { text } + "\n")
            }
            "printf" => Some(printf::formatted(args)),
            "pwd" => Some(".".to_owned()),
            "mktemp" => Some("/tmp/mktemp".to_owned()),
            _ if shell_programs::sets_up(name, args) => Some(String::new()),
            "true" | ":" | "sleep" | "set" | "shopt" | "umask" | "mkdir" | "touch" | "chmod" => {
                Some(String::new())
            }
            "which" | "type" | "basename" if args.iter().all(Arg::is_known) => {
                args.last().map(|arg| arg.text.clone())
            }
            "cat" | "tee" if operands(args).is_empty() || name == "tee" => input.text.clone(),
            _ => None,
        };
        let fetched = shell_programs::fetches(name, args)
            || input.fetched
            || args.iter().any(|arg| arg.fetched && name != "test");
        let copies = |arg: &&Arg| self.downloaded.iter().any(|file| same_file(file, &arg.text));
        match name {
            "tee" if input.fetched => {
                let files = operands(args).into_iter().map(|file| file.text.clone());
                self.downloaded.extend(files);
            }
            "cp" | "mv" | "ln" | "install" if operands(args).iter().any(copies) => {
                let to = operands(args).last().map(|file| file.text.clone());
                self.downloaded.extend(to);
            }
            _ => {}
        }
        if shell_programs::fetches(name, args) {
            let file = value(
                args,
                Some(if name == "wget" { 'O' } else { 'o' }),
                &["output", "output-document"],
            );
            self.downloaded.extend(file.map(|(_, file)| file).filter(|file| file != "-"));
            let keeps_name = name == "wget" || super::argv::has(args, "O", &["remote-name"]);
            let urls = operands(args);
            let last = urls.last().and_then(|url| url.text.rsplit('/').next());
            self.downloaded.extend(last.filter(|_| keeps_name).map(str::to_owned));
        }
        PipeData { text, fetched, piped: false }
    }
}

fn is(args: &[Arg], text: &str) -> bool {
    args.first().is_some_and(|arg| arg.text == text)
}

/// The arguments after assignments.
fn assigned(args: &[Arg]) -> &[Arg] {
    let is_assignment = |arg: &&Arg| {
        arg.text.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    args.get(args.iter().take_while(is_assignment).count()..).unwrap_or_default()
}

/// Whether two paths are the same file: `./x` is `x`.
fn same_file(one: &str, other: &str) -> bool {
    one.trim_start_matches("./") == other.trim_start_matches("./")
}

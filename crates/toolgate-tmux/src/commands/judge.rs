//! Walks through a script as a shell would run it, without running anything, and collects the findings.

use std::{collections::HashMap, path::PathBuf, rc::Rc};

use super::{
    Class, Finding, Judgement, ShellContext,
    arg::{Arg, HOME, UNKNOWN, VariableValue},
    shell::{
        self, HereDocument, Pipeline, Redirect, ShellCommand, ShellScript, SimpleCommand, Word,
    },
};

/// The maximum number of commands in a script, with those of loops and functions, beside one for each line.
const MAX_STEPS: usize = 2_000;
/// The maximum number of parts in which a text is read.
const MAX_PARTS: usize = 32;
/// The maximum number of words in a command.
const MAX_WORDS: usize = 1_000;
/// The maximum nesting of shells in shells and functions in functions.
const MAX_DEPTH: usize = 48;
/// The maximum number of values of a loop that are walked through.
const MAX_LOOP_VALUES: usize = 16;

/// Stands for the folder of a pane if it is not known.
pub(super) const UNKNOWN_FOLDER: &str = "/\u{e002}/\u{e002}/here";

/// The current folder of a script.
#[derive(Clone, Debug)]
pub(super) enum WorkingFolder {
    Known(PathBuf),
    /// After `cd "$X"`.
    Unknown,
}

impl WorkingFolder {
    pub(super) fn start(place: &ShellContext) -> Self {
        Self::Known(place.folder.clone().unwrap_or_else(|| UNKNOWN_FOLDER.into()))
    }
}

/// What a command reads or writes, as far as it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct PipeData {
    /// The text, if it is known.
    pub(super) text: Option<String>,
    /// Whether it was downloaded, or decoded from a text that hides it.
    pub(super) fetched: bool,
    /// Whether it comes from a pipe or a file, not from the terminal.
    pub(super) piped: bool,
}

/// How the current command would run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommandContext {
    /// Whether the script runs on another machine.
    pub(super) remote: bool,
    /// Whether the command runs for each of many files, by `xargs` or `find`.
    pub(super) bulk: bool,
    /// Whether this is the body of a function that is being defined: its arguments are not known yet.
    pub(super) defining: bool,
}

/// The state of the shell that would run the script, and the findings so far.
pub(super) struct Judge<'a> {
    pub(super) place: &'a ShellContext,
    pub(super) variables: HashMap<String, VariableValue>,
    pub(super) functions: HashMap<String, Rc<ShellScript>>,
    pub(super) folder: WorkingFolder,
    /// The files that the script has downloaded.
    pub(super) downloaded: Vec<String>,
    pub(super) context: CommandContext,
    /// Whether the unknown parts of this text were downloaded.
    pub(super) hidden: bool,
    pub(super) unclear: bool,
    /// Whether the text is too long or too deeply nested to be read to its end.
    pub(super) overlong: bool,
    pub(super) judgement: Judgement,
    docs: Rc<Vec<HereDocument>>,
    depth: usize,
    steps: usize,
    max_steps: usize,
}

impl<'a> Judge<'a> {
    pub(super) fn new(place: &'a ShellContext) -> Self {
        Self {
            place,
            variables: HashMap::new(),
            functions: HashMap::new(),
            folder: WorkingFolder::start(place),
            downloaded: Vec::new(),
            context: CommandContext::default(),
            hidden: false,
            unclear: false,
            overlong: false,
            judgement: Judgement::default(),
            docs: Rc::default(),
            depth: 0,
            steps: 0,
            max_steps: MAX_STEPS,
        }
    }

    /// Judges a whole text. A long one, such as a pasted file, is read in parts.
    pub(super) fn whole(&mut self, text: &str) {
        let was = std::mem::take(&mut self.unclear);
        let parts = parts(text);
        for part in &parts {
            // The limit grows with the lines, so that a long text with one command per line stays below it.
            self.max_steps = self.steps + MAX_STEPS + part.matches('\n').count();
            self.text(part, false, &PipeData::default());
        }
        // If a quote is open at the end of a part, the next part is read with quoted and unquoted text exchanged.
        self.overlong |= parts.len() > 1 && self.unclear || parts.len() > MAX_PARTS;
        self.unclear |= was;
    }

    /// Adds a finding about a command.
    pub(super) fn find(&mut self, class: Class, line: &[Arg], why: impl Into<String>) {
        let finding = Finding { class, words: shown(line), why: why.into() };
        if !self.judgement.findings.contains(&finding) {
            self.judgement.findings.push(finding);
        }
    }

    /// Notes what is only known when the command runs; with `strict`, adds it as a finding.
    pub(super) fn unknown(&mut self, class: Class, line: &[Arg], why: &str) {
        if self.place.strict {
            self.find(class, line, why);
        } else {
            let note = format!("{why}: {}", shown(line));
            if !self.judgement.notes.contains(&note) {
                self.judgement.notes.push(note);
            }
        }
    }

    /// Judges a text that a nested shell runs, as `sh -c` does.
    pub(super) fn text(&mut self, text: &str, fetched: bool, input: &PipeData) -> PipeData {
        let parsed = shell::parse(text);
        self.unclear |= parsed.unclear;
        self.overlong |= parsed.overlong;
        let docs = std::mem::replace(&mut self.docs, Rc::new(parsed.docs));
        let hidden = std::mem::replace(&mut self.hidden, fetched);
        let output = self.deeper(|judge| judge.script(&parsed.script, input));
        (self.docs, self.hidden) = (docs, hidden);
        output
    }

    pub(super) fn deeper(&mut self, go: impl FnOnce(&mut Self) -> PipeData) -> PipeData {
        if self.depth >= MAX_DEPTH {
            self.overlong = true;
            return PipeData::default();
        }
        self.depth += 1;
        let output = go(self);
        self.depth -= 1;
        output
    }

    /// `$( … )`
    pub(super) fn nested(&mut self, script: &ShellScript) -> PipeData {
        let folder = self.folder.clone();
        let output = self.deeper(|judge| judge.script(script, &PipeData::default()));
        self.folder = folder;
        output
    }

    /// `<( … )` or `>( … )`. What is written to the latter is not followed.
    pub(super) fn process(&mut self, script: &ShellScript, reads: bool) -> PipeData {
        let output = self.nested(script);
        if reads { output } else { PipeData::default() }
    }

    pub(super) fn script(&mut self, script: &ShellScript, input: &PipeData) -> PipeData {
        let mut all = PipeData { text: Some(String::new()), ..PipeData::default() };
        for pipeline in &script.0 {
            let output = self.pipeline(pipeline, input);
            all.fetched |= output.fetched;
            all.text = all.text.zip(output.text).map(|(all, text)| all + &text);
        }
        all
    }

    fn pipeline(&mut self, pipeline: &Pipeline, input: &PipeData) -> PipeData {
        let mut input = input.clone();
        for command in &pipeline.0 {
            input = self.deeper(|judge| judge.command(command, &input));
            input.piped = true;
        }
        input
    }

    fn command(&mut self, command: &ShellCommand, input: &PipeData) -> PipeData {
        self.steps += 1;
        if self.steps > self.max_steps {
            self.overlong = true;
            return PipeData::default();
        }
        match command {
            ShellCommand::Simple(simple) => self.simple(simple, input),
            ShellCommand::Group { body, redirects, subshell } => {
                let folder = self.folder.clone();
                let input = self.redirects(redirects, &[], input);
                let output = self.script(body, &input);
                if *subshell {
                    self.folder = folder;
                }
                output
            }
            ShellCommand::For { name, values, body } => {
                let values = self.args(values);
                let unknown = [Arg { text: UNKNOWN.to_string(), ..Arg::default() }];
                let values = if values.is_empty() || name.is_empty() { &unknown } else { &*values };
                for value in values.iter().take(MAX_LOOP_VALUES) {
                    // A wildcard stands for unknown names in a folder.
                    let text = if value.globs {
                        let here =
                            if value.text.starts_with(['/', HOME, UNKNOWN]) { "" } else { "./" };
                        here.to_owned() + &value.text.replace('*', &UNKNOWN.to_string())
                    } else {
                        value.text.clone()
                    };
                    self.variables
                        .insert(name.clone(), VariableValue { text, fetched: value.fetched });
                    self.script(body, input);
                }
                PipeData::default()
            }
            ShellCommand::Function { name, body } => {
                if multiplies(name, body) {
                    let line = [Arg { text: format!("{name}()"), ..Arg::default() }];
                    self.find(
                        Class::System,
                        &line,
                        "it starts itself again and again, without end",
                    );
                    return PipeData::default();
                }
                self.hook_function(name);
                let defining = std::mem::replace(&mut self.context.defining, true);
                self.script(body, &PipeData::default());
                self.context.defining = defining;
                self.functions.insert(name.clone(), Rc::new(body.clone()));
                PipeData::default()
            }
        }
    }

    fn simple(&mut self, simple: &SimpleCommand, input: &PipeData) -> PipeData {
        for (name, word) in &simple.assigned {
            let value = self.value(word);
            self.hook_variable(name, &value, !simple.words.is_empty());
            self.variables.insert(name.clone(), value);
        }
        let mut line = self.args(&simple.words);
        if line.len() > MAX_WORDS {
            self.overlong = true;
            line.truncate(MAX_WORDS);
        }
        let input = self.redirects(&simple.redirects, &line, input);
        if line.is_empty() {
            return PipeData { text: Some(String::new()), ..PipeData::default() };
        }
        let output = self.program(&line, &input);
        if output.fetched {
            for redirect in &simple.redirects {
                if let Redirect::Write(word) | Redirect::Append(word) = redirect {
                    let file = self.value(word).text;
                    self.downloaded.push(file);
                }
            }
        }
        output
    }

    /// Applies the redirects: returns the input, and judges the files that are written.
    fn redirects(&mut self, redirects: &[Redirect], line: &[Arg], input: &PipeData) -> PipeData {
        let mut input = input.clone();
        for redirect in redirects {
            match redirect {
                Redirect::Read(word) => {
                    let files = self.args(std::slice::from_ref(word));
                    let file = files.into_iter().next().unwrap_or_default();
                    let fetched = file.fetched || self.downloaded.contains(&file.text);
                    let piped = !matches!(&*file.text, "/dev/null" | "/dev/tty");
                    let text = file.content.map(|text| text.to_string());
                    input = PipeData { text, fetched, piped };
                }
                Redirect::Text(word) => {
                    let value = self.value(word);
                    let text = Some(value.text + "\n");
                    input = PipeData { text, fetched: value.fetched, piped: true };
                }
                Redirect::HereDocument(number) => {
                    let docs = Rc::clone(&self.docs);
                    let body = docs.get(*number).map(|doc| doc.body.clone()).unwrap_or_default();
                    let value = self.value(&body);
                    let text = Some(value.text);
                    input = PipeData { text, fetched: value.fetched, piped: true };
                }
                Redirect::Copied => {}
                Redirect::Write(word) => self.written(word, line, ">"),
                Redirect::Append(word) => self.written(word, line, ">>"),
            }
        }
        input
    }

    fn written(&mut self, word: &Word, line: &[Arg], sign: &str) {
        for file in self.args(std::slice::from_ref(word)) {
            let mut all = line.to_vec();
            all.push(Arg { text: sign.to_owned(), ..Arg::default() });
            all.push(file.clone());
            self.writes_to(&file, &all);
        }
    }
}

/// Splits a long text after line ends into parts that are short enough to be read.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while rest.len() > shell::MAX_TEXT_BYTES && parts.len() < MAX_PARTS {
        let ends = |at: &usize| {
            *at <= shell::MAX_TEXT_BYTES && !rest.get(..at - 1).is_some_and(|s| s.ends_with('\\'))
        };
        let cut = rest.match_indices('\n').map(|(at, _)| at + 1).rfind(ends);
        let Some((part, after)) = cut.and_then(|at| rest.split_at_checked(at)) else { break };
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

/// Whether a function starts itself twice, as a fork bomb does.
fn multiplies(name: &str, body: &ShellScript) -> bool {
    let calls = |command: &ShellCommand| matches!(command, ShellCommand::Simple(simple) if simple.words.first().and_then(Word::bare) == Some(name));
    body.0.iter().any(|pipeline| {
        pipeline.0.iter().filter(|command| calls(command)).count() > 1
            || pipeline.0.iter().any(|command| match command {
                ShellCommand::Group { body, .. } => multiplies(name, body),
                _ => false,
            })
    })
}

/// The command for a message: shortened, without secrets and control characters.
fn shown(line: &[Arg]) -> String {
    const MAX_SHOWN_CHARS: usize = 160;
    let words: Vec<String> =
        line.iter().map(|arg| arg.text.replace(UNKNOWN, "…").replace(HOME, "~")).collect();
    let words = words.join(" ");
    let words = toolgate::middleware::sanitize::without_secrets(&words);
    let mut short: String =
        words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_SHOWN_CHARS).collect();
    if words.chars().count() > MAX_SHOWN_CHARS {
        short.push('…');
    }
    short
}

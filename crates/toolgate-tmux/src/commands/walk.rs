//! Goes through a script as a shell would, without running anything.

use std::{collections::HashMap, rc::Rc};

use super::{
    Class, Finding, Judgement, Place,
    expand::{Arg, HOLE, HOME, Value},
    paths::Folder,
    shell::{self, Command, Doc, Pipeline, Redirect, Script, Simple, Word},
};

/// No script has more commands than this, loops and functions included.
const MOST_STEPS: usize = 2_000;
/// No text is read in more parts than this.
const MOST_PARTS: usize = 32;
/// No command has more words than this.
const MOST_WORDS: usize = 1_000;
/// Shells in shells, functions in functions.
const DEEPEST: usize = 48;
/// How many values of a loop are gone through.
const MOST_VALUES: usize = 16;

/// What a command reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Input {
    /// Its text, if that is known.
    pub(super) text: Option<String>,
    /// It was downloaded, or is hidden in another way.
    pub(super) fetched: bool,
    /// It comes from a pipe or a file, not from the terminal.
    pub(super) given: bool,
}

/// What a command writes.
pub(super) type Output = Input;

/// The state of the shell that there would be.
#[expect(clippy::struct_excessive_bools, reason = "each is a thing of its own that was seen")]
pub(super) struct Judge<'a> {
    pub(super) place: &'a Place,
    pub(super) variables: HashMap<String, Value>,
    pub(super) functions: HashMap<String, Rc<Script>>,
    pub(super) folder: Folder,
    /// Files that were downloaded before.
    pub(super) downloaded: Vec<String>,
    /// Whether it runs on another machine.
    pub(super) remote: bool,
    /// Whether what is unknown in this text was downloaded.
    pub(super) hidden: bool,
    /// Whether a program is run for each of many files: by `xargs` or `find`.
    pub(super) bulk: bool,
    /// Whether the body of a function is gone through, whose arguments are not known yet.
    pub(super) defining: bool,
    pub(super) unclear: bool,
    /// It was too long, too deep or too much to be gone through.
    pub(super) over: bool,
    pub(super) said: Judgement,
    docs: Rc<Vec<Doc>>,
    depth: usize,
    steps: usize,
    most_steps: usize,
}

impl<'a> Judge<'a> {
    pub(super) fn new(place: &'a Place) -> Self {
        Self {
            place,
            variables: HashMap::new(),
            functions: HashMap::new(),
            folder: Folder::start(place),
            downloaded: Vec::new(),
            remote: false,
            hidden: false,
            bulk: false,
            defining: false,
            unclear: false,
            over: false,
            said: Judgement::default(),
            docs: Rc::default(),
            depth: 0,
            steps: 0,
            most_steps: MOST_STEPS,
        }
    }

    /// Goes through a whole text. A long one is read in parts: what a file has of lines is no command to hide in.
    pub(super) fn whole(&mut self, text: &str) {
        let was = std::mem::take(&mut self.unclear);
        let parts = parts(text);
        for part in &parts {
            // A line is a step; loops share the rest.
            self.most_steps = self.steps + MOST_STEPS + part.matches('\n').count();
            self.text(part, false, &Input::default());
        }
        // A quote that is open at the end of a part turns the next one inside out.
        self.over |= parts.len() > 1 && self.unclear || parts.len() > MOST_PARTS;
        self.unclear |= was;
    }

    /// Notes what speaks against a command.
    pub(super) fn find(&mut self, class: Class, line: &[Arg], why: impl Into<String>) {
        let finding = Finding { class, words: shown(line), why: why.into() };
        if !self.said.findings.contains(&finding) {
            self.said.findings.push(finding);
        }
    }

    /// Notes what is only known when it runs; strictly, it counts as the worst.
    pub(super) fn unknown(&mut self, class: Class, line: &[Arg], why: &str) {
        if self.place.strict {
            self.find(class, line, why);
        } else {
            let note = format!("{why}: {}", shown(line));
            if !self.said.notes.contains(&note) {
                self.said.notes.push(note);
            }
        }
    }

    /// Goes through another text, as `sh -c` does.
    pub(super) fn text(&mut self, text: &str, fetched: bool, input: &Input) -> Output {
        let parsed = shell::parse(text);
        self.unclear |= parsed.unclear;
        self.over |= parsed.over;
        let docs = std::mem::replace(&mut self.docs, Rc::new(parsed.docs));
        let hidden = std::mem::replace(&mut self.hidden, fetched);
        let output = self.deeper(|judge| judge.script(&parsed.script, input));
        (self.docs, self.hidden) = (docs, hidden);
        output
    }

    pub(super) fn deeper(&mut self, go: impl FnOnce(&mut Self) -> Output) -> Output {
        if self.depth >= DEEPEST {
            self.over = true;
            return Output::default();
        }
        self.depth += 1;
        let output = go(self);
        self.depth -= 1;
        output
    }

    /// `$( … )`
    pub(super) fn nested(&mut self, script: &Script) -> Output {
        let folder = self.folder.clone();
        let output = self.deeper(|judge| judge.script(script, &Input::default()));
        self.folder = folder;
        output
    }

    /// `<( … )` or `>( … )`; who writes to the latter is not followed.
    pub(super) fn process(&mut self, script: &Script, reads: bool) -> Output {
        let output = self.nested(script);
        if reads { output } else { Output::default() }
    }

    pub(super) fn script(&mut self, script: &Script, input: &Input) -> Output {
        let mut all = Output { text: Some(String::new()), ..Output::default() };
        for pipeline in &script.0 {
            let output = self.pipeline(pipeline, input);
            all.fetched |= output.fetched;
            all.text = all.text.zip(output.text).map(|(all, text)| all + &text);
        }
        all
    }

    fn pipeline(&mut self, pipeline: &Pipeline, input: &Input) -> Output {
        let mut input = input.clone();
        for command in &pipeline.0 {
            input = self.deeper(|judge| judge.command(command, &input));
            input.given = true;
        }
        input
    }

    fn command(&mut self, command: &Command, input: &Input) -> Output {
        self.steps += 1;
        if self.steps > self.most_steps {
            self.over = true;
            return Output::default();
        }
        match command {
            Command::Simple(simple) => self.simple(simple, input),
            Command::Group { body, redirects, subshell } => {
                let folder = self.folder.clone();
                let input = self.redirects(redirects, &[], input);
                let output = self.script(body, &input);
                if *subshell {
                    self.folder = folder;
                }
                output
            }
            Command::For { name, values, body } => {
                let values = self.args(values);
                let unknown = [Arg { text: HOLE.to_string(), ..Arg::default() }];
                let values = if values.is_empty() || name.is_empty() { &unknown } else { &*values };
                for value in values.iter().take(MOST_VALUES) {
                    // A wildcard stands for names in a folder.
                    let text = if value.globs {
                        let here =
                            if value.text.starts_with(['/', HOME, HOLE]) { "" } else { "./" };
                        here.to_owned() + &value.text.replace('*', &HOLE.to_string())
                    } else {
                        value.text.clone()
                    };
                    self.variables.insert(name.clone(), Value { text, fetched: value.fetched });
                    self.script(body, input);
                }
                Output::default()
            }
            Command::Function { name, body } => {
                if multiplies(name, body) {
                    let line = [Arg { text: format!("{name}()"), ..Arg::default() }];
                    self.find(
                        Class::System,
                        &line,
                        "it starts itself again and again, without end",
                    );
                    return Output::default();
                }
                self.hook_function(name);
                let defining = std::mem::replace(&mut self.defining, true);
                self.script(body, &Input::default());
                self.defining = defining;
                self.functions.insert(name.clone(), Rc::new(body.clone()));
                Output::default()
            }
        }
    }

    fn simple(&mut self, simple: &Simple, input: &Input) -> Output {
        for (name, word) in &simple.assigned {
            let value = self.value(word);
            self.hook_variable(name, &value, !simple.words.is_empty());
            self.variables.insert(name.clone(), value);
        }
        let mut line = self.args(&simple.words);
        if line.len() > MOST_WORDS {
            self.over = true;
            line.truncate(MOST_WORDS);
        }
        let input = self.redirects(&simple.redirects, &line, input);
        if line.is_empty() {
            return Output { text: Some(String::new()), ..Output::default() };
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

    /// What is read from where, and what is written over.
    fn redirects(&mut self, redirects: &[Redirect], line: &[Arg], input: &Input) -> Input {
        let mut input = input.clone();
        for redirect in redirects {
            match redirect {
                Redirect::Read(word) => {
                    let files = self.args(std::slice::from_ref(word));
                    let file = files.into_iter().next().unwrap_or_default();
                    let fetched = file.fetched || self.downloaded.contains(&file.text);
                    let given = !matches!(&*file.text, "/dev/null" | "/dev/tty");
                    let text = file.content.map(|text| text.to_string());
                    input = Input { text, fetched, given };
                }
                Redirect::Text(word) => {
                    let value = self.value(word);
                    let text = Some(value.text + "\n");
                    input = Input { text, fetched: value.fetched, given: true };
                }
                Redirect::Doc(number) => {
                    let docs = Rc::clone(&self.docs);
                    let body = docs.get(*number).map(|doc| doc.body.clone()).unwrap_or_default();
                    let value = self.value(&body);
                    let text = Some(value.text);
                    input = Input { text, fetched: value.fetched, given: true };
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

/// A text in parts that are not too long to be read, if its lines are not: each ends with one.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while rest.len() > shell::LONGEST && parts.len() < MOST_PARTS {
        let ends = |at: &usize| {
            *at <= shell::LONGEST && !rest.get(..at - 1).is_some_and(|s| s.ends_with('\\'))
        };
        let cut = rest.match_indices('\n').map(|(at, _)| at + 1).rfind(ends);
        let Some((part, after)) = cut.and_then(|at| rest.split_at_checked(at)) else { break };
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

/// Whether a function starts itself twice at once.
fn multiplies(name: &str, body: &Script) -> bool {
    let calls = |command: &Command| matches!(command, Command::Simple(simple) if simple.words.first().and_then(Word::bare) == Some(name));
    body.0.iter().any(|pipeline| {
        pipeline.0.iter().filter(|command| calls(command)).count() > 1
            || pipeline.0.iter().any(|command| match command {
                Command::Group { body, .. } => multiplies(name, body),
                _ => false,
            })
    })
}

/// Words for people: short, and nothing in them is secret or deceives.
fn shown(line: &[Arg]) -> String {
    const LONGEST: usize = 160;
    let words: Vec<String> =
        line.iter().map(|arg| arg.text.replace(HOLE, "…").replace(HOME, "~")).collect();
    let words = words.join(" ");
    let words = toolgate::middleware::sanitize::without_secrets(&words);
    let mut short: String =
        words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    if words.chars().count() > LONGEST {
        short.push('…');
    }
    short
}

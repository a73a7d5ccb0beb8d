//! Puts values in the place of the variables of an entry, in the notation of its client.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    ClientFile, Input, InputKind, dotenv,
    entry::{ServerEntry, ServerForm, scalar},
    inputs,
    known::names_inside_project,
};
use crate::document::{Node, NodeMember, NodeValue, Problem};

/// A text in which variables were replaced, with the environment variables that it names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ResolvedText {
    /// The text. It may be a secret.
    pub value: String,
    /// The variables, one item for each occurrence.
    pub variables: Vec<String>,
}

impl std::fmt::Debug for ResolvedText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResolvedText(…)")
    }
}

/// An entry, ready to start.
#[derive(Clone, Debug, Default)]
pub struct ResolvedServer {
    /// The program.
    pub command: Option<ResolvedText>,
    /// Its arguments.
    pub args: Vec<ResolvedText>,
    /// Its environment.
    pub env: Vec<(String, ResolvedText)>,
    /// Further variables of toolgate's environment that it gets.
    pub passed: Option<Vec<String>>,
    /// The folder in which it starts.
    pub cwd: Option<PathBuf>,
    /// The URL.
    pub url: Option<ResolvedText>,
    /// The HTTP headers.
    pub headers: Vec<(String, ResolvedText)>,
    /// Whether the URL speaks HTTP+SSE only.
    pub is_sse: bool,
    /// How long the server may take to start.
    pub start_timeout: Option<Duration>,
}

/// Which variables a text may name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VariableNotation {
    /// `${NAME}` and its kin.
    Dollar,
    /// `{env:NAME}`.
    Braces,
    /// None: the text is taken as it is.
    Plain,
}

/// Resolves an entry, or returns everything that is wrong with it. `folder` is the folder in which toolgate runs.
pub fn resolve(
    file: &ClientFile,
    entry: &ServerEntry,
    folder: &Path,
) -> Result<ResolvedServer, Vec<Problem>> {
    let variables = match entry.section.first().map(String::as_str) {
        Some("mcp") if entry.section.len() == 1 => VariableNotation::Braces,
        Some("context_servers" | "mcp_servers" | "extensions") => VariableNotation::Plain,
        _ => VariableNotation::Dollar,
    };
    let home = std::env::home_dir();
    let project = entry.project.as_ref().map(PathBuf::from);
    let workspace = project.unwrap_or_else(|| workspace(&file.path, folder, home.as_deref()));
    let mut resolving =
        Resolving { file, variables, workspace, home, problems: entry.problems.clone() };
    let resolved = resolving.server(entry);
    if resolving.problems.is_empty() { Ok(resolved) } else { Err(resolving.problems) }
}

/// The folder of the project that a file belongs to. A file of the user belongs to the project in which toolgate runs.
fn workspace(file: &Path, folder: &Path, home: Option<&Path>) -> PathBuf {
    let path = folder.join(file);
    let project = path.ancestors().nth(names_inside_project(&path).max(1)).unwrap_or(folder);
    let is_hidden =
        |part: std::path::Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    let below_home = home.and_then(|home| project.strip_prefix(home).ok());
    let is_of_user = below_home
        .is_some_and(|rest| rest.as_os_str().is_empty() || rest.components().any(is_hidden));
    if is_of_user { folder.to_owned() } else { project.to_owned() }
}

struct Resolving<'a> {
    file: &'a ClientFile,
    variables: VariableNotation,
    workspace: PathBuf,
    home: Option<PathBuf>,
    problems: Vec<Problem>,
}

impl Resolving<'_> {
    fn server(&mut self, entry: &ServerEntry) -> ResolvedServer {
        let mut server = ResolvedServer::default();
        let holder = &entry.holder;
        if entry.form == ServerForm::BuiltIn {
            self.fault(
                &entry.name_span,
                "the client runs this server itself: toolgate cannot start it",
            );
            return server;
        }
        if let Some(command) = entry.command() {
            let mut words = command.node.items().iter();
            let program =
                if command.node.as_str().is_some() { Some(&command.node) } else { words.next() };
            server.command = program.map(|node| self.text(node, false));
            server.args = words.map(|node| self.text(node, false)).collect();
            if let (Some(program), Some(node)) = (&server.command, program) {
                self.check_program(&program.value.clone(), &node.span);
            }
        }
        let arguments = entry.arguments().map(|member| member.node.items()).unwrap_or_default();
        server.args.extend(arguments.iter().map(|node| self.text(node, false)));
        server.cwd = entry.folder().map(|member| self.folder(&member.node));
        if let Some(member) = entry.node.member("envFile") {
            server.env = self.env_file(member);
        }
        for (name, text) in self.table(entry.environment(), true) {
            server.env.retain(|(other, _)| *other != name);
            server.env.push((name, text));
        }
        for key in ["env_vars", "env_keys"] {
            let names = entry.node.get(key).map(Node::items).unwrap_or_default();
            let names = names
                .iter()
                .filter_map(|node| node.as_str().or_else(|| node.get("name")?.as_str()));
            let names: Vec<String> = names.map(str::to_owned).collect();
            if !names.is_empty() {
                server.passed.get_or_insert_default().extend(names);
            }
        }
        server.url = entry.url().map(|member| self.text(&member.node, false));
        if let (Some(url), Some(member)) = (&server.url, entry.url()) {
            self.check_url(&url.value.clone(), &member.node.span);
        }
        server.headers = self.table(entry.headers(), false);
        server.headers.extend(self.headers_from_variables(holder));
        server.is_sse = entry.kind() == Some("sse");
        server.start_timeout = start_timeout(holder);
        server
    }

    fn fault(&mut self, at: &Range<usize>, what: impl Into<String>) {
        self.problems.push(self.file.document.problem(at.clone(), what));
    }

    fn check_program(&mut self, program: &str, at: &Range<usize>) {
        if program.is_empty() {
            self.fault(at, "the command is empty: write the program to start");
        } else if program.contains(char::is_whitespace) && !self.workspace.join(program).exists() {
            self.fault(at, "the command contains spaces and is no file: put the arguments into `args`, one item each");
        }
    }

    fn check_url(&mut self, url: &str, at: &Range<usize>) {
        if url.starts_with("unix:") || url.starts_with("pipe:") {
            self.fault(
                at,
                "toolgate reaches no server over a Unix socket: use `http://` or `https://`",
            );
        } else if !(url.starts_with("http://") || url.starts_with("https://")) {
            self.fault(at, "the URL has no scheme: write `http://` or `https://` before it");
        }
    }

    /// The folder of `cwd`. It must exist: the system's error would blame the program.
    fn folder(&mut self, node: &Node) -> PathBuf {
        let text = self.text(node, false);
        let path = match (text.value.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.workspace.join(&text.value),
        };
        if !path.is_dir() {
            self.fault(
                &node.span,
                format!(
                    "the folder `{}` does not exist: create it, or correct `cwd`",
                    path.display()
                ),
            );
        }
        path
    }

    fn env_file(&mut self, member: &NodeMember) -> Vec<(String, ResolvedText)> {
        let written = self.text(&member.node, false).value;
        let path = self.workspace.join(written);
        let shown = path.display().to_string();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                self.fault(&member.node.span, format!("cannot read the `envFile` `{shown}`: {error}; correct the path, or remove the key"));
                return Vec::new();
            }
        };
        match dotenv::parse(&text) {
            Ok(pairs) => {
                let plain = |value| ResolvedText { value, variables: Vec::new() };
                pairs.into_iter().map(|(name, value)| (name, plain(value))).collect()
            }
            Err(line) => {
                self.fault(
                    &member.node.span,
                    format!("line {line} of the `envFile` `{shown}` is not NAME=VALUE: correct it"),
                );
                Vec::new()
            }
        }
    }

    /// Names and values. A value `null` is left out.
    fn table(
        &mut self,
        member: Option<&NodeMember>,
        is_environment: bool,
    ) -> Vec<(String, ResolvedText)> {
        let members = member.map(|member| member.node.members()).unwrap_or_default();
        let set = members.iter().filter(|member| !matches!(member.node.value, NodeValue::Null));
        set.map(|member| (member.key.clone(), self.text(&member.node, is_environment))).collect()
    }

    /// `bearer_token_env_var` and `env_http_headers`: headers whose values are in variables.
    fn headers_from_variables(&mut self, holder: &Node) -> Vec<(String, ResolvedText)> {
        let token = holder
            .get("bearer_token_env_var")
            .map(|node| ("Authorization".to_owned(), node, "Bearer "));
        let others = holder.get("env_http_headers").map(Node::members).unwrap_or_default();
        let others = others.iter().map(|member| (member.key.clone(), &member.node, ""));
        let named: Vec<_> = token.into_iter().chain(others).collect();
        let mut headers = Vec::new();
        for (header, node, start) in named {
            let Some(name) = node.as_str() else { continue };
            match std::env::var(name) {
                Ok(value) => headers.push((
                    header,
                    ResolvedText {
                        value: format!("{start}{value}"),
                        variables: vec![name.to_owned()],
                    },
                )),
                Err(_) => self.fault(&node.span, unset(name)),
            }
        }
        headers
    }

    fn text(&mut self, node: &Node, is_environment: bool) -> ResolvedText {
        let text = scalar(node).unwrap_or_default();
        let mut resolved = ResolvedText::default();
        let done = match self.variables {
            VariableNotation::Plain => {
                resolved.value = text;
                Ok(())
            }
            VariableNotation::Braces => self.braces(&text, &mut resolved),
            VariableNotation::Dollar => self.dollars(&text, is_environment, &mut resolved),
        };
        if let Err(what) = done {
            self.fault(&node.span, what);
        }
        resolved
    }

    /// `{env:NAME}` and `{file:PATH}`. A variable that is not set is empty, as in opencode: that is an error here.
    fn braces(&self, text: &str, out: &mut ResolvedText) -> Result<(), String> {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            out.value.push_str(before);
            let inside = after.split_once('}');
            if let Some((name, behind)) =
                inside.and_then(|(i, behind)| Some((i.strip_prefix("env:")?, behind)))
            {
                let value = variable(name, out)?;
                out.value.push_str(&value);
                rest = behind;
            } else if let Some((path, behind)) =
                inside.and_then(|(i, behind)| Some((i.strip_prefix("file:")?, behind)))
            {
                let path = match (path.strip_prefix("~/"), &self.home) {
                    (Some(path), Some(home)) => home.join(path),
                    _ => self.file.path.parent().unwrap_or(Path::new("")).join(path),
                };
                let content = std::fs::read_to_string(&path).map_err(|error| {
                    format!("cannot read the file `{}`: {error}", path.display())
                })?;
                out.value.push_str(content.trim());
                rest = behind;
            } else {
                out.value.push('{');
                rest = after;
            }
        }
        out.value.push_str(rest);
        Ok(())
    }

    /// `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${input:ID}`, `${workspaceFolder}` and `${{ secrets.NAME }}`; in the
    /// environment also `$NAME`.
    fn dollars(
        &self,
        text: &str,
        is_environment: bool,
        out: &mut ResolvedText,
    ) -> Result<(), String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let may_be_bare = is_environment
            && (self.file.client.is_some_and(|client| client.has_dollar_variables)
                || text
                    .strip_prefix('$')
                    .is_some_and(|name| !name.is_empty() && name.chars().all(is_name)));
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out.value.push_str(before);
            if let Some(inside) = after.strip_prefix("{{") {
                let (inside, behind) = inside
                    .split_once("}}")
                    .ok_or("a `${{` has no `}}`: write `${{ secrets.NAME }}`")?;
                let name = inside.trim().trim_start_matches("secrets.");
                let value = variable(name, out)?;
                out.value.push_str(&value);
                rest = behind;
            } else if let Some(inside) = after.strip_prefix('{') {
                let (inside, behind) =
                    inside.split_once('}').ok_or("a `${` has no `}`: write `${NAME}`")?;
                let value = self.named(inside, out)?;
                out.value.push_str(&value);
                rest = behind;
            } else if may_be_bare
                && after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            {
                let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
                let (name, behind) = after.split_at(end);
                let value = variable(name, out)?;
                out.value.push_str(&value);
                rest = behind;
            } else {
                out.value.push('$');
                rest = after;
            }
        }
        out.value.push_str(rest);
        Ok(())
    }

    /// The value of what stands between `${` and `}`.
    fn named(&self, inside: &str, out: &mut ResolvedText) -> Result<String, String> {
        let base = || self.workspace.file_name().map(|name| name.to_string_lossy().into_owned());
        match inside {
            "workspaceFolder" | "workspaceRoot" | "cwd" => {
                return Ok(self.workspace.display().to_string());
            }
            "workspaceFolderBasename" => return Ok(base().unwrap_or_default()),
            "pathSeparator" | "/" => return Ok(std::path::MAIN_SEPARATOR.to_string()),
            "userHome" => {
                let home = self.home.as_ref().map(|home| home.display().to_string());
                return home.ok_or_else(|| unset("HOME"));
            }
            _ => {}
        }
        if inside.starts_with("workspaceFolder:") {
            return Ok(self.workspace.display().to_string());
        }
        if let Some(id) = inside.strip_prefix("input:") {
            return self.input(id, out);
        }
        for editor in ["command:", "config:", "extensionInstallFolder:"] {
            if inside.starts_with(editor) {
                return Err(format!(
                    "only the editor knows `${{{inside}}}`: write the value, or a variable `${{NAME}}`"
                ));
            }
        }
        let inside = inside.strip_prefix("env:").unwrap_or(inside);
        match inside.split_once(":-") {
            Some((name, default)) => {
                check_name(name)?;
                out.variables.push(name.to_owned());
                Ok(std::env::var(name)
                    .ok()
                    .filter(|value| !value.is_empty())
                    .unwrap_or_else(|| default.to_owned()))
            }
            None => variable(inside, out),
        }
    }

    /// An input: from its variable, from a person at the terminal, else an error.
    fn input(&self, id: &str, out: &mut ResolvedText) -> Result<String, String> {
        let name = inputs::variable(id);
        if let Ok(value) = std::env::var(&name) {
            out.variables.push(name);
            return Ok(value);
        }
        if let Some(value) = inputs::answered(id) {
            return Ok(value);
        }
        let declared = self.file.inputs.iter().find(|input| input.id == id);
        match declared.map(|input| &input.kind) {
            None => Err(format!(
                "`inputs` declares no `{id}`: declare it, or set the variable `{name}`"
            )),
            Some(InputKind::EditorCommand) => Err(format!(
                "the input `{id}` runs a command of the editor: set the variable `{name}`"
            )),
            Some(_) => Err(format!(
                "the input `{id}` has no value: set the variable `{name}`, or start toolgate in a terminal to be asked"
            )),
        }
    }
}

fn start_timeout(holder: &Node) -> Option<Duration> {
    let number = |key: &str| match &holder.get(key)?.value {
        NodeValue::Number(text) => text.parse::<f64>().ok(),
        _ => None,
    };
    let seconds =
        number("startup_timeout_sec").or_else(|| Some(number("startup_timeout_ms")? / 1000.0));
    Duration::try_from_secs_f64(seconds?).ok().filter(|time| !time.is_zero())
}

fn unset(name: &str) -> String {
    format!("the environment variable `{name}` is not set: set it before toolgate starts")
}

fn check_name(name: &str) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!(
            "`{name}` names no variable: write `${{NAME}}` or `${{NAME:-default}}`"
        ));
    }
    Ok(())
}

fn variable(name: &str, out: &mut ResolvedText) -> Result<String, String> {
    check_name(name)?;
    out.variables.push(name.to_owned());
    std::env::var(name).map_err(|_| unset(name))
}

impl ClientFile {
    /// The inputs that its entries name and that have no value yet: a person at the terminal can be asked for them.
    #[must_use]
    pub fn missing_inputs(&self) -> Vec<&Input> {
        let has_value = |input: &Input| {
            std::env::var_os(input.variable()).is_some() || inputs::answered(&input.id).is_some()
        };
        let used = |input: &Input| {
            let name = format!("${{input:{}}}", input.id);
            let on = self.servers.iter().filter(|entry| !entry.is_off);
            on.into_iter().any(|entry| mentions(&entry.node, &name))
        };
        let can_ask = |input: &&Input| {
            input.kind != InputKind::EditorCommand && !has_value(input) && used(input)
        };
        self.inputs.iter().filter(can_ask).collect()
    }
}

fn mentions(node: &Node, text: &str) -> bool {
    node.as_str().is_some_and(|value| value.contains(text))
        || node.items().iter().any(|item| mentions(item, text))
        || node.members().iter().any(|member| mentions(&member.node, text))
}

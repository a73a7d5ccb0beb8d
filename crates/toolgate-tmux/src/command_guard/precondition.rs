//! The precondition that judges what a call would type.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use toolgate::{
    Boxed, Call, Code, Context, Failure,
    middleware::preconditions::{NAME, Precondition, Verdict},
};
use toolgate_wire::Json;

use crate::{
    buffers,
    call::ServerState,
    commands::{
        Class, CommandsConfig, Finding, Judgement, PendingInput, ShellContext, judge,
        keys::{self, rest},
        pending_input::{Lines, Pane},
        reader::{self, Reader},
    },
    engine::{Command, ListTarget, Server, Socket, text},
    target::{self, PaneTarget},
};

/// The id of the precondition, and the prefix of the rules that refusals name.
pub const ID: &str = "command-guard";

/// The tools with arguments that a shell may run.
pub const TOOLS: [&str; 7] = [
    "paste_buffer",
    "paste_text",
    "respawn_pane",
    "run_command",
    "send_keys",
    "send_keys_batch",
    "split_window",
];

/// The maximum length of a line that is not entered.
const MAX_LINE_BYTES: usize = 256 * 1024;

/// Judges what tools would type.
#[derive(Debug)]
pub struct CommandGuard {
    config: CommandsConfig,
    home: Option<PathBuf>,
    shared: Option<Arc<ServerState>>,
}

/// A text that a call would type into a pane.
pub(crate) struct TypedText {
    pub(crate) text: String,
    lands: LineState,
    /// The arguments that name the pane.
    target: Value,
}

/// The line that a text is typed into.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LineState {
    /// The pane's line, after the text that is on it.
    Appended,
    /// The pane's line after it was emptied.
    Emptied,
    /// The line of a new shell.
    OwnShell,
}

impl CommandGuard {
    pub(crate) fn new(config: CommandsConfig, shared: Option<Arc<ServerState>>) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let roots = config.roots.iter().flat_map(|root| real(root, home.as_deref())).collect();
        Self { config: CommandsConfig { roots, ..config }, home, shared }
    }

    /// The texts that a call would type, also from a paste buffer.
    async fn texts(&self, tool: &str, arguments: &Value) -> Vec<TypedText> {
        if tool != "paste_buffer" {
            return typed(tool, arguments);
        }
        let name = string(arguments, "buffer_name").filter(|name| buffers::is_ours(name));
        let (Some(name), Some(server)) = (name, self.server(arguments)) else {
            return Vec::new();
        };
        let show = Command::new("show-buffer").option("-b", name);
        // If the buffer does not exist, the tool itself refuses the call.
        let Ok(bytes) = server.exchange(show, &[]).await else { return Vec::new() };
        vec![TypedText { text: text(bytes), lands: LineState::Appended, target: arguments.clone() }]
    }

    /// The findings for the texts of a call, and the pane's lines after the call.
    async fn look(
        &self,
        typed: Vec<TypedText>,
        lines: &Lines,
    ) -> Result<(Vec<Finding>, Vec<(Pane, String)>), Failure> {
        let (mut findings, mut after) = (Vec::new(), Vec::<(Pane, String)>::new());
        for mut typed in typed {
            let open = !rest(&typed.text).is_empty() && typed.lands == LineState::Appended;
            let pane = match typed.lands {
                LineState::OwnShell => None,
                _ if open || !lines.is_empty() => self.pane(&typed.target).await,
                _ => None,
            };
            if let Some(pane) = pane {
                if typed.lands == LineState::Appended {
                    let before = after.iter().rfind(|(other, _)| *other == pane);
                    let before = before.map_or_else(|| lines.before(&pane), |(_, line)| line);
                    if !keys::begins_anew(&typed.text, before) {
                        typed.text.insert_str(0, before);
                    }
                }
                let behind = typed.lands == LineState::Appended;
                let line = if behind { rest(&typed.text) } else { String::new() };
                after.push((pane, line));
            }
            if typed.text.len() > MAX_LINE_BYTES && typed.lands == LineState::Appended && open {
                let message = "More was typed without Enter than can be judged as one command.";
                return Err(
                    Failure::new(Code::Refused, message).suggest("Press Enter or C-c first.")
                );
            }
            let found = self.judge(&typed).await.findings;
            let reader = self.reader(&typed, &found).await;
            if reader == Reader::Screen
                && let Some((_, line)) = after.last_mut()
            {
                // The program's keys are not on a shell's line.
                line.clear();
            }
            let edited = keys::of_entered(&typed.text).edited;
            findings.extend(found.into_iter().filter(|one| reader.reports(one.class, edited)));
        }
        Ok((findings, after))
    }

    /// The context in which a text would run, without the pane's folder.
    fn place(&self, typed: &TypedText) -> ShellContext {
        ShellContext {
            folder: None,
            roots: self.config.roots.clone(),
            home: self.home.clone(),
            strict: self.config.strict,
            interactive: typed.lands == LineState::Appended,
        }
    }

    async fn judge(&self, typed: &TypedText) -> Judgement {
        let mut place = self.place(typed);
        let first = judge(&typed.text, &place);
        if !first.needs_folder {
            return first;
        }
        // tmux is asked for the folder only if a finding depends on it.
        place.folder = self.folder(&typed.target).await;
        if place.folder.is_some() { judge(&typed.text, &place) } else { first }
    }

    /// The kind of program that reads the text. tmux is asked only if a finding depends on it.
    async fn reader(&self, typed: &TypedText, found: &[Finding]) -> Reader {
        let unclear = |found: &Finding| matches!(found.class, Class::Unparsed | Class::History);
        if typed.lands != LineState::Appended
            || !(found.iter().any(unclear) || typed.text.contains(keys::is_editing_key))
        {
            return Reader::Shell;
        }
        let Some(server) = self.server(&typed.target) else { return Reader::Shell };
        let Some((_, pane)) = self.pane(&typed.target).await else { return Reader::Shell };
        let rows = server
            .list(ListTarget::Pane(&pane), &["pane_current_command", "alternate_on"])
            .await
            .unwrap_or_default();
        let row = rows.first();
        row.map_or(Reader::Shell, |row| {
            reader::reader(&row.text("pane_current_command"), row.is_set("alternate_on"))
        })
    }

    fn server(&self, target: &Value) -> Option<Arc<Server>> {
        let shared = self.shared.as_ref()?;
        let socket = match target.get("socket_name").and_then(Value::as_str) {
            Some(name) => Socket::Name(name.to_owned()),
            None => shared.options.socket.clone(),
        };
        Some(shared.engine.server(socket))
    }

    /// The pane that the arguments name.
    async fn pane(&self, target: &Value) -> Option<Pane> {
        let text = |name: &str| target.get(name).and_then(Value::as_str);
        let server = self.server(target)?;
        let named = PaneTarget {
            pane_id: text("pane_id"),
            window_id: text("window_id"),
            session_id: text("session_id"),
            session_name: text("session_name"),
        };
        let pane = target::pane(&server, named).await.ok()?;
        Some((server.socket().clone(), pane))
    }

    /// The folder of the pane's program, or the folder in which a new program starts.
    async fn folder(&self, target: &Value) -> Option<PathBuf> {
        let text = |name: &str| target.get(name).and_then(Value::as_str);
        if let Some(folder) = text("start_directory") {
            return target::directory(folder).ok().map(PathBuf::from);
        }
        let server = self.server(target)?;
        let (_, pane) = self.pane(target).await?;
        let rows =
            server.list(ListTarget::Pane(&pane), &["pane_id", "pane_current_path"]).await.ok()?;
        let row = rows.into_iter().next()?;
        row.get("pane_current_path").filter(|path| path.starts_with('/')).map(PathBuf::from)
    }

    /// The verdict: the strictest setting for the kinds of the findings.
    fn verdict(&self, findings: &[Finding]) -> Verdict {
        if let Some(worst) = findings.iter().find(|found| self.config.deny.contains(&found.class)) {
            let message = format!("The command was not typed: {}", described(worst));
            let failure = Failure::new(Code::Refused, message)
                .suggest("Find a way that does less, or ask the user to do it. Only the operator can allow it.");
            return Verdict::Deny(failure.by(NAME, rule(worst.class)));
        }
        let asked = findings.iter().filter(|found| self.config.ask.contains(&found.class));
        let asked: Vec<String> = asked
            .take(5)
            .map(|found| format!("{}: {}.", rule(found.class), described(found)))
            .collect();
        if asked.is_empty() { Verdict::Allow } else { Verdict::ask(asked.join(" ")) }
    }
}

/// A root as written, with `~` expanded, and with its symbolic links resolved: tmux reports folders without links.
fn real(root: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let full = match (root.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => root.to_owned(),
    };
    let real = full.canonicalize().ok().filter(|real| *real != full);
    [Some(full), real].into_iter().flatten().collect()
}

/// The reason of a finding, with the words that it is about.
fn described(found: &Finding) -> String {
    match &*found.words {
        "" => found.why.clone(),
        words => format!("{}: `{words}`", found.why),
    }
}

fn rule(class: Class) -> String {
    format!("{ID}/{class}")
}

impl Precondition for CommandGuard {
    fn id(&self) -> &'static str {
        ID
    }

    fn check<'a>(&'a self, cx: &'a Context, call: &'a Call) -> Boxed<'a, Verdict> {
        Box::pin(async move {
            let arguments = match readable(call) {
                Ok(arguments) => arguments,
                Err(failure) => return Verdict::Deny(failure),
            };
            let typed = self.texts(call.id().name(), &arguments).await;
            let nothing = PendingInput::default();
            let pending = self.shared.as_ref().map_or(&nothing, |shared| &shared.pending);
            let mut lines = pending.lines().await;
            let (findings, after) = match self.look(typed, &lines).await {
                Ok(output) => output,
                Err(failure) => return Verdict::Deny(failure.by(NAME, rule(Class::Unparsed))),
            };
            let verdict = self.verdict(&findings);
            match verdict {
                Verdict::Allow => lines.put(after),
                Verdict::Ask(_) => lines.ask(cx.call_id(), after),
                _ => {}
            }
            verdict
        })
    }

    /// Judges by the text alone: no tmux server is asked, and no line is remembered. The actual call also considers the
    /// pane's folder and paste buffers.
    fn foresee(&self, _: &Context, call: &Call) -> Option<Verdict> {
        let tool = call.id().name();
        if tool == "paste_buffer" {
            return None;
        }
        let arguments = match readable(call) {
            Ok(arguments) => arguments,
            Err(failure) => return Some(Verdict::Deny(failure)),
        };
        let judged = typed(tool, &arguments);
        let judged = judged.into_iter().map(|typed| judge(&typed.text, &self.place(&typed)));
        let findings: Vec<Finding> = judged.flat_map(|judged| judged.findings).collect();
        Some(self.verdict(&findings))
    }

    fn asks(&self) -> bool {
        !self.config.ask.is_empty()
    }
}

/// The arguments of a call. Arguments that cannot be read are refused, since the tool might read them differently.
fn readable(call: &Call) -> Result<Value, Failure> {
    let arguments = call.arguments().map(Json::to_value).transpose();
    arguments.map(Option::unwrap_or_default).map_err(|error| {
        let text = format!("the command guard cannot read the arguments: {error}");
        Failure::new(Code::InvalidArguments, text)
            .suggest("Send plain JSON: numbers in range, no lone surrogates, every name once.")
            .by(NAME, rule(Class::Unparsed))
    })
}

/// The texts that a call would type. Keys without Enter count, too: a later call may press it.
pub(crate) fn typed(tool: &str, arguments: &Value) -> Vec<TypedText> {
    let name = match tool {
        "run_command" => "command",
        "send_keys" => "keys",
        "paste_text" => "text",
        "split_window" | "respawn_pane" => "shell",
        "send_keys_batch" => return batch(arguments),
        _ => return Vec::new(),
    };
    let (text, lands) = match name {
        "keys" => (entered(arguments), LineState::Appended),
        "text" => (pasted(arguments), LineState::Appended),
        "command" => (string(arguments, name), LineState::Emptied),
        _ => {
            (string(arguments, name).map(|text| variables(arguments) + &text), LineState::OwnShell)
        }
    };
    text.map(|text| TypedText { text, lands, target: arguments.clone() }).into_iter().collect()
}

/// The variables of a new program, as shell assignments.
fn variables(arguments: &Value) -> String {
    let given = match arguments.get("environment") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_default(),
        given => given.cloned().unwrap_or_default(),
    };
    let names = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let all = given.as_object().into_iter().flatten().filter(|(name, _)| name.chars().all(names));
    let all = all.filter_map(|(name, value)| {
        let value = value.as_str()?.replace('\'', r"'\''");
        Some(format!("{name}='{value}'\n"))
    });
    all.collect()
}

/// The text of the keys, with the Enter that follows.
fn entered(arguments: &Value) -> Option<String> {
    let enter = arguments.get("enter").and_then(Value::as_bool).unwrap_or(true);
    keys(arguments).map(|keys| if enter { keys + "\n" } else { keys })
}

/// The text of a paste. Without bracketed paste, a tab completes to unknown text.
fn pasted(arguments: &Value) -> Option<String> {
    let bracket = arguments.get("bracket").and_then(Value::as_bool).unwrap_or(true);
    let text = string(arguments, "text")?;
    Some(if bracket { text } else { text.replace('\t', "\u{7f}") })
}

fn string(arguments: &Value, name: &str) -> Option<String> {
    arguments.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// The text of the keys. A key name types no text.
fn keys(arguments: &Value) -> Option<String> {
    let keys = string(arguments, "keys")?;
    let literal = arguments.get("literal").and_then(Value::as_bool).unwrap_or(false);
    // A tab completes to unknown text, also if it is typed literally.
    Some(if literal { keys.replace('\t', "\u{7f}") } else { keys::typed(&keys) })
}

/// Consecutive texts for one pane are one text.
fn batch(arguments: &Value) -> Vec<TypedText> {
    let names = ["pane_id", "session_name", "session_id", "window_id"];
    let mut all: Vec<TypedText> = Vec::new();
    for operation in arguments.get("operations").and_then(Value::as_array).into_iter().flatten() {
        let keys = entered(operation).unwrap_or_default();
        let mut target = operation.clone();
        if let (Some(target), Some(socket)) = (target.as_object_mut(), arguments.get("socket_name"))
        {
            target.insert("socket_name".to_owned(), socket.clone());
        }
        let same = |typed: &&mut TypedText| {
            names.iter().all(|name| typed.target.get(name) == target.get(name))
        };
        // The order is kept: different arguments may name the same pane.
        match all.last_mut().filter(same) {
            Some(typed) => typed.text.push_str(&keys),
            None => all.push(TypedText { text: keys, lands: LineState::Appended, target }),
        }
    }
    all
}

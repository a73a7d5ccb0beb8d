//! The guard in the chain: a precondition of the tools that type.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use toolgate::{
    Boxed, Call, Code, Context, Failure,
    middleware::preconditions::{NAME, Precondition, Verdict},
};

use super::{Class, CommandsConfig, Finding, Judgement, Place, judge};
use crate::{
    call::Shared,
    engine::{Kind, Socket},
    target::{self, PaneTarget},
};

/// The id of the precondition, and the first half of the rules that its refusals name.
pub const ID: &str = "command-guard";

/// The tools whose arguments a shell may run.
pub const TOOLS: [&str; 6] =
    ["paste_text", "respawn_pane", "run_command", "send_keys", "send_keys_batch", "split_window"];

/// Judges what the tools would type.
#[derive(Debug)]
pub struct CommandGuard {
    config: CommandsConfig,
    home: Option<PathBuf>,
    shared: Option<Arc<Shared>>,
}

/// A text for a pane.
pub(super) struct Typed {
    pub(super) text: String,
    /// The arguments that name the pane.
    target: Value,
}

impl CommandGuard {
    pub(crate) fn new(config: CommandsConfig, shared: Option<Arc<Shared>>) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let roots = config.roots.iter().flat_map(|root| real(root, home.as_deref())).collect();
        Self { config: CommandsConfig { roots, ..config }, home, shared }
    }

    async fn judge(&self, typed: &Typed) -> Judgement {
        let mut place = Place {
            folder: None,
            roots: self.config.roots.clone(),
            home: self.home.clone(),
            strict: self.config.strict,
        };
        let first = judge(&typed.text, &place);
        if !first.needs_folder {
            return first;
        }
        // Only what deletes costs a question to tmux.
        place.folder = self.folder(&typed.target).await;
        if place.folder.is_some() { judge(&typed.text, &place) } else { first }
    }

    /// The folder that the pane's program is in, or will start in.
    async fn folder(&self, target: &Value) -> Option<PathBuf> {
        let text = |name: &str| target.get(name).and_then(Value::as_str);
        if let Some(folder) = text("start_directory") {
            return target::directory(folder).ok().map(PathBuf::from);
        }
        let shared = self.shared.as_ref()?;
        let socket = match text("socket_name") {
            Some(name) => Socket::Name(name.to_owned()),
            None => shared.options.socket.clone(),
        };
        let server = shared.engine.server(socket);
        let named = PaneTarget {
            pane_id: text("pane_id"),
            window_id: text("window_id"),
            session_id: text("session_id"),
            session_name: text("session_name"),
        };
        let pane = target::pane(&server, named).await.ok()?;
        let rows = server.list(Kind::Pane(&pane), &["pane_id", "pane_current_path"]).await.ok()?;
        let row = rows.into_iter().next()?;
        row.get("pane_current_path").filter(|path| path.starts_with('/')).map(PathBuf::from)
    }

    /// What the findings come to: the worst of what is set for their kinds.
    fn verdict(&self, findings: &[Finding]) -> Verdict {
        if let Some(worst) = findings.iter().find(|found| self.config.deny.contains(&found.class)) {
            let message = format!("The command was not typed: {}: `{}`", worst.why, worst.words);
            let failure = Failure::new(Code::Refused, message)
                .suggest("Ask the user to do it themselves, or find a way that does less.");
            return Verdict::Deny(failure.by(NAME, rule(worst.class)));
        }
        let asked = findings.iter().filter(|found| self.config.ask.contains(&found.class));
        let asked: Vec<String> = asked
            .take(5)
            .map(|found| format!("{}: {}: `{}`.", rule(found.class), found.why, found.words))
            .collect();
        if asked.is_empty() { Verdict::Allow } else { Verdict::ask(asked.join(" ")) }
    }
}

/// A root as it is written, with `~` for the home folder, and where its links lead: tmux tells folders without links.
fn real(root: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let full = match (root.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => root.to_owned(),
    };
    let real = full.canonicalize().ok().filter(|real| *real != full);
    [Some(full), real].into_iter().flatten().collect()
}

fn rule(class: Class) -> String {
    format!("{ID}/{class}")
}

impl Precondition for CommandGuard {
    fn id(&self) -> &'static str {
        ID
    }

    fn check<'a>(&'a self, _: &'a Context, call: &'a Call) -> Boxed<'a, Verdict> {
        Box::pin(async move {
            let arguments = call.arguments().and_then(|json| json.to_value().ok());
            let arguments = arguments.unwrap_or_default();
            let mut findings = Vec::new();
            for typed in typed(call.id().name(), &arguments) {
                findings.extend(self.judge(&typed).await.findings);
            }
            self.verdict(&findings)
        })
    }

    fn asks(&self) -> bool {
        !self.config.ask.is_empty()
    }
}

/// What a call would type. Keys without Enter count too: the next call may press it.
pub(super) fn typed(tool: &str, arguments: &Value) -> Vec<Typed> {
    let name = match tool {
        "run_command" => "command",
        "send_keys" => "keys",
        "paste_text" => "text",
        "split_window" | "respawn_pane" => "shell",
        "send_keys_batch" => return batch(arguments),
        _ => return Vec::new(),
    };
    let text = if name == "keys" { keys(arguments) } else { string(arguments, name) };
    text.map(|text| Typed { text, target: arguments.clone() }).into_iter().collect()
}

fn string(arguments: &Value, name: &str) -> Option<String> {
    arguments.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// What keys type: the name of a key is no text.
fn keys(arguments: &Value) -> Option<String> {
    let keys = string(arguments, "keys")?;
    if arguments.get("literal").and_then(Value::as_bool).unwrap_or(false) {
        return Some(keys);
    }
    let lower = keys.to_ascii_lowercase();
    let typed = match &*lower {
        "enter" | "kpenter" | "c-m" | "c-j" | "c-o" => "\n",
        "space" => " ",
        "tab" | "c-i" => "\t",
        // Whatever edits the line.
        "bspace" | "dc" | "delete" | "escape" | "up" | "down" | "left" | "right" | "home"
        | "end" | "btab" | "ic" => "\u{7f}",
        name if name.len() == 3 && ["c-", "m-", "s-"].iter().any(|with| name.starts_with(with)) => {
            "\u{7f}"
        }
        _ => return Some(keys),
    };
    Some(typed.to_owned())
}

/// What goes to one pane without an Enter in between is one text.
fn batch(arguments: &Value) -> Vec<Typed> {
    let names = ["pane_id", "session_name", "session_id", "window_id"];
    let mut all: Vec<Typed> = Vec::new();
    for operation in arguments.get("operations").and_then(Value::as_array).into_iter().flatten() {
        let keys = keys(operation).unwrap_or_default();
        let enter = operation.get("enter").and_then(Value::as_bool).unwrap_or(true);
        let end = if enter { "\n" } else { "" };
        let mut target = operation.clone();
        if let (Some(target), Some(socket)) = (target.as_object_mut(), arguments.get("socket_name"))
        {
            target.insert("socket_name".to_owned(), socket.clone());
        }
        let same = |typed: &&mut Typed| {
            names.iter().all(|name| typed.target.get(name) == target.get(name))
        };
        match all.iter_mut().find(same) {
            Some(typed) => typed.text.extend([&*keys, end]),
            None => all.push(Typed { text: format!("{keys}{end}"), target }),
        }
    }
    all
}

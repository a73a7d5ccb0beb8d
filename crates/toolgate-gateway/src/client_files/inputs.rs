//! `${input:ID}`: values that a client asks its user for. toolgate takes them from a variable, or from a person at the
//! terminal.

use std::{
    collections::BTreeMap,
    sync::{LazyLock, Mutex, PoisonError},
};

use crate::document::{Document, Node};

/// The answers of the person at the terminal. They are kept in memory only, for the time that the process runs.
static ANSWERS: LazyLock<Mutex<BTreeMap<String, String>>> = LazyLock::new(Mutex::default);

/// A value that the user is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its id.
    pub id: String,
    /// What the client shows to the user.
    pub description: Option<String>,
    /// The value that applies if the user enters none.
    pub default: Option<String>,
    /// How the value is entered.
    pub kind: InputKind,
}

/// How a value is entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// As text.
    Text,
    /// As text that the terminal does not show.
    Secret,
    /// As one of several.
    Choice(Vec<String>),
    /// By a command of the editor, which toolgate cannot run.
    EditorCommand,
}

impl Input {
    /// The environment variable that gives the value.
    #[must_use]
    pub fn variable(&self) -> String {
        variable(&self.id)
    }
}

/// `github-token` is read from `INPUT_GITHUB_TOKEN`.
pub(super) fn variable(id: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("INPUT_{}", id.chars().map(letter).collect::<String>())
}

/// Records what a person entered for an input.
pub fn answer(id: &str, value: String) {
    ANSWERS.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), value);
}

/// What a person entered for an input.
pub(super) fn answered(id: &str) -> Option<String> {
    ANSWERS.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
}

/// The inputs that a file declares.
pub(super) fn declared(document: &Document) -> Vec<Input> {
    let root = &document.root;
    let lists = [root.get("inputs"), root.get("mcp").and_then(|mcp| mcp.get("inputs"))];
    lists.into_iter().flatten().flat_map(Node::items).filter_map(input).collect()
}

fn input(node: &Node) -> Option<Input> {
    let text = |key: &str| node.get(key).and_then(Node::as_str).map(str::to_owned);
    let kind = match text("type").as_deref() {
        Some("pickString") => {
            let options = node.get("options").map(Node::items).unwrap_or_default();
            let value = |option: &Node| {
                let text = option.as_str().or_else(|| option.get("value")?.as_str());
                text.map(str::to_owned)
            };
            InputKind::Choice(options.iter().filter_map(value).collect())
        }
        Some("command") => InputKind::EditorCommand,
        _ if node.get("password").and_then(Node::as_bool) == Some(true) => InputKind::Secret,
        _ => InputKind::Text,
    };
    Some(Input {
        id: text("id")?,
        description: text("description"),
        default: text("default"),
        kind,
    })
}

//! Reads JSON with comments, TOML and YAML into one tree in which every key and value has its range of bytes: for the
//! files of MCP clients, where an error needs a line, and an edit must leave all other bytes alone.

mod excerpt;
mod json;
mod toml;
mod yaml;

use std::{ops::Range, path::Path};

pub use excerpt::Problem;

/// The byte order mark that some editors write in front of a text.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The notation of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

impl Notation {
    /// The notation that the name of a file tells; JSON for a name without a known extension.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Json,
        }
    }
}

/// A value with its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The bytes of the value, with its quotes or brackets.
    pub span: Range<usize>,
    /// The value.
    pub value: NodeValue,
}

/// A value. A number keeps its spelling.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeValue {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, or another plain word of TOML such as a date.
    Number(String),
    /// A text.
    String(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the file. A key can occur more than once.
    Map(Vec<NodeMember>),
}

/// One key of a map, with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeMember {
    /// The key.
    pub key: String,
    /// The bytes of the key, with its quotes.
    pub key_span: Range<usize>,
    /// The value.
    pub node: Node,
}

impl Node {
    /// The members of a map; none for other values.
    #[must_use]
    pub fn members(&self) -> &[NodeMember] {
        match &self.value {
            NodeValue::Map(members) => members,
            _ => &[],
        }
    }

    /// The member with this key. Of two, the last one counts, as in all clients.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<&NodeMember> {
        self.members().iter().rev().find(|member| member.key == key)
    }

    /// The value of the member with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.member(key).map(|member| &member.node)
    }

    /// The items of a list; none for other values.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match &self.value {
            NodeValue::List(items) => items,
            _ => &[],
        }
    }

    /// The text, if the value is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            NodeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean, if the value is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            NodeValue::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Whether the value is a map.
    #[must_use]
    pub fn is_map(&self) -> bool {
        matches!(self.value, NodeValue::Map(_))
    }

    /// The kind of the value, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.value {
            NodeValue::Null => "nothing",
            NodeValue::Bool(_) => "a boolean",
            NodeValue::Number(_) => "a number",
            NodeValue::String(_) => "a string",
            NodeValue::List(_) => "a list",
            NodeValue::Map(_) => "a table",
        }
    }
}

/// A text and its tree.
#[derive(Clone, Debug)]
pub struct Document {
    /// The notation.
    pub notation: Notation,
    /// The whole text, with its byte order mark if it has one. Ranges count from its start.
    pub text: String,
    /// The outermost value. An empty file holds an empty map.
    pub root: Node,
}

impl Document {
    /// Reads the text. An error has its place.
    pub fn parse(text: String, notation: Notation) -> Result<Self, Vec<Problem>> {
        let skipped = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let content = text.get(skipped..).unwrap_or_default();
        let read = match notation {
            Notation::Json => json::parse(content),
            Notation::Toml => toml::parse(content),
            Notation::Yaml => yaml::parse(content),
        };
        let shown = |(at, message): (Range<usize>, String)| {
            Problem::new(&text, notation, at.start + skipped..at.end + skipped, message)
        };
        let root = read.map_err(|found| found.into_iter().map(shown).collect::<Vec<_>>())?;
        let root = root.map(|root| root.moved_by(skipped));
        let nothing = Node { span: text.len()..text.len(), value: NodeValue::Map(Vec::new()) };
        Ok(Self { notation, text, root: root.unwrap_or(nothing) })
    }

    /// A problem at a place of this text.
    #[must_use]
    pub fn problem(&self, at: Range<usize>, message: impl Into<String>) -> Problem {
        Problem::new(&self.text, self.notation, at, message.into())
    }

    /// The line of a byte, counted from 1.
    #[must_use]
    pub fn line(&self, at: usize) -> usize {
        excerpt::position(&self.text, at).0
    }

    /// Every key that occurs twice in one map: the second place, and the first.
    #[must_use]
    pub fn repeated_keys(&self) -> Vec<(&NodeMember, &NodeMember)> {
        let mut found = Vec::new();
        collect_repeated(&self.root, &mut found);
        found
    }
}

fn collect_repeated<'a>(node: &'a Node, found: &mut Vec<(&'a NodeMember, &'a NodeMember)>) {
    for (index, member) in node.members().iter().enumerate() {
        let mut before = node.members().iter().take(index);
        found.extend(before.find(|other| other.key == member.key).map(|first| (member, first)));
        collect_repeated(&member.node, found);
    }
    for item in node.items() {
        collect_repeated(item, found);
    }
}

impl Node {
    fn moved_by(mut self, bytes: usize) -> Self {
        let shift = |span: &Range<usize>| span.start + bytes..span.end + bytes;
        self.span = shift(&self.span);
        self.value = match self.value {
            NodeValue::List(items) => {
                NodeValue::List(items.into_iter().map(|item| item.moved_by(bytes)).collect())
            }
            NodeValue::Map(members) => {
                let moved = members.into_iter().map(|member| NodeMember {
                    key_span: shift(&member.key_span),
                    node: member.node.moved_by(bytes),
                    key: member.key,
                });
                NodeValue::Map(moved.collect())
            }
            other => other,
        };
        self
    }
}

/// What a notation returns: the tree, or every error with its place. `None` is an empty text.
type Parsed = Result<Option<Node>, Vec<(Range<usize>, String)>>;

#[cfg(test)]
mod tests;

//! The changes of one file: which entries are wrapped, what the text becomes, and how each change is taken back.

use std::{ops::Range, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    ClientFile, ClientFileError, ServerEntry, blocks,
    edit::{Edit, LeftAlone, Wrapping, apply_edits, unwrap_edits},
};
use crate::document::{Node, NodeValue};

/// What becomes of a file.
#[derive(Clone, Debug)]
pub struct FilePlan {
    /// The new text.
    pub after: String,
    /// The edits that lead to it.
    pub edits: Vec<Edit>,
    /// The entries that change.
    pub changed: Vec<ChangedEntry>,
    /// The entries that stay as they are, with the reason.
    pub left: Vec<(String, LeftAlone)>,
}

impl FilePlan {
    /// A plan that changes nothing.
    #[must_use]
    pub fn none(file: &ClientFile) -> Self {
        let after = file.document.text.clone();
        Self { after, edits: Vec::new(), changed: Vec::new(), left: Vec::new() }
    }
}

/// An entry that was changed, and how that is taken back.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ChangedEntry {
    /// The name of the server.
    pub name: String,
    /// The keys that lead to the table that holds the entry.
    pub section: Vec<String>,
    /// The entry after the change, from its first key to its last value.
    after: String,
    /// The edits that take the change back: bytes of `after`, and their former text.
    undo: Vec<(Range<usize>, String)>,
}

impl ChangedEntry {
    pub(super) fn new(
        name: String,
        section: Vec<String>,
        after: String,
        undo: Vec<(Range<usize>, String)>,
    ) -> Self {
        Self { name, section, after, undo }
    }
}

/// The new text would not mean what it should: the file is written in a way that the edits do not handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the change would alter more than the chosen entries: change the file by hand")]
pub struct UnsafeEdit;

/// What became of an entry when a change was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoOutcome {
    /// It is as it was before.
    Restored,
    /// It was changed since: only toolgate's words were removed.
    Unwrapped,
    /// It was changed since, or is gone: it stays as it is.
    Left,
}

/// From the first key of an entry to its last value. The span of the entry itself does not have it all in TOML and YAML.
fn region(entry: &ServerEntry) -> Range<usize> {
    let members = entry.node.members();
    let start = members.iter().map(|member| member.key_span.start).min();
    let end = members.iter().map(|member| last_byte(&member.node).max(member.key_span.end)).max();
    start.unwrap_or(entry.node.span.start)..end.unwrap_or(entry.node.span.end)
}

fn last_byte(node: &Node) -> usize {
    let inner = node.members().iter().map(|member| last_byte(&member.node));
    match &node.value {
        NodeValue::Map(_) => inner.max().unwrap_or(node.span.end),
        _ => node.span.end,
    }
}

/// Plans the changes of the entries that `wants` chooses.
pub fn plan(
    file: &ClientFile,
    wrapping: &Wrapping,
    wants: &dyn Fn(&ServerEntry) -> bool,
) -> Result<FilePlan, UnsafeEdit> {
    let mut edits = Vec::new();
    let (mut chosen, mut left) = (Vec::new(), Vec::new());
    for entry in file.servers.iter().filter(|entry| wants(entry)) {
        match wrapping.edits(file, entry) {
            Ok(own) => {
                chosen.push((entry, own.clone()));
                edits.extend(own);
            }
            Err(why) => left.push((entry.name.clone(), why)),
        }
    }
    let text = &file.document.text;
    let after = apply_edits(text, &edits);
    let new = ClientFile::parse(&file.path, after.clone()).map_err(|_| UnsafeEdit)?;
    check(file, &new, &chosen)?;
    let changed = chosen.iter().map(|(entry, own)| changed(text, &after, &edits, &new, entry, own));
    let changed = changed.collect::<Option<Vec<_>>>().ok_or(UnsafeEdit)?;
    Ok(FilePlan { after, edits, changed, left })
}

/// The new text must mean the same, but for the entries that were changed.
fn check(
    old: &ClientFile,
    new: &ClientFile,
    chosen: &[(&ServerEntry, Vec<Edit>)],
) -> Result<(), UnsafeEdit> {
    if old.servers.len() != new.servers.len() {
        return Err(UnsafeEdit);
    }
    for (one, other) in old.servers.iter().zip(&new.servers) {
        let is_chosen = chosen.iter().any(|(entry, _)| entry.name_span == one.name_span);
        let words = (one.words(), other.words());
        let ends_as_before = words.1.ends_with(&words.0) || one.url().is_some();
        let is_as_expected = if is_chosen {
            other.is_wrapped() && other.problems.is_empty() && ends_as_before
        } else {
            same(&one.node, &other.node)
        };
        if one.name != other.name || one.section != other.section || !is_as_expected {
            return Err(UnsafeEdit);
        }
    }
    if same_outside(old, new) { Ok(()) } else { Err(UnsafeEdit) }
}

/// Whether everything is equal that is not in a table of servers. A bare table of servers has nothing else.
pub(super) fn same_outside(one: &ClientFile, other: &ClientFile) -> bool {
    let sections: Vec<&String> =
        one.servers.iter().filter_map(|entry| entry.section.first()).collect();
    let outside = |file: &ClientFile| -> Vec<(String, Node)> {
        let is_bare = file.servers.iter().any(|entry| entry.section.is_empty());
        let members = file.document.root.members().iter().filter(|_| !is_bare);
        let others = members.filter(|member| !sections.contains(&&member.key));
        others.map(|member| (member.key.clone(), member.node.clone())).collect()
    };
    let (ones, others) = (outside(one), outside(other));
    let is_same = |((key, node), (other_key, other)): (&(String, Node), &(String, Node))| {
        key == other_key && same(node, other)
    };
    ones.len() == others.len() && ones.iter().zip(&others).all(is_same)
}

/// Whether two values are equal, wherever they stand.
pub(super) fn same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (NodeValue::List(ones), NodeValue::List(others)) => {
            ones.len() == others.len()
                && ones.iter().zip(others).all(|(one, other)| same(one, other))
        }
        (NodeValue::Map(ones), NodeValue::Map(others)) => {
            let pairs = ones.iter().zip(others);
            ones.len() == others.len()
                && pairs
                    .into_iter()
                    .all(|(one, other)| one.key == other.key && same(&one.node, &other.node))
        }
        (one, other) => one == other,
    }
}

/// How the change of one entry is taken back.
fn changed(
    text: &str,
    after: &str,
    all: &[Edit],
    new: &ClientFile,
    entry: &ServerEntry,
    own: &[Edit],
) -> Option<ChangedEntry> {
    // All edits before a byte move it.
    let moved = |at: usize, is_included: &dyn Fn(&Edit) -> bool| {
        let before = all.iter().filter(|edit| is_included(edit));
        let (removed, added) = before.fold((0, 0), |(removed, added), edit| {
            (removed + edit.at.len(), added + edit.text.len())
        });
        at + added - removed
    };
    let mut count = new
        .servers
        .iter()
        .filter(|other| other.name == entry.name && other.section == entry.section);
    let region = region(count.next()?);
    let mut undo = Vec::new();
    for edit in own {
        let start = moved(edit.at.start, &|other: &Edit| {
            (other.at.start, other.at.end) < (edit.at.start, edit.at.end)
        });
        let range = start.checked_sub(region.start)?
            ..(start + edit.text.len()).checked_sub(region.start)?;
        undo.push((range, text.get(edit.at.clone())?.to_owned()));
    }
    let after = after.get(region)?.to_owned();
    if undo.iter().any(|(range, _)| range.end > after.len()) {
        return None;
    }
    Some(ChangedEntry { name: entry.name.clone(), section: entry.section.clone(), after, undo })
}

/// Takes changes back in a file that may have been changed since: the new text, and what became of each entry.
pub fn take_back(
    path: &Path,
    text: &str,
    changes: &[ChangedEntry],
) -> Result<(String, Vec<(String, UndoOutcome)>), ClientFileError> {
    let file = ClientFile::parse(path, text.to_owned())?;
    let (mut edits, mut outcomes) = (Vec::new(), Vec::new());
    for change in changes {
        let mut entries = file.servers.iter();
        let entry =
            entries.find(|entry| entry.name == change.name && entry.section == change.section);
        let unchanged = |entry: &ServerEntry| {
            // `--one` replaces whole members.
            let regions = [Some(region(entry)), blocks::whole(&file, entry)];
            regions
                .into_iter()
                .flatten()
                .find(|region| text.get(region.clone()) == Some(change.after.as_str()))
        };
        let outcome = match entry.map(|entry| (entry, unchanged(entry))) {
            Some((_, Some(region))) => {
                let moved =
                    |range: &Range<usize>| range.start + region.start..range.end + region.start;
                let own = change.undo.iter();
                edits
                    .extend(own.map(|(range, text)| Edit { at: moved(range), text: text.clone() }));
                UndoOutcome::Restored
            }
            Some((entry, _)) => match unwrap_edits(&file, entry) {
                Some(own) => {
                    edits.extend(own);
                    UndoOutcome::Unwrapped
                }
                None => UndoOutcome::Left,
            },
            None => UndoOutcome::Left,
        };
        outcomes.push((change.name.clone(), outcome));
    }
    Ok((apply_edits(text, &edits), outcomes))
}

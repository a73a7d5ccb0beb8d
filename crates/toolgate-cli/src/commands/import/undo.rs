//! `toolgate import --undo [FILE…]`

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value, json};
use toolgate_gateway::client_files::{self, UndoOutcome};

use super::{
    MAX_ATTEMPTS,
    backup::{Backup, Backups},
    replace::{self, ReplaceError},
};

/// What became of a file.
enum Undone {
    /// It has its original bytes again.
    Restored,
    /// It was changed since: what became of each entry, and where its original content is kept.
    Merged(Vec<(String, UndoOutcome)>, PathBuf),
    /// It is gone.
    Gone(PathBuf),
}

pub(super) fn run(backups: &Backups, files: &[PathBuf], as_json: bool) -> anyhow::Result<ExitCode> {
    let _lock = backups.lock()?;
    let wanted: Vec<PathBuf> = files
        .iter()
        .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
        .collect();
    let mut results = Vec::new();
    for backup in backups.all()? {
        if wanted.is_empty() || wanted.contains(&backup.path) {
            let undone = undo(&backup);
            results.push((backup.path, undone));
        }
    }
    let has_failed = results.iter().any(|(_, undone)| undone.is_err());
    let mut out = std::io::stdout().lock();
    if as_json {
        let files: Vec<Value> =
            results.iter().map(|(path, undone)| as_value(path, undone)).collect();
        writeln!(out, "{:#}", json!({"files": files}))?;
    } else if results.is_empty() {
        writeln!(out, "Nothing to undo: toolgate has changed no file of a client.")?;
    } else {
        for (path, undone) in &results {
            for line in lines(path, undone) {
                writeln!(out, "{}", toolgate::printable::message(&line))?;
            }
        }
    }
    Ok(if has_failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn undo(backup: &Backup) -> anyhow::Result<Undone> {
    for _ in 0..MAX_ATTEMPTS {
        let current = match std::fs::read_to_string(&backup.path) {
            Ok(current) => current,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Undone::Gone(backup.mark_undone()?));
            }
            Err(error) => anyhow::bail!("cannot be read: {error}"),
        };
        let (new, outcomes) = if current == backup.after {
            (backup.before.clone(), None)
        } else {
            let (new, outcomes) = client_files::take_back(&backup.path, &current, &backup.entries)?;
            (new, Some(outcomes))
        };
        let replaced =
            if new == current { Ok(()) } else { replace::replace(&backup.path, &current, &new) };
        match (replaced, outcomes) {
            (Ok(()), None) => {
                backup.discard();
                return Ok(Undone::Restored);
            }
            (Ok(()), Some(outcomes)) => return Ok(Undone::Merged(outcomes, backup.mark_undone()?)),
            (Err(ReplaceError::Changed), _) => {}
            (Err(error), _) => return Err(error.into()),
        }
    }
    anyhow::bail!(
        "its client keeps writing it: end the client, and run `toolgate import --undo` again"
    )
}

fn word(outcome: UndoOutcome) -> &'static str {
    match outcome {
        UndoOutcome::Restored => "restored",
        UndoOutcome::Unwrapped => "changed since: only toolgate's words were removed",
        UndoOutcome::Left => "changed since, or gone: left as it is",
    }
}

fn lines(path: &Path, undone: &anyhow::Result<Undone>) -> Vec<String> {
    let path = path.display();
    match undone {
        Ok(Undone::Restored) => vec![format!("{path}: restored")],
        Ok(Undone::Gone(kept)) => {
            vec![format!("{path}: gone; its content before the import is in {}", kept.display())]
        }
        Ok(Undone::Merged(outcomes, kept)) => {
            let head = format!(
                "{path}: changed since the import; its content before that is in {}",
                kept.display()
            );
            let entries =
                outcomes.iter().map(|(name, outcome)| format!("  {name}: {}", word(*outcome)));
            std::iter::once(head).chain(entries).collect()
        }
        Err(error) => vec![format!("{path}: failed: {error:#}")],
    }
}

fn as_value(path: &Path, undone: &anyhow::Result<Undone>) -> Value {
    let path = path.display().to_string();
    match undone {
        Ok(Undone::Restored) => json!({"path": path, "state": "restored"}),
        Ok(Undone::Gone(kept)) => {
            json!({"path": path, "state": "gone", "original": kept.display().to_string()})
        }
        Ok(Undone::Merged(outcomes, kept)) => {
            let servers: Vec<Value> = outcomes
                .iter()
                .map(|(name, outcome)| json!({"name": name, "outcome": word(*outcome)}))
                .collect();
            json!({"path": path, "state": "merged", "original": kept.display().to_string(), "servers": servers})
        }
        Err(error) => json!({"path": path, "state": "failed", "why": format!("{error:#}")}),
    }
}

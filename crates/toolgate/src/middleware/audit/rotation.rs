//! Rotation: when the audit file is moved aside, and which of the rotated files are kept.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use serde::Deserialize;

use super::AuditConfig;

/// With a limit in days, a file is rotated after this time even if it is not full.
const MAX_AGE: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// How often rotated files are compared with the limits in days and bytes, beside each rotation.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60 * 60);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Most bytes of the first record that are read for its time.
const MAX_FIRST_LINE: u64 = 4096;

/// When the file is rotated, and which rotated files are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    pub(super) rotate_bytes: u64,
    /// The number of rotated files; `None`: all.
    pub(super) files: Option<u32>,
    /// The bytes of all files.
    pub(super) bytes: Option<u64>,
    pub(super) days: Option<u32>,
}

impl From<&AuditConfig> for Retention {
    fn from(config: &AuditConfig) -> Self {
        Self {
            rotate_bytes: config.rotate_bytes,
            files: config.kept_files(),
            bytes: Some(config.keep_bytes).filter(|bytes| *bytes > 0),
            days: Some(config.keep_days).filter(|days| *days > 0),
        }
    }
}

/// The rotated files of one audit file.
#[derive(Debug)]
pub(super) struct Rotation {
    path: PathBuf,
    kept: Retention,
    pruned: Option<Instant>,
}

impl Rotation {
    pub(super) fn new(path: &Path, kept: Retention) -> Self {
        Self { path: path.to_owned(), kept, pruned: None }
    }

    /// The time from which on the file has to be rotated for its age, if there is a limit in days.
    pub(super) fn due_at(&self, file: &File) -> Option<jiff::Timestamp> {
        self.kept.days?;
        let begun = first_time(file).unwrap_or_else(jiff::Timestamp::now);
        begun.checked_add(MAX_AGE).ok()
    }

    /// Renames `audit.jsonl` to `audit.jsonl.1`, that one to `.2` and so on, and removes the files that are not kept.
    /// The lock is held.
    pub(super) fn move_aside(&mut self) -> io::Result<()> {
        if self.kept.files == Some(0) {
            return fs::remove_file(&self.path);
        }
        for (number, path) in rotated_files(&self.path)? {
            if let Some(next) = number.checked_add(1) {
                fs::rename(path, numbered(&self.path, next))?;
            }
        }
        fs::rename(&self.path, numbered(&self.path, 1))?;
        self.prune();
        Ok(())
    }

    /// Removes the rotated files that are too old or too many by now, at intervals. The lock is held.
    pub(super) fn prune_at_intervals(&mut self) {
        let has_limit = self.kept.days.is_some() || self.kept.bytes.is_some();
        if has_limit && self.pruned.is_none_or(|last| last.elapsed() >= PRUNE_INTERVAL) {
            self.prune();
        }
    }

    fn prune(&mut self) {
        self.pruned = Some(Instant::now());
        let removed = rotated_files(&self.path).and_then(|files| self.remove_old(&files));
        if let Err(error) = removed {
            tracing::error!(%error, path = %self.path.display(), "cannot remove old audit files");
        }
    }

    /// Removes a file that exceeds a limit, and all files that are older.
    fn remove_old(&self, files: &[(u32, PathBuf)]) -> io::Result<()> {
        let mut bytes = fs::metadata(&self.path).map_or(0, |data| data.len());
        let mut exceeded = None;
        // Newest first.
        for (at, (_, path)) in files.iter().rev().enumerate() {
            let data = fs::metadata(path)?;
            bytes = bytes.saturating_add(data.len());
            exceeded = exceeded.or_else(|| self.exceeded(at, bytes, data.modified().ok()));
            if let Some(limit) = exceeded {
                fs::remove_file(path)?;
                tracing::info!(path = %path.display(), "an old audit file was removed, because of `audit.{limit}`");
            }
        }
        Ok(())
    }

    /// The limit that a file exceeds: the file before it in age was kept.
    fn exceeded(
        &self,
        at: usize,
        bytes: u64,
        modified: Option<SystemTime>,
    ) -> Option<&'static str> {
        let age = modified.and_then(|time| time.elapsed().ok());
        if self.kept.files.is_some_and(|files| at >= files as usize) {
            Some("keep_files")
        } else if self.kept.bytes.is_some_and(|limit| bytes > limit) {
            Some("keep_bytes")
        } else if self.kept.days.zip(age).is_some_and(|(days, age)| age >= DAY * days) {
            Some("keep_days")
        } else {
            None
        }
    }
}

/// The path of a rotated file.
pub(super) fn numbered(path: &Path, n: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    PathBuf::from(name)
}

/// The rotated files with their numbers, oldest first.
pub(super) fn rotated_files(path: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let entry = entry?;
        let other = entry.file_name();
        let number = other.to_str().and_then(|other| other.strip_prefix(&name)?.strip_prefix('.'));
        let number = number.filter(|number| !number.starts_with(['0', '+']));
        if let Some(number) = number.and_then(|number| number.parse().ok())
            && entry.file_type()?.is_file()
        {
            found.push((number, path.with_file_name(&other)));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    Ok(found)
}

/// The time of the first record of a file.
fn first_time(mut file: &File) -> Option<jiff::Timestamp> {
    #[derive(Deserialize)]
    struct FirstRecord {
        ts: String,
    }
    let mut start = Vec::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(MAX_FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice::<FirstRecord>(line).ok()?.ts.parse().ok()
}

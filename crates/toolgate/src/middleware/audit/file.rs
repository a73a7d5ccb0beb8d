//! The audit file: appended to, private to its owner, moved aside when it is full.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// A file of records that several processes may append to at once.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    rotate_bytes: u64,
    /// The size at which it is moved aside next.
    rotate_at: u64,
    keep_files: u32,
}

impl AuditFile {
    pub(super) fn open(path: &Path, rotate_bytes: u64, keep_files: u32) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: open(path)?,
            rotate_bytes,
            rotate_at: rotate_bytes,
            keep_files,
        })
    }

    /// Appends whole lines with one write, so that lines of several processes do not mix.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        // Somebody moved it aside, another process perhaps: what is written there now would go with it.
        if !self.is_in_place()
            && let Err(error) = self.reopen()
        {
            if self.is_gone() {
                return Err(error);
            }
            tracing::error!(%error, "cannot open the audit file anew; the one that was moved is used");
        }
        let size = self.file.metadata()?.len();
        if size > 0 && size >= self.rotate_at {
            self.rotate_at = self.rotate_bytes;
            if let Err(error) = self.rotate() {
                // Too large a file is better than no record. It is tried again later.
                self.rotate_at = size.saturating_add(self.rotate_bytes);
                tracing::error!(%error, path = %self.path.display(), "cannot move the audit file aside");
            }
        }
        let written = self.file.write_all(lines);
        // After a failed write part of a line may stand there; the next record begins a new one.
        if written.is_err() {
            let _ = self.file.write_all(b"\n");
        }
        written
    }

    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        self.rotate_at = self.rotate_bytes;
        Ok(())
    }

    /// `audit.jsonl` becomes `audit.jsonl.1`, that one `.2`, and so on; the oldest goes.
    fn rotate(&mut self) -> io::Result<()> {
        // Another process may be at it: only who holds the lock on the file that is still in place
        // may move it.
        self.file.lock()?;
        let moved = if self.is_in_place() { self.move_aside() } else { Ok(()) };
        self.file.unlock()?;
        moved?;
        self.reopen()
    }

    fn move_aside(&self) -> io::Result<()> {
        let numbered = |n: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{n}"));
            PathBuf::from(name)
        };
        if self.keep_files == 0 {
            return fs::remove_file(&self.path);
        }
        for n in (1..self.keep_files).rev() {
            if numbered(n).exists() {
                fs::rename(numbered(n), numbered(n + 1))?;
            }
        }
        fs::rename(&self.path, numbered(1))
    }

    #[cfg(unix)]
    fn is_in_place(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let (ours, there) = (self.file.metadata(), fs::metadata(&self.path));
        matches!((ours, there), (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()))
    }

    /// Whether the file has no name left under which anybody could read it.
    #[cfg(unix)]
    fn is_gone(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        self.file.metadata().is_ok_and(|file| file.nlink() == 0)
    }

    #[cfg(not(unix))]
    fn is_in_place(&self) -> bool {
        true
    }

    #[cfg(not(unix))]
    fn is_gone(&self) -> bool {
        false
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

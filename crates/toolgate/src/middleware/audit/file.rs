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
    size: u64,
    rotate_bytes: u64,
    keep_files: u32,
}

impl AuditFile {
    pub(super) fn open(path: &Path, rotate_bytes: u64, keep_files: u32) -> io::Result<Self> {
        let (file, size) = open(path)?;
        Ok(Self { path: path.to_owned(), file, size, rotate_bytes, keep_files })
    }

    /// Appends whole lines with one write, so that lines of several processes do not mix.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.size >= self.rotate_bytes {
            self.rotate()?;
        }
        let written = self.file.write_all(lines);
        // After a failed write part of a line may stand there; the next record begins a new one.
        if written.is_err() {
            let _ = self.file.write_all(b"\n");
        }
        self.size += lines.len() as u64;
        written
    }

    pub(super) fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.size) = open(&self.path)?;
        Ok(())
    }

    /// `audit.jsonl` becomes `audit.jsonl.1`, that one `.2`, and so on; the oldest goes.
    fn rotate(&mut self) -> io::Result<()> {
        // Another process may have moved the file aside already: only who holds the lock on the
        // file that is still in place may do it.
        self.file.lock()?;
        if self.is_in_place() {
            let numbered = |n: u32| {
                let mut name = self.path.clone().into_os_string();
                name.push(format!(".{n}"));
                PathBuf::from(name)
            };
            for n in (1..self.keep_files).rev() {
                if numbered(n).exists() {
                    fs::rename(numbered(n), numbered(n + 1))?;
                }
            }
            if self.keep_files > 0 {
                fs::rename(&self.path, numbered(1))?;
            } else {
                fs::remove_file(&self.path)?;
            }
        }
        self.file.unlock()?;
        self.reopen()
    }

    #[cfg(unix)]
    fn is_in_place(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let (ours, there) = (self.file.metadata(), fs::metadata(&self.path));
        matches!((ours, there), (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()))
    }

    #[cfg(not(unix))]
    fn is_in_place(&self) -> bool {
        true
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

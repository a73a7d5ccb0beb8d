//! The head: a small file beside the audit file with the last record's number and hash, so that `verify` finds a
//! missing end.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use super::{
    file_lock::try_lock,
    seal::{Hash, Point, Seal},
};

/// The content of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadMark {
    /// The last record of the last batch.
    pub(super) point: Point,
    /// The size of the file after it.
    pub(super) size: u64,
}

/// The state of the head file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadState {
    Missing,
    /// The file exists, but toolgate did not write its content with this key.
    Unreadable,
    Mark(HeadMark),
}

impl HeadState {
    pub(super) fn mark(self) -> Option<HeadMark> {
        match self {
            Self::Mark(mark) => Some(mark),
            Self::Missing | Self::Unreadable => None,
        }
    }

    /// The fault as it appears in a record, if there is one.
    pub(super) fn fault(self) -> Option<&'static str> {
        match self {
            Self::Missing => Some("missing"),
            Self::Unreadable => Some("unreadable"),
            Self::Mark(_) => None,
        }
    }
}

/// The path of an audit file's head.
pub(super) fn path_of(audit: &Path) -> PathBuf {
    let mut name = audit.as_os_str().to_owned();
    name.push(".head");
    PathBuf::from(name)
}

/// The content of the file. It always has the same length, so that one write replaces it.
fn text(mark: &HeadMark, seal: &Seal) -> String {
    let fields = format!("{:020} {} {:020}", mark.point.seq, mark.point.hash.as_str(), mark.size);
    let check = seal.digest(&[fields.as_bytes()]);
    format!("{fields} {}\n", check.as_str())
}

/// Reads the head of an audit file.
pub(super) fn read(audit: &Path, seal: &Seal) -> io::Result<HeadState> {
    let content = match fs::read(path_of(audit)) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HeadState::Missing),
        Err(error) => return Err(error),
    };
    Ok(parse(&content, seal).map_or(HeadState::Unreadable, HeadState::Mark))
}

fn parse(content: &[u8], seal: &Seal) -> Option<HeadMark> {
    let fields = std::str::from_utf8(content).ok()?;
    let mut words = fields.split_ascii_whitespace();
    let seq = words.next()?.parse().ok()?;
    let hash = Hash::parse(words.next()?.as_bytes())?;
    let size = words.next()?.parse().ok()?;
    let mark = HeadMark { point: Point { seq, hash }, size };
    (text(&mark, seal) == fields).then_some(mark)
}

/// The head, open for writing.
#[derive(Debug)]
pub(super) struct Head {
    path: PathBuf,
    file: Option<File>,
}

impl Head {
    pub(super) fn of(audit: &Path) -> Self {
        Self { path: path_of(audit), file: None }
    }

    /// Writes the new end of the audit file.
    pub(super) fn write(&mut self, mark: &HeadMark, seal: &Seal) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        replace(&file, text(mark, seal).as_bytes())?;
        self.file = Some(file);
        Ok(())
    }

    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&self.path)
    }

    /// Makes the next write reopen the file, which may have been moved or removed.
    pub(super) fn forget(&mut self) {
        self.file = None;
    }

    /// Takes the turn, which tells the process that keeps the audit file's lock that another one waits. Returns false
    /// if another process has the turn and `waits` is false. The turn only makes it fair: where it cannot be had, as
    /// with a head that is missing, the lock itself is enough.
    pub(super) fn take_turn(&mut self, waits: bool) -> bool {
        if !cfg!(unix) {
            return true;
        }
        if self.file.is_none() {
            // Not created here: a missing head is a finding.
            self.file = OpenOptions::new().write(true).open(&self.path).ok();
        }
        match &self.file {
            None => true,
            Some(file) if waits => {
                let _ = file.lock();
                true
            }
            Some(file) => try_lock(file).unwrap_or(true),
        }
    }

    pub(super) fn end_turn(&self) {
        if let Some(file) = &self.file {
            // Closing the file ends it at the latest.
            let _ = file.unlock();
        }
    }

    /// Whether another process has the turn.
    pub(super) fn is_turn_taken(&self) -> bool {
        let Some(file) = &self.file else { return false };
        match try_lock(file) {
            Ok(true) => {
                let _ = file.unlock();
                false
            }
            Ok(false) => true,
            Err(_) => false,
        }
    }
}

#[cfg(unix)]
fn replace(file: &File, text: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, text, 0)
}

#[cfg(not(unix))]
fn replace(mut file: &File, text: &[u8]) -> io::Result<()> {
    use std::io::{Seek as _, Write as _};
    file.seek(io::SeekFrom::Start(0))?;
    file.write_all(text)
}

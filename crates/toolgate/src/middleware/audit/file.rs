//! The audit file: append-only, hash-chained, readable by its owner only, rotated when it is full.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::{
    batch::{Batch, begin, torn},
    head::{self, Head, HeadMark, HeadState},
    output::About,
    seal::{ChainedLines, Point, Seal},
    tail::{self, IncompleteRecord, Tail},
};

/// A file of records that several processes may append to at once.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    head: Head,
    head_failed: bool,
    /// The end of the file after the last write; `None` if it has to be read again.
    end: Option<End>,
    /// The lock that the next append uses: the size of the locked file, or the error of locking.
    held: Option<io::Result<u64>>,
    rotate_bytes: u64,
    /// The size at which the file is rotated next.
    rotate_at: u64,
    keep_files: u32,
}

/// The end of the file, and the repairs that have to be written before the next record.
#[derive(Clone, Copy, Debug)]
struct End {
    size: u64,
    point: Point,
    is_open: bool,
    torn: Option<IncompleteRecord>,
    begins: Begins,
}

/// Whether the next record starts a new chain segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// The chain continues.
    No,
    /// A `begin` record is needed, with the fault of the head if there is one.
    Yes(Option<&'static str>),
}

/// Attempts to lock the file while other processes rotate it.
const MAX_ATTEMPTS: u32 = 1000;

impl AuditFile {
    pub(super) fn open(path: &Path, rotate_bytes: u64, keep_files: u32) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: open(path)?,
            head: Head::of(path),
            head_failed: false,
            end: None,
            held: None,
            rotate_bytes,
            rotate_at: rotate_bytes,
            keep_files,
        })
    }

    /// Whether it is a regular file, not a pipe or a device.
    pub(super) fn is_regular(&self) -> bool {
        self.file.metadata().is_ok_and(|data| data.is_file())
    }

    /// Writes to a pipe or device.
    pub(super) fn write_plain(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Locks the file for the next batch. Returns false if another process holds the lock or the file is full.
    pub(super) fn try_lock_for_batch(&mut self) -> bool {
        if self.held.is_none() {
            self.held = self.lock_in_place(false).transpose();
        }
        // A rotation needs a second lock, for which it may have to wait.
        if self
            .held
            .as_ref()
            .is_some_and(|held| held.as_ref().is_ok_and(|at| *at >= self.rotate_at))
        {
            self.unlock_if_held();
        }
        self.held.is_some()
    }

    /// Unlocks the file, if it is locked.
    pub(super) fn unlock_if_held(&mut self) {
        if let Some(Ok(_)) = self.held.take() {
            // Closing the file releases the lock at the latest.
            let _ = self.file.unlock();
        }
    }

    /// Appends the records to the chain with one write: all of them, or none. `out` receives the written lines.
    pub(super) fn append(
        &mut self,
        batch: &Batch,
        seal: &Seal,
        out: &mut ChainedLines,
    ) -> io::Result<()> {
        let size = match self.held.take() {
            Some(held) => held?,
            None => self.lock_and_wait()?,
        };
        let done = self.append_locked(batch, seal, out, size);
        // Closing the file releases the lock at the latest.
        let _ = self.file.unlock();
        done
    }

    fn append_locked(
        &mut self,
        batch: &Batch,
        seal: &Seal,
        out: &mut ChainedLines,
        size: u64,
    ) -> io::Result<()> {
        let mut end = self.look(seal, size)?;
        let is_whole = end.torn.is_none() && !end.is_open;
        if end.size > 0 && end.size >= self.rotate_at && is_whole {
            self.rotate_at = self.rotate_bytes;
            let size = match self.rotate(&end, seal) {
                Ok(size) => size,
                Err(error) if self.is_gone() => return Err(error),
                Err(error) => {
                    // Keep writing to the full file rather than lose records, and try to rotate later.
                    self.rotate_at = end.size.saturating_add(self.rotate_bytes);
                    tracing::error!(%error, path = %self.path.display(), "cannot move the audit file aside");
                    self.file.metadata()?.len()
                }
            };
            end = self.look(seal, size)?;
        }
        let mut point = end.point;
        lead(&end, seal, &mut point, out);
        out.push_all(seal, &mut point, batch);
        if let Err(error) = self.file.write_all(&out.bytes) {
            // Remove the partial write. If that fails, the next writer finds it when it reads the end of the file.
            if self.file.set_len(end.size).is_err() {
                self.end = None;
            }
            return Err(error);
        }
        let size = end.size + out.bytes.len() as u64;
        self.end = Some(End { size, point, is_open: false, torn: None, begins: Begins::No });
        self.mark(point, size, seal);
        Ok(())
    }

    /// The end of a file of this size. Reads the file again if another process changed it.
    fn look(&mut self, seal: &Seal, size: u64) -> io::Result<End> {
        if let Some(end) = self.end.filter(|end| end.size == size) {
            return Ok(end);
        }
        let found = head::read(&self.path, seal)?;
        let marked = found.mark().map(|mark| mark.point);
        let end = if size == 0 {
            // The chain continues from the previous file.
            let before = self.tail_of_previous(seal);
            let point = later(marked, before.and_then(|tail| tail.point));
            let is_odd = point.is_some() || found == HeadState::Unreadable;
            let fault = found.fault().filter(|_| is_odd);
            let (point, begins) = (point.unwrap_or(Point::START), Begins::Yes(fault));
            End { size, point, is_open: false, torn: None, begins }
        } else {
            goes_on(size, tail::read(&self.file, size, seal)?, found)
        };
        if found == HeadState::Missing && end.point == Point::START {
            // Write the head before the first record: a head that is missing later was removed.
            self.mark(Point::START, 0, seal);
        }
        self.end = Some(end);
        Ok(end)
    }

    fn tail_of_previous(&self, seal: &Seal) -> Option<Tail> {
        let file = File::open(numbered(&self.path, 1)).ok()?;
        tail::read(&file, file.metadata().ok()?.len(), seal).ok()
    }

    fn mark(&mut self, point: Point, size: u64, seal: &Seal) {
        match self.head.write(&HeadMark { point, size }, seal) {
            Ok(()) => self.head_failed = false,
            Err(error) => {
                self.head.forget();
                // Log the error once, not for every batch.
                if !std::mem::replace(&mut self.head_failed, true) {
                    tracing::error!(%error, path = %self.path.display(), "cannot write the head of the audit file");
                }
            }
        }
    }

    fn lock_and_wait(&mut self) -> io::Result<u64> {
        let held = self.lock_in_place(true)?;
        held.ok_or_else(|| io::Error::other("the audit file is locked"))
    }

    /// Locks the file at the path and returns its size. Only the process that holds the lock writes and rotates.
    /// `None` if another process holds the lock and `waits` is false.
    fn lock_in_place(&mut self, waits: bool) -> io::Result<Option<u64>> {
        for tried in 0..MAX_ATTEMPTS {
            // Another process may have rotated the file: reopen the path, so that records do not go to the old file.
            // A first try that does not wait skips this: the check after the lock finds a rotation.
            if (waits || tried > 0)
                && self.size_in_place().is_none()
                && let Err(error) = self.reopen()
            {
                if self.is_gone() {
                    return Err(error);
                }
                tracing::error!(%error, "cannot open the audit file anew; the one that was moved is used");
                let is_held = self.lock(waits)?;
                return is_held.then(|| Ok(self.file.metadata()?.len())).transpose();
            }
            if !self.lock(waits)? {
                return Ok(None);
            }
            if let Some(size) = self.size_in_place() {
                return Ok(Some(size));
            }
            self.file.unlock()?;
        }
        Err(io::Error::other("the audit file is moved aside again and again"))
    }

    fn lock(&self, waits: bool) -> io::Result<bool> {
        if waits {
            return self.file.lock().map(|()| true);
        }
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        // Closing the old file released its lock.
        self.held = None;
        self.head.forget();
        self.end = None;
        self.rotate_at = self.rotate_bytes;
        Ok(())
    }

    /// Renames `audit.jsonl` to `audit.jsonl.1`, that one to `.2` and so on, and removes the oldest. The lock is held
    /// before and after. Returns the size of the next file.
    fn rotate(&mut self, end: &End, seal: &Seal) -> io::Result<u64> {
        // The next file's chain continues from the head.
        self.mark(end.point, end.size, seal);
        self.move_aside()?;
        self.file.unlock()?;
        self.lock_and_wait()
    }

    fn move_aside(&self) -> io::Result<()> {
        if self.keep_files == 0 {
            return fs::remove_file(&self.path);
        }
        for n in (1..self.keep_files).rev() {
            if numbered(&self.path, n).exists() {
                fs::rename(numbered(&self.path, n), numbered(&self.path, n + 1))?;
            }
        }
        fs::rename(&self.path, numbered(&self.path, 1))
    }

    fn size_in_place(&self) -> Option<u64> {
        size_in_place(&self.file, &self.path)
    }

    /// Whether the file was deleted.
    #[cfg(unix)]
    fn is_gone(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        self.file.metadata().is_ok_and(|file| file.nlink() == 0)
    }

    #[cfg(not(unix))]
    fn is_gone(&self) -> bool {
        false
    }
}

/// The size of the file, if the path still leads to it.
#[cfg(unix)]
pub(super) fn size_in_place(file: &File, path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let (ours, there) = (file.metadata().ok()?, fs::metadata(path).ok()?);
    ((ours.dev(), ours.ino()) == (there.dev(), there.ino())).then_some(ours.len())
}

#[cfg(not(unix))]
pub(super) fn size_in_place(file: &File, _: &Path) -> Option<u64> {
    file.metadata().ok().map(|data| data.len())
}

/// The path of a rotated file.
pub(super) fn numbered(path: &Path, n: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    PathBuf::from(name)
}

fn later(one: Option<Point>, other: Option<Point>) -> Option<Point> {
    match (one, other) {
        (Some(one), Some(other)) if other.seq >= one.seq => Some(other),
        (Some(one), _) => Some(one),
        (None, other) => other,
    }
}

/// How the chain continues in a file that is not empty.
fn goes_on(size: u64, tail: Tail, found: HeadState) -> End {
    let marked = found.mark().map(|mark| mark.point);
    let in_file = tail.point.map_or(0, |point| point.seq);
    let (point, begins) = match (tail.point, marked) {
        // The end of the file was cut off. New records must not take the numbers of the missing ones.
        (_, Some(marked)) if marked.seq > in_file => (marked, Begins::Yes(None)),
        (Some(point), Some(_)) if tail.is_ours => (point, Begins::No),
        (Some(point), _) => (point, Begins::Yes(found.fault())),
        (None, _) => (Point::START, Begins::Yes(None)),
    };
    End { size, point, is_open: tail.is_open, torn: tail.torn, begins }
}

/// Writes what has to precede the next record: the end of an incomplete line, a `begin` record and a `torn` record.
fn lead(end: &End, seal: &Seal, point: &mut Point, out: &mut ChainedLines) {
    if end.is_open {
        out.bytes.push(b'\n');
    }
    if let Begins::Yes(head) = end.begins {
        let record = begin(seal.algorithm(), point, head);
        out.push(seal, point, record.as_bytes(), About::now("begin"));
    }
    if let Some(found) = end.torn {
        let record = torn(found.bytes, found.sha256.as_str());
        out.push(seal, point, record.as_bytes(), About::now("torn"));
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

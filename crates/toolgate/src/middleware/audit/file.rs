//! The audit file: append-only, hash-chained, readable by its owner only, rotated when it is full.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Instant,
};

use super::{
    AuditSync,
    batch::{Batch, begin, torn},
    file_lock::{AfterBatch, FileLockState, try_lock},
    head::{self, Head, HeadMark, HeadState},
    output::About,
    rotation::{Retention, Rotation, numbered},
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
    /// What the head does not say yet: it is written at intervals, and before the lock is released.
    unmarked: Option<HeadMark>,
    /// The end of the file after the last write; `None` if it has to be read again.
    end: Option<End>,
    /// The last record that this process wrote. A file without it has lost its end, whatever its head says.
    last: Option<Point>,
    lock: FileLockState,
    /// The size of the locked file, for the next append.
    size: Option<u64>,
    rotation: Rotation,
    rotate_bytes: u64,
    /// The size at which the file is rotated next.
    rotate_at: u64,
    /// The time at which the file is rotated, whatever its size.
    rotate_when: Option<jiff::Timestamp>,
    sync: AuditSync,
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
    pub(super) fn open_with(path: &Path, kept: Retention, sync: AuditSync) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: open(path, sync)?,
            head: Head::of(path),
            head_failed: false,
            unmarked: None,
            end: None,
            last: None,
            lock: FileLockState::new(Instant::now()),
            size: None,
            rotation: Rotation::new(path, kept),
            rotate_bytes: kept.rotate_bytes,
            rotate_at: kept.rotate_bytes,
            rotate_when: None,
            sync,
        })
    }

    /// Whether a write takes no longer than a system call.
    pub(super) fn is_quick(&self) -> bool {
        self.sync == AuditSync::Os
    }

    /// Whether it is a regular file, not a pipe or a device.
    pub(super) fn is_regular(&self) -> bool {
        self.file.metadata().is_ok_and(|data| data.is_file())
    }

    /// Writes to a pipe or device.
    pub(super) fn write_plain(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Locks the file for the next batch, without waiting. Returns false if that takes longer: another process holds
    /// the lock, the file has to be rotated, or there is a fault.
    pub(super) fn try_lock_for_batch(&mut self, seal: &Seal) -> bool {
        let size = self.size_if_held(seal);
        let size = size.or_else(|| self.lock_in_place(false).ok().flatten());
        match size {
            Some(size) if !self.is_full(size) => {
                self.size = Some(size);
                true
            }
            Some(_) => {
                // A rotation needs a second lock, for which it may have to wait.
                self.release(seal);
                false
            }
            None => false,
        }
    }

    /// The size of the file if this process holds its lock. Releases the lock if the file was moved or removed.
    fn size_if_held(&mut self, seal: &Seal) -> Option<u64> {
        if !self.lock.is_held {
            return None;
        }
        let size = if self.lock.begin_path_check_if_due(Instant::now()) {
            self.size_in_place()
        } else {
            self.file.metadata().ok().filter(|data| !has_no_name(data)).map(|data| data.len())
        };
        if size.is_none() {
            self.drop_older_mark(seal);
            self.release(seal);
        }
        size
    }

    /// Leaves a head alone that another process has written since: the file was moved, and its chain went on.
    fn drop_older_mark(&mut self, seal: &Seal) {
        let there = head::read(&self.path, seal).ok().and_then(HeadState::mark);
        self.unmarked.take_if(|ours| there.is_some_and(|there| there.point.seq >= ours.point.seq));
    }

    /// Decides after a batch whether the lock is kept for the next one.
    pub(super) fn after_batch(&mut self, seal: &Seal) {
        self.size = None;
        if !self.lock.is_held {
            return;
        }
        match self.lock.after_batch(Instant::now(), || self.head.is_turn_taken()) {
            AfterBatch::Keep => {}
            AfterBatch::KeepAndMark => self.write_mark(seal),
            AfterBatch::Release => self.release(seal),
        }
    }

    /// Whether this process holds the lock.
    pub(super) fn is_locked(&self) -> bool {
        self.lock.is_held
    }

    /// From now on the lock is released after each batch.
    pub(super) fn never_keep_lock(&mut self) {
        self.lock.never_keep();
    }

    /// Writes the head and releases the lock, if this process holds it.
    pub(super) fn release(&mut self, seal: &Seal) {
        self.size = None;
        if std::mem::take(&mut self.lock.is_held) {
            self.write_mark(seal);
            // Closing the file releases the lock at the latest.
            let _ = self.file.unlock();
        }
    }

    /// Appends the records to the chain with one write: all of them, or none. `out` receives the written lines. The
    /// lock is held afterwards: see [`Self::after_batch`].
    pub(super) fn append(
        &mut self,
        batch: &Batch,
        seal: &Seal,
        out: &mut ChainedLines,
    ) -> io::Result<()> {
        let size = match self.size.take().or_else(|| self.size_if_held(seal)) {
            Some(size) => size,
            None => self.lock_and_wait()?,
        };
        let done = self.append_locked(batch, seal, out, size);
        if done.is_err() {
            self.release(seal);
        }
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
        if end.size > 0 && self.is_full(end.size) && is_whole {
            (self.rotate_at, self.rotate_when) = (self.rotate_bytes, None);
            let size = match self.rotate(&end, seal) {
                Ok(size) => size,
                Err(error) if self.is_removed() => return Err(error),
                Err(error) => {
                    // Keep writing to the full file rather than lose records, and try to rotate later.
                    self.rotate_at = end.size.saturating_add(self.rotate_bytes);
                    tracing::error!(%error, path = %self.path.display(), "cannot move the audit file aside");
                    if self.lock.is_held {
                        self.file.metadata()?.len()
                    } else {
                        self.lock_and_wait()?
                    }
                }
            };
            end = self.look(seal, size)?;
        }
        self.rotation.prune_at_intervals();
        let mut point = end.point;
        lead(&end, seal, &mut point, out);
        out.push_all(seal, &mut point, batch);
        if let Err(error) = self.write(&out.bytes) {
            // Remove the partial write. If that fails, the next writer finds it when it reads the end of the file.
            if self.file.set_len(end.size).is_err() {
                self.end = None;
            }
            return Err(error);
        }
        let size = end.size + out.bytes.len() as u64;
        self.end = Some(End { size, point, is_open: false, torn: None, begins: Begins::No });
        self.last = Some(point);
        self.unmarked = Some(HeadMark { point, size });
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        match self.sync {
            AuditSync::Os => Ok(()),
            AuditSync::Disk => self.file.sync_data(),
        }
    }

    /// Whether a file of this size has to be rotated.
    fn is_full(&self, size: u64) -> bool {
        size >= self.rotate_at
            || self.rotate_when.is_some_and(|when| when <= jiff::Timestamp::now())
    }

    /// The end of a file of this size. Reads the file again if another process changed it.
    fn look(&mut self, seal: &Seal, size: u64) -> io::Result<End> {
        match self.end {
            Some(end) if end.size == size => return Ok(end),
            Some(_) => self.lock.others_wrote(Instant::now()),
            None => {}
        }
        // The head may be one that this process has not written yet.
        self.write_mark(seal);
        let found = head::read(&self.path, seal)?;
        let marked = later(found.mark().map(|mark| mark.point), self.last);
        let end = if size == 0 {
            // The chain continues from the previous file.
            let before = self.tail_of_previous(seal);
            let point = later(marked, before.and_then(|tail| tail.point));
            let is_odd = point.is_some() || found == HeadState::Unreadable;
            let fault = found.fault().filter(|_| is_odd);
            let (point, begins) = (point.unwrap_or(Point::START), Begins::Yes(fault));
            End { size, point, is_open: false, torn: None, begins }
        } else {
            goes_on(size, tail::read(&self.file, size, seal)?, found, marked)
        };
        if found == HeadState::Missing && end.point == Point::START {
            // Write the head before the first record: a head that is missing later was removed.
            self.unmarked = Some(HeadMark { point: Point::START, size: 0 });
            self.write_mark(seal);
        }
        self.rotate_when = self.rotation.due_at(&self.file);
        self.end = Some(end);
        Ok(end)
    }

    fn tail_of_previous(&self, seal: &Seal) -> Option<Tail> {
        let file = File::open(numbered(&self.path, 1)).ok()?;
        tail::read(&file, file.metadata().ok()?.len(), seal).ok()
    }

    /// Writes the head, if it is behind the file.
    fn write_mark(&mut self, seal: &Seal) {
        let Some(mark) = self.unmarked.take() else { return };
        match self.head.write(&mark, seal) {
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
        let locked = self.lock_in_place(true)?;
        locked.ok_or_else(|| io::Error::other("the audit file is locked"))
    }

    /// Locks the file at the path and returns its size. Only the process that holds the lock writes and rotates.
    /// `None` if another process holds the lock and `waits` is false.
    fn lock_in_place(&mut self, waits: bool) -> io::Result<Option<u64>> {
        for tried in 0..MAX_ATTEMPTS {
            // Another process may have rotated the file: reopen the path, so that records do not go to the old file.
            // Not before the first lock: the process that wrote the old file has written its head by then.
            if tried > 0
                && self.size_in_place().is_none()
                && let Err(error) = self.open_again()
            {
                if self.is_removed() {
                    return Err(error);
                }
                tracing::error!(%error, "cannot open the audit file anew; the one that was moved is used");
                if !self.lock(waits)? {
                    return Ok(None);
                }
                self.lock.locked(Instant::now());
                return Ok(Some(self.file.metadata()?.len()));
            }
            if !self.lock(waits)? {
                return Ok(None);
            }
            if let Some(size) = self.size_in_place() {
                self.lock.locked(Instant::now());
                return Ok(Some(size));
            }
            self.file.unlock()?;
        }
        Err(io::Error::other("the audit file is moved aside again and again"))
    }

    fn lock(&mut self, waits: bool) -> io::Result<bool> {
        // After another process has waited for this one, it is that one's turn.
        if !self.lock.gave_way && try_lock(&self.file)? {
            return Ok(true);
        }
        if !waits && !self.lock.gave_way || !self.head.take_turn(waits) {
            return Ok(false);
        }
        let locked = if waits { self.file.lock().map(|()| true) } else { try_lock(&self.file) };
        self.head.end_turn();
        locked
    }

    /// Opens the file at the path, because the one that is open was moved.
    pub(super) fn reopen(&mut self, seal: &Seal) -> io::Result<()> {
        self.release(seal);
        self.open_again()
    }

    fn open_again(&mut self) -> io::Result<()> {
        self.file = open(&self.path, self.sync)?;
        self.head.forget();
        self.end = None;
        (self.rotate_at, self.rotate_when) = (self.rotate_bytes, None);
        Ok(())
    }

    /// Moves the file aside and locks the next one. The lock is held before and after. Returns the size of the next
    /// file.
    fn rotate(&mut self, end: &End, seal: &Seal) -> io::Result<u64> {
        // The next file's chain continues from the head.
        self.unmarked = Some(HeadMark { point: end.point, size: end.size });
        self.write_mark(seal);
        self.rotation.move_aside()?;
        self.release(seal);
        self.lock_and_wait()
    }

    fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|data| has_no_name(&data))
    }

    fn size_in_place(&self) -> Option<u64> {
        size_in_place(&self.file, &self.path)
    }
}

/// Whether the file was removed.
#[cfg(unix)]
fn has_no_name(file: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(file) == 0
}

#[cfg(not(unix))]
fn has_no_name(_: &fs::Metadata) -> bool {
    false
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

fn later(one: Option<Point>, other: Option<Point>) -> Option<Point> {
    match (one, other) {
        (Some(one), Some(other)) if other.seq >= one.seq => Some(other),
        (Some(one), _) => Some(one),
        (None, other) => other,
    }
}

/// How the chain continues in a file that is not empty.
fn goes_on(size: u64, tail: Tail, found: HeadState, marked: Option<Point>) -> End {
    let in_file = tail.point.map_or(0, |point| point.seq);
    let (point, begins) = match (tail.point, marked) {
        // The end of the file was cut off. New records must not take the numbers of the missing ones.
        (_, Some(marked)) if marked.seq > in_file => (marked, Begins::Yes(found.fault())),
        (Some(point), _) if tail.is_ours && found.fault().is_none() => (point, Begins::No),
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

fn open(path: &Path, sync: AuditSync) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    if sync == AuditSync::Disk && file.metadata()?.is_file() {
        // The name of a file that is new: without it, a power cut would take the whole file.
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(file)
}

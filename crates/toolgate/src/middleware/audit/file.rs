//! The audit file: appended to, chained, private to its owner, moved aside when it is full.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::{
    batch::{Batch, begin, torn},
    head::{self, Found, Head, Mark},
    output::About,
    seal::{Point, Seal, Sealed},
    tail::{self, Tail, Torn},
};

/// A file of records that several processes may append to at once.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    head: Head,
    head_failed: bool,
    /// Where the file ended when it was last looked at; `None` if it has to be looked at again.
    end: Option<End>,
    rotate_bytes: u64,
    /// The size at which it is moved aside next.
    rotate_at: u64,
    keep_files: u32,
}

/// The end of the file, and what has to be written before the next record.
#[derive(Clone, Copy, Debug)]
struct End {
    size: u64,
    point: Point,
    is_open: bool,
    torn: Option<Torn>,
    begins: Begins,
}

/// Whether the chain begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    /// It goes on.
    No,
    /// It does; and what is wrong with the head, if something is.
    Yes(Option<&'static str>),
}

/// How often it is tried to get hold of the file while others move it aside.
const TRIES: u32 = 1000;

impl AuditFile {
    pub(super) fn open(path: &Path, rotate_bytes: u64, keep_files: u32) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: open(path)?,
            head: Head::of(path),
            head_failed: false,
            end: None,
            rotate_bytes,
            rotate_at: rotate_bytes,
            keep_files,
        })
    }

    /// Whether it is a file that can be looked at, and not a pipe or a device.
    pub(super) fn is_regular(&self) -> bool {
        self.file.metadata().is_ok_and(|data| data.is_file())
    }

    /// Writes as it is: for what is no regular file.
    pub(super) fn write_plain(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Appends the records, chained, with one write: all of them, or none. What was written is in `out`.
    pub(super) fn append(
        &mut self,
        batch: &Batch,
        seal: &Seal,
        out: &mut Sealed,
    ) -> io::Result<()> {
        self.lock_in_place()?;
        let done = self.append_locked(batch, seal, out);
        // Gone with the file at the latest.
        let _ = self.file.unlock();
        done
    }

    fn append_locked(&mut self, batch: &Batch, seal: &Seal, out: &mut Sealed) -> io::Result<()> {
        let mut end = self.look(seal)?;
        let is_whole = end.torn.is_none() && !end.is_open;
        if end.size > 0 && end.size >= self.rotate_at && is_whole {
            self.rotate_at = self.rotate_bytes;
            if let Err(error) = self.rotate(&end, seal) {
                if self.is_gone() {
                    return Err(error);
                }
                // Too large a file is better than no record. It is tried again later.
                self.rotate_at = end.size.saturating_add(self.rotate_bytes);
                tracing::error!(%error, path = %self.path.display(), "cannot move the audit file aside");
            }
            end = self.look(seal)?;
        }
        let mut point = end.point;
        lead(&end, seal, &mut point, out);
        for (record, about) in batch.records() {
            out.push(seal, &mut point, record, *about);
        }
        if let Err(error) = self.file.write_all(&out.bytes) {
            // What stands there of it now was told to nobody. If it cannot be removed, the next one to
            // write finds it.
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

    /// Where the file ends; read again if it is not what it was.
    fn look(&mut self, seal: &Seal) -> io::Result<End> {
        let size = self.file.metadata()?.len();
        if let Some(end) = self.end.filter(|end| end.size == size) {
            return Ok(end);
        }
        let found = head::read(&self.path, seal)?;
        let marked = found.mark().map(|mark| mark.point);
        let end = if size == 0 {
            // What is there of the chain is in the file before.
            let before = self.tail_of_previous(seal);
            let point = later(marked, before.and_then(|tail| tail.point));
            let is_odd = point.is_some() || found == Found::Unreadable;
            let fault = found.fault().filter(|_| is_odd);
            let (point, begins) = (point.unwrap_or(Point::START), Begins::Yes(fault));
            End { size, point, is_open: false, torn: None, begins }
        } else {
            goes_on(size, tail::read(&self.file, size, seal)?, found)
        };
        if found == Found::Missing && end.point == Point::START {
            // Before the first record: from here on a missing head means that somebody removed it.
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
        match self.head.write(&Mark { point, size }, seal) {
            Ok(()) => self.head_failed = false,
            Err(error) => {
                self.head.forget();
                // Told once, not for every batch.
                if !std::mem::replace(&mut self.head_failed, true) {
                    tracing::error!(%error, path = %self.path.display(), "cannot write the head of the audit file");
                }
            }
        }
    }

    /// Holds the lock on the file that has the name. Whoever holds it is the only one to write, and to move
    /// it aside.
    fn lock_in_place(&mut self) -> io::Result<()> {
        for _ in 0..TRIES {
            // Somebody moved it aside, another process perhaps: what is written there now would go with it.
            if !self.is_in_place()
                && let Err(error) = self.reopen()
            {
                if self.is_gone() {
                    return Err(error);
                }
                tracing::error!(%error, "cannot open the audit file anew; the one that was moved is used");
                return self.file.lock();
            }
            self.file.lock()?;
            if self.is_in_place() {
                return Ok(());
            }
            self.file.unlock()?;
        }
        Err(io::Error::other("the audit file is moved aside again and again"))
    }

    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        self.head.forget();
        self.end = None;
        self.rotate_at = self.rotate_bytes;
        Ok(())
    }

    /// `audit.jsonl` becomes `audit.jsonl.1`, that one `.2`, and so on; the oldest goes. The lock is held,
    /// before and after.
    fn rotate(&mut self, end: &End, seal: &Seal) -> io::Result<()> {
        // The next file begins where this one is said to end.
        self.mark(end.point, end.size, seal);
        self.move_aside()?;
        self.file.unlock()?;
        self.lock_in_place()
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

    fn is_in_place(&self) -> bool {
        is_in_place(&self.file, &self.path)
    }

    /// Whether the file has no name left under which anybody could read it.
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

/// Whether this file is the one that has the name.
#[cfg(unix)]
pub(super) fn is_in_place(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (ours, there) = (file.metadata(), fs::metadata(path));
    matches!((ours, there), (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

#[cfg(not(unix))]
pub(super) fn is_in_place(_: &File, _: &Path) -> bool {
    true
}

/// The name of a file that was moved aside.
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

/// How a file with something in it goes on.
fn goes_on(size: u64, tail: Tail, found: Found) -> End {
    let marked = found.mark().map(|mark| mark.point);
    let in_file = tail.point.map_or(0, |point| point.seq);
    let (point, begins) = match (tail.point, marked) {
        // Its end is gone. What comes next must not take the place of what was there.
        (_, Some(marked)) if marked.seq > in_file => (marked, Begins::Yes(None)),
        (Some(point), Some(_)) if tail.is_ours => (point, Begins::No),
        (Some(point), _) => (point, Begins::Yes(found.fault())),
        (None, _) => (Point::START, Begins::Yes(None)),
    };
    End { size, point, is_open: tail.is_open, torn: tail.torn, begins }
}

/// What is written before the first record: the end of a line that was cut off, what it was, and where the
/// chain begins.
fn lead(end: &End, seal: &Seal, point: &mut Point, out: &mut Sealed) {
    if end.is_open {
        out.bytes.push(b'\n');
    }
    if let Begins::Yes(head) = end.begins {
        let record = begin(seal.algorithm(), point, head);
        out.push(seal, point, &record, About::now("begin"));
    }
    if let Some(found) = end.torn {
        out.push(seal, point, &torn(found.bytes, found.sha256.as_str()), About::now("torn"));
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

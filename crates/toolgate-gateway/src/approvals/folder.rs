//! The folder of approvals: private to one user, changed under a lock, each change durable.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, OFlags};

use super::record::{ApprovalRecord, Key, hex};

/// Where the key is.
const KEY: &str = "key";
/// What is locked.
const LOCK: &str = "lock";
/// What a record's name ends with.
const ENDING: &str = ".approval";
/// What the name of a file ends with that is being written.
const UNFINISHED: &str = ".new";
/// The characters of ids: none that look alike.
const ALPHABET: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";
const ID: usize = 8;
/// A record is smaller; what is larger is none of ours.
const LARGEST: u64 = 256 * 1024;

/// A folder that nobody else changes as long as this lives.
pub(super) struct LockedFolder {
    path: PathBuf,
    folder: File,
    key: Key,
    _lock: File,
}

/// Opens the folder and takes its lock. `None` where it does not exist and is not to be made.
pub(super) fn lock(path: &Path, make: bool) -> io::Result<Option<LockedFolder>> {
    if make {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    }
    let folder = match File::open(path) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
        Err(error) => return Err(error),
    };
    private(&folder, "the folder")?;
    let lock = private_file(&path.join(LOCK), true)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let key = key(path, &folder)?;
    Ok(Some(LockedFolder { path: path.to_owned(), folder, key, _lock: lock }))
}

/// Only its user may read or write it.
fn private(file: &File, what: &str) -> io::Result<()> {
    let about = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if about.uid() != own {
        let (theirs, text) = (about.uid(), "run the command as that user");
        return Err(io::Error::other(format!(
            "{what} belongs to user {theirs}, not to {own}: {text}"
        )));
    }
    if about.mode() & 0o077 != 0 {
        let mode = about.mode() & 0o777;
        return Err(io::Error::other(format!(
            "{what} is open to others (mode {mode:o}): remove their access with `chmod go=`"
        )));
    }
    Ok(())
}

fn private_file(path: &Path, make: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(make).create(make).truncate(false).mode(0o600);
    // A link, or a pipe that nobody writes to, is none of ours.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    private(&file, "the file")?;
    Ok(file)
}

/// The key, made when it is first needed.
fn key(path: &Path, folder: &File) -> io::Result<Key> {
    let place = path.join(KEY);
    let mut key = Key::default();
    match private_file(&place, false) {
        Ok(file) => {
            let mut bytes = Vec::new();
            file.take(64).read_to_end(&mut bytes)?;
            let bytes = Key::try_from(bytes.as_slice());
            bytes.map_err(|_| io::Error::other("the file `key` is damaged: remove the folder"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            getrandom::fill(&mut key).map_err(io::Error::other)?;
            replace(path, folder, KEY, &key)?;
            Ok(key)
        }
        Err(error) => Err(error),
    }
}

/// Writes a file so that, whatever happens, either the old or the new one is there.
fn replace(path: &Path, folder: &File, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut salt = [0; 8];
    getrandom::fill(&mut salt).map_err(io::Error::other)?;
    let new = path.join(format!("{}{UNFINISHED}", hex(&salt)));
    let written = (|| {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, path.join(name))
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written?;
    folder.sync_all()
}

impl LockedFolder {
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// All records, oldest first. What is not ours, or was changed, is left out and told.
    pub(super) fn records(&self) -> io::Result<Vec<ApprovalRecord>> {
        let mut records = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some(id) = name.strip_suffix(ENDING) {
                match self.read(id) {
                    Ok(Some(record)) => records.push(record),
                    Ok(None) => tracing::warn!(
                        "`{}` is left out: toolgate did not write it, or it was changed",
                        self.place(id).display()
                    ),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        tracing::warn!("`{}` is left out: {error}", self.place(id).display());
                    }
                }
            } else if name.ends_with(UNFINISHED) {
                // A process was killed while it wrote: nobody else writes while the lock is ours.
                let _ = std::fs::remove_file(self.path.join(name));
            }
        }
        records.sort_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        Ok(records)
    }

    fn place(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}{ENDING}"))
    }

    fn read(&self, id: &str) -> io::Result<Option<ApprovalRecord>> {
        let file = private_file(&self.place(id), false)?;
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes)?;
        Ok(ApprovalRecord::from_bytes(&bytes, id, &self.key))
    }

    /// Writes a record, over the one that was there.
    pub(super) fn write(&self, record: &ApprovalRecord) -> io::Result<()> {
        let bytes = record.to_bytes(&self.key).map_err(io::Error::other)?;
        replace(&self.path, &self.folder, &format!("{}{ENDING}", record.id), &bytes)
    }

    pub(super) fn remove(&self, record: &ApprovalRecord) {
        // One that stays is removed the next time.
        let _ = std::fs::remove_file(self.place(&record.id));
    }

    /// An id that no record has.
    pub(super) fn new_id(&self) -> io::Result<String> {
        loop {
            let mut bytes = [0; ID];
            getrandom::fill(&mut bytes).map_err(io::Error::other)?;
            let digit = |byte: &u8| ALPHABET.get(usize::from(byte % 32)).map(|c| char::from(*c));
            let id: String = bytes.iter().filter_map(digit).collect();
            if !self.place(&id).exists() {
                return Ok(id);
            }
        }
    }
}

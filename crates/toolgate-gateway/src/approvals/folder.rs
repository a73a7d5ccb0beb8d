//! The folder of approvals. It is private to one user, is changed under a lock, and each change is durable.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, OFlags};

use super::record::{ApprovalRecord, Key, hex};

/// The name of the file with the key.
const KEY: &str = "key";
/// The name of the lock file.
const LOCK: &str = "lock";
/// The ending of a record's file name.
const ENDING: &str = ".approval";
/// The ending of the name of a file that is being written.
const UNFINISHED: &str = ".new";
/// The characters of ids, without those that look alike.
const ALPHABET: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";
const ID_LENGTH: usize = 8;
/// The most bytes that are read of a file. Records of toolgate are smaller.
const MAX_RECORD_BYTES: u64 = 256 * 1024;

/// The folder while this process holds its lock: no other process changes it.
pub(super) struct LockedFolder {
    path: PathBuf,
    folder: File,
    key: Key,
    _lock: File,
}

/// Opens the folder and takes its lock. `None` if it does not exist and `make` is false.
pub(super) fn lock(path: &Path, make: bool) -> io::Result<Option<LockedFolder>> {
    if make {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    }
    let folder = match File::open(path) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !make => return Ok(None),
        Err(error) => return Err(error),
    };
    check_private(&folder, "the folder")?;
    let lock = open_private(&path.join(LOCK), true)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let key = key(path, &folder)?;
    Ok(Some(LockedFolder { path: path.to_owned(), folder, key, _lock: lock }))
}

/// Refuses a file or folder that belongs to another user, or to which others have access.
fn check_private(file: &File, what: &str) -> io::Result<()> {
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

fn open_private(path: &Path, make: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(make).create(make).truncate(false).mode(0o600);
    // toolgate creates no links and no pipes: refuse a link, and do not block on a pipe.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    check_private(&file, "the file")?;
    Ok(file)
}

/// Reads the key, or creates it if there is none.
fn key(path: &Path, folder: &File) -> io::Result<Key> {
    let place = path.join(KEY);
    let mut key = Key::default();
    match open_private(&place, false) {
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

/// Replaces a file atomically: after a crash either the old or the new file exists.
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

    /// All records, oldest first. A file that toolgate did not write, or that was changed, is left out with a warning.
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
                // A process was killed while it wrote this file: only the holder of the lock writes.
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
        let file = open_private(&self.place(id), false)?;
        let mut bytes = Vec::new();
        file.take(MAX_RECORD_BYTES).read_to_end(&mut bytes)?;
        Ok(ApprovalRecord::from_bytes(&bytes, id, &self.key))
    }

    /// Writes a record, and replaces the previous one with the same id.
    pub(super) fn write(&self, record: &ApprovalRecord) -> io::Result<()> {
        let bytes = record.to_bytes(&self.key).map_err(io::Error::other)?;
        replace(&self.path, &self.folder, &format!("{}{ENDING}", record.id), &bytes)
    }

    pub(super) fn remove(&self, record: &ApprovalRecord) {
        // If this fails, the record is removed the next time.
        let _ = std::fs::remove_file(self.place(&record.id));
    }

    /// An id that no record has.
    pub(super) fn new_id(&self) -> io::Result<String> {
        loop {
            let mut bytes = [0; ID_LENGTH];
            getrandom::fill(&mut bytes).map_err(io::Error::other)?;
            let digit = |byte: &u8| ALPHABET.get(usize::from(byte % 32)).map(|c| char::from(*c));
            let id: String = bytes.iter().filter_map(digit).collect();
            if !self.place(&id).exists() {
                return Ok(id);
            }
        }
    }
}

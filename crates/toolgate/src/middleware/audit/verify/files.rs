//! Opens all files of a chain, consistent with each other.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::super::{
    file::size_in_place,
    head::{self, HeadState},
    rotation::rotated_files,
    seal::Seal,
};

/// Attempts to open the files during a rotation.
const MAX_ATTEMPTS: u32 = 1000;
const PAUSES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

pub(super) struct Files {
    /// Oldest first.
    pub(super) parts: Vec<Part>,
    pub(super) head: HeadState,
}

pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) size: u64,
}

impl Files {
    /// Opens the file and the rotated ones, under the lock that prevents writes and rotations.
    ///
    /// A process that keeps the lock releases it, and writes the head, when the turn is taken.
    pub(super) fn open(path: &Path, seal: &Seal) -> io::Result<Self> {
        let mut missing = 0;
        for _ in 0..MAX_ATTEMPTS {
            match File::open(path) {
                Ok(current) => {
                    let turn = File::open(head::path_of(path)).ok();
                    let turn = turn.filter(|turn| cfg!(unix) && turn.lock_shared().is_ok());
                    current.lock_shared()?;
                    let files = size_in_place(&current, path).map(|_| Self::opened(path, seal));
                    current.unlock()?;
                    drop(turn);
                    if let Some(files) = files {
                        return files;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // A rotation is in progress, or toolgate was killed during one.
                    missing += 1;
                    if missing > PAUSES {
                        break;
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        let files = Self::opened(path, seal)?;
        if files.parts.is_empty() {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        Ok(files)
    }

    fn opened(path: &Path, seal: &Seal) -> io::Result<Self> {
        let mut parts = Vec::new();
        for (_, path) in rotated_files(path)? {
            parts.push(Part::open(path)?);
        }
        match Part::open(path.to_owned()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            current => parts.push(current?),
        }
        Ok(Self { parts, head: head::read(path, seal)? })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.size).sum()
    }
}

impl Part {
    fn open(path: PathBuf) -> io::Result<Self> {
        let file = File::open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, size })
    }
}

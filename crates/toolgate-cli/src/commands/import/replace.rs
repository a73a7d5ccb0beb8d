//! Replaces a file that another program may write at the same time.

use std::{
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// Why a file was not replaced.
#[derive(Debug)]
pub(super) enum ReplaceError {
    /// Another program has changed it since it was read.
    Changed,
    /// It is read-only.
    ReadOnly,
    /// The system refuses.
    Io(io::Error),
}

impl std::fmt::Display for ReplaceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Changed => {
                f.write_str("another program has changed it meanwhile: run the command again")
            }
            Self::ReadOnly => f.write_str("it is read-only: make it writable first"),
            Self::Io(error) => write!(f, "cannot write it: {error}"),
        }
    }
}

impl std::error::Error for ReplaceError {}

impl From<io::Error> for ReplaceError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Replaces the content `before` by `after` at once. A symlink stays one: the file that it leads to is replaced, with its
/// mode and its owner.
pub(super) fn replace(path: &Path, before: &str, after: &str) -> Result<(), ReplaceError> {
    let real = std::fs::canonicalize(path)?;
    let metadata = std::fs::metadata(&real)?;
    if metadata.permissions().readonly() {
        return Err(ReplaceError::ReadOnly);
    }
    let new = NewFile::create(&real, &metadata, after)?;
    // As late as possible: the client may write the file at any time.
    if std::fs::read(&real)? != before.as_bytes() {
        return Err(ReplaceError::Changed);
    }
    new.take_place_of(&real)?;
    Ok(())
}

/// The new content beside the file, removed unless it takes the file's place.
struct NewFile {
    path: PathBuf,
    is_placed: bool,
}

impl NewFile {
    fn create(real: &Path, metadata: &std::fs::Metadata, content: &str) -> io::Result<Self> {
        let name = real.file_name().unwrap_or_default().to_string_lossy();
        let path = real.with_file_name(format!(".{name}.toolgate-{}", std::process::id()));
        let mode = metadata.permissions().mode();
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        let new = Self { path, is_placed: false };
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid()) {
            std::os::unix::fs::fchown(&file, Some(metadata.uid()), Some(metadata.gid()))?;
        }
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        Ok(new)
    }

    fn take_place_of(mut self, real: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, real)?;
        self.is_placed = true;
        if let Some(folder) = real.parent() {
            // The rename itself must survive a crash. Some file systems cannot do this.
            let _ = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files_in(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_file_that_was_written_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        std::fs::write(&path, "written by the client").unwrap();
        let replaced = replace(&path, "read before", "ours");
        assert!(matches!(replaced, Err(ReplaceError::Changed)), "{replaced:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "written by the client");
        assert_eq!(files_in(folder.path()), 1, "the new content is removed");
        replace(&path, "written by the client", "ours").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "ours");
        assert_eq!(files_in(folder.path()), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone.json");
        assert!(matches!(replace(&gone, "", "x"), Err(ReplaceError::Io(_))));
    }
}

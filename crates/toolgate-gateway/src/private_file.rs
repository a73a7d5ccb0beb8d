//! Writes files that only their owner can read, atomically.

use std::{
    io::Write as _,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

/// Numbers temporary files, because two writers may write the same file at once.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Creates a folder, and those around it, that only their owner can read. Existing ones keep their mode.
pub(crate) fn create_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a temporary file beside `path` and renames it, so that a reader finds either the old or the new content.
pub(crate) fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    let count = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let new = path.with_extension(format!("{}-{count}.new", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text)?;
    drop(file);
    std::fs::rename(&new, path)
}

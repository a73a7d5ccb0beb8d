//! The errors of a store.

use std::path::{Path, PathBuf};

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The URL names no supported store.
    #[error("{0}")]
    Url(String),
    /// The file cannot be opened or created.
    #[error(
        "cannot open the store `{path}`: {why}; check the path and its permissions, or name another with `store = \"sqlite:PATH\"`"
    )]
    Unopened {
        /// The file.
        path: PathBuf,
        /// The operating system's message.
        why: String,
    },
    /// The folder of the file does not exist.
    #[error(
        "the folder `{folder}` does not exist: create it, or name another file with `store = \"sqlite:PATH\"`"
    )]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// A SQLite database of another program.
    #[error(
        "`{path}` is a SQLite database, but not one of toolgate's; name another file with `store = \"sqlite:PATH\"`"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A newer version of toolgate has changed the schema.
    #[error(
        "the store `{path}` was written by a newer toolgate (its schema is {found}, this toolgate knows {known}); \
         update toolgate, or name another store"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The schema version of the file.
        found: i64,
        /// The newest schema version that this program supports.
        known: i64,
    },
    /// The file is no SQLite database, or a damaged one.
    #[error(
        "the store `{path}` is damaged, or is no SQLite database ({why}); move it away and toolgate starts a new one \
         (`sqlite3 FILE .recover` may get records out of the old one)"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// SQLite's message.
        why: String,
    },
    /// Another process holds the lock of the file.
    #[error("the store `{path}` is locked by another process; try again when that has ended")]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("there is no room left for the store `{path}`; free some, or set `log.keep_bytes`")]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Any other error.
    #[error("the store `{path}` failed: {why}")]
    Failed {
        /// The file.
        path: PathBuf,
        /// SQLite's message.
        why: String,
    },
}

/// SQLite's primary result codes with an error of their own here.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READ_ONLY: u32 = 8;
const CORRUPT: u32 = 11;
const FULL: u32 = 13;
const CANNOT_OPEN: u32 = 14;
const NOT_A_DATABASE: u32 = 26;

impl StoreError {
    /// The error for an error of the database at `path`.
    pub(crate) fn of(path: &Path, error: &sqlx::Error) -> Self {
        let (path, why) = (path.to_owned(), plain(error));
        match primary(error) {
            Some(BUSY | LOCKED) => Self::Busy { path },
            Some(CORRUPT | NOT_A_DATABASE) => Self::Damaged { path, why },
            Some(FULL) => Self::Full { path },
            Some(READ_ONLY | CANNOT_OPEN) => Self::Unopened { path, why },
            _ => Self::Failed { path, why },
        }
    }

    /// Whether a later try may succeed without any change.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

/// SQLite's message without the text that sqlx adds.
fn plain(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        other => other.to_string(),
    }
}

/// The last byte of an extended code is the primary code.
fn primary(error: &sqlx::Error) -> Option<u32> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

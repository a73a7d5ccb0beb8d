//! Why a store cannot do what it was asked.

use std::path::{Path, PathBuf};

/// Why a store cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The text names no store that we know.
    #[error("{0}")]
    Url(String),
    /// The file cannot be opened or made.
    #[error(
        "cannot open the store `{path}`: {why}; check the path and its permissions, or name another with `store = \"sqlite:PATH\"`"
    )]
    Unopened {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// A database of somebody else.
    #[error(
        "`{path}` is a SQLite database, but not one of toolgate's; name another file with `store = \"sqlite:PATH\"`"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A newer toolgate has changed the schema.
    #[error(
        "the store `{path}` was written by a newer toolgate (its schema is {found}, this toolgate knows {known}); \
         update toolgate, or name another store"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The schema of the file.
        found: i64,
        /// The newest schema that we know.
        known: i64,
    },
    /// The file is no database, or no longer a whole one.
    #[error(
        "the store `{path}` is damaged, or is no SQLite database ({why}); move it away and toolgate starts a new one \
         (`sqlite3 FILE .recover` may get records out of the old one)"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        why: String,
    },
    /// Another process holds the file.
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
    /// Anything else.
    #[error("the store `{path}` failed: {why}")]
    Failed {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        why: String,
    },
}

/// SQLite's primary result codes that mean something to people.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READ_ONLY: u32 = 8;
const CORRUPT: u32 = 11;
const FULL: u32 = 13;
const CANNOT_OPEN: u32 = 14;
const NOT_A_DATABASE: u32 = 26;

impl StoreError {
    /// What went wrong in the database at `path`.
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

    /// Whether it passes by itself.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

/// SQLite's own words, without what sqlx puts around them.
fn plain(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        other => other.to_string(),
    }
}

/// The last byte of an extended code is the primary one.
fn primary(error: &sqlx::Error) -> Option<u32> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

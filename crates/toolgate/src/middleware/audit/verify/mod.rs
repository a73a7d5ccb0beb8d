//! Verifies an audit file: that its chain is complete, and which calls have no outcome.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use toolgate::middleware::audit::verify::{Verify, verify};
//!
//! let report = verify("audit.jsonl".as_ref(), &Verify::default())?;
//! for finding in &report.findings {
//!     println!("{}:{}: {}", finding.file.display(), finding.line, finding.what);
//! }
//! # Ok(())
//! # }
//! ```

mod files;
mod report;
mod walk;

use std::{
    io::{self, BufRead as _, BufReader, Read as _},
    path::Path,
};

use files::Files;
pub use report::{Finding, FindingKind, Report, UnfinishedCall};
use walk::ChainVerifier;

use super::{head, seal::Seal};

/// Largest length of a record, in bytes.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

/// Options of a verification.
#[derive(Default)]
pub struct Verify<'a> {
    /// The key of the chain, if it has one.
    pub key: Option<Vec<u8>>,
    /// Receives the progress: bytes read and bytes in all.
    pub progress: Option<&'a dyn Fn(u64, u64)>,
}

impl std::fmt::Debug for Verify<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verify").finish_non_exhaustive()
    }
}

/// Verifies an audit file and its rotated files, oldest first. Reads them once and keeps only the calls that have no
/// outcome yet in memory. toolgate may continue to write meanwhile: records that it adds after the verification started
/// are ignored.
pub fn verify(path: &Path, how: &Verify<'_>) -> io::Result<Report> {
    let seal = match &how.key {
        Some(key) => Seal::keyed(key)?,
        None => Seal::plain(),
    };
    let files = Files::open(path, &seal)?;
    let mut walk = ChainVerifier::new(seal, files.head);
    let (total, mut done) = (files.bytes(), 0);
    for part in &files.parts {
        walk.enter(&part.path);
        let mut reader = BufReader::with_capacity(1 << 16, (&part.file).take(part.size));
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
            if count == 0 {
                break;
            }
            walk.line(&line);
            let before = done;
            done += count as u64;
            if let Some(progress) = how.progress
                && before >> 20 != done >> 20
            {
                progress(done, total);
            }
        }
    }
    Ok(walk.finish(&head::path_of(path)))
}

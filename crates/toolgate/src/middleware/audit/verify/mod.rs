//! Checks an audit file: whether its chain is whole, and which calls have no end.
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
pub use report::{Finding, Report, UnderWay, What};
use walk::Walk;

use super::{head, seal::Seal};

/// A longer line is no record.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// How to check.
#[derive(Default)]
pub struct Verify<'a> {
    /// The key that the records were chained with, if one was.
    pub key: Option<Vec<u8>>,
    /// Told from time to time how many bytes of how many are done.
    pub progress: Option<&'a dyn Fn(u64, u64)>,
}

impl std::fmt::Debug for Verify<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verify").finish_non_exhaustive()
    }
}

/// Checks an audit file and those that were moved aside before it, from the oldest on. Reads them once, and
/// keeps no more than the calls that have no end yet. Toolgate may go on writing meanwhile: what counts is
/// what was there at the start.
pub fn verify(path: &Path, how: &Verify<'_>) -> io::Result<Report> {
    let seal = match &how.key {
        Some(key) => Seal::keyed(key)?,
        None => Seal::plain(),
    };
    let files = Files::open(path, &seal)?;
    let mut walk = Walk::new(seal, files.head);
    let (total, mut done) = (files.bytes(), 0);
    for part in &files.parts {
        walk.enter(&part.path);
        let mut reader = BufReader::with_capacity(1 << 16, (&part.file).take(part.size));
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
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

//! Writes an asciicast file (version 2).

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    time::Instant,
};

use serde_json::json;

/// The kind of an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum CastEvent {
    Output,
    Resize,
    Marker,
}

impl CastEvent {
    const fn code(self) -> &'static str {
        match self {
            Self::Output => "o",
            Self::Resize => "r",
            Self::Marker => "m",
        }
    }
}

/// A file that is being written. Each event is one write, so all lines before a crash are complete.
#[derive(Debug)]
pub(super) struct Cast {
    file: File,
    begun: Instant,
    bytes: u64,
}

impl Cast {
    /// Creates a file that only its owner can read. A number makes `name` unique.
    pub(super) fn create(
        folder: &Path,
        name: &str,
        title: &str,
        size: (u32, u32),
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let now = jiff::Timestamp::now();
        let time = now.strftime("%Y%m%dT%H%M%S%3fZ").to_string().replace('.', "");
        let mut made = Err(io::ErrorKind::AlreadyExists.into());
        for count in 0..100 {
            let more = if count == 0 { String::new() } else { format!("-{count}") };
            let path = folder.join(format!("{name}-{time}{more}.cast"));
            made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            if !matches!(&made, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
                break;
            }
        }
        let mut cast = Self { file: made?, begun: Instant::now(), bytes: 0 };
        let (width, height) = size;
        cast.line(&json!({
            "version": 2,
            "width": width,
            "height": height,
            "timestamp": now.as_second(),
            "title": title,
            "env": {"TERM": "tmux-256color"},
        }))?;
        Ok(cast)
    }

    pub(super) fn event(&mut self, event: CastEvent, data: &str) -> io::Result<()> {
        let at = self.begun.elapsed().as_micros();
        // Microseconds are exact in a double for longer than any recording.
        let at = serde_json::Number::from_f64(
            std::time::Duration::from_micros(u64::try_from(at).unwrap_or(u64::MAX)).as_secs_f64(),
        );
        self.line(&json!([at, event.code(), data]))
    }

    fn line(&mut self, line: &serde_json::Value) -> io::Result<()> {
        let mut line = line.to_string();
        line.push('\n');
        self.file.write_all(line.as_bytes())?;
        self.bytes += u64::try_from(line.len()).unwrap_or_default();
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

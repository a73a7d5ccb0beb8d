//! The recording of one pane.

use std::{io, sync::Arc, time::Duration};

use tokio::{sync::mpsc::Receiver, time::timeout};

use super::{
    RecordConfig,
    cast::{Cast, CastEvent},
};
use crate::{
    engine::{Batch, Command, ListTarget, Row, Server, TmuxError, Wake, Watch, text},
    mask::{ScreenRows, masked_coloured},
};

const FIELDS: &[&str] =
    &["pane_id", "session_id", "pane_width", "pane_height", "cursor_x", "cursor_y"];
/// How long text waits for the rest of its line before it is masked and written.
const LINE_TIMEOUT: Duration = Duration::from_millis(200);
/// How much text may wait for the rest of its line.
const MAX_BUFFERED_BYTES: usize = 64 * 1024;
/// The first and last line of a private key.
const KEY_BEGINS: &str = "-----BEGIN ";
const KEY_ENDS: &str = "-----END ";

/// Why a recording cannot start, or ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("{0}")]
    Tmux(#[from] TmuxError),
    #[error("the pane is gone")]
    Gone,
}

/// A message to a recording.
#[derive(Debug)]
pub(super) enum RecordMessage {
    /// A call writes into the pane.
    Call(String),
    /// Write what is buffered, and end.
    End,
}

pub(super) struct Recording {
    server: Arc<Server>,
    pane: String,
    config: RecordConfig,
    mask: bool,
    watch: Watch,
    session: String,
    size: (u32, u32),
    cast: Cast,
    /// The bytes of an incomplete character.
    partial: Vec<u8>,
    /// Text that waits for the rest of its line.
    waiting: String,
    /// How many bytes of an unfinished private key were left out; `None` outside of a key.
    key: Option<usize>,
}

impl Recording {
    /// Starts a recording with the text on the screen.
    pub(super) async fn begin(
        server: Arc<Server>,
        pane: &str,
        config: &RecordConfig,
        mask: bool,
    ) -> Result<Self, RecordError> {
        let row = look(&server, pane).await?;
        let session = row.text("session_id");
        let watch = server.watch(&session, pane).await?;
        let size = size(&row);
        let cast = create(&server, pane, config, size)?;
        let config = config.clone();
        let (partial, waiting) = (Vec::new(), String::new());
        let pane = pane.to_owned();
        let mut recording = Self {
            server,
            pane,
            config,
            mask,
            watch,
            session,
            size,
            cast,
            partial,
            waiting,
            key: None,
        };
        recording.screen().await?;
        Ok(recording)
    }

    /// Records until the pane or the server ends, or the recorder closes.
    pub(super) async fn run(
        mut self,
        mut notes: Receiver<RecordMessage>,
    ) -> Result<(), RecordError> {
        loop {
            let waits = !self.waiting.is_empty();
            let wake = tokio::select! {
                biased;
                note = notes.recv() => match note {
                    Some(RecordMessage::Call(call)) => {
                        self.flush()?;
                        self.cast.event(CastEvent::Marker, &call)?;
                        continue;
                    }
                    Some(RecordMessage::End) | None => {
                        self.drain().await?;
                        return self.flush();
                    }
                },
                wake = self.watch.next() => wake,
                () = tokio::time::sleep(LINE_TIMEOUT), if waits => {
                    self.flush()?;
                    continue;
                }
            };
            if !self.woken(wake).await? {
                return self.flush();
            }
            if self.cast.bytes() >= self.config.max_bytes {
                self.flush()?;
                self.cast = create(&self.server, &self.pane, &self.config, self.size)?;
                self.screen().await?;
            }
        }
    }

    /// Whether the recording continues.
    async fn woken(&mut self, wake: Wake) -> Result<bool, RecordError> {
        match wake {
            Wake::Output(bytes) => self.output(&bytes)?,
            Wake::Changed => return self.changed().await,
            Wake::Missed => {
                self.flush()?;
                self.cast.event(CastEvent::Marker, "output was missed: the screen follows")?;
                self.screen().await?;
            }
            Wake::Gone => return Ok(false),
        }
        Ok(true)
    }

    /// Writes what was received, at the end.
    async fn drain(&mut self) -> Result<(), RecordError> {
        while let Ok(Wake::Output(bytes)) =
            timeout(Duration::from_millis(50), self.watch.next()).await
        {
            self.output(&bytes)?;
        }
        Ok(())
    }

    /// Handles a change of size or session. Whether the recording continues.
    async fn changed(&mut self) -> Result<bool, RecordError> {
        let row = match look(&self.server, &self.pane).await {
            Err(RecordError::Gone) => return Ok(false),
            row => row?,
        };
        let size = size(&row);
        if size != self.size {
            self.flush()?;
            self.size = size;
            self.cast.event(CastEvent::Resize, &format!("{}x{}", size.0, size.1))?;
        }
        let session = row.text("session_id");
        if session != self.session {
            self.watch = self.server.watch(&session, &self.pane).await?;
            self.session = session;
        }
        Ok(true)
    }

    fn output(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        self.partial.extend_from_slice(bytes);
        let text = whole(&mut self.partial);
        if !self.mask {
            return if text.is_empty() {
                Ok(())
            } else {
                Ok(self.cast.event(CastEvent::Output, &text)?)
            };
        }
        self.waiting.push_str(&text);
        let ready = match self.waiting.rfind('\n') {
            _ if self.waiting.len() > MAX_BUFFERED_BYTES => self.waiting.len(),
            Some(at) => at + 1,
            None => return Ok(()),
        };
        let rest = self.waiting.split_off(ready);
        self.flush()?;
        self.waiting = rest;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        let text = std::mem::take(&mut self.waiting);
        let text = after_key(&text, &mut self.key);
        if !text.is_empty() {
            self.cast.event(CastEvent::Output, &masked_coloured(text))?;
        }
        Ok(())
    }

    /// Writes the current screen as one event.
    async fn screen(&mut self) -> Result<(), RecordError> {
        let capture = |flag| Command::new("capture-pane").flag("-p").flag(flag).target(&*self.pane);
        let batch = Batch::read([capture("-N"), capture("-J"), capture("-e")]);
        let mut captured = self.server.run(batch).await?.into_iter().map(text);
        let mut next = || captured.next().unwrap_or_default();
        let (plain, coloured) = (ScreenRows::new(&next(), &next()), next());
        let row = look(&self.server, &self.pane).await?;
        let coloured = coloured.trim_end_matches('\n');
        let rows = if self.mask { plain.masked_coloured(coloured) } else { coloured.to_owned() };
        let place =
            |name| row.get(name).and_then(|n| n.parse::<u32>().ok()).unwrap_or_default() + 1;
        let (x, y) = (place("cursor_x"), place("cursor_y"));
        let text =
            format!("\u{1b}[H\u{1b}[2J{}\u{1b}[0m\u{1b}[{y};{x}H", rows.replace('\n', "\r\n"));
        Ok(self.cast.event(CastEvent::Output, &text)?)
    }
}

fn create(
    server: &Server,
    pane: &str,
    config: &RecordConfig,
    size: (u32, u32),
) -> io::Result<Cast> {
    let path = server.socket().path();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = config.folder.as_deref().ok_or(io::ErrorKind::NotFound)?;
    let digits = pane.trim_start_matches('%');
    Cast::create(folder, &format!("{name}-{digits}"), &format!("tmux {name} {pane}"), size)
}

async fn look(server: &Server, pane: &str) -> Result<Row, RecordError> {
    let rows = match server.list(ListTarget::Pane(pane), FIELDS).await {
        Err(TmuxError::Refused(_) | TmuxError::NoServer) => return Err(RecordError::Gone),
        rows => rows?,
    };
    rows.into_iter().next().ok_or(RecordError::Gone)
}

fn size(row: &Row) -> (u32, u32) {
    let number = |name| row.get(name).and_then(|n| n.parse().ok()).unwrap_or(80);
    (number("pane_width"), number("pane_height"))
}

/// The text without the rest of a private key that began earlier. The key's rows come one by one, and no detector
/// recognises a single row.
fn after_key<'a>(text: &'a str, key: &mut Option<usize>) -> &'a str {
    let rest = match (&mut *key, text.rfind(KEY_ENDS)) {
        (None, _) => text,
        (Some(_), Some(at)) => text.get(at + KEY_ENDS.len()..).unwrap_or_default(),
        (Some(left_out), None) => {
            *left_out += text.len();
            // No key is longer.
            if *left_out < MAX_BUFFERED_BYTES {
                return "";
            }
            text
        }
    };
    let begins = rest.find(KEY_BEGINS).filter(|_| rest.contains("PRIVATE KEY"));
    *key = begins.filter(|at| !rest.get(*at..).unwrap_or_default().contains(KEY_ENDS)).map(|_| 0);
    rest
}

/// The text up to the last complete character; the bytes of an incomplete one stay.
fn whole(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    loop {
        match std::str::from_utf8(bytes) {
            Ok(valid) => {
                text.push_str(valid);
                bytes.clear();
                return text;
            }
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
                text.push_str(&String::from_utf8_lossy(valid));
                let Some(wrong) = error.error_len() else {
                    bytes.drain(..error.valid_up_to());
                    return text;
                };
                text.push('\u{fffd}');
                bytes.drain(..error.valid_up_to() + wrong);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{after_key, whole};

    #[test]
    fn rows_of_a_key_that_come_one_by_one_are_left_out() {
        let mut key = None;
        let texts = ["a\r\n", "-----BEGIN PRIVATE KEY-----\r\n", "MIIabc\r\n", "x=\r\n"];
        let kept: Vec<&str> = texts.iter().map(|text| after_key(text, &mut key)).collect();
        assert_eq!(kept, ["a\r\n", texts[1], "", ""]);
        assert_eq!(
            after_key("-----END PRIVATE KEY-----\r\n$ ", &mut key),
            "PRIVATE KEY-----\r\n$ "
        );
        assert_eq!(after_key("b", &mut key), "b");
        let whole = "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n";
        assert_eq!(after_key(whole, &mut key), whole);
        assert_eq!(after_key("c", &mut key), "c");
        after_key("-----BEGIN RSA PRIVATE KEY-----\n", &mut key);
        assert_eq!(after_key(&"y".repeat(70_000), &mut key).len(), 70_000, "no key is that long");
    }

    #[test]
    fn characters_that_come_in_parts_are_kept_whole() {
        let mut bytes = Vec::new();
        let mut text = String::new();
        for byte in "a é ü 界 \u{1f980}\x1b[0m".bytes() {
            bytes.push(byte);
            text.push_str(&whole(&mut bytes));
        }
        assert_eq!(text, "a é ü 界 \u{1f980}\x1b[0m");
        bytes.extend(b"a\xffb\xe2\x82");
        assert_eq!(whole(&mut bytes), "a\u{fffd}b");
        assert_eq!(bytes, b"\xe2\x82");
    }
}

//! `toolgate replay`

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, IsTerminal as _, Read as _, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::Value;

/// Resets attributes, cursor, alternate screen, mouse, paste and keypad modes of the terminal.
const RESTORE: &str = "\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l\u{1b}[?1000l\u{1b}[?1002l\u{1b}[?1003l\u{1b}[?1006l\
    \u{1b}[?2004l\u{1b}[?1l\u{1b}>\r\n";

const HELP: &str = "\
Examples:
  Record what an agent does:   toolgate tmux --record ~/recordings
  Play it without long waits:  toolgate replay --idle-limit 1s ~/recordings/FILE.cast
  List the recorded calls:     toolgate replay --markers ~/recordings/FILE.cast";

/// The longest header.
const MAX_HEADER_BYTES: u64 = 64 * 1024;

/// Play a recording of a tmux pane
///
/// `toolgate tmux --record FOLDER` writes recordings: one asciicast file (version 2) for each pane that a tool wrote into.
/// This command shows the output of the recorded programs and runs nothing. Ctrl-C stops it and restores the terminal.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Replay {
    /// The recording: FOLDER/SERVER-PANE-TIME.cast
    file: PathBuf,

    /// Play this many times as fast, for example 2 or 0.5
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = speed)]
    speed: f64,

    /// Shorten longer pauses to this time, for example 1s
    #[arg(long, value_name = "TIME", value_parser = toolgate::duration::parse)]
    idle_limit: Option<Duration>,

    /// Print everything at once, without pauses
    #[arg(long, conflicts_with_all = ["speed", "idle_limit"])]
    cat: bool,

    /// List the calls that wrote into the pane, with their time in seconds and their call id, and play nothing
    #[arg(long, conflicts_with_all = ["speed", "idle_limit", "cat"])]
    markers: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "write a number, as 2 or 0.5".to_owned())?;
    if (0.01..=1000.0).contains(&speed) {
        Ok(speed)
    } else {
        Err("write a number between 0.01 and 1000".to_owned())
    }
}

/// One event: a line after the header.
struct Event {
    at: f64,
    code: String,
    data: String,
}

impl Replay {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let shown = self.file.display();
        let file = File::open(&self.file)
            .map_err(|error| anyhow!("cannot open `{shown}`: {error}; check the path"))?;
        let mut file = BufReader::new(file);
        let mut first = Vec::new();
        // A file that is not a recording may have a first line of any length.
        let read_first = file.by_ref().take(MAX_HEADER_BYTES).read_until(b'\n', &mut first);
        read_first.map_err(|error| anyhow!("cannot read `{shown}`: {error}"))?;
        check(&first).map_err(|why| anyhow!("cannot play `{shown}`: {why}"))?;
        let events =
            file.lines().enumerate().filter(|(_, line)| !line.as_ref().is_ok_and(String::is_empty));
        let events = events.map(|(number, line)| {
            let event = line.ok().and_then(|line| read(&line));
            event.with_context(|| {
                format!("line {} of `{shown}` is not an asciicast event", number + 2)
            })
        });
        let played = if self.cat || self.markers {
            self.print(events)
        } else {
            super::runtime()?.block_on(self.play(events))
        };
        match played {
            // The reader closed the pipe, as with `| head`.
            Err(error) if is_closed(&error) => Ok(ExitCode::SUCCESS),
            played => played,
        }
    }

    fn print(
        &self,
        events: impl Iterator<Item = anyhow::Result<Event>>,
    ) -> anyhow::Result<ExitCode> {
        let mut out = io::stdout().lock();
        for event in events {
            let event = event?;
            match (&*event.code, self.markers) {
                ("o", false) => out.write_all(event.data.as_bytes())?,
                ("m", true) => {
                    // Markers are printed with control characters escaped.
                    writeln!(
                        out,
                        "{:>10.3}  {}",
                        event.at,
                        toolgate::printable::message(&event.data)
                    )?;
                }
                _ => {}
            }
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }

    async fn play(
        &self,
        events: impl Iterator<Item = anyhow::Result<Event>>,
    ) -> anyhow::Result<ExitCode> {
        let restores = io::stdout().is_terminal();
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        let mut before = 0.0;
        let mut ended = Ok(ExitCode::SUCCESS);
        for event in events {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            };
            let pause =
                Duration::try_from_secs_f64((event.at - before) / self.speed).unwrap_or_default();
            before = event.at;
            let pause = self.idle_limit.map_or(pause, |limit| pause.min(limit));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = &mut interrupted => {
                    ended = Ok(ExitCode::from(130));
                    break;
                }
            }
            if event.code == "o" {
                let mut out = io::stdout().lock();
                out.write_all(event.data.as_bytes())?;
                out.flush()?;
            }
        }
        if restores {
            io::stdout().write_all(RESTORE.as_bytes())?;
            io::stdout().flush()?;
        }
        ended
    }
}

/// Whether the reader closed the pipe.
pub(super) fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Checks the header.
fn check(line: &[u8]) -> Result<(), String> {
    let header: Option<Value> = serde_json::from_slice(line).ok();
    let header = header.filter(Value::is_object);
    match header.as_ref().and_then(|header| header.get("version")).and_then(Value::as_u64) {
        Some(2) => Ok(()),
        Some(other) => Err(format!(
            "it is an asciicast file of version {other}, and only version 2 can be played"
        )),
        None => Err("it is not an asciicast file: its first line is not a header".to_owned()),
    }
}

fn read(line: &str) -> Option<Event> {
    let (at, code, data): (f64, String, String) = serde_json::from_str(line).ok()?;
    Some(Event { at, code, data })
}

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

/// Attributes, cursor, other screen, mouse, paste and keypad as a terminal has them to begin with.
const RESTORE: &str = "\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l\u{1b}[?1000l\u{1b}[?1002l\u{1b}[?1003l\u{1b}[?1006l\
    \u{1b}[?2004l\u{1b}[?1l\u{1b}>\r\n";

const HELP: &str = "\
Examples:
  Record what an agent does:  toolgate tmux --record ~/recordings
  See it, without the waits:  toolgate replay --idle-limit 1s ~/recordings/FILE.cast
  Which calls, and when:      toolgate replay --markers ~/recordings/FILE.cast";

/// A header is shorter than this.
const LONGEST_HEADER: u64 = 64 * 1024;

/// Play a recording of a pane, as it was on the screen
///
/// Recordings are asciicast files of version 2, as `toolgate tmux --record FOLDER` makes them: one for each pane that
/// a tool wrote into. Only what programs wrote is played; nothing of it is run again. Ctrl-C ends it and puts the
/// terminal right.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Replay {
    /// The file: FOLDER/SERVER-PANE-TIME.cast
    file: PathBuf,

    /// How many times as fast, as 2 or 0.5
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = speed)]
    speed: f64,

    /// Cut longer pauses to this, as 1s
    #[arg(long, value_name = "TIME", value_parser = toolgate::duration::parse)]
    idle_limit: Option<Duration>,

    /// Print all at once, without pauses
    #[arg(long, conflicts_with_all = ["speed", "idle_limit"])]
    cat: bool,

    /// Play nothing: list the calls that wrote into the pane, with their times and ids in the audit
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

/// One line after the first.
struct Event {
    at: f64,
    code: String,
    data: String,
}

impl Replay {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let shown = self.file.display();
        let file =
            File::open(&self.file).map_err(|error| anyhow!("cannot open {shown}: {error}"))?;
        let mut file = BufReader::new(file);
        let mut first = Vec::new();
        // Whatever it is, no more of it is read than a header has.
        let read_first = file.by_ref().take(LONGEST_HEADER).read_until(b'\n', &mut first);
        read_first.map_err(|error| anyhow!("cannot read {shown}: {error}"))?;
        check(&first).map_err(|why| anyhow!("{shown} cannot be played: {why}"))?;
        let events =
            file.lines().enumerate().filter(|(_, line)| !line.as_ref().is_ok_and(String::is_empty));
        let events = events.map(|(number, line)| {
            let event = line.ok().and_then(|line| read(&line));
            event.with_context(|| {
                format!("line {} of {shown} is no event of an asciicast", number + 2)
            })
        });
        let played = if self.cat || self.markers {
            self.print(events)
        } else {
            super::runtime()?.block_on(self.play(events))
        };
        match played {
            // Whoever reads has seen enough.
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
                    // A marker is for reading: nothing in it may speak to the terminal.
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

/// Whether nobody reads what is written any more.
pub(super) fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The first line says what it is.
fn check(line: &[u8]) -> Result<(), String> {
    let header: Option<Value> = serde_json::from_slice(line).ok();
    let header = header.filter(Value::is_object);
    match header.as_ref().and_then(|header| header.get("version")).and_then(Value::as_u64) {
        Some(2) => Ok(()),
        Some(other) => {
            Err(format!("it is an asciicast of version {other}, and only version 2 is played"))
        }
        None => Err("it is no asciicast: its first line is no header".to_owned()),
    }
}

fn read(line: &str) -> Option<Event> {
    let (at, code, data): (f64, String, String) = serde_json::from_str(line).ok()?;
    Some(Event { at, code, data })
}

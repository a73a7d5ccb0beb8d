//! `toolgate log [OPTIONS] [ID]`

mod call;
mod export;
pub(super) mod look;
mod since;
mod table;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use toolgate::Selector;
use toolgate_store::{CallRecord, Cursor, Filter, Store};

use self::{export::Export, look::Look, since::Since, table::Table};
use crate::{config_file, overlay::state_folder};

/// Read the call log: what was called, by whom, how it ended
///
/// Lists the newest calls, the newest last. With an id (the whole of it, or the part that the list shows)
/// it shows that call with its arguments, its result and the tree of calls that it is part of.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    toolgate log --failed --since 1h           what went wrong within the hour\n  \
    toolgate log -f --tool 'files/write_*'     follow the writes as they happen\n  \
    toolgate log 0a1b2c3d                      one call, with all that belongs to it\n  \
    toolgate log --format csv > calls.csv      all of it, for a spreadsheet")]
pub(crate) struct Log {
    /// Show this call: its id, or the beginning or end of it
    id: Option<String>,

    /// The store to read, as sqlite:FILE [default: toolgate.db in the state folder]
    #[arg(long, value_name = "URL", env = "TOOLGATE_STORE")]
    store: Option<String>,

    /// Read the store that this toolgate.toml names
    #[arg(long, value_name = "FILE", env = "TOOLGATE_CONFIG")]
    config: Option<PathBuf>,

    /// Only these tools: `server/tool`, with `*` and `?`; without a `/` the tool of any server
    #[arg(long, value_name = "SELECTOR", value_parser = selector)]
    tool: Option<Selector>,

    /// Only calls that ended like this; can be repeated
    #[arg(long, value_name = "CLASS", value_delimiter = ',', value_parser = PossibleValuesParser::new(OUTCOMES))]
    outcome: Vec<String>,

    /// Only calls that did not end well
    #[arg(long)]
    failed: bool,

    /// Only calls of this principal, as `local:me` or just `me`
    #[arg(long, value_name = "PRINCIPAL")]
    principal: Option<String>,

    /// Only calls since then: 30m, 2h, 7d, today, 12:30, 2026-01-31, 2026-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN")]
    since: Option<Since>,

    /// How many calls at most [default: 50 in a table, otherwise all]
    #[arg(short = 'n', long = "lines", value_name = "N")]
    lines: Option<usize>,

    /// Go on with new calls as they come
    #[arg(short, long, conflicts_with = "id")]
    follow: bool,

    /// How to write them
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// The names of the outcomes.
const OUTCOMES: [&str; 9] = [
    "ok",
    "tool_error",
    "denied",
    "preview",
    "input_required",
    "cancelled",
    "timed_out",
    "upstream_failed",
    "internal",
];

/// How calls are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// One JSON array
    Json,
    /// One JSON object a line
    Jsonl,
    /// Comma-separated values (RFC 4180), with a line of names
    Csv,
}

fn selector(text: &str) -> Result<Selector, toolgate::BadSelector> {
    if text.contains('/') { text.parse() } else { format!("*/{text}").parse() }
}

/// So many are read at once.
const PAGE: usize = 500;
/// A table shows so many if nobody says otherwise.
const LINES: usize = 50;
/// How often it is looked for new calls.
const PAUSE: Duration = Duration::from_millis(300);

impl Log {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.follow && self.format == Format::Json {
            bail!("`--format json` writes one array, which would never end: use `--format jsonl`");
        }
        let url = self.url()?;
        let path = toolgate_store::sqlite_path(&url)?;
        if !path.exists() {
            bail!(
                "there is no call log at `{path}` yet: keep one with `toolgate wrap --store {url} -- CMD`, or name \
                 another with `--store`",
                path = path.display()
            );
        }
        super::runtime()?.block_on(async {
            let store = toolgate_store::open(&url).await?;
            let done = self.write(&store, &mut io::stdout().lock()).await;
            store.close().await;
            match done.as_ref().map_err(|error| error.downcast_ref::<io::Error>()) {
                // Whoever read it has seen enough.
                Err(Some(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    Ok(ExitCode::SUCCESS)
                }
                _ => done.map(|()| ExitCode::SUCCESS),
            }
        })
    }

    fn url(&self) -> anyhow::Result<String> {
        match (&self.store, &self.config) {
            (Some(url), _) => Ok(url.clone()),
            (None, Some(path)) => config_file::read(path)?.store().with_context(|| {
                format!(
                    "the config `{}` names no store: add `store = \"sqlite:toolgate.db\"`, or give one with `--store`",
                    path.display()
                )
            }),
            (None, None) => {
                let folder = state_folder().ok().context(
                    "no store is named, and neither XDG_STATE_HOME nor HOME is set: name one with `--store`",
                )?;
                Ok(format!("sqlite:{}", folder.join("toolgate.db").display()))
            }
        }
    }

    async fn write(&self, store: &Arc<dyn Store>, out: &mut impl Write) -> anyhow::Result<()> {
        let look = Look::of_stdout();
        if let Some(part) = &self.id {
            return self.one(&**store, part, &look, out).await;
        }
        let mut listing = Listing { store: &**store, writer: self.writer(look), out };
        let mut filter = self.filter();
        let lines = match (self.lines, self.format) {
            (Some(lines), _) => lines,
            (None, Format::Table) => LINES,
            (None, _) => usize::MAX,
        };
        let (written, mut head) = listing.write(&filter, lines).await?;
        if !self.follow {
            if written == 0 && self.format == Format::Table {
                tracing::warn!("no matching calls");
            }
            return listing.finish();
        }
        loop {
            tokio::time::sleep(PAUSE).await;
            filter.newer_than = Some(head);
            (_, head) = listing.write(&filter, usize::MAX).await?;
        }
    }

    fn filter(&self) -> Filter {
        Filter {
            tool: self.tool.clone(),
            outcomes: self.outcome.clone(),
            failed: self.failed,
            principal: self.principal.clone(),
            since_us: self.since.map(Since::as_microsecond),
            ..Filter::default()
        }
    }

    fn writer(&self, look: Look) -> Writer {
        match self.format {
            Format::Table => Writer::Table(Table::new(look)),
            Format::Json => Writer::Export(Export::json()),
            Format::Jsonl => Writer::Export(Export::jsonl()),
            Format::Csv => Writer::Export(Export::csv()),
        }
    }

    /// One call, with the tree that it is part of.
    async fn one(
        &self,
        store: &dyn Store,
        part: &str,
        look: &Look,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let part = part.trim().to_lowercase();
        let filter = Filter { id_part: Some(part.clone()), ..Filter::default() };
        let found = store.query(&filter, 5, None).await?;
        let id = match found.records.as_slice() {
            [] => {
                bail!("there is no call `{part}` in the log: `toolgate log` lists those that are")
            }
            [only] => &only.id,
            several => match several.iter().find(|record| record.id == part) {
                Some(exact) => &exact.id,
                None => bail!(
                    "several calls go by `{part}`: write more of the id, as `{}`",
                    several.first().map_or("", |record| record.id.as_str())
                ),
            },
        };
        let tree = store.tree(id).await?.context("the call was removed a moment ago")?;
        if self.format == Format::Table {
            call::show(&tree, id, look, out)?;
        } else {
            let records: Vec<CallRecord> = tree.nodes.into_iter().map(|node| node.record).collect();
            let mut writer = self.writer(look.clone());
            writer.write(&records, out)?;
            writer.finish(out)?;
        }
        Ok(out.flush()?)
    }
}

/// Calls on their way from a store to a reader.
struct Listing<'a, W> {
    store: &'a dyn Store,
    writer: Writer,
    out: &'a mut W,
}

impl<W: Write> Listing<'_, W> {
    /// Writes the newest records that pass, oldest first. Gives how many, and the place to go on from.
    ///
    /// A store gives the newest first. So the way goes down page by page, keeping no more than where each
    /// began, and up again: a log of any size is written from little memory.
    async fn write(&mut self, filter: &Filter, lines: usize) -> anyhow::Result<(usize, Cursor)> {
        let mut limit = lines.min(PAGE);
        let mut page = self.store.query(filter, limit, None).await?;
        let (head, mut seen) = (page.head, page.records.len());
        let mut above = Vec::new();
        let mut began = None;
        while let Some(next) = page.next.filter(|_| seen < lines) {
            above.push((began, limit));
            (began, limit) = (Some(next), (lines - seen).min(PAGE));
            page = self.store.query(filter, limit, began).await?;
            seen += page.records.len();
        }
        self.page(page.records)?;
        // Only up to the head: what came since is for the next time.
        for (began, limit) in above.into_iter().rev() {
            let began = began.or(Some(head.next()));
            self.page(self.store.query(filter, limit, began).await?.records)?;
        }
        Ok((seen, head))
    }

    fn page(&mut self, mut records: Vec<CallRecord>) -> io::Result<()> {
        records.reverse();
        self.writer.write(&records, self.out)?;
        self.out.flush()
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.writer.finish(self.out)?;
        Ok(self.out.flush()?)
    }
}

/// Writes calls one way or the other.
enum Writer {
    Table(Table),
    Export(Export),
}

impl Writer {
    fn write(&mut self, records: &[CallRecord], out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Table(table) => table.write(records, out),
            Self::Export(export) => export.write(records, out),
        }
    }

    fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Table(_) => Ok(()),
            Self::Export(export) => export.finish(out),
        }
    }
}

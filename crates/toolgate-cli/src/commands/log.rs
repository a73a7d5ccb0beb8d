//! `toolgate log [OPTIONS] [ID]`

mod call;
mod export;
mod since;
pub(super) mod style;
mod table;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use toolgate::Selector;
use toolgate_store::{CallRecord, Cursor, Filter, Store};

use self::{export::Export, since::SinceTime, style::Style, table::Table};
use crate::{chain_args::state_folder, config_file};

/// Show the call log: tools, callers, outcomes
///
/// Lists the newest calls, the newest last. With an id (all of it, or the part that the list shows) it shows that call
/// with its arguments, its result and its tree of nested calls.
///
/// The call log needs a store: `--store` or the key `store` of the config.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    toolgate log --failed --since 1h           calls that failed within the last hour\n  \
    toolgate log -f --tool 'files/write_*'     follow the writes\n  \
    toolgate log 0a1b2c3d                      one call in detail\n  \
    toolgate log --format csv > calls.csv      all calls, for a spreadsheet")]
pub(crate) struct Log {
    /// Show this call: its id, or its first or last characters
    id: Option<String>,

    /// Read this database, sqlite:FILE [default: that of toolgate.toml in this folder, or
    /// ~/.local/state/toolgate/toolgate.db]
    #[arg(long, value_name = "URL", env = "TOOLGATE_STORE")]
    store: Option<String>,

    /// Read the database of this toolgate.toml
    #[arg(long, value_name = "FILE", env = "TOOLGATE_CONFIG")]
    config: Option<PathBuf>,

    /// Show only calls of these tools: server/tool with * and ?, or the name of a tool of any server
    #[arg(long, value_name = "SELECTOR", value_parser = selector)]
    tool: Option<Selector>,

    /// Show only calls with this outcome; can be repeated
    #[arg(long, value_name = "CLASS", value_delimiter = ',', value_parser = PossibleValuesParser::new(OUTCOMES))]
    outcome: Vec<String>,

    /// Show only calls that failed or were denied
    #[arg(long)]
    failed: bool,

    /// Show only calls of this principal: local:me, or me
    #[arg(long, value_name = "PRINCIPAL")]
    principal: Option<String>,

    /// Show only calls since this time: 30m, 2h, 7d, today, 12:30, 2026-01-31, 2026-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN")]
    since: Option<SinceTime>,

    /// Show at most this many calls [default: 50 as a table, otherwise all]
    #[arg(short = 'n', long = "lines", value_name = "N")]
    lines: Option<usize>,

    /// Keep running and show new calls
    #[arg(short, long, conflicts_with = "id")]
    follow: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// The same as `--format json`; with --follow as `--format jsonl`
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// The outcomes, as the log names them.
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

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// One JSON array
    Json,
    /// One JSON object per line
    Jsonl,
    /// Comma-separated values (RFC 4180) with a header line
    Csv,
}

fn selector(text: &str) -> Result<Selector, toolgate::BadSelector> {
    if text.contains('/') { text.parse() } else { format!("*/{text}").parse() }
}

/// How many records one query reads.
const PAGE_SIZE: usize = 500;
/// The config in this folder that may name a store.
const OWN_CONFIG: &str = "toolgate.toml";

/// How many calls a table shows by default.
const DEFAULT_LINES: usize = 50;
/// How often `--follow` queries for new calls.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(300);

impl Log {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.follow && self.format() == Format::Json {
            bail!("`--format json` writes one array, which would never end: use `--format jsonl`");
        }
        let url = self.url()?;
        let path = toolgate_store::sqlite_path(&url)?;
        if !path.exists() {
            bail!(
                "there is no call log at `{path}`: record calls with `toolgate wrap --store {url} -- CMD`, or name another \
                 one with `--store`",
                path = path.display()
            );
        }
        super::runtime()?.block_on(async {
            let store = toolgate_store::open(&url).await?;
            let done = self.write(&store, &mut io::stdout().lock()).await;
            store.close().await;
            match done.as_ref().map_err(|error| error.downcast_ref::<io::Error>()) {
                // The reader closed the pipe, as with `| head`.
                Err(Some(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    Ok(ExitCode::SUCCESS)
                }
                _ => done.map(|()| ExitCode::SUCCESS),
            }
        })
    }

    fn format(&self) -> Format {
        match (self.json, self.follow) {
            (true, true) => Format::Jsonl,
            (true, false) => Format::Json,
            (false, _) => self.format,
        }
    }

    fn url(&self) -> anyhow::Result<String> {
        match (&self.store, &self.config) {
            (Some(url), _) => Ok(url.clone()),
            (None, Some(path)) => config_file::read(path)?.store().with_context(|| {
                format!(
                    "the config `{}` names no store: add `store = \"sqlite:toolgate.db\"`, or name one with `--store`",
                    path.display()
                )
            }),
            (None, None) => {
                // The config that `toolgate serve` reads in this folder.
                let own = Path::new(OWN_CONFIG);
                let config = own.exists().then(|| config_file::read(own)).transpose()?;
                if let Some(url) = config.and_then(|config| config.store()) {
                    return Ok(url);
                }
                let folder = state_folder().ok().context(
                    "no store is named, and neither XDG_STATE_HOME nor HOME is set: name one with `--store`",
                )?;
                Ok(format!("sqlite:{}", folder.join("toolgate.db").display()))
            }
        }
    }

    async fn write(&self, store: &Arc<dyn Store>, out: &mut impl Write) -> anyhow::Result<()> {
        let style = Style::of_stdout();
        if let Some(part) = &self.id {
            return self.one(&**store, part, &style, out).await;
        }
        let mut listing = Listing { store: &**store, writer: self.writer(style), out };
        let mut filter = self.filter();
        let lines = match (self.lines, self.format()) {
            (Some(lines), _) => lines,
            (None, Format::Table) => DEFAULT_LINES,
            (None, _) => usize::MAX,
        };
        let (written, mut head) = listing.write(&filter, lines).await?;
        if !self.follow {
            if written == 0 && self.format() == Format::Table {
                tracing::warn!("no matching calls");
            }
            return listing.finish();
        }
        loop {
            tokio::time::sleep(FOLLOW_INTERVAL).await;
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
            since_us: self.since.map(SinceTime::as_microsecond),
            ..Filter::default()
        }
    }

    fn writer(&self, style: Style) -> Writer {
        match self.format() {
            Format::Table => Writer::Table(Table::new(style)),
            Format::Json => Writer::Export(Export::json()),
            Format::Jsonl => Writer::Export(Export::jsonl()),
            Format::Csv => Writer::Export(Export::csv()),
        }
    }

    /// Shows one call with its tree of nested calls.
    async fn one(
        &self,
        store: &dyn Store,
        part: &str,
        style: &Style,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let part = part.trim().to_lowercase();
        let filter = Filter { id_part: Some(part.clone()), ..Filter::default() };
        let found = store.query(&filter, 5, None).await?;
        let id = match found.records.as_slice() {
            [] => {
                bail!("the log has no call `{part}`: `toolgate log` lists its calls")
            }
            [only] => &only.id,
            several => match several.iter().find(|record| record.id == part) {
                Some(exact) => &exact.id,
                None => bail!(
                    "several calls match `{part}`: write more of the id, as `{}`",
                    several.first().map_or("", |record| record.id.as_str())
                ),
            },
        };
        let tree = store.tree(id).await?.context("the call has just been removed from the log")?;
        if self.format() == Format::Table {
            call::show(&tree, id, style, out)?;
        } else {
            let records: Vec<CallRecord> = tree.nodes.into_iter().map(|node| node.record).collect();
            let mut writer = self.writer(style.clone());
            writer.write(&records, out)?;
            writer.finish(out)?;
        }
        Ok(out.flush()?)
    }
}

/// Reads calls from a store and writes them.
struct Listing<'a, W> {
    store: &'a dyn Store,
    writer: Writer,
    out: &'a mut W,
}

impl<W: Write> Listing<'_, W> {
    /// Writes the newest records that match, oldest first. Returns their number and the position to continue from.
    ///
    /// A store returns the newest records first. The first pass therefore only notes where each page begins, and the
    /// second pass reads the pages in reverse order, so that memory does not grow with the log.
    async fn write(&mut self, filter: &Filter, lines: usize) -> anyhow::Result<(usize, Cursor)> {
        let mut limit = lines.min(PAGE_SIZE);
        let mut page = self.store.query(filter, limit, None).await?;
        let (head, mut seen) = (page.head, page.records.len());
        let mut above = Vec::new();
        let mut began = None;
        while let Some(next) = page.next.filter(|_| seen < lines) {
            above.push((began, limit));
            (began, limit) = (Some(next), (lines - seen).min(PAGE_SIZE));
            page = self.store.query(filter, limit, began).await?;
            seen += page.records.len();
        }
        self.page(page.records)?;
        // Up to the head only: the next query reads newer records.
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

/// Writes calls in one of the formats.
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
            Self::Table(table) => table.finish(out),
            Self::Export(export) => export.finish(out),
        }
    }
}

//! `search_panes`: finds the panes that show a text.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate::{Code, Executed, Failure};

use crate::{
    call::ToolContext,
    engine::{Batch, Command, ListTarget, PrintedBytes, Row, Server, TmuxError},
    patterns::{PatternOptions, compile},
    result_size,
    target::{self, SessionArgs},
    tool::{Model, Tool},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![Tool::readonly("search_panes", "Search tmux Panes", search_panes).about(
        "Use to find which panes show a text, and the lines that do. It searches screens, not metadata; with a \
         negative content_start also history.\nWhen truncated, call it again with a higher offset.",
    )]
}

/// How long a search may take.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(2);
/// How many panes are captured in one round trip.
const PANES_PER_BATCH: usize = 32;

#[derive(Deserialize, JsonSchema)]
struct SearchPanes {
    /// The text, or the regular expression.
    #[schemars(length(min = 1, max = 1000))]
    pattern: String,
    /// Read the pattern as a regular expression.
    #[serde(default)]
    regex: bool,
    #[serde(flatten)]
    session: SessionArgs,
    /// Upper and lower case are different.
    #[serde(default)]
    match_case: bool,
    /// First line: 0 is the top of the screen, negative is history.
    content_start: Option<i32>,
    /// Last line.
    content_end: Option<i32>,
    /// The most lines of a pane, the last ones.
    #[serde(default = "fifty")]
    #[schemars(range(min = 1))]
    max_matched_lines_per_pane: usize,
    /// The most panes; null for all.
    #[serde(default = "most")]
    #[schemars(range(min = 1))]
    limit: Option<usize>,
    /// So many panes are skipped.
    #[serde(default)]
    offset: usize,
}

fn fifty() -> usize {
    50
}

#[expect(clippy::unnecessary_wraps, reason = "the default of an argument that may be null")]
fn most() -> Option<usize> {
    Some(500)
}

#[derive(Serialize, JsonSchema)]
struct PaneMatch {
    pane_id: String,
    pane_left: Option<i64>,
    pane_top: Option<i64>,
    pane_right: Option<i64>,
    pane_bottom: Option<i64>,
    pane_at_left: Option<bool>,
    pane_at_right: Option<bool>,
    pane_at_top: Option<bool>,
    pane_at_bottom: Option<bool>,
    pane_tty: Option<String>,
    pane_current_command: Option<String>,
    pane_current_path: Option<String>,
    window_id: Option<String>,
    window_name: Option<String>,
    session_id: Option<String>,
    session_name: Option<String>,
    matched_lines: Vec<String>,
    is_caller: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
struct SearchPanesResult {
    matches: Vec<PaneMatch>,
    truncated: bool,
    truncated_panes: Vec<String>,
    total_panes_matched: usize,
    offset: usize,
    limit: Option<usize>,
}

const FIELDS: &[&str] = &[
    "pane_id",
    "pane_left",
    "pane_top",
    "pane_right",
    "pane_bottom",
    "pane_at_left",
    "pane_at_right",
    "pane_at_top",
    "pane_at_bottom",
    "pane_tty",
    "pane_current_command",
    "pane_current_path",
    "window_id",
    "window_name",
    "session_id",
    "session_name",
];

impl PaneMatch {
    fn new(row: &Row, matched_lines: Vec<String>, is_caller: Option<bool>) -> Self {
        let number = |field| row.get(field).and_then(|value| value.parse().ok());
        let flag = |field| row.maybe(field).map(|value| value == "1");
        Self {
            pane_id: row.text("pane_id"),
            pane_left: number("pane_left"),
            pane_top: number("pane_top"),
            pane_right: number("pane_right"),
            pane_bottom: number("pane_bottom"),
            pane_at_left: flag("pane_at_left"),
            pane_at_right: flag("pane_at_right"),
            pane_at_top: flag("pane_at_top"),
            pane_at_bottom: flag("pane_at_bottom"),
            pane_tty: row.maybe("pane_tty"),
            pane_current_command: row.maybe("pane_current_command"),
            pane_current_path: row.maybe("pane_current_path"),
            window_id: row.maybe("window_id"),
            window_name: row.maybe("window_name"),
            session_id: row.maybe("session_id"),
            session_name: row.maybe("session_name"),
            matched_lines,
            is_caller,
        }
    }
}

async fn search_panes(
    cx: ToolContext,
    args: SearchPanes,
) -> Result<Model<SearchPanesResult>, Failure> {
    let deadline = Instant::now() + MAX_SEARCH_TIME;
    let how = PatternOptions { regex: args.regex, match_case: args.match_case };
    let pattern = compile(&args.pattern, how)?;
    let (server, mut panes) = panes(&cx, &args.session).await?;
    panes.sort_by_key(|row| row.text("pane_id").trim_start_matches('%').parse::<u64>().ok());
    let mut found = Vec::new();
    for some in panes.chunks(PANES_PER_BATCH) {
        let texts = captures(&server, some, &args).await?;
        for (row, text) in some.iter().zip(texts) {
            let text = crate::engine::text(text.unwrap_or_default());
            let lines = matched(&pattern, &cx.shown(&text), deadline)?;
            if !lines.is_empty() {
                found.push((row, lines));
            }
        }
        // Lets other tasks run.
        tokio::task::yield_now().await;
    }
    let total = found.len();
    let identity = server.identity().await?;
    let page: Vec<_> = found.drain(args.offset.min(total)..).collect();
    let (page, rest) = page.split_at(args.limit.unwrap_or(usize::MAX).min(page.len()));
    let most = args.max_matched_lines_per_pane;
    let cut = page.iter().any(|(_, lines)| lines.len() > most);
    let matches = page.iter().map(|(row, lines)| {
        let kept = lines.get(lines.len().saturating_sub(most)..).unwrap_or_default();
        let kept = kept.to_vec();
        let id = row.get("pane_id").unwrap_or_default();
        let caller = identity.as_deref().and_then(|who| cx.guard().is_caller(who, id));
        PaneMatch::new(row, kept, caller)
    });
    let SearchPage { matches, cut, mut left } = SearchPage::fitting(matches, cut);
    left.extend(rest.iter().map(|(row, _)| row.text("pane_id")));
    Ok(Model(SearchPanesResult {
        matches,
        truncated: cut || !left.is_empty(),
        truncated_panes: left,
        total_panes_matched: total,
        offset: args.offset,
        limit: args.limit,
    }))
}

/// The panes and lines that fit into a result. Without this limit, the chain would cut lines that are not counted.
struct SearchPage {
    matches: Vec<PaneMatch>,
    /// Whether lines were left off.
    cut: bool,
    /// The panes for which there is no room.
    left: Vec<String>,
}

impl SearchPage {
    fn fitting(found: impl Iterator<Item = PaneMatch>, cut: bool) -> Self {
        let (mut page, mut room) =
            (Self { matches: Vec::new(), cut, left: Vec::new() }, result_size::MAX_TEXT_BYTES);
        for mut found in found {
            let lines = std::mem::take(&mut found.matched_lines);
            let bare = result_size::value_cost(&found);
            // A pane that would not fit into an empty page is shortened; another one is left for the next page.
            let tail = result_size::tail_in(
                result_size::MAX_TEXT_BYTES.saturating_sub(bare),
                lines,
                None,
                None,
            );
            found.matched_lines = tail.lines;
            let cost = result_size::value_cost(&found);
            if cost > room || !page.left.is_empty() {
                page.left.push(found.pane_id);
                continue;
            }
            room -= cost;
            page.cut |= tail.left_bytes > 0;
            page.matches.push(found);
        }
        page
    }
}

/// The panes of the session, or all panes. Empty if there is no server.
async fn panes(cx: &ToolContext, args: &SessionArgs) -> Result<(Arc<Server>, Vec<Row>), Failure> {
    let everywhere = args.session_id.is_none() && args.session_name.is_none();
    if everywhere {
        let server = cx.server(args.socket_name.as_deref())?;
        return match server.list(ListTarget::Panes(None), FIELDS).await {
            Err(TmuxError::NoServer) => Ok((server, Vec::new())),
            rows => Ok((server, rows?)),
        };
    }
    let (server, session) = args.find(cx, target::SESSION).await?;
    let rows = server.list(ListTarget::Panes(Some(&session.text("session_id"))), FIELDS).await?;
    Ok((server, rows))
}

/// The screens of these panes, in one round trip; `None` for panes that have ended.
async fn captures(
    server: &Server,
    panes: &[Row],
    args: &SearchPanes,
) -> Result<Vec<Option<PrintedBytes>>, Failure> {
    let capture = |row: &Row| {
        let mut command =
            Command::new("capture-pane").flag("-p").flag("-J").target(row.text("pane_id"));
        for (flag, line) in [("-S", args.content_start), ("-E", args.content_end)] {
            command = line.into_iter().fold(command, |all, n| all.option(flag, n.to_string()));
        }
        command
    };
    match server.run(Batch::read(panes.iter().map(capture))).await {
        Ok(printed) => return Ok(printed.into_iter().map(Some).collect()),
        Err(error) if error.says("can't find pane") => {}
        Err(error) => return Err(error.into()),
    }
    // A pane has ended, and with it the list of commands.
    let mut all = Vec::with_capacity(panes.len());
    for row in panes {
        all.push(match server.run(Batch::read([capture(row)])).await {
            Ok(mut printed) => printed.pop(),
            Err(error) if error.says("can't find pane") => None,
            Err(error) => return Err(error.into()),
        });
    }
    Ok(all)
}

/// The lines that match the pattern.
fn matched(pattern: &Regex, text: &str, deadline: Instant) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for line in text.split('\n').map(|line| line.trim_end_matches(' ')) {
        if Instant::now() >= deadline {
            let message = "Matching took longer than 2.0s.".to_owned();
            return Err(Failure::new(Code::TimedOut, message).with_executed(Executed::No).suggest(
                "Search fewer panes (session_id), fewer lines (content_start), or for a simpler pattern.",
            ));
        }
        if pattern.is_match(line) {
            lines.push(line.to_owned());
        }
    }
    Ok(lines)
}

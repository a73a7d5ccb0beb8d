//! `toolgate explain [CODE]`

mod page;
#[cfg(test)]
mod tests;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::bail;
use clap::Args;
use page::Page;
use serde_json::Value;
use toolgate::{Code, Failure};

use super::log::style::{Paint, Style, wrapped};

/// Explain an error code: what happened, and what to do about it
///
/// Without a code, it lists all codes. Clients read the code in `_meta.code` of a result, or in `error.data.code` of a
/// JSON-RPC error; `toolgate log` and `toolgate why` show it to operators.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    toolgate explain                    all codes, one line each\n  \
    toolgate explain TIER_DENIED        one code; lower case works, too\n  \
    toolgate explain -32602             the codes with this number in JSON-RPC\n  \
    toolgate explain 'midnight UTC'     the codes whose page has these words\n  \
    toolgate explain 'Access denied …'  the code of a message that an agent read")]
pub(crate) struct Explain {
    /// An error code, its number in JSON-RPC, a message, or words
    #[arg(allow_hyphen_values = true)]
    code: Option<String>,

    /// Print one JSON object; for several codes an array
    #[arg(long)]
    json: bool,
}

/// The column in which the sentence about a code begins, in the list.
const COLUMN: usize = 22;
/// The width of a screen if it is unknown.
const WIDTH: usize = 80;
/// How much of an example, in percent, a message must have to be one of the same code.
const MIN_LIKENESS: usize = 60;
/// How different a mistyped code may be from the suggested one.
const MAX_DISTANCE: usize = 8;

impl Explain {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let codes = match &self.code {
            None => Code::ALL.to_vec(),
            Some(text) => find(text)?,
        };
        match self.write(&codes, &Style::of_stdout(), &mut io::stdout().lock()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    fn write(&self, codes: &[Code], style: &Style, out: &mut impl Write) -> io::Result<()> {
        match codes {
            [code] if self.json => writeln!(out, "{}", Page::of(*code).to_json()),
            [code] => write_page(&Page::of(*code), style, out),
            several if self.json => {
                let all: Vec<Value> =
                    several.iter().map(|code| Page::of(*code).to_json()).collect();
                writeln!(out, "{}", Value::from(all))
            }
            several => write_list(several, style, out),
        }
    }
}

/// The codes that a text means: one by name, or several by number or words.
fn find(text: &str) -> anyhow::Result<Vec<Code>> {
    let name = text.trim().to_uppercase().replace(['-', ' '], "_");
    if let Some(code) = Code::by_name(&name) {
        return Ok(vec![code]);
    }
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_uppercase() && c != '_').collect();
    let matching = |is: &dyn Fn(Code) -> bool| -> Vec<Code> {
        Code::ALL.iter().copied().filter(|code| is(*code)).collect()
    };
    let by_number = text.trim().parse::<i64>().ok();
    let phrase = text.trim().to_lowercase();
    let ways: [&dyn Fn(Code) -> bool; 4] = [
        &|code| by_number == Some(code.entry().rpc),
        &|code| Failure::new(code, "").error_type().eq_ignore_ascii_case(text.trim()),
        // A line of a log or a message has the code in it.
        &|code| words.contains(&code.name()),
        &|code| phrase.len() > 2 && Page::of(code).has_words(&phrase),
    ];
    if let Some(found) = ways.into_iter().map(matching).find(|found| !found.is_empty()) {
        return Ok(found);
    }
    let likeness = |code: Code| Page::of(code).likeness(text);
    let best = Code::ALL.iter().map(|code| likeness(*code)).max().unwrap_or_default();
    if best >= MIN_LIKENESS {
        return Ok(matching(&|code| likeness(code) == best));
    }
    let distance = |code: &Code| strsim::damerau_levenshtein(&name, code.name());
    let nearest = Code::ALL.iter().min_by_key(|code| distance(code));
    match nearest.filter(|code| distance(code) <= MAX_DISTANCE) {
        Some(nearest) => bail!(
            "there is no error code `{text}`: did you mean `{}`? `toolgate explain` lists all codes",
            nearest.name()
        ),
        None => bail!("there is no error code `{text}`: `toolgate explain` lists all codes"),
    }
}

fn write_list(codes: &[Code], style: &Style, out: &mut impl Write) -> io::Result<()> {
    let width = style.width.unwrap_or(WIDTH).max(40);
    for code in codes {
        let entry = code.entry();
        let meaning = entry.meaning.trim_end_matches('.');
        let mut start = style.paint(Paint::Strong, &format!("{:COLUMN$}", entry.name)).into_owned();
        for line in wrapped(meaning, width.saturating_sub(COLUMN)) {
            writeln!(out, "{start}{line}")?;
            start = " ".repeat(COLUMN);
        }
    }
    let next = "`toolgate explain CODE` describes one of them and says what to do.";
    writeln!(out, "\n{}", style.paint(Paint::Quiet, next))
}

fn write_page(page: &Page, style: &Style, out: &mut impl Write) -> io::Result<()> {
    let width = style.width.unwrap_or(WIDTH).clamp(40, 100);
    let entry = page.code.entry();
    writeln!(out, "{}", style.paint(Paint::Strong, entry.name))?;
    for line in wrapped(entry.meaning, width) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    for (name, value) in page.facts() {
        let mut start = format!("  {}", style.paint(Paint::Quiet, &format!("{name:9}")));
        for line in wrapped(&value, width.saturating_sub(13)) {
            writeln!(out, "{start}  {line}")?;
            start = " ".repeat(11);
        }
    }
    for (heading, text) in page.sections() {
        writeln!(out, "\n{}", style.paint(Paint::Strong, heading))?;
        for line in text.lines().filter(|line| !line.starts_with("```")) {
            for line in wrapped(line, width - 2) {
                writeln!(out, "{}", format!("  {line}").trim_end())?;
            }
        }
    }
    Ok(())
}

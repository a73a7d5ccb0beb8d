//! `toolgate demo`

mod gateway;
mod server;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Args;
use gateway::{Agent, CallLog, DemoFolder};
use serde_json::{Value, json};
use server::DemoServer;
use toolgate_store::CallRecord;
use toolgate_wire::mcp::method;

use super::log::style::{Paint, Style, clean, fit};

/// See toolgate at work, with two built-in servers
///
/// An agent's calls are allowed, limited, masked, held and refused. Starts a gateway with two built-in servers and calls their tools as an agent would: over MCP, through all layers.
/// It uses no network and writes only to a temporary folder, which it removes at the end. It takes about a second.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Print one JSON object per step
    #[arg(long)]
    json: bool,

    /// Keep the temporary folder, to look at its config, log and audit
    #[arg(long)]
    keep: bool,

    /// Run as one of the demo's servers
    #[arg(long, hide = true)]
    server: Option<DemoServer>,
}

/// The call that `toolgate why` explains at the end.
const EXPLAINED: (&str, &str) = ("files/read_file", r#"{"path": "payroll.csv"}"#);

/// What the agent does, in this order.
const SCRIPT: [(&str, &str, &str); 8] = [
    ("files", "read_file", r#"{"path": "README.md"}"#),
    ("files", "read_file", r#"{"path": "deploy.env"}"#),
    ("files", "read_file", EXPLAINED.1),
    ("tickets", "search", r#"{"text": "printer"}"#),
    ("tickets", "search", r#"{"text": "fire"}"#),
    ("tickets", "search", r#"{"text": "smoke"}"#),
    ("tickets", "close", r#"{"number": 17}"#),
    ("tickets", "purge", r#"{"year": 2026}"#),
];

/// The calls that `toolgate serve` shows as an example.
const SAMPLE: [usize; 2] = [0, 2];

impl Demo {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(server) = self.server {
            server.run()?;
            return Ok(ExitCode::SUCCESS);
        }
        match self.play() {
            // The reader closed the pipe, as with `| head`.
            Err(error) if super::replay::is_closed(&error) => Ok(ExitCode::SUCCESS),
            played => played.map(|()| ExitCode::SUCCESS),
        }
    }

    fn play(&self) -> anyhow::Result<()> {
        let folder = DemoFolder::new(self.keep)?;
        let style = Style::of_stdout();
        let show = |step: &Step| -> io::Result<()> {
            let mut out = io::stdout().lock();
            if self.json {
                writeln!(out, "{}", step.to_json())?;
            } else {
                step.write(&style, &mut out)?;
            }
            out.flush()
        };
        if !self.json {
            writeln!(io::stdout(), "{}\n", style.paint(Paint::Strong, TITLE))?;
        }
        let mut stage = Stage::new(&folder)?;
        show(&stage.list()?)?;
        for (server, tool, arguments) in SCRIPT {
            let step = stage.call(server, tool, arguments)?;
            show(&step)?;
            let Some(id) = step.approval.as_deref() else { continue };
            show(&stage.approve(&folder, id)?)?;
            show(&stage.call(server, tool, arguments)?)?;
        }
        // The log and the audit are complete once the gateway has ended.
        drop(stage);
        if !self.json {
            self.close(&folder, &style)?;
        }
        Ok(())
    }

    /// Shows the log, and why one call was refused, as the operator would look at them.
    fn close(&self, folder: &DemoFolder, style: &Style) -> anyhow::Result<()> {
        let (tool, arguments) = EXPLAINED;
        let config = folder.config();
        let config = config.to_str().context("the temporary folder is not UTF-8: set TMPDIR")?;
        let commands = [
            ("toolgate log".to_owned(), vec!["log", "--config", config]),
            (
                format!("toolgate why {tool} --args '{arguments}'"),
                vec!["why", tool, "--args", arguments, "--config", config],
            ),
        ];
        for (shown, arguments) in commands {
            writeln!(io::stdout(), "\n{}", style.paint(Paint::Strong, &format!("$ {shown}")))?;
            io::stdout().flush()?;
            let mut command = folder.command(&arguments)?;
            if let Some(width) = style.width {
                command.env("COLUMNS", width.to_string());
            }
            command.status().with_context(|| format!("cannot run `{shown}`"))?;
        }
        let mut out = io::stdout().lock();
        writeln!(out, "\n{NEXT}")?;
        if self.keep {
            let state = folder.path().join("state");
            writeln!(
                out,
                "\nThe config, the log and the audit are in {}.",
                folder.path().display()
            )?;
            writeln!(out, "Set XDG_STATE_HOME={} for commands that read them.", state.display())?;
        }
        Ok(())
    }
}

const TITLE: &str = "An agent calls the tools of two servers through toolgate:";

const NEXT: &str = "\
Next, with your own servers:
  toolgate import      puts toolgate in front of the servers of your MCP clients
  toolgate serve       serves all servers of a config at one address
  toolgate init        writes a commented toolgate.toml for your servers";

/// Makes two of the demo's calls and writes a line for each.
pub(super) fn sample(style: &Style, out: &mut impl Write) -> anyhow::Result<()> {
    let folder = DemoFolder::new(false)?;
    let mut stage = Stage::new(&folder)?;
    for (server, tool, arguments) in SAMPLE.iter().filter_map(|at| SCRIPT.get(*at).copied()) {
        stage.call(server, tool, arguments)?.write(style, out)?;
    }
    Ok(())
}

/// The agent and the log of its calls.
struct Stage {
    agent: Agent,
    log: CallLog,
    steps: usize,
}

impl Stage {
    fn new(folder: &DemoFolder) -> anyhow::Result<Self> {
        let agent = Agent::connect(folder)?;
        Ok(Self { agent, log: CallLog::open(folder)?, steps: 0 })
    }

    fn step(&mut self, action: String, verdict: Verdict) -> Step {
        self.steps += 1;
        let number = self.steps;
        Step {
            number,
            action,
            verdict,
            layer: None,
            rule: None,
            text: String::new(),
            approval: None,
            id: None,
        }
    }

    /// Lists the tools, and says which ones the agent does not see.
    fn list(&mut self) -> anyhow::Result<Step> {
        let listed = self.agent.request(method::TOOLS_LIST, &json!({}))?;
        let name = |tool: &Value| text_at(tool, "/name").unwrap_or_default().to_owned();
        let seen: Vec<String> =
            listed.get("tools").and_then(Value::as_array).into_iter().flatten().map(name).collect();
        let all: Vec<String> =
            DemoServer::ALL.iter().flat_map(|one| one.tools()).map(|tool| name(&tool)).collect();
        let hidden: Vec<&str> =
            all.iter().filter(|tool| !seen.contains(tool)).map(String::as_str).collect();
        let mut step = self.step(method::TOOLS_LIST.to_owned(), Verdict::Allowed);
        step.text = format!("{} of {} tools; hidden: {}", seen.len(), all.len(), hidden.join(", "));
        Ok(step)
    }

    fn call(&mut self, server: &str, tool: &str, arguments: &str) -> anyhow::Result<Step> {
        let arguments: Value = serde_json::from_str(arguments)?;
        let values: Vec<String> = arguments
            .as_object()
            .into_iter()
            .flatten()
            .map(|(_, value)| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        let params = json!({"name": tool, "arguments": arguments});
        let result = self.agent.request(method::TOOLS_CALL, &params)?;
        let record = self.log.next(1)?.pop().context("the call log has no record of the call")?;
        let text = text_at(&result, "/content/0/text").unwrap_or_default().to_owned();
        let verdict = match text_at(&result, "/_meta/approval/state") {
            Some("pending") => Verdict::Held,
            _ => Verdict::of(&record, &text),
        };
        let mut step = self.step(format!("{server}/{tool} {}", values.join(" ")), verdict);
        step.layer = match verdict {
            // The record of a call that ran names no layer; the mark in the result is that of `sanitize`.
            Verdict::Masked => Some("sanitize".to_owned()),
            _ => record.decided_by,
        };
        step.rule = record.rule;
        if verdict == Verdict::Held {
            step.approval = text_at(&result, "/_meta/approval/id").map(str::to_owned);
        }
        step.text = text;
        step.id = Some(record.id);
        Ok(step)
    }

    /// Approves a call that waits, as a person would in another terminal.
    fn approve(&mut self, folder: &DemoFolder, id: &str) -> anyhow::Result<Step> {
        let output = folder.command(&["approve", id])?.output()?;
        let mut step = self.step(format!("toolgate approve {id}"), Verdict::Approved);
        let text = if output.status.success() { output.stdout } else { output.stderr };
        String::from_utf8_lossy(&text).trim_end().clone_into(&mut step.text);
        step.layer = Some("a person".to_owned());
        Ok(step)
    }
}

fn text_at<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str()
}

/// What happened to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Masked,
    Limited,
    Held,
    Approved,
    Refused,
    Failed,
}

impl Verdict {
    fn of(record: &CallRecord, text: &str) -> Self {
        match (record.outcome.as_str(), record.code.as_deref()) {
            ("ok", _) if text.contains("[redacted: ") => Self::Masked,
            ("ok", _) => Self::Allowed,
            (_, Some("RATE_LIMITED")) => Self::Limited,
            ("denied", _) => Self::Refused,
            _ => Self::Failed,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Masked => "masked",
            Self::Limited => "limited",
            Self::Held => "held",
            Self::Approved => "approved",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }

    fn paint(self) -> Paint {
        match self {
            Self::Allowed | Self::Approved => Paint::Good,
            Self::Masked | Self::Limited | Self::Held => Paint::Warn,
            Self::Refused | Self::Failed => Paint::Bad,
        }
    }
}

/// One step of the demo.
#[derive(Debug)]
struct Step {
    number: usize,
    /// What the agent, or the person, does.
    action: String,
    verdict: Verdict,
    /// The layer that decided.
    layer: Option<String>,
    /// Its rule.
    rule: Option<String>,
    /// What the agent, or the person, reads.
    text: String,
    /// The id under which the call waits for a person.
    approval: Option<String>,
    /// The id of the record.
    id: Option<String>,
}

impl Step {
    fn write(&self, style: &Style, out: &mut impl Write) -> io::Result<()> {
        let Self { number, action, verdict, layer, .. } = self;
        let width = style.width.unwrap_or(80).max(40);
        let by = layer.as_ref().map(|layer| format!("by {layer}")).unwrap_or_default();
        let line = format!(
            "{number:3}  {:36}  {}  {}",
            fit(&clean(action), 36),
            style.paint(verdict.paint(), &format!("{:8}", verdict.name())),
            clean(&by),
        );
        writeln!(out, "{}", line.trim_end())?;
        let text = self.text.lines().next().unwrap_or_default();
        let text = fit(&clean(text), width.saturating_sub(5)).into_owned();
        writeln!(out, "     {}", style.paint(Paint::Quiet, &text))
    }

    fn to_json(&self) -> Value {
        json!({
            "step": self.number,
            "action": self.action,
            "verdict": self.verdict.name(),
            "layer": self.layer,
            "rule": self.rule,
            "text": self.text,
            "approval": self.approval,
            "call_id": self.id,
        })
    }
}

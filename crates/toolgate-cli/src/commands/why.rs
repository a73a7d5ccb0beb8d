//! `toolgate why TOOL`

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::json;
use toolgate::{
    Call, Code, Context, Control, Explanation, Principal, Session, Tool, ToolId, printable,
};
use toolgate_gateway::{
    config::{Config, SERVER},
    gateway::{InspectedNamespace, InspectedTool, Inspection},
};
use toolgate_wire::{Json, Limits};

use super::log::style::{Paint, Style, wrapped};
use crate::chain_args::ChainArgs;

/// Explain what each layer would do with a call, and why
///
/// Builds the gateway as `toolgate serve` would, from the same config, and starts or connects to the servers to get the real tiers, schemas and
/// names of their tools. It runs no tool. Without --namespace, it explains the call in every namespace that has the
/// tool. With --server, or a command after `--`, it uses that server as `toolgate wrap` would run it.
///
/// Exit status: 0 if the call would run, also if a person has to confirm it first; 1 if not.
#[derive(Debug, Args)]
#[command(mut_arg("namespace", |namespace| namespace.help("Explain the call only in this namespace [default: all that have the tool]")))]
pub(crate) struct Why {
    /// The tool: server/tool, or the name that clients see
    tool: String,

    /// Arguments of the call, as a JSON object
    #[arg(long, value_name = "JSON")]
    args: Option<String>,

    /// Explain a call of this principal: local:NAME, key:ID, subject:ID or anonymous
    #[arg(long = "as", value_name = "PRINCIPAL", value_parser = principal)]
    principal: Option<Principal>,

    /// `_meta` of the call, as a JSON object: policyId, allowedTools
    #[arg(long, value_name = "JSON")]
    meta: Option<String>,

    /// Print a JSON array with one object per namespace
    #[arg(long)]
    json: bool,

    /// Use this server: its command and arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,

    #[command(flatten, next_help_heading = "Config and chain")]
    chain_args: ChainArgs,
}

fn principal(text: &str) -> Result<Principal, String> {
    let parsed = match text.split_once(':') {
        Some(("local", name)) => Principal::Local(name.into()),
        Some(("key", id)) => Principal::Key(id.into()),
        Some(("subject", subject)) => Principal::Subject(subject.into()),
        _ if text == "anonymous" => Principal::Anonymous,
        _ => {
            return Err(format!(
                "`{text}` is not a principal: write local:NAME, key:ID, subject:ID or anonymous"
            ));
        }
    };
    Ok(parsed)
}

impl Why {
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        if self.command.is_empty() {
            super::serve::find_config(&mut self.chain_args);
        }
        let config = self.chain_args.read()?;
        let namespaces = self.namespaces_of_server(&config)?;
        let inspection =
            super::inspect(&self.chain_args, &config, &self.command, namespaces, true)?;
        // Some layers need a runtime to exist; none of them waits for anything here.
        let runtime = super::runtime()?;
        let _entered = runtime.enter();
        let (mut answers, mut missing) = (Vec::new(), Vec::new());
        for namespace in &inspection.namespaces {
            let (tool, wire_name) = match self.find(namespace, &inspection) {
                Ok(found) => found,
                Err(error) => {
                    missing.push(error.to_string());
                    continue;
                }
            };
            let call = Call::new(tool, self.arguments()?);
            answers.push(ToolExplanation::explain(
                namespace,
                self.context(namespace)?,
                call,
                wire_name,
            ));
        }
        if answers.is_empty() {
            missing.dedup();
            bail!("{}", missing.join("\n"));
        }
        let mut out = io::stdout().lock();
        if self.json {
            let all: Vec<serde_json::Value> =
                answers.iter().map(ToolExplanation::to_json).collect();
            writeln!(out, "{}", json!(all))?;
        } else {
            let style = Style::of_stdout();
            for (at, answer) in answers.iter().enumerate() {
                if at > 0 {
                    writeln!(out)?;
                }
                answer.write(&style, &mut out)?;
            }
        }
        let is_allowed = answers.iter().all(|answer| answer.denied_by().is_none());
        Ok(if is_allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The namespaces that have the server of `server/tool`; no others need to be inspected. `None` if the tool is given by
    /// its name alone, or a server or namespace is named.
    fn namespaces_of_server(&self, config: &Config) -> anyhow::Result<Option<Vec<String>>> {
        let chain_args = &self.chain_args;
        if chain_args.namespace.is_some() || chain_args.server.is_some() || !self.command.is_empty()
        {
            return Ok(None);
        }
        let Some((server, _)) = self.tool.split_once('/') else { return Ok(None) };
        let mut having = Vec::new();
        for name in config.namespaces() {
            if config.servers_of(name)?.iter().any(|other| other == server) {
                having.push(name.to_owned());
            }
        }
        Ok((!having.is_empty()).then_some(having))
    }

    /// Finds the tool in a namespace by `server/tool`, by the name that clients see, or by the name that a server gives
    /// it. Also returns the name that clients see, or why they see none.
    fn find(
        &self,
        namespace: &InspectedNamespace,
        inspection: &Inspection,
    ) -> anyhow::Result<(Arc<Tool>, WireName)> {
        let found = |tool: &InspectedTool| {
            let name = tool.wire_name.clone().map_or(WireName::Hidden, WireName::Listed);
            (Arc::clone(&tool.tool), name)
        };
        let servers: Vec<&str> = namespace.servers().collect();
        let named = || servers.iter().map(|s| format!("`{s}`")).collect::<Vec<_>>().join(", ");
        let identity = self.tool.split_once('/').filter(|(server, _)| {
            servers.contains(server) || namespace.by_wire_name(&self.tool).is_none()
        });
        if let Some((server, name)) = identity {
            if !servers.is_empty() && !servers.contains(&server) {
                bail!(
                    "the namespace `{}` has no server `{server}`: it has {}",
                    namespace.name(),
                    named()
                );
            }
            let id = ToolId::new(server, name);
            if let Some(tool) = namespace.tool(&id) {
                return Ok(found(tool));
            }
            fail_if_not_ready(inspection, server)?;
            return Ok((namespace.unlisted(id), WireName::NotListed));
        }
        if let Some(tool) = namespace.by_wire_name(&self.tool) {
            return Ok(found(tool));
        }
        let own: Vec<&InspectedTool> = namespace.by_own_name(&self.tool).collect();
        match (&*own, &*servers) {
            ([only], _) => Ok(found(only)),
            ([], [only]) if inspection.namespaces.len() == 1 => {
                fail_if_not_ready(inspection, only)?;
                Ok((
                    namespace.unlisted(ToolId::new(*only, self.tool.as_str())),
                    WireName::NotListed,
                ))
            }
            ([], []) => {
                let id = ToolId::new(SERVER, self.tool.as_str());
                Ok((namespace.unlisted(id), WireName::NoServer))
            }
            ([], _) => {
                for server in &servers {
                    fail_if_not_ready(inspection, server)?;
                }
                bail!(
                    "no server of the namespace `{}` lists `{}`: it has {}; write `server/tool` to explain the call anyway",
                    namespace.name(),
                    self.tool,
                    named()
                )
            }
            (several, _) => {
                let ids: Vec<String> =
                    several.iter().map(|t| format!("`{}`", t.tool.id())).collect();
                bail!("several servers have a tool `{}`: write {}", self.tool, ids.join(" or "))
            }
        }
    }

    fn arguments(&self) -> anyhow::Result<Option<Json>> {
        self.args.as_deref().map(|text| object(text, "--args")).transpose()
    }

    fn context(&self, namespace: &InspectedNamespace) -> anyhow::Result<Context> {
        let mut session: Session = namespace.session().clone();
        if let Some(principal) = &self.principal {
            session.principal = principal.clone();
        }
        let mut cx = Context::new(Arc::new(session));
        if let Some(text) = &self.meta
            && let Some((control, _)) = Control::extract(&object(text, "--meta")?)
        {
            cx = namespace.narrowed(cx, control);
        }
        Ok(cx)
    }
}

/// The name that clients see of a tool.
enum WireName {
    Listed(String),
    /// Clients do not see the tool, because its name belongs to another one.
    Hidden,
    /// Its server does not list it.
    NotListed,
    /// There is no server that could list it.
    NoServer,
}

/// Fails if the server is not ready: its tools are unknown then.
fn fail_if_not_ready(inspection: &Inspection, name: &str) -> anyhow::Result<()> {
    let server = inspection.servers.iter().find(|server| server.name == name);
    match server.filter(|server| server.state != "ready") {
        Some(server) => {
            let why = server.why.as_deref().unwrap_or("it did not answer in time");
            bail!("cannot list the tools of the server `{name}`: {why}")
        }
        None => Ok(()),
    }
}

fn object(text: &str, option: &str) -> anyhow::Result<Json> {
    let json = Json::parse(text.to_owned(), &Limits::default());
    let json = json.with_context(|| format!("`{option}` is not valid JSON"))?;
    if json.object().is_none() {
        bail!("`{option}` is not a JSON object");
    }
    Ok(json)
}

/// What each layer of one namespace would do with a call.
struct ToolExplanation {
    cx: Context,
    call: Call,
    wire_name: WireName,
    /// The verdicts of the layers, outermost first.
    verdicts: Vec<(&'static str, Explanation)>,
}

impl ToolExplanation {
    fn explain(
        namespace: &InspectedNamespace,
        cx: Context,
        call: Call,
        wire_name: WireName,
    ) -> Self {
        let verdicts = namespace.chain().explain(&cx, &call).into_iter();
        let verdicts = verdicts.filter_map(|(name, verdict)| Some((name, verdict?))).collect();
        Self { cx, call, wire_name, verdicts }
    }

    /// The outermost layer that refuses the call.
    fn denied_by(&self) -> Option<&'static str> {
        self.verdicts.iter().find(|(_, verdict)| !verdict.allowed).map(|(name, _)| *name)
    }

    /// The layer that asks a person.
    fn asked_by(&self) -> Option<&'static str> {
        self.verdicts.iter().find(|(_, verdict)| verdict.asks).map(|(name, _)| *name)
    }

    /// The code of the error that the caller would read.
    fn code(&self) -> Option<Code> {
        let denied = self.verdicts.iter().find(|(_, verdict)| !verdict.allowed);
        let asked = || self.verdicts.iter().find(|(_, verdict)| verdict.asks);
        denied.or_else(asked)?.1.code
    }

    fn tier(&self) -> Option<&'static str> {
        self.call.tool().tier().map(toolgate::Tier::name)
    }

    fn to_json(&self) -> serde_json::Value {
        let name = match &self.wire_name {
            WireName::Listed(name) => Some(name),
            WireName::Hidden | WireName::NotListed | WireName::NoServer => None,
        };
        let listed = match &self.wire_name {
            WireName::Listed(_) | WireName::Hidden => Some(true),
            WireName::NotListed => Some(false),
            WireName::NoServer => None,
        };
        let layers = self.verdicts.iter().map(|(layer, verdict)| {
            let word = match (verdict.allowed, verdict.asks) {
                (true, true) => "asks",
                (true, false) => "allows",
                (false, _) => "denies",
            };
            json!({"layer": layer, "verdict": word, "rule": verdict.rule, "why": verdict.why})
        });
        json!({
            "namespace": &*self.cx.session().namespace,
            "tool": self.call.tool().id().to_string(),
            "name": name,
            "listed": listed,
            "tier": self.tier(),
            "principal": self.cx.principal().to_string(),
            "outcome": match (self.denied_by(), self.asked_by()) {
                (Some(_), _) => "denied",
                (None, Some(_)) => "asked",
                (None, None) => "runs",
            },
            "denied_by": self.denied_by(),
            "code": self.code().map(Code::name),
            "layers": layers.collect::<Vec<_>>(),
        })
    }
}

impl ToolExplanation {
    fn write(&self, style: &Style, out: &mut impl io::Write) -> io::Result<()> {
        let tool = self.call.tool();
        let listed = match &self.wire_name {
            WireName::Listed(name) if name == tool.id().name() => "listed by its server".to_owned(),
            WireName::Listed(name) => format!("listed by its server; clients see it as `{name}`"),
            WireName::Hidden => {
                "listed by its server; clients do not see it, because its name belongs to another tool"
                    .to_owned()
            }
            WireName::NotListed => "NOT listed by its server".to_owned(),
            WireName::NoServer => {
                "no server was asked: name one after `--` to use the tool's real tier and schema"
                    .to_owned()
            }
        };
        let screen = style.width.unwrap_or(usize::MAX);
        let namespace = &self.cx.session().namespace;
        let asked = format!("{} for {} in namespace {namespace}", tool.id(), self.cx.principal());
        writeln!(out, "{}", style.paint(Paint::Strong, &printable::message(&asked)))?;
        let about = format!("{}, {listed}", self.tier().unwrap_or("no tier"));
        for line in wrapped(&printable::message(&about), screen.saturating_sub(2)) {
            writeln!(out, "  {line}")?;
        }
        writeln!(out)?;
        let width = self.verdicts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let room = screen.saturating_sub(width + INDENT).max(MIN_ROOM);
        for (name, verdict) in &self.verdicts {
            let (paint, word) = match (verdict.allowed, verdict.asks) {
                (true, true) => (Paint::Warn, "ASKS  "),
                (true, false) => (Paint::Good, "allows"),
                (false, _) => (Paint::Bad, "DENIES"),
            };
            let word = style.paint(paint, word);
            let mut start = format!("  {name:width$}  {word}");
            for line in wrapped(&printable::message(&verdict.rule), room) {
                writeln!(out, "{start}  {line}")?;
                start = " ".repeat(width + INDENT - 2);
            }
            for line in verdict.why.lines().flat_map(|why| wrapped(&printable::message(why), room))
            {
                let line = style.paint(Paint::Quiet, &line).into_owned();
                writeln!(out, "{:1$}{line}", "", width + INDENT)?;
            }
        }
        let (paint, text) = match (self.denied_by(), self.asked_by()) {
            // A tool can be listed and this call denied: with other arguments the call may run.
            (Some(name), _) => {
                let code =
                    self.code().map(|code| format!(" ({})", code.name())).unwrap_or_default();
                (Paint::Bad, format!("the call would be denied by `{name}`{code}"))
            }
            (None, Some(_)) => {
                (Paint::Warn, "the call would run once a person has confirmed it".to_owned())
            }
            (None, None) => (Paint::Good, "the call would run".to_owned()),
        };
        writeln!(out, "\n{}", style.paint(paint, &text))?;
        let Some(code) = self.code().filter(|_| self.denied_by().is_some()) else { return Ok(()) };
        let next = super::next_step::of_code(code.name()).unwrap_or_default();
        writeln!(out, "{}", style.paint(Paint::Quiet, &next))
    }
}

/// The width of what stands before a rule, without the name of the layer.
const INDENT: usize = "    ALLOWS  ".len();
/// The least width of a rule.
const MIN_ROOM: usize = 24;

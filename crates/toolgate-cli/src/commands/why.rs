//! `toolgate why TOOL`

use std::{ffi::OsString, fmt, io::Write as _, process::ExitCode, sync::Arc};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::json;
use toolgate::{Call, Context, Control, Explained, Principal, Session, Tool, ToolId, printable};
use toolgate_gateway::{
    config::{Config, SERVER},
    gateway::{InspectedNamespace, InspectedTool, Inspection},
};
use toolgate_wire::{Json, Limits};

use crate::overlay::Overlay;

/// Explain, layer by layer and rule by rule, what would happen to a call, and why
///
/// Looks at the gateway that `toolgate serve` would build: servers are started, or reached, and asked for their tools,
/// so that their tiers, schemas and names are the real ones. Without `--namespace`, the call is explained in every
/// namespace that has the tool. With `--server`, or a command after `--`, it looks at that server as `toolgate wrap`
/// would govern it. Exits with 0 if the call would run, also if a person has to confirm it first, and with 1 if not.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The tool: `server/tool`, or the name that clients see
    tool: String,

    /// The arguments of the call, as a JSON object
    #[arg(long, value_name = "JSON")]
    args: Option<String>,

    /// Who calls, as `local:alice` or `key:ci`
    #[arg(long = "as", value_name = "PRINCIPAL", value_parser = principal)]
    principal: Option<Principal>,

    /// The `_meta` of the call, as a JSON object: policyId, allowedTools
    #[arg(long, value_name = "JSON")]
    meta: Option<String>,

    /// Print a JSON array for scripts, with one object for each namespace
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    overlay: Overlay,

    /// The server's command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn principal(text: &str) -> Result<Principal, String> {
    let parsed = match text.split_once(':') {
        Some(("local", name)) => Principal::Local(name.into()),
        Some(("key", id)) => Principal::Key(id.into()),
        Some(("subject", subject)) => Principal::Subject(subject.into()),
        _ if text == "anonymous" => Principal::Anonymous,
        _ => {
            return Err(format!(
                "`{text}` is no principal: write local:NAME, key:ID, subject:ID or anonymous"
            ));
        }
    };
    Ok(parsed)
}

impl Why {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let config = self.overlay.read()?;
        let namespaces = self.namespaces_of_server(&config)?;
        let inspection = super::inspect(&self.overlay, &config, &self.command, namespaces, true)?;
        // Layers may look for a runtime; none of them gets to wait for anything.
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
            answers.push(WouldBe::explain(namespace, self.context(namespace)?, call, wire_name));
        }
        if answers.is_empty() {
            missing.dedup();
            bail!("{}", missing.join("\n"));
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            let all: Vec<serde_json::Value> = answers.iter().map(WouldBe::to_json).collect();
            writeln!(out, "{}", json!(all))?;
        } else {
            let texts: Vec<String> = answers.iter().map(ToString::to_string).collect();
            write!(out, "{}", texts.join("\n"))?;
        }
        let is_allowed = answers.iter().all(|answer| answer.denied_by().is_none());
        Ok(if is_allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The namespaces that have the server of an identity: no others have to be looked at. `None` where the tool is not
    /// given by its identity, or one server or namespace is named.
    fn namespaces_of_server(&self, config: &Config) -> anyhow::Result<Option<Vec<String>>> {
        let overlay = &self.overlay;
        if overlay.namespace.is_some() || overlay.server.is_some() || !self.command.is_empty() {
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

    /// The tool in a namespace: by its identity, by the name that clients see, or by the name that one server has for
    /// it. With the name that clients see, or why there is none.
    fn find(
        &self,
        namespace: &InspectedNamespace,
        inspection: &Inspection,
    ) -> anyhow::Result<(Arc<Tool>, WireName)> {
        let found = |tool: &InspectedTool| {
            let name = tool.wire_name.clone().map_or(WireName::LeftOut, WireName::Listed);
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
            refuse_failed(inspection, server)?;
            return Ok((namespace.unlisted(id), WireName::NotListed));
        }
        if let Some(tool) = namespace.by_wire_name(&self.tool) {
            return Ok(found(tool));
        }
        let own: Vec<&InspectedTool> = namespace.by_own_name(&self.tool).collect();
        match (&*own, &*servers) {
            ([only], _) => Ok(found(only)),
            ([], [only]) if inspection.namespaces.len() == 1 => {
                refuse_failed(inspection, only)?;
                Ok((
                    namespace.unlisted(ToolId::new(*only, self.tool.as_str())),
                    WireName::NotListed,
                ))
            }
            ([], []) => {
                let id = ToolId::new(SERVER, self.tool.as_str());
                Ok((namespace.unlisted(id), WireName::NobodyAsked))
            }
            ([], _) => {
                for server in &servers {
                    refuse_failed(inspection, server)?;
                }
                bail!(
                    "no server of the namespace `{}` lists `{}`: it has {}; write `server/tool` to ask all the same",
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
            && let Some((control, _)) = Control::lift(&object(text, "--meta")?)
        {
            cx = namespace.narrowed(cx, control);
        }
        Ok(cx)
    }
}

/// The name that clients see of a tool.
enum WireName {
    Listed(String),
    /// Its name belongs to another tool.
    LeftOut,
    /// Its server does not list it.
    NotListed,
    /// There is no server to ask.
    NobodyAsked,
}

/// What a server lists that could not be asked is not known, so nothing is explained.
fn refuse_failed(inspection: &Inspection, name: &str) -> anyhow::Result<()> {
    let server = inspection.servers.iter().find(|server| server.name == name);
    match server.filter(|server| server.state != "ready") {
        Some(server) => {
            let why = server.why.as_deref().unwrap_or("it did not answer in time");
            bail!("cannot look at the tools of the server `{name}`: {why}")
        }
        None => Ok(()),
    }
}

fn object(text: &str, option: &str) -> anyhow::Result<Json> {
    let json = Json::parse(text.to_owned(), &Limits::default());
    let json = json.with_context(|| format!("`{option}` is not JSON"))?;
    if json.object().is_none() {
        bail!("`{option}` is not a JSON object");
    }
    Ok(json)
}

/// What would happen to a call in one namespace.
struct WouldBe {
    cx: Context,
    call: Call,
    wire_name: WireName,
    /// The layers that decide about it, outermost first.
    verdicts: Vec<(&'static str, Explained)>,
}

impl WouldBe {
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

    fn tier(&self) -> Option<&'static str> {
        self.call.tool().tier().map(toolgate::Tier::name)
    }

    fn to_json(&self) -> serde_json::Value {
        let name = match &self.wire_name {
            WireName::Listed(name) => Some(name),
            WireName::LeftOut | WireName::NotListed | WireName::NobodyAsked => None,
        };
        let listed = match &self.wire_name {
            WireName::Listed(_) | WireName::LeftOut => Some(true),
            WireName::NotListed => Some(false),
            WireName::NobodyAsked => None,
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
            "layers": layers.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for WouldBe {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tool = self.call.tool();
        let listed = match &self.wire_name {
            WireName::Listed(name) if name == tool.id().name() => "listed by its server".to_owned(),
            WireName::Listed(name) => format!("listed by its server; clients see it as `{name}`"),
            WireName::LeftOut => {
                "listed by its server; clients do not see it, because its name belongs to another tool"
                    .to_owned()
            }
            WireName::NotListed => "NOT listed by its server".to_owned(),
            WireName::NobodyAsked => {
                "no server was asked: give one after `--` for the tool's real tier and schema"
                    .to_owned()
            }
        };
        let namespace = &self.cx.session().namespace;
        let asked = format!("{} for {} in namespace {namespace}", tool.id(), self.cx.principal());
        writeln!(out, "{}", printable::message(&asked))?;
        let tier = self.tier().unwrap_or("no tier");
        writeln!(out, "  {tier}, {}\n", printable::message(&listed))?;
        let width = self.verdicts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, verdict) in &self.verdicts {
            let word = match (verdict.allowed, verdict.asks) {
                (true, true) => "ASKS  ",
                (true, false) => "allows",
                (false, _) => "DENIES",
            };
            writeln!(out, "  {name:width$}  {word}  {}", printable::message(&verdict.rule))?;
            for why in verdict.why.lines() {
                writeln!(out, "  {:width$}          {}", "", printable::message(why))?;
            }
        }
        match (self.denied_by(), self.asked_by()) {
            // Whether the tool is listed is another question: with other arguments the call may run.
            (Some(name), _) => writeln!(out, "\nthe call would be denied by `{name}`"),
            (None, Some(_)) => writeln!(out, "\nthe call would run once a person has confirmed it"),
            (None, None) => writeln!(out, "\nthe call would run"),
        }
    }
}

//! `toolgate why TOOL`

use std::{ffi::OsString, io::Write as _, process::ExitCode, sync::Arc};

use anyhow::{Context as _, bail};
use clap::Args;
use toolgate::{Call, Context, Control, Principal, Session, printable};
use toolgate_gateway::wrap::Inspection;
use toolgate_wire::{Json, Limits};

use crate::overlay::Overlay;

/// Explain, layer by layer and rule by rule, what would happen to a call, and why
///
/// With a server (after `--`, or named in the config) it is started and asked for its tools, so that
/// their tiers and schemas are the real ones. Exits with 0 if the call would run, also if a person has to confirm it
/// first, and with 1 if not.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The tool: its own name, or `server/name`
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
        let inspection = super::inspect(&self.overlay, &self.command)?;
        let name = match self.tool.split_once('/') {
            Some((server, name)) if server == inspection.server() => name,
            Some((server, _)) => bail!("the server is `{}`, not `{server}`", inspection.server()),
            None => &self.tool,
        };
        let call = Call::new(inspection.tool(name), self.arguments()?);
        let cx = self.context(&inspection)?;
        // Layers may look for a runtime; none of them gets to wait for anything.
        let runtime = super::runtime()?;
        let _entered = runtime.enter();
        let allowed = tell(&inspection, &cx, &call)?;
        Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn arguments(&self) -> anyhow::Result<Option<Json>> {
        self.args.as_deref().map(|text| object(text, "--args")).transpose()
    }

    fn context(&self, inspection: &Inspection) -> anyhow::Result<Context> {
        let mut session: Session = inspection.session().clone();
        if let Some(principal) = &self.principal {
            session.principal = principal.clone();
        }
        let mut cx = Context::new(Arc::new(session));
        if let Some(text) = &self.meta
            && let Some((control, _)) = Control::lift(&object(text, "--meta")?)
        {
            cx = cx.with_control(control);
        }
        Ok(cx)
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

/// Writes the verdict of each layer; gives whether the call would run.
fn tell(inspection: &Inspection, cx: &Context, call: &Call) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    let tool = call.tool();
    let tier = tool.tier().map_or("no tier", toolgate::Tier::name);
    let listed = match (tool.definition(), inspection.tools.is_empty()) {
        (Some(_), _) => "listed by its server",
        (None, false) => "NOT listed by its server",
        (None, true) => {
            "no server was asked: give one after `--` for the tool's real tier and schema"
        }
    };
    let asked =
        format!("{} for {} in namespace {}", tool.id(), cx.principal(), cx.session().namespace);
    writeln!(out, "{}", printable::message(&asked))?;
    writeln!(out, "  {tier}, {listed}\n")?;
    let verdicts = inspection.chain().explain(cx, call);
    let width = verdicts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let (mut denied_by, mut asked_by) = (None, None);
    for (name, verdict) in verdicts {
        let Some(verdict) = verdict else { continue };
        let word = match (verdict.allowed, verdict.asks) {
            (true, true) => "ASKS  ",
            (true, false) => "allows",
            (false, _) => "DENIES",
        };
        writeln!(out, "  {name:width$}  {word}  {}", printable::message(&verdict.rule))?;
        for why in verdict.why.lines() {
            writeln!(out, "  {:width$}          {}", "", printable::message(why))?;
        }
        if !verdict.allowed && denied_by.is_none() {
            denied_by = Some(name);
        }
        if verdict.asks {
            asked_by = Some(name);
        }
    }
    match (denied_by, asked_by) {
        // Whether the tool is listed is another question: with other arguments the call may run.
        (Some(name), _) => writeln!(out, "\nthe call would be denied by `{name}`")?,
        (None, Some(_)) => writeln!(out, "\nthe call would run once a person has confirmed it")?,
        (None, None) => writeln!(out, "\nthe call would run")?,
    }
    Ok(denied_by.is_none())
}

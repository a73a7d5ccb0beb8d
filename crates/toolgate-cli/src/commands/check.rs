//! `toolgate check`

use std::{ffi::OsString, io::Write as _, path::Path, process::ExitCode, sync::Arc};

use clap::Args;
use toolgate::{
    Call, Context, Middleware as _, ToolId,
    middleware::validate::{Validate, ValidateConfig},
};
use toolgate_gateway::wrap::{Inspection, NAMESPACE};

use crate::overlay::Overlay;

/// Check the config: keys, chain order, policies, selectors and, with a server, its tools
///
/// With a server (after `--`, or named in the config) it is started and asked for its tools: tools
/// without a tier, selectors that cover nothing, names that collide and schemas that cannot be used are
/// found too. Exits with 0 if all is well, with 1 if
/// something needs a look, with 2 if the config is refused.
#[derive(Clone, Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    overlay: Overlay,

    /// Check the settings alone, without starting a server
    #[arg(long)]
    offline: bool,

    /// The server's command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Check {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let config = self.overlay.read()?;
        let names = config.namespaces();
        if self.overlay.namespace != NAMESPACE || names.contains(&NAMESPACE) {
            return self.check();
        }
        // A config without `default`: each of its namespaces is checked.
        let mut code = ExitCode::SUCCESS;
        for name in names {
            let mut one = self.clone();
            name.clone_into(&mut one.overlay.namespace);
            writeln!(std::io::stdout(), "ok    namespace `{name}`:")?;
            if one.check()? != ExitCode::SUCCESS {
                code = ExitCode::FAILURE;
            }
        }
        Ok(code)
    }

    fn check(&self) -> anyhow::Result<ExitCode> {
        super::tmux::check(&self.overlay, &self.overlay.read()?)?;
        let inspection = if self.offline {
            let mut options = super::chain::without_server(&self.overlay);
            options.telemetry = self.overlay.telemetry(&self.overlay.read()?)?;
            Inspection::of_settings(&options)?
        } else {
            super::inspect(&self.overlay, &self.command)?
        };
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "ok    the config is read, and its chain has {} layers",
            inspection.chain().layers().len()
        )?;
        let config = self.overlay.read()?;
        let unused = config.without_namespace().into_iter().map(|server| {
            format!("the server `{server}` belongs to no namespace, so no client can reach it")
        });
        let mut findings: Vec<String> = unused.chain(config.exposure(None)).collect();
        findings.extend(findings_of(&inspection));
        if inspection.tools.is_empty() {
            writeln!(out, "note  no server was asked: tools are not checked")?;
        } else {
            writeln!(out, "ok    the server lists {} tools", inspection.tools.len())?;
        }
        if let Some(note) = asked_about(&inspection) {
            writeln!(out, "note  {}", toolgate::printable::message(&note))?;
        }
        for finding in &findings {
            writeln!(out, "look  {}", toolgate::printable::message(finding))?;
        }
        Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The tools whose calls a person has to confirm.
fn asked_about(inspection: &Inspection) -> Option<String> {
    let cx = Context::new(Arc::new(inspection.session().clone()));
    let asks = |tool: &&Arc<toolgate::Tool>| {
        let verdicts = inspection.chain().explain(&cx, &Call::new(Arc::clone(tool), None));
        verdicts.into_iter().any(|(_, verdict)| verdict.is_some_and(|verdict| verdict.asks))
    };
    let tools = inspection.tools.iter().filter(asks);
    let tools: Vec<String> = tools.map(|tool| format!("`{}`", tool.id())).collect();
    (!tools.is_empty()).then(|| format!("a person has to confirm calls of {}", tools.join(", ")))
}

/// Tools whose published schema could not be checked against: judged by the layer that would do it.
fn unusable_schemas(inspection: &Inspection) -> Vec<String> {
    let strict = ValidateConfig { input_schema: true, strict: true, ..ValidateConfig::default() };
    let Ok(validate) = Validate::new(&strict, Path::new("")) else { return Vec::new() };
    let cx = Context::new(Arc::new(inspection.session().clone()));
    let unusable = inspection.tools.iter().filter(|tool| {
        let verdict = validate.explain(&cx, &Call::new(Arc::clone(tool), None));
        verdict.is_some_and(|verdict| !verdict.allowed && verdict.rule == "strict")
    });
    let tell =
        |id: &ToolId| format!("the input schema of `{id}` cannot be used to check arguments");
    unusable.map(|tool| tell(tool.id())).collect()
}

/// What needs a look.
fn findings_of(inspection: &Inspection) -> Vec<String> {
    let mut findings = Vec::new();
    if inspection.tools.is_empty() {
        return findings;
    }
    findings.extend(inspection.collisions());
    findings.extend(unusable_schemas(inspection));
    let settings = inspection.settings();
    if settings.safety.is_some() {
        for tool in inspection.tools.iter().filter(|tool| tool.tier().is_none()) {
            findings.push(format!(
                "`{id}` has no tier, so nobody can call it: [namespaces.{}.tools.\"{id}\"] tier = …",
                inspection.session().namespace,
                id = tool.id(),
            ));
        }
    }
    for (selector, _) in &settings.tools {
        if !inspection.tools.iter().any(|tool| selector.covers(tool.id())) {
            findings.push(format!("the settings of `{selector}` cover no tool of this server"));
        }
    }
    findings
}

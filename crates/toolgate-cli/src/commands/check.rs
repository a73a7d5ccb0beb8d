//! `toolgate check`

mod findings;

use std::{ffi::OsString, io::Write as _, process::ExitCode};

use anyhow::bail;
use clap::Args;
use findings::Findings;
use serde_json::json;
use toolgate::printable;
use toolgate_gateway::gateway::{InspectedNamespace, Inspection};

use super::{
    log::style::{Paint, Style, wrapped},
    next_step,
};
use crate::chain_args::ChainArgs;

/// Check the config, the servers and their tools
///
/// Builds the gateway as `toolgate serve` would, from the same config, with all namespaces or the one of --namespace. It starts or connects to
/// the servers and asks them for their tools. It reports invalid keys, chain orders and policies, servers that fail,
/// tools without a tier, selectors that match no tool, name collisions, and schemas that cannot be used. With --server,
/// or a command after `--`, it checks that server as `toolgate wrap` would run it.
///
/// Exit status: 0 if everything is fine, 1 if something needs a look, 2 if the config is invalid.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("namespace", |namespace| namespace.help("Check only this namespace [default: all namespaces]")))]
pub(crate) struct Check {
    /// Check only the config, and start no server
    #[arg(long)]
    offline: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Check this server: its command and arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,

    #[command(flatten, next_help_heading = "Config and chain")]
    chain_args: ChainArgs,
}

impl Check {
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        if self.command.is_empty() {
            super::serve::find_config(&mut self.chain_args);
            if self.chain_args.config.is_none() {
                bail!(
                    "there is no config to check in this folder: name one with `--config FILE`, write one with `toolgate init`, \
                     or check a server with `toolgate check -- CMD ARGS…`"
                );
            }
        }
        let config = self.chain_args.read()?;
        let mut chain_args = self.chain_args.clone();
        if chain_args.namespace.is_none() {
            chain_args.namespace = config.namespaces().first().map(ToString::to_string);
        }
        super::tmux::check(&chain_args, &config)?;
        let inspection =
            super::inspect(&self.chain_args, &config, &self.command, None, !self.offline)?;
        let is_whole = self.command.is_empty() && self.chain_args.server.is_none();
        let unused = config.without_namespace().into_iter().filter(|_| is_whole).map(|server| {
            format!("the server `{server}` belongs to no namespace, so no client can reach it")
        });
        let unusable = config.servers().iter().filter_map(|(name, server)| {
            Some(format!("the server `{name}` cannot be started: {}", server.why_unusable()?))
        });
        let store = self.chain_args.store(&config).filter(|_| !self.offline);
        let store = store.and_then(|url| toolgate_store::check(&url).err());
        let store = store.map(|error| format!("the store cannot be used: {error}"));
        let general: Vec<String> =
            unused.chain(unusable).chain(store).chain(config.exposure(None)).collect();
        let found: Vec<Findings> = inspection
            .namespaces
            .iter()
            .map(|namespace| Findings::new(namespace, &inspection.servers))
            .collect();
        let has_failed = !self.offline && inspection.servers.iter().any(|s| s.state != "ready");
        let is_fine =
            general.is_empty() && !has_failed && found.iter().all(|f| f.problems.is_empty());
        if self.json {
            print_json(&inspection, &general, &found, is_fine)?;
        } else {
            self.print(&inspection, &general, &found)?;
        }
        Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn print(
        &self,
        inspection: &Inspection,
        general: &[String],
        found: &[Findings],
    ) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let style = Style::of_stdout();
        let width = style.width.unwrap_or(usize::MAX).max(MIN_WIDTH);
        let mut line = |word: &str, text: &str| -> std::io::Result<()> {
            let paint = match word {
                "ok" => Paint::Good,
                "look" => Paint::Warn,
                _ => Paint::Quiet,
            };
            let mut start = style.paint(paint, &format!("{word:4}")).into_owned();
            for part in wrapped(&printable::message(text), width - INDENT) {
                writeln!(out, "{start}  {part}")?;
                start = " ".repeat(INDENT - 2);
            }
            Ok(())
        };
        if let Some(config) = &self.chain_args.config {
            line("ok", &format!("the config `{}` is read", config.display()))?;
        }
        for finding in general {
            line("look", finding)?;
        }
        for server in inspection.servers.iter().filter(|_| !self.offline) {
            let name = &server.name;
            match (&*server.state, server.tools) {
                ("ready", Some(count)) => {
                    let protocol = server.protocol.as_deref().unwrap_or_default();
                    line(
                        "ok",
                        &format!("the server `{name}` lists {} ({protocol})", tools(count)),
                    )?;
                }
                (state, _) => {
                    let why = server.why.as_deref().unwrap_or("it did not answer in time");
                    let text = format!("the server `{name}` is not ready ({state}): {why}");
                    line("look", &text)?;
                    if let Some(next) = server.code.as_deref().and_then(next_step::of_code) {
                        line("", &next)?;
                    }
                }
            }
        }
        for (namespace, found) in inspection.namespaces.iter().zip(found) {
            line("ok", &summary(namespace))?;
            if !namespace.was_asked() {
                line("note", "no server was asked: tools are not checked")?;
            }
            for note in &found.notes {
                line("note", note)?;
            }
            for finding in &found.problems {
                line("look", finding)?;
            }
        }
        Ok(())
    }
}

/// The width of the word before a text.
const INDENT: usize = 6;
/// The least width of a line.
const MIN_WIDTH: usize = 40;

/// One line about a namespace.
fn summary(namespace: &InspectedNamespace) -> String {
    let (name, layers) = (namespace.name(), namespace.chain().layers().len());
    let mut text = format!("namespace `{name}`: its chain has {layers} layers");
    if namespace.was_asked() {
        let shown = namespace.tools.iter().filter(|tool| tool.wire_name.is_some()).count();
        let servers: Vec<String> =
            namespace.servers().map(|server| format!("`{server}`")).collect();
        text += &[", ", &tools(shown), " of ", &servers.join(", ")].concat();
    }
    text
}

fn tools(count: usize) -> String {
    if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") }
}

fn print_json(
    inspection: &Inspection,
    general: &[String],
    found: &[Findings],
    is_fine: bool,
) -> anyhow::Result<()> {
    let namespaces = inspection.namespaces.iter().zip(found).map(|(namespace, found)| {
        let tools = namespace.tools.iter().map(|tool| {
            json!({
                "tool": tool.tool.id().to_string(),
                "name": tool.wire_name,
                "tier": tool.tool.tier().map(toolgate::Tier::name),
            })
        });
        json!({
            "namespace": namespace.name(),
            "servers": namespace.servers().collect::<Vec<_>>(),
            "layers": namespace.chain().layers().iter().map(|layer| layer.name).collect::<Vec<_>>(),
            "tools": tools.collect::<Vec<_>>(),
            "notes": found.notes,
            "findings": found.problems,
        })
    });
    let value = json!({
        "ok": is_fine,
        "findings": general,
        "servers": inspection.servers,
        "namespaces": namespaces.collect::<Vec<_>>(),
    });
    writeln!(std::io::stdout(), "{value}")?;
    Ok(())
}

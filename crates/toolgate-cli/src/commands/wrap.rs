//! `toolgate wrap [OPTIONS] [--] CMD ARGS…`

use std::{ffi::OsString, io::IsTerminal as _, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use clap::Args;
use toolgate_gateway::{
    Environment,
    gateway::{ExclusiveServer, GatewayOptions, RunningGateway},
};

use super::signals::Signals;
use crate::overlay::Overlay;

/// Govern one MCP server: put `toolgate wrap --` in front of its command
///
/// Speaks MCP over stdio to the client and to the server. Without options, failed calls answer with
/// results that a model can read, every call is recorded in a private audit file, oversized results
/// are shortened and endless calls are given up; nothing else changes.
///
/// toolgate's own options stand before the command. `--` between them may be left out.
#[derive(Debug, Args)]
#[command(override_usage = "toolgate wrap [OPTIONS] [--] [CMD ARGS…]")]
#[command(after_help = "Example, in the config of an MCP client:\n  \
    { \"mcpServers\": { \"files\": { \"command\": \"toolgate\",\n      \
    \"args\": [\"wrap\", \"--safety\", \"readonly\", \"--\", \"npx\", \"-y\",\n               \
    \"@modelcontextprotocol/server-filesystem\", \".\"] } } }")]
pub(crate) struct Wrap {
    #[command(flatten)]
    overlay: Overlay,

    /// Start the server again, with growing waits, when it ends by itself
    #[arg(long)]
    restart: bool,

    /// How long the server may take to answer initialize
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = toolgate::duration::parse)]
    start_timeout: Duration,

    /// Set a variable in the server's environment; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(OsString, OsString)>,

    /// Give the server only these of toolgate's environment variables, besides PATH, HOME and the like. A command after
    /// `--` gets all of them otherwise, except for those that the config reads
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', num_args = 0..)]
    only_env: Option<Vec<OsString>>,

    /// Print the chain that every call passes, outermost first, and end
    #[arg(long)]
    print_chain: bool,

    /// The server's command and its arguments; not needed where the config names the server
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn variable(text: &str) -> Result<(OsString, OsString), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(format!("`{text}` is not NAME=VALUE")),
    }
}

impl Wrap {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.print_chain {
            let namespace = Some(vec![self.overlay.namespace().to_owned()]);
            let (config, command) = (self.overlay.read()?, self.command()?);
            let inspection = super::inspect(&self.overlay, &config, command, namespace, false)?;
            return super::chain::print(&inspection);
        }
        let plan = self.plan()?;
        if std::io::stdin().is_terminal() {
            explain("my-server");
        }
        let runtime = super::runtime()?;
        let code = runtime.block_on(async {
            let mut signals = Signals::new()?;
            let serve = RunningGateway::new(plan).await?;
            let _announced = self.overlay.announce();
            let stop = async { 128 + signals.govern(&serve).await };
            let code = Box::pin(serve.exclusive(stop)).await;
            serve.end().await;
            anyhow::Ok(code?)
        });
        // A read of a terminal that never ends must not keep us.
        runtime.shutdown_background();
        code.map(ExitCode::from)
    }

    /// The command. Launchers may have removed the `--` in front of it; what then looks like an option of toolgate is
    /// refused, because a command that swallowed it would run without what it asks for.
    fn command(&self) -> anyhow::Result<&[OsString]> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let before = words.len().checked_sub(self.command.len() + 1).and_then(|at| words.get(at));
        if before.is_some_and(|word| word == "--") {
            // A launcher that removes one `--` leaves the other.
            let starts = self.command.iter().take_while(|word| *word == "--").count();
            return Ok(self.command.get(starts..).unwrap_or_default());
        }
        let Some((program, arguments)) = self.command.split_first() else { return Ok(&[]) };
        let own = Self::augment_args(clap::Command::new("wrap"));
        let own = own.get_arguments();
        let own: Vec<&str> = own.filter_map(clap::Arg::get_long).collect();
        let is_own = |word: &&OsString| {
            let name = word.to_str().and_then(|word| word.strip_prefix("--"));
            let name = name.map(|name| name.split_once('=').map_or(name, |(name, _)| name));
            name.is_some_and(|name| own.contains(&name))
        };
        if let Some(word) = arguments.iter().find(is_own) {
            let (program, word) = (program.to_string_lossy(), word.to_string_lossy());
            bail!(
                "`{word}` stands after the command `{program}`, and toolgate has an option of that name: if it is meant \
                 for toolgate, write it before the command; if it is an argument of the command, write `--` before \
                 the command (twice, if the program that starts toolgate removes one): \
                 toolgate wrap [OPTIONS] -- {program} …"
            );
        }
        Ok(&self.command)
    }

    /// The gateway with one server, which the client has to itself.
    fn plan(&self) -> anyhow::Result<GatewayOptions> {
        let (config, watch) = self.overlay.read_watched()?;
        let found = self.overlay.server(&config, self.command()?)?;
        let (name, mut server) = found.context(
            "which server? Write its command after the options, or name one of the config with `--server`: \
             toolgate wrap [OPTIONS] -- CMD ARGS…",
        )?;
        if let Some(names) = &self.only_env {
            let is_read =
                |name: &&OsString| config.variables().iter().any(|other| *name == other.as_str());
            let names = names.iter().filter(|name| !is_read(name)).cloned().collect();
            server.environment = Environment::Only(names);
        }
        server.set.extend(self.env.iter().cloned());
        for warning in config.exposure(Some((&name, &server))) {
            tracing::warn!("{warning}");
        }
        let namespace = self.overlay.namespace();
        let mut plan = super::serve::plan(&self.overlay, config, watch, &[], Some(namespace));
        plan.exclusive = Some(ExclusiveServer {
            name,
            command: server,
            restart: self.restart,
            start_timeout: self.start_timeout,
        });
        Ok(plan)
    }
}

/// Tells a person who runs it by hand what it waits for.
#[expect(clippy::print_stderr, reason = "a word to the person at the terminal")]
pub(crate) fn explain(name: &str) {
    let words: Vec<String> = std::env::args().skip(1).map(|word| format!("{word:?}")).collect();
    eprintln!(
        "toolgate: waiting for an MCP client on standard input. To use it, put this into your \
         client's config\n(the file with `mcpServers`), or type JSON-RPC here, one message a line:\n\n  \
         \"{name}\": {{ \"command\": \"toolgate\", \"args\": [{}] }}\n",
        words.join(", ")
    );
}

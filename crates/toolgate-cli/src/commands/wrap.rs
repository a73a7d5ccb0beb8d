//! `toolgate wrap [OPTIONS] [--] CMD ARGS…`

use std::{
    collections::BTreeMap, ffi::OsString, io::IsTerminal as _, process::ExitCode, time::Duration,
};

use anyhow::{Context as _, bail};
use clap::Args;
use toolgate_gateway::{
    Environment,
    config::{Config, ConfigWatch, SERVER, ServerConfig},
    gateway::{ExclusiveServer, GatewayOptions, RunningGateway},
};

use super::{one_client, signals::Signals};
use crate::chain_args::ChainArgs;

/// Run one MCP server behind toolgate, in place of its command
///
/// Put `toolgate wrap --` before the command of the server in the config of a client, or name its URL.
///
/// Speaks MCP over stdio with the client and with the server. By default it turns failed calls into results that a model
/// can read, records every call in a private audit file, shortens results over 1,000,000 bytes, and cancels calls after
/// 5 minutes. It forwards everything else unchanged.
///
/// Write the options of toolgate before the command. The `--` is optional.
#[derive(Debug, Args)]
#[command(
    override_usage = "toolgate wrap [OPTIONS] [--] [CMD ARGS…]\n       toolgate wrap [OPTIONS] --url URL"
)]
#[command(after_help = "Example, in the config of an MCP client:\n  \
    { \"mcpServers\": { \"files\": { \"command\": \"toolgate\",\n      \
    \"args\": [\"wrap\", \"--safety\", \"readonly\", \"--\", \"npx\", \"-y\",\n               \
    \"@modelcontextprotocol/server-filesystem\", \".\"] } } }")]
pub(crate) struct Wrap {
    /// Connect to the server at this URL, by streamable HTTP or HTTP+SSE, instead of starting a command
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "server"])]
    url: Option<String>,

    /// Send this header to the URL, with the value of an environment variable; can be repeated
    #[arg(long, value_name = "HEADER=VARIABLE", requires = "url", value_parser = header)]
    header_env: Vec<(String, String)>,

    /// Call the server by this name in settings and records [default: main]
    #[arg(long, value_name = "NAME", conflicts_with = "server", value_parser = server_name)]
    name: Option<String>,

    /// Restart the server if it exits, with increasing delays
    #[arg(long, conflicts_with = "url")]
    restart: bool,

    /// Fail if the server does not answer initialize within this time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = toolgate::duration::parse)]
    start_timeout: Duration,

    /// Set an environment variable of the server; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, conflicts_with = "url")]
    env: Vec<(OsString, OsString)>,

    /// Pass only these environment variables to the server, and HOME, LOGNAME, PATH, SHELL, TERM and USER [default for a
    /// command after `--`: all variables, except those that the config reads]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', num_args = 0.., conflicts_with = "url")]
    only_env: Option<Vec<OsString>>,

    /// Print the layers that every call passes, outermost first, and exit
    #[arg(long)]
    print_chain: bool,

    /// The server's command and arguments; optional if the config names the server
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,

    #[command(flatten, next_help_heading = "Config and chain")]
    chain_args: ChainArgs,
}

fn variable(text: &str) -> Result<(OsString, OsString), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(format!("`{text}` has no name and value: write NAME=VALUE")),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, variable)) if !name.is_empty() && !variable.is_empty() => {
            Ok((name.to_owned(), variable.to_owned()))
        }
        _ => Err(format!("`{text}` has no header and variable: write HEADER=VARIABLE")),
    }
}

fn server_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains('/') {
        return Err("a name is not empty and has no `/`".to_owned());
    }
    Ok(text.to_owned())
}

impl Wrap {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.print_chain {
            let namespace = Some(vec![self.chain_args.namespace().to_owned()]);
            let (config, command) = (self.chain_args.read()?, self.command()?);
            let config = match self.server_at_url(&config)? {
                Some((name, server)) => config.with_only(&name, server),
                None => config,
            };
            let inspection = super::inspect(&self.chain_args, &config, command, namespace, false)?;
            return super::chain::print(&inspection);
        }
        let (config, watch) = self.chain_args.read_watched()?;
        if let Some((name, server)) = self.server_at_url(&config)? {
            return self.run_url(&config.with_only(&name, server), watch);
        }
        let options = self.options(config, watch)?;
        if std::io::stdin().is_terminal() {
            one_client::explain("my-server", self.chain_args.config.as_deref());
        }
        let runtime = super::runtime()?;
        let code = runtime.block_on(async {
            let mut signals = Signals::new()?;
            let serve = RunningGateway::new(options).await?;
            let _announced = self.chain_args.announce();
            let stop = async { 128 + signals.govern(&serve).await };
            let code = Box::pin(serve.exclusive(stop)).await;
            serve.end().await;
            anyhow::Ok(code?)
        });
        // A read of a terminal that never ends must not keep us.
        runtime.shutdown_background();
        code.map(ExitCode::from)
    }

    /// The command. A launcher may have removed the `--` before it. Then an argument that is also an option of toolgate is
    /// an error: the command would take it, and toolgate would run without a setting that the operator wants.
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
                "`{word}` comes after the command `{program}` and is also an option of toolgate: write it before the \
                 command if it is for toolgate; if it is an argument of the command, write `--` before the command \
                 (twice, if the program that starts toolgate removes one): toolgate wrap [OPTIONS] -- {program} …"
            );
        }
        Ok(&self.command)
    }

    /// The server with a URL that the command line or the config names.
    fn server_at_url(&self, config: &Config) -> anyhow::Result<Option<(String, ServerConfig)>> {
        let mut found = match &self.url {
            Some(url) => {
                let mut headers = BTreeMap::new();
                for (header, variable) in &self.header_env {
                    let value = std::env::var(variable).ok();
                    let value = value.with_context(|| {
                        format!("the variable `{variable}` is not set: set it to the value of the header `{header}`")
                    })?;
                    headers.insert(header.clone(), value);
                }
                let name = self.name.clone().unwrap_or_else(|| SERVER.to_owned());
                (name, ServerConfig::at_url(url.clone(), headers))
            }
            None if self.command.is_empty() => match self.chain_args.named_server(config)? {
                Some((name, server)) if server.url.is_some() => (name, server),
                _ => return Ok(None),
            },
            None => return Ok(None),
        };
        found.1.start_timeout = self.start_timeout;
        Ok(Some(found))
    }

    /// Runs a gateway with this one server: a URL has no handshake and no ids to pass through.
    fn run_url(&self, config: &Config, watch: ConfigWatch) -> anyhow::Result<ExitCode> {
        let namespace = self.chain_args.namespace();
        let config = config.clone();
        let options =
            super::serve::gateway_options(&self.chain_args, config, watch, &[], Some(namespace));
        if std::io::stdin().is_terminal() {
            one_client::explain("my-server", self.chain_args.config.as_deref());
        }
        one_client::run_gateway(&self.chain_args, options)
    }

    /// The gateway with one server, for one client.
    fn options(&self, config: Config, watch: ConfigWatch) -> anyhow::Result<GatewayOptions> {
        let found = self.chain_args.server(&config, self.command()?)?;
        let (name, mut server) = found.context(
            "no server is named: write its command after the options, or choose one of the config with `--server`: \
             toolgate wrap [OPTIONS] -- CMD ARGS…",
        )?;
        let name = self.name.clone().unwrap_or(name);
        if let Some(names) = &self.only_env {
            let is_read =
                |name: &&OsString| config.variables().iter().any(|other| *name == other.as_str());
            let names = names.iter().filter(|name| !is_read(name)).cloned().collect();
            server.environment = Environment::Selected(names);
        }
        server.set.extend(self.env.iter().cloned());
        for warning in config.exposure(Some((&name, &server))) {
            tracing::warn!("{warning}");
        }
        let namespace = self.chain_args.namespace();
        let mut options =
            super::serve::gateway_options(&self.chain_args, config, watch, &[], Some(namespace));
        options.exclusive = Some(ExclusiveServer {
            name,
            command: server,
            restart: self.restart,
            start_timeout: self.start_timeout,
        });
        Ok(options)
    }
}

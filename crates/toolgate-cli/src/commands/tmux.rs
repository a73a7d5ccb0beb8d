//! `toolgate tmux`

use std::{io::IsTerminal as _, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::bail;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use toolgate::{Tier, ToolId, settings::Settings, stack::Parts};
use toolgate_gateway::{
    active_chain::ActiveChain,
    approvals,
    config::{Config, ConfigWatch, Trigger},
    gateway::{Inspection, NamespaceSettings},
    records::RecordSinks,
};
use toolgate_tmux::{
    NAME, Options, Tmux, TmuxConfig, Toolset, Variables,
    config::{CaptureConfig, check_wait},
};

use crate::{chain_args::ChainArgs, config_file};

/// Give an agent your tmux, with the chain around every call
///
/// An MCP server over stdio, and a replacement for libtmux-mcp: it has all its tools, with their names, arguments and results, its resources, prompts
/// and environment variables.
///
/// It hides and refuses tools above the safety tier, refuses calls that would end its own pane, and records every call
/// and every read of a resource in a private audit file. The chain is that of `toolgate wrap`, with the same config and
/// the same options; the table `[tmux]` of the config sets this server.
///
/// Precedence: command line, environment, config file.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[command(mut_arg("server", |server| server.hide(true)))]
#[command(mut_arg("safety", |safety| safety.help(
    "Allow tools up to this tier: readonly, mutating or destructive. toolgate hides and refuses all others \
     [default: mutating, or what the toolsets need] [env: LIBTMUX_SAFETY]"
)))]
pub(crate) struct TmuxCommand {
    #[command(flatten)]
    tmux_args: TmuxArgs,

    #[command(flatten, next_help_heading = "Config and chain")]
    chain_args: ChainArgs,

    /// Print the layers that every call passes, outermost first, and exit
    #[arg(long, help_heading = "Config and chain")]
    print_chain: bool,

    /// Run behind a gateway of toolgate: use only the table `[tmux]` of the config
    #[arg(long, hide = true)]
    behind: bool,
}

const HELP: &str = "\
Examples, in the config of an MCP client:
  { \"mcpServers\": { \"tmux\": { \"command\": \"toolgate\", \"args\": [\"tmux\"] } } }

  Read panes, change nothing:       toolgate tmux --safety readonly
  Ask the user before kill_ tools:  toolgate tmux --safety destructive --confirm destructive
  All tools that end nothing:       toolgate tmux --safety mutating
  Read and arrange, run nothing:    toolgate tmux --toolsets inspect,manage
  The chain of libtmux-mcp:         toolgate tmux --chain libtmux
  With a config:                    toolgate tmux --config toolgate.toml

Environment variables of libtmux-mcp with the same meaning:
  LIBTMUX_SAFETY, LIBTMUX_TOOLSETS, LIBTMUX_TOOLS, LIBTMUX_EXCLUDE_TOOLS,
  LIBTMUX_SOCKET, LIBTMUX_SOCKET_PATH, LIBTMUX_TMUX_BIN,
  LIBTMUX_SUPPRESS_HISTORY (0 or 1), LIBTMUX_MCP_WAIT_MAX_SECONDS (1 to 120),
  LIBTMUX_MCP_PROMPTS_AS_TOOLS (0 or 1)
If a tier and toolsets are set, both must allow a tool. Invalid values are an error at startup.";

/// The options of this server: the table `[tmux]` on the command line.
#[derive(Debug, Args)]
struct TmuxArgs {
    /// Use the tmux server with this socket name, as tmux -L, for calls that name none
    #[arg(long, value_name = "NAME", conflicts_with = "socket_path", help_heading = "tmux server")]
    socket_name: Option<String>,

    /// Use the tmux server with this socket path, as tmux -S
    #[arg(long, value_name = "PATH", help_heading = "tmux server")]
    socket_path: Option<PathBuf>,

    /// Run this tmux program [default: tmux]
    #[arg(long, value_name = "PROGRAM", help_heading = "tmux server")]
    tmux_bin: Option<PathBuf>,

    /// Fail a call if tmux does not answer within this time [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = toolgate::duration::parse, help_heading = "tmux server")]
    deadline: Option<Duration>,

    /// Offer only these groups of tools: core, inspect, manage, execute, teardown [default: core, or with `--safety` all
    /// that the tier allows]
    #[arg(long, value_name = "SET,…", value_delimiter = ',', num_args = 0.., help_heading = "Tools")]
    toolsets: Option<Vec<Toolset>>,

    /// Also offer these tools
    #[arg(long, value_name = "TOOL,…", value_delimiter = ',', help_heading = "Tools")]
    tools: Option<Vec<String>>,

    /// Never offer these tools; wins over all other options
    #[arg(long, value_name = "TOOL,…", value_delimiter = ',', help_heading = "Tools")]
    exclude_tools: Option<Vec<String>>,

    /// Offer prompts as tools, too, for clients without prompts
    #[arg(long, help_heading = "Tools")]
    prompts_as_tools: bool,

    /// Let `pipe_pane` write in this folder; can be repeated [default: `pipe_pane` writes nowhere]
    #[arg(long = "pipe-root", value_name = "FOLDER", help_heading = "Guards and recordings")]
    pipe_roots: Vec<PathBuf>,

    /// Ask a person before dangerous commands are typed, deny them, or let them pass (off) [default: ask]
    #[arg(long, value_name = "ACTION", help_heading = "Guards and recordings")]
    guard: Option<GuardAction>,

    /// Mask secrets of well-known kinds in the output of tools
    #[arg(long, help_heading = "Guards and recordings")]
    mask: bool,

    /// Record the panes that tools write into in this folder; play them with `toolgate replay`
    #[arg(long, value_name = "FOLDER", help_heading = "Guards and recordings")]
    record: Option<PathBuf>,

    /// Refuse a call if its pane cannot be recorded
    #[arg(long, requires = "record", help_heading = "Guards and recordings")]
    record_required: bool,

    /// Limit how long a tool waits for a program, from 1s to 120s [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = wait, help_heading = "Tools")]
    wait_max: Option<Duration>,
}

fn wait(text: &str) -> Result<Duration, String> {
    let wait = toolgate::duration::parse(text).map_err(|error| error.to_string())?;
    check_wait(wait)
}

impl TmuxArgs {
    fn config(&self) -> TmuxConfig {
        TmuxConfig {
            socket_name: self.socket_name.clone(),
            socket_path: self.socket_path.clone(),
            bin: self.tmux_bin.clone(),
            deadline: self.deadline,
            toolsets: self.toolsets.clone(),
            tools: self.tools.clone(),
            exclude_tools: self.exclude_tools.clone(),
            prompts_as_tools: self.prompts_as_tools.then_some(true),
            wait_max: self.wait_max,
            capture: CaptureConfig { mask: self.mask.then_some(true) },
            pipe_roots: (!self.pipe_roots.is_empty()).then(|| self.pipe_roots.clone()),
            ..TmuxConfig::default()
        }
    }

    /// Applies the options that set a part of a table.
    fn adjust(&self, options: &mut Options) {
        match self.guard {
            Some(GuardAction::Ask) => options.commands.enabled = true,
            Some(GuardAction::Deny) => {
                options.commands = std::mem::take(&mut options.commands).denying();
                options.commands.enabled = true;
            }
            Some(GuardAction::Off) => options.commands.enabled = false,
            None => {}
        }
        if let Some(folder) = &self.record {
            options.record.folder = Some(folder.clone());
            options.record.required |= self.record_required;
        }
    }
}

/// `--guard`
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum GuardAction {
    Ask,
    Deny,
    Off,
}

impl TmuxCommand {
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        if self.chain_args.server.is_some() {
            bail!(
                "`--server` is an option of `toolgate wrap`, and `toolgate tmux` is a server itself: leave it out"
            );
        }
        let (mut config, mut watch) = self.chain_args.read_watched()?;
        if self.behind {
            config = config.only_tmux();
            self.chain_args.config = None;
            watch = ConfigWatch::off(None);
        }
        if self.print_chain {
            return super::chain::print(&inspection(
                &self.chain_args,
                &config,
                Some(&self.tmux_args),
            )?);
        }
        let (tmux, settings) = server(&self.chain_args, &config, Some(&self.tmux_args))?;
        if std::io::stdin().is_terminal() {
            super::one_client::explain(NAME, self.chain_args.config.as_deref());
        }
        super::runtime().map(|runtime| {
            let served = runtime.block_on(serve(&self.chain_args, &config, &watch, tmux, settings));
            // A blocked read from a terminal must not delay the exit.
            runtime.shutdown_background();
            served.map(|()| ExitCode::SUCCESS)
        })?
    }
}

async fn serve(
    chain_args: &ChainArgs,
    config: &Config,
    watch: &ConfigWatch,
    tmux: Tmux,
    settings: Settings,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut reload = signal(SignalKind::user_defined1())?;
    let (store, trail) = (chain_args.store(config), config.trail(chain_args.namespace())?);
    let telemetry = chain_args.telemetry(config)?;
    let (sinks, mut parts) =
        RecordSinks::open(store.as_deref(), trail.as_ref(), telemetry.as_ref(), &settings).await?;
    parts.approvals = approvals::in_state_folder(&approvals::Scope::Tmux(tmux.socket()));
    let listed = tmux.names().map(|name| ToolId::new(NAME, name)).collect();
    let (governed, stack) = tmux.governed_with(&settings, parts, chain_args.namespace())?;
    sinks.approve_first_list(chain_args.namespace(), &stack, listed).await;
    let message_bytes = settings.limits.message_bytes;
    let mut active = ActiveChain::new(stack, settings);
    let _announced = chain_args.announce();
    let signals = async {
        loop {
            let trigger = tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => {
                    if let Some(audit) = &active.stack.audit {
                        audit.reopen();
                    }
                    Trigger::Asked
                }
                _ = reload.recv() => Trigger::Asked,
                () = watch.changed() => Trigger::Changed,
            };
            let changed = changed(chain_args, config, governed.handler());
            if let Some(next) = active.reload(changed, store.is_some(), trigger) {
                Tmux::govern_by(&governed, &next.stack, &next.settings);
                active = next;
            }
        }
    };
    let serving = toolgate_tmux::serve_stdio(Arc::clone(&governed), message_bytes, signals);
    let ended = Box::pin(serving).await;
    sinks.close(&active.stack).await;
    Ok(ended?)
}

/// The settings of a changed config.
fn changed(chain_args: &ChainArgs, before: &Config, tmux: &Tmux) -> Result<Settings, String> {
    let read = || {
        let config =
            chain_args.config.as_deref().map(config_file::read).transpose()?.unwrap_or_default();
        if config_file::tmux(&config) != config_file::tmux(before) {
            tracing::warn!(
                "the changes of `[tmux]` take effect after a restart of `toolgate tmux`"
            );
        }
        anyhow::Ok(tmux.settle(settings(chain_args, &config, &Variables::read()?)?)?)
    };
    read().map_err(|error| error.to_string())
}

/// The settings of the chain. Precedence: command line, environment, file.
fn settings(
    chain_args: &ChainArgs,
    config: &Config,
    variables: &Variables,
) -> anyhow::Result<Settings> {
    let mut settings = chain_args.settings()?;
    // This ignores the default tier of a preset, because the toolsets first decide which tier is needed.
    let tier = chain_args.tier(variables.safety);
    settings.safety = tier.or(config.configured_safety(chain_args.namespace())?);
    Ok(settings)
}

/// The server and the settings of its chain.
fn server(
    chain_args: &ChainArgs,
    config: &Config,
    tmux_args: Option<&TmuxArgs>,
) -> anyhow::Result<(Tmux, Settings)> {
    let variables = Variables::read()?;
    for warning in &variables.warnings {
        tracing::warn!("{warning}");
    }
    let settings = settings(chain_args, config, &variables)?;
    let file = config_file::tmux(config).unwrap_or_default();
    let args_and_env = tmux_args.map(TmuxArgs::config).unwrap_or_default();
    let mut options = Options::from(args_and_env.over(variables.config).over(file));
    if let Some(tmux_args) = tmux_args {
        tmux_args.adjust(&mut options);
    }
    options.page_size = config.page_size(chain_args.namespace())?;
    options.launcher = toolgate_gateway::keeper::client_launcher()?;
    if !options.finds_tmux() {
        tracing::warn!(
            "cannot find the tmux program `{}`, so every call fails: install it, or name it with `--tmux-bin`, \
             LIBTMUX_TMUX_BIN or `tmux.bin`",
            options.binary.display()
        );
    }
    let tmux = Tmux::new(options);
    // First, so that an unknown tool name gets an error of its own and not one of a layer.
    let settings = tmux.settle(settings)?;
    Ok((tmux, settings))
}

/// The chain and the tools, without a connection to tmux.
fn inspection(
    chain_args: &ChainArgs,
    config: &Config,
    tmux_args: Option<&TmuxArgs>,
) -> anyhow::Result<Inspection> {
    let (tmux, settings) = server(chain_args, config, tmux_args)?;
    let mut parts = Parts::default();
    tmux.install(&mut parts);
    let namespace = chain_args.namespace();
    let (trail, telemetry) = (config.trail(namespace)?, chain_args.telemetry(config)?);
    let (set, store) = (NamespaceSettings { settings, trail, telemetry }, chain_args.store(config));
    let tools = tmux.definitions();
    Ok(Inspection::of_tools((namespace, NAME), &set, store.as_deref(), &tools, parts)?)
}

/// Fails if `[tmux]` of the file is invalid.
pub(crate) fn check(chain_args: &ChainArgs, config: &Config) -> anyhow::Result<()> {
    let is_set = config_file::tmux(config).is_some();
    is_set.then(|| inspection(chain_args, config, None)).transpose().map(drop)
}

/// The inspection for other commands, if this server is the one named or the only one of the file.
pub(crate) fn inspected(
    chain_args: &ChainArgs,
    config: &Config,
) -> anyhow::Result<Option<Inspection>> {
    let is_meant = match chain_args.server.as_deref() {
        Some(name) => name == NAME && !config.servers().contains_key(NAME),
        None => config_file::tmux(config).is_some() && config.servers().is_empty(),
    };
    is_meant.then(|| inspection(chain_args, config, None)).transpose()
}

impl ChainArgs {
    /// The tier of the command line, else the stricter one of `TOOLGATE_SAFETY` and `LIBTMUX_SAFETY`.
    fn tier(&self, libtmux: Option<Tier>) -> Option<Tier> {
        let variable = std::env::var("TOOLGATE_SAFETY").ok().and_then(|value| value.parse().ok());
        match (self.safety, libtmux) {
            (Some(own), Some(libtmux)) if self.safety == variable => Some(own.min(libtmux)),
            (own, libtmux) => own.or(libtmux),
        }
    }
}

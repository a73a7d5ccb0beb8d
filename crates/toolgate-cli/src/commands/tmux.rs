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

use crate::{config_file, overlay::Overlay};

/// Give an agent a terminal: a governed tmux server, over stdio
///
/// Speaks MCP over stdio and asks tmux over one connection. It has all tools of libtmux-mcp, with their names,
/// arguments and results, its resources, prompts and variables, and takes its place as it is.
///
/// Tools above the safety tier are hidden and refused; what would end the pane that this runs in is refused; every
/// call, and every resource that is read, passes the chain and is recorded in a private audit file. The chain is that
/// of `toolgate wrap`, set by the same file and the same options; the table [tmux] of the file is this server's own.
///
/// Precedence: command line, environment, config file.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[command(mut_arg("server", |server| server.hide(true)))]
#[command(mut_arg("safety", |safety| safety.help(
    "Allow tools up to this tier: readonly, mutating or destructive. Others are hidden and refused \
     [default: mutating, or what the toolsets need] [env: LIBTMUX_SAFETY]"
)))]
pub(crate) struct TmuxCommand {
    #[command(flatten)]
    own: Own,

    #[command(flatten, next_help_heading = "The chain around it")]
    overlay: Overlay,

    /// Print the chain that every call passes, outermost first, and end
    #[arg(long, help_heading = "The chain around it")]
    print_chain: bool,

    /// Behind a gateway of ours: of the config only the table [tmux] is this server's
    #[arg(long, hide = true)]
    behind: bool,
}

const HELP: &str = "\
Examples, in the config of an MCP client:
  { \"mcpServers\": { \"tmux\": { \"command\": \"toolgate\", \"args\": [\"tmux\"] } } }

  Look, and touch nothing:       toolgate tmux --safety readonly
  Ask the user before killing:   toolgate tmux --safety destructive --confirm destructive
  Look and arrange, run nothing: toolgate tmux --toolsets inspect,manage
  As libtmux-mcp, in its order:  toolgate tmux --chain libtmux
  With a file:                   toolgate tmux --config toolgate.toml

Variables of libtmux-mcp that mean the same here:
  LIBTMUX_SAFETY, LIBTMUX_TOOLSETS, LIBTMUX_TOOLS, LIBTMUX_EXCLUDE_TOOLS,
  LIBTMUX_SOCKET, LIBTMUX_SOCKET_PATH, LIBTMUX_TMUX_BIN,
  LIBTMUX_SUPPRESS_HISTORY (0 or 1), LIBTMUX_MCP_WAIT_MAX_SECONDS (1 to 120),
  LIBTMUX_MCP_PROMPTS_AS_TOOLS (0 or 1)
Where a tier and toolsets are set, both must allow. Invalid values are an error at startup.";

/// What is this server's own: `[tmux]` on the command line.
#[derive(Debug, Args)]
struct Own {
    /// The tmux server of calls that name none, by the name of its socket, as tmux -L
    #[arg(long, value_name = "NAME", conflicts_with = "socket_path", help_heading = "Which tmux")]
    socket_name: Option<String>,

    /// The same by the path of its socket, as tmux -S
    #[arg(long, value_name = "PATH", help_heading = "Which tmux")]
    socket_path: Option<PathBuf>,

    /// The tmux program [default: tmux]
    #[arg(long, value_name = "PROGRAM", help_heading = "Which tmux")]
    tmux_bin: Option<PathBuf>,

    /// How long tmux may take to answer [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = toolgate::duration::parse, help_heading = "Which tmux")]
    deadline: Option<Duration>,

    /// Only these groups of tools: inspect, manage, execute, teardown
    #[arg(long, value_name = "SET,…", value_delimiter = ',', num_args = 0.., help_heading = "Which tools")]
    toolsets: Option<Vec<Toolset>>,

    /// These tools too, by name
    #[arg(long, value_name = "TOOL,…", value_delimiter = ',', help_heading = "Which tools")]
    tools: Option<Vec<String>>,

    /// Not these tools, whatever else is said
    #[arg(long, value_name = "TOOL,…", value_delimiter = ',', help_heading = "Which tools")]
    exclude_tools: Option<Vec<String>>,

    /// Offer prompts as tools, too: for clients that have no prompts
    #[arg(long, help_heading = "Which tools")]
    prompts_as_tools: bool,

    /// A folder in which `pipe_pane` may write; give it again for more. Without one it writes nowhere
    #[arg(long = "pipe-root", value_name = "FOLDER", help_heading = "What it guards and keeps")]
    pipe_roots: Vec<PathBuf>,

    /// What happens to dangerous commands before they are typed: ask, deny or off [default: ask]
    #[arg(long, value_name = "ACTION", help_heading = "What it guards and keeps")]
    guard: Option<GuardAction>,

    /// Mask secrets of well-known kinds in what tools show of screens
    #[arg(long, help_heading = "What it guards and keeps")]
    mask: bool,

    /// Record panes that tools write into, as asciicast files in this folder; `toolgate replay` plays them
    #[arg(long, value_name = "FOLDER", help_heading = "What it guards and keeps")]
    record: Option<PathBuf>,

    /// Refuse calls whose pane cannot be recorded
    #[arg(long, requires = "record", help_heading = "What it guards and keeps")]
    record_required: bool,

    /// The longest that a tool waits for a program, from 1s to 120s [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = wait, help_heading = "Which tools")]
    wait_max: Option<Duration>,
}

fn wait(text: &str) -> Result<Duration, String> {
    let wait = toolgate::duration::parse(text).map_err(|error| error.to_string())?;
    check_wait(wait)
}

impl Own {
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

    /// What these say over what the file says, where a part of a table is meant.
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
        if self.overlay.server.is_some() {
            bail!("`--server` names a server to wrap; toolgate tmux is one itself");
        }
        let (mut config, mut watch) = self.overlay.read_watched()?;
        if self.behind {
            config = config.only_tmux();
            self.overlay.config = None;
            watch = ConfigWatch::off(None);
        }
        if self.print_chain {
            return super::chain::print(&inspection(&self.overlay, &config, Some(&self.own))?);
        }
        let (tmux, settings) = server(&self.overlay, &config, Some(&self.own))?;
        if std::io::stdin().is_terminal() {
            super::wrap::explain(NAME);
        }
        super::runtime().map(|runtime| {
            let served = runtime.block_on(serve(&self.overlay, &config, &watch, tmux, settings));
            // A read of a terminal that never ends must not keep us.
            runtime.shutdown_background();
            served.map(|()| ExitCode::SUCCESS)
        })?
    }
}

async fn serve(
    overlay: &Overlay,
    config: &Config,
    watch: &ConfigWatch,
    tmux: Tmux,
    settings: Settings,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut asked = signal(SignalKind::user_defined1())?;
    let (store, trail) = (overlay.store(config), config.trail(overlay.namespace())?);
    let telemetry = overlay.telemetry(config)?;
    let (outlets, mut parts) =
        RecordSinks::open(store.as_deref(), trail.as_ref(), telemetry.as_ref(), &settings).await?;
    parts.approvals = approvals::in_state_folder(&approvals::Scope::Tmux(tmux.socket()));
    let listed = tmux.names().map(|name| ToolId::new(NAME, name)).collect();
    let (governed, stack) = tmux.governed_with(&settings, parts, overlay.namespace())?;
    outlets.meet(overlay.namespace(), &stack, listed).await;
    let message_bytes = settings.limits.message_bytes;
    let mut active = ActiveChain::new(stack, settings);
    let _announced = overlay.announce();
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
                _ = asked.recv() => Trigger::Asked,
                () = watch.changed() => Trigger::Changed,
            };
            let changed = changed(overlay, config, governed.handler());
            if let Some(next) = active.reload(changed, store.is_some(), trigger) {
                Tmux::govern_by(&governed, &next.stack, &next.settings);
                active = next;
            }
        }
    };
    let serving = toolgate_tmux::serve_stdio(Arc::clone(&governed), message_bytes, signals);
    let ended = Box::pin(serving).await;
    outlets.close(&active.stack).await;
    Ok(ended?)
}

/// The settings of a changed config.
fn changed(overlay: &Overlay, before: &Config, tmux: &Tmux) -> Result<Settings, String> {
    let read = || {
        let config =
            overlay.config.as_deref().map(config_file::read).transpose()?.unwrap_or_default();
        if config_file::tmux(&config) != config_file::tmux(before) {
            tracing::warn!(
                "what has changed in `[tmux]` takes effect at the next start: restart `toolgate tmux`"
            );
        }
        anyhow::Ok(tmux.settle(settings(overlay, &config, &Variables::read()?)?)?)
    };
    read().map_err(|error| error.to_string())
}

/// What the chain is set to, by command line, variables and file.
fn settings(overlay: &Overlay, config: &Config, variables: &Variables) -> anyhow::Result<Settings> {
    let mut settings = overlay.settings()?;
    // A preset would fill one in; here what the toolsets need comes first.
    let tier = overlay.tier(variables.safety);
    settings.safety = tier.or(config.says_safety(overlay.namespace())?);
    Ok(settings)
}

/// The server and what its chain is set to, by command line, variables and file.
fn server(
    overlay: &Overlay,
    config: &Config,
    own: Option<&Own>,
) -> anyhow::Result<(Tmux, Settings)> {
    let variables = Variables::read()?;
    for warning in &variables.warnings {
        tracing::warn!("{warning}");
    }
    let settings = settings(overlay, config, &variables)?;
    let file = config_file::tmux(config).unwrap_or_default();
    let said = own.map(Own::config).unwrap_or_default();
    let mut options = Options::from(said.over(variables.config).over(file));
    if let Some(own) = own {
        own.adjust(&mut options);
    }
    options.launcher = toolgate_gateway::keeper::client_launcher()?;
    if !options.finds_tmux() {
        tracing::warn!(
            "the tmux program `{}` is not there: every call will fail until it is (--tmux-bin, \
             LIBTMUX_TMUX_BIN, tmux.bin)",
            options.binary.display()
        );
    }
    let tmux = Tmux::new(options);
    // Here, so that a wrong name is told in its own words and not in those of a layer.
    let settings = tmux.settle(settings)?;
    Ok((tmux, settings))
}

/// The chain and the tools as they would be.
fn inspection(overlay: &Overlay, config: &Config, own: Option<&Own>) -> anyhow::Result<Inspection> {
    let (tmux, settings) = server(overlay, config, own)?;
    let mut parts = Parts::default();
    tmux.install(&mut parts);
    let namespace = overlay.namespace();
    let (trail, telemetry) = (config.trail(namespace)?, overlay.telemetry(config)?);
    let (set, store) = (NamespaceSettings { settings, trail, telemetry }, overlay.store(config));
    let tools = tmux.definitions();
    Ok(Inspection::of_tools((namespace, NAME), &set, store.as_deref(), &tools, parts)?)
}

/// Refuses what the file says of this server, if it says something wrong.
pub(crate) fn check(overlay: &Overlay, config: &Config) -> anyhow::Result<()> {
    let is_said = config_file::tmux(config).is_some();
    is_said.then(|| inspection(overlay, config, None)).transpose().map(drop)
}

/// The same for other commands: if this server is the one that is named, or the only one that the file has.
pub(crate) fn inspected(overlay: &Overlay, config: &Config) -> anyhow::Result<Option<Inspection>> {
    let is_meant = match overlay.server.as_deref() {
        Some(name) => name == NAME && !config.servers().contains_key(NAME),
        None => config_file::tmux(config).is_some() && config.servers().is_empty(),
    };
    is_meant.then(|| inspection(overlay, config, None)).transpose()
}

impl Overlay {
    /// The tier that was asked for: by the command line, else by variables, of which the stricter one holds.
    fn tier(&self, libtmux: Option<Tier>) -> Option<Tier> {
        let variable = std::env::var("TOOLGATE_SAFETY").ok().and_then(|value| value.parse().ok());
        match (self.safety, libtmux) {
            (Some(own), Some(libtmux)) if self.safety == variable => Some(own.min(libtmux)),
            (own, libtmux) => own.or(libtmux),
        }
    }
}

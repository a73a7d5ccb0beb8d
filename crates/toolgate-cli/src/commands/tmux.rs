//! `toolgate tmux`

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use toolgate::{Tier, middleware::audit::Target, settings::Settings};
use toolgate_tmux::{
    Options, Tmux, commands::CommandsConfig, engine::Socket, record::RecordConfig,
};

use crate::overlay::state_folder;

/// Give an agent a terminal: a governed tmux server, over stdio
///
/// Speaks MCP over stdio and asks tmux over one connection. Names, arguments and results of the tools are those of
/// libtmux-mcp, and so are the variables. Tools above the safety tier are hidden and refused; what would end the
/// pane that this runs in is refused; every call is recorded.
///
/// Thirteen of its tools are here so far: sessions, the windows of a session, capture and keys.
#[derive(Debug, Args)]
#[command(after_help = "Example, in the config of an MCP client:\n  \
    { \"mcpServers\": { \"tmux\": { \"command\": \"toolgate\", \"args\": [\"tmux\", \"--safety\", \"readonly\"] } } }")]
pub(crate) struct TmuxCommand {
    /// Allow tools up to this tier: readonly, mutating or destructive. Others are hidden and refused
    #[arg(long, value_name = "TIER", env = "LIBTMUX_SAFETY", default_value = "mutating")]
    safety: Tier,

    /// The tmux server of calls that name none, by the name of its socket, as tmux -L [env: `LIBTMUX_SOCKET`]
    #[arg(long, value_name = "NAME", conflicts_with = "socket_path")]
    socket_name: Option<String>,

    /// The same by the path of its socket, as tmux -S [env: `LIBTMUX_SOCKET_PATH`]
    #[arg(long, value_name = "PATH")]
    socket_path: Option<PathBuf>,

    /// The tmux program
    #[arg(long, value_name = "PROGRAM", env = "LIBTMUX_TMUX_BIN", default_value = "tmux")]
    tmux_bin: OsString,

    /// How long tmux may take to answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = toolgate::duration::parse)]
    deadline: Duration,

    /// What happens to dangerous commands before they are typed: ask, deny or off
    #[arg(long, value_name = "ACTION", default_value = "ask")]
    guard: GuardAction,

    /// Mask secrets of well-known kinds in what tools show of screens
    #[arg(long)]
    mask: bool,

    /// Record panes that tools write into, as asciicast files in this folder; `toolgate replay` plays them
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,

    /// Refuse calls whose pane cannot be recorded
    #[arg(long, requires = "record")]
    record_required: bool,

    /// Where the audit goes: a file, `stderr` or `off` [default: toolgate/audit.jsonl in the state folder]
    #[arg(long, value_name = "FILE", env = "TOOLGATE_AUDIT")]
    audit: Option<String>,
}

/// `--guard`
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum GuardAction {
    Ask,
    Deny,
    Off,
}

impl GuardAction {
    fn config(self) -> CommandsConfig {
        match self {
            Self::Ask => CommandsConfig::default(),
            Self::Deny => CommandsConfig::default().denying(),
            Self::Off => CommandsConfig { enabled: false, ..CommandsConfig::default() },
        }
    }
}

impl TmuxCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut settings = Settings { safety: Some(self.safety), ..Settings::default() };
        settings.audit.file = match &self.audit {
            Some(target) => Target::from(target.as_str()),
            None => Target::File(state_folder()?.join("audit.jsonl")),
        };
        let socket = socket(self.socket_name, self.socket_path);
        let options = Options {
            binary: self.tmux_bin,
            socket,
            patience: self.deadline,
            safety: self.safety,
            mask: self.mask,
            record: RecordConfig {
                folder: self.record,
                required: self.record_required,
                ..RecordConfig::default()
            },
            commands: self.guard.config(),
            ..Options::default()
        };
        let tmux = Tmux::new(options);
        let recorder = tmux.recorder();
        let (tmux, stack) = tmux.governed(settings)?;
        let runtime = super::runtime()?;
        let ended = runtime.block_on(async {
            let ended = toolgate_tmux::serve_stdio(tmux).await;
            if let Some(recorder) = recorder {
                recorder.close().await;
            }
            ended
        });
        if let Some(audit) = &stack.audit {
            audit.close(Duration::from_secs(1));
        }
        // A read of a terminal that never ends must not keep us.
        runtime.shutdown_background();
        ended?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The command line wins over the environment, and there the path over the name, as in libtmux-mcp.
fn socket(name: Option<String>, path: Option<PathBuf>) -> Socket {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let given = path.map(Socket::Path).or_else(|| name.map(Socket::Name));
    let path = || Some(Socket::Path(variable("LIBTMUX_SOCKET_PATH")?.into()));
    let name = || Some(Socket::Name(variable("LIBTMUX_SOCKET")?.to_string_lossy().into_owned()));
    given.or_else(path).or_else(name).unwrap_or_else(Socket::ambient)
}

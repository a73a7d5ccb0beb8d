//! The settings of the server, from the file, the environment and the command line.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use toolgate::duration;

use crate::{
    commands::CommandsConfig,
    engine::Socket,
    options::Options,
    record::RecordConfig,
    toolsets::{ToolChoice, Toolset},
};

/// `[tmux]`: the server of `toolgate tmux`. The command line and the environment win over this table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TmuxConfig {
    /// The socket name of the tmux server for calls that name none, as `tmux -L`; default: the server of the
    /// environment (`TMUX`), else tmux's default.
    pub socket_name: Option<String>,
    /// The socket path of that tmux server, as `tmux -S`; wins over `socket_name`.
    pub socket_path: Option<PathBuf>,
    /// The tmux program.
    #[schemars(extend("default" = Options::default().binary.to_string_lossy()))]
    pub bin: Option<PathBuf>,
    /// How long tmux may take to answer.
    #[serde(deserialize_with = "time")]
    #[schemars(with = "Option<String>", extend("default" = duration::format(Options::default().time_limit)))]
    pub deadline: Option<Duration>,
    /// The longest time that a tool waits for a program, from `1s` to `120s`.
    #[serde(deserialize_with = "wait")]
    #[schemars(with = "Option<String>", extend("default" = duration::format(Options::default().wait_max)))]
    pub wait_max: Option<Duration>,
    /// Whether `run_command` keeps its command out of the shell's history, unless the caller sets it.
    #[schemars(extend("default" = Options::default().suppress_history))]
    pub suppress_history: Option<bool>,
    /// Whether prompts are also offered as tools (`list_prompts`, `get_prompt`), for clients without prompts.
    #[schemars(extend("default" = Options::default().prompts_as_tools))]
    pub prompts_as_tools: Option<bool>,
    /// The groups of tools to offer; default: `core`, or all that the tier allows if a tier is set.
    pub toolsets: Option<Vec<Toolset>>,
    /// Further tools to offer, by name.
    pub tools: Option<Vec<String>>,
    /// Tools never to offer; wins over all other keys.
    pub exclude_tools: Option<Vec<String>>,
    /// The folders in which `pipe_pane` may write; default: none.
    pub pipe_roots: Option<Vec<PathBuf>>,
    /// Variables that `set_environment` may set for all sessions below the destructive tier, besides harmless ones
    /// (`LANG`, `LC_*`, `TZ` …); `*` stands for any text.
    pub global_environment: Option<Vec<String>>,
    /// The text that tools capture from panes.
    pub capture: CaptureConfig,
    /// The command guard: dangerous commands that tools would type into panes.
    pub commands: Option<CommandsConfig>,
    /// Recordings of the panes that tools write into.
    pub record: Option<RecordConfig>,
}

/// `[tmux.capture]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CaptureConfig {
    /// Whether secrets of well-known kinds in captured text are masked.
    #[schemars(extend("default" = Options::default().mask))]
    pub mask: Option<bool>,
}

/// The limits of `wait_max`.
const WAIT_BOUNDS: [Duration; 2] = [Duration::from_secs(1), Duration::from_mins(2)];

/// Checks a value of `wait_max`.
pub fn check_wait(wait: Duration) -> Result<Duration, String> {
    let [least, most] = WAIT_BOUNDS;
    if (least..=most).contains(&wait) {
        return Ok(wait);
    }
    Err(format!("`{}` is too short or too long: write 1s to 120s", duration::format(wait)))
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(deserializer).map(Some)
}

fn wait<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let wait = duration::deserialize(deserializer)?;
    check_wait(wait).map(Some).map_err(serde::de::Error::custom)
}

impl TmuxConfig {
    /// Merges two configs: values of `self` win over those of `under`.
    #[must_use]
    pub fn over(self, under: Self) -> Self {
        // `socket_name` and `socket_path` are one setting.
        let says_socket = self.socket_name.is_some() || self.socket_path.is_some();
        let (name, path) = (self.socket_name, self.socket_path);
        let (socket_name, socket_path) =
            if says_socket { (name, path) } else { (under.socket_name, under.socket_path) };
        Self {
            socket_name,
            socket_path,
            bin: self.bin.or(under.bin),
            deadline: self.deadline.or(under.deadline),
            wait_max: self.wait_max.or(under.wait_max),
            suppress_history: self.suppress_history.or(under.suppress_history),
            prompts_as_tools: self.prompts_as_tools.or(under.prompts_as_tools),
            toolsets: self.toolsets.or(under.toolsets),
            tools: self.tools.or(under.tools),
            exclude_tools: self.exclude_tools.or(under.exclude_tools),
            pipe_roots: self.pipe_roots.or(under.pipe_roots),
            global_environment: self.global_environment.or(under.global_environment),
            capture: CaptureConfig { mask: self.capture.mask.or(under.capture.mask) },
            commands: self.commands.or(under.commands),
            record: self.record.or(under.record),
        }
    }

    /// Resolves relative paths against the folder of the config file. A program without a slash is looked up in `PATH`.
    pub fn anchor(&mut self, folder: &Path) {
        let bin = self.bin.iter_mut().filter(|bin| bin.components().count() > 1);
        let recordings = self.record.iter_mut().filter_map(|record| record.folder.as_mut());
        let roots = self.commands.iter_mut().flat_map(|commands| &mut commands.roots);
        let paths = self.socket_path.iter_mut().chain(bin).chain(recordings).chain(roots);
        for path in paths.chain(self.pipe_roots.iter_mut().flatten()) {
            *path = folder.join(&*path);
        }
    }
}

impl From<TmuxConfig> for Options {
    fn from(config: TmuxConfig) -> Self {
        let usual = Self::default();
        let name = config.socket_name.map(Socket::Name);
        Self {
            binary: config.bin.map_or(usual.binary, Into::into),
            socket: config.socket_path.map(Socket::Path).or(name).unwrap_or(usual.socket),
            time_limit: config.deadline.unwrap_or(usual.time_limit),
            wait_max: config.wait_max.unwrap_or(usual.wait_max),
            suppress_history: config.suppress_history.unwrap_or(usual.suppress_history),
            pipe_roots: config.pipe_roots.unwrap_or(usual.pipe_roots),
            global_environment: config.global_environment.unwrap_or(usual.global_environment),
            mask: config.capture.mask.unwrap_or(usual.mask),
            commands: config.commands.unwrap_or(usual.commands),
            record: config.record.unwrap_or(usual.record),
            prompts_as_tools: config.prompts_as_tools.unwrap_or(usual.prompts_as_tools),
            choice: ToolChoice {
                toolsets: config.toolsets,
                tools: config.tools.unwrap_or_default(),
                exclude: config.exclude_tools.unwrap_or_default(),
            },
            ..usual
        }
    }
}

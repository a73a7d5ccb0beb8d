//! The settings of the server, merged from file, environment and command line.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use toolgate::Tier;

use crate::{
    commands::CommandsConfig,
    engine::{ANSWER_TIMEOUT, Socket},
    record::RecordConfig,
    toolsets::ToolChoice,
};

/// The entries on one page of a list by default, as in every namespace.
const PAGE_SIZE: usize = 1000;

/// The settings of the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The tmux program.
    pub binary: OsString,
    /// A program with its arguments through which long-running tmux clients are started, see
    /// [`Engine::launched_by`](crate::engine::Engine::launched_by). Empty by default.
    pub launcher: Vec<OsString>,
    /// The tmux socket of calls that name none.
    pub socket: Socket,
    /// How long tmux may take to answer.
    pub time_limit: Duration,
    /// The highest tier of tools that may be called.
    pub safety: AllowedTier,
    /// How long a tool may wait for a program; limits the caller's `timeout`.
    pub wait_max: Duration,
    /// Whether `run_command` keeps commands out of the shell's history if its caller does not decide.
    pub suppress_history: bool,
    /// The folders in which `pipe_pane` may write files.
    pub pipe_roots: Vec<PathBuf>,
    /// Further variables that may be set for all sessions; `*` stands for any text.
    pub global_environment: Vec<String>,
    /// Whether secrets on screens are masked.
    pub mask: bool,
    /// Whether there are tools for the prompts, for clients without prompts.
    pub prompts_as_tools: bool,
    /// Which tools are active.
    pub choice: ToolChoice,
    /// The settings of the command guard.
    pub commands: CommandsConfig,
    /// The settings of recordings.
    pub record: RecordConfig,
    /// The most entries on one page of a list; at least 1.
    pub page_size: usize,
}

/// The highest allowed tier. A changed config may change it while calls run; all clones share the value.
#[derive(Clone, Debug)]
pub struct AllowedTier(Arc<RwLock<Tier>>);

impl AllowedTier {
    /// The current tier.
    #[must_use]
    pub fn get(&self) -> Tier {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the tier for later calls.
    pub fn set(&self, tier: Tier) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tier;
    }
}

impl Default for AllowedTier {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Tier::Mutating)))
    }
}

impl Options {
    /// Whether the tmux program exists. It may be installed later, so a missing program is only worth a warning.
    #[must_use]
    pub fn finds_tmux(&self) -> bool {
        let binary = Path::new(&self.binary);
        let paths = std::env::var_os("PATH").unwrap_or_default();
        binary.is_file()
            || binary.components().count() == 1
                && std::env::split_paths(&paths).any(|folder| folder.join(binary).is_file())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            binary: "tmux".into(),
            launcher: Vec::new(),
            socket: Socket::ambient(),
            time_limit: ANSWER_TIMEOUT,
            safety: AllowedTier::default(),
            wait_max: Duration::from_secs(30),
            suppress_history: true,
            pipe_roots: Vec::new(),
            global_environment: Vec::new(),
            mask: false,
            prompts_as_tools: false,
            choice: ToolChoice::default(),
            commands: CommandsConfig::default(),
            record: RecordConfig::default(),
            page_size: PAGE_SIZE,
        }
    }
}

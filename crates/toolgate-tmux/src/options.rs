//! What the server is set to.

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

/// What the server is set to.
#[derive(Clone, Debug)]
pub struct Options {
    /// The tmux program.
    pub binary: OsString,
    /// A program and its arguments through which clients of tmux that stay are started: see
    /// [`Engine::launched_by`](crate::engine::Engine::launched_by). Empty by default.
    pub launcher: Vec<OsString>,
    /// The socket of calls that name none.
    pub socket: Socket,
    /// How long tmux may take to answer.
    pub time_limit: Duration,
    /// The highest tier of tools that may be called.
    pub safety: AllowedTier,
    /// The longest that a tool waits for what a program does, whatever its caller asks for.
    pub wait_max: Duration,
    /// Whether `run_command` keeps out of the shell's history if its caller says nothing.
    pub suppress_history: bool,
    /// The folders in which `pipe_pane` may write.
    pub pipe_roots: Vec<PathBuf>,
    /// Further variables that may be set for all sessions, with `*` for any text.
    pub global_environment: Vec<String>,
    /// Whether secrets on screens are masked.
    pub mask: bool,
    /// Whether prompts are tools, too: for clients that have none.
    pub prompts_as_tools: bool,
    /// Which tools there are.
    pub choice: ToolChoice,
    /// What is judged before it is typed.
    pub commands: CommandsConfig,
    /// Where panes are recorded.
    pub record: RecordConfig,
}

/// A tier that a changed config may change while calls run. Copies change with it.
#[derive(Clone, Debug)]
pub struct AllowedTier(Arc<RwLock<Tier>>);

impl AllowedTier {
    /// The tier now.
    #[must_use]
    pub fn get(&self) -> Tier {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tier from here on.
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
    /// Whether the tmux program is where it is looked for. It may come later: this is for a word to the operator.
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
        }
    }
}

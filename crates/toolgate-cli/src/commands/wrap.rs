//! `toolgate wrap [OPTIONS] -- CMD ARGS…`

use std::{
    ffi::OsString,
    io::{IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use toolgate::{
    Tier,
    middleware::{audit::Target, retry::RetryConfig},
    settings::{Settings, Switch},
};
use toolgate_gateway::{Environment, ServerCommand, config, wrap};

/// Govern one MCP server: put `toolgate wrap --` in front of its command
///
/// Speaks MCP over stdio to the client and to the server. Without options, failed calls answer with
/// results that a model can read, every call is recorded in a private audit file, oversized results
/// are shortened and endless calls are given up; nothing else changes.
#[derive(Debug, Args)]
#[command(after_help = "Example, in the config of an MCP client:\n  \
    { \"mcpServers\": { \"files\": { \"command\": \"toolgate\",\n      \
    \"args\": [\"wrap\", \"--safety\", \"readonly\", \"--\", \"npx\", \"-y\",\n               \
    \"@modelcontextprotocol/server-filesystem\", \".\"] } } }")]
pub(crate) struct Wrap {
    /// Allow tools up to this tier: readonly, mutating or destructive. Others are hidden and refused
    #[arg(long, value_name = "TIER")]
    safety: Option<Tier>,

    /// Where the audit goes: a file, `stderr` or `off` [default: toolgate/audit.jsonl in the state folder]
    #[arg(long, value_name = "FILE")]
    audit: Option<String>,

    /// The most bytes of one result, or `off` [default: `1_000_000`]
    #[arg(long, value_name = "BYTES")]
    limit: Option<Switch<usize>>,

    /// How long a call may take, as 60s or 5m, or `off` [default: 5m]
    #[arg(long, value_name = "TIME")]
    timeout: Option<Switch<Duration>>,

    /// Try readonly calls again, so often at most, when the failure passes by itself
    #[arg(long, value_name = "TIMES")]
    retry: Option<u32>,

    /// Read settings from a toolgate.toml; options given here win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Start the server again, with growing waits, when it ends by itself
    #[arg(long)]
    restart: bool,

    /// How long the server may take to answer initialize
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = toolgate::duration::parse)]
    start_timeout: Duration,

    /// Set a variable in the server's environment; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(OsString, OsString)>,

    /// Give the server only these of our environment variables, besides PATH, HOME and the like
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', num_args = 0..)]
    only_env: Option<Vec<OsString>>,

    /// Print the chain that every call passes, outermost first, and end
    #[arg(long)]
    print_chain: bool,

    /// The server's command and its arguments
    #[arg(last = true, value_name = "CMD", required_unless_present = "print_chain")]
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
        let settings = self.settings()?;
        let environment = match self.only_env {
            Some(names) => Environment::Only(names),
            None => Environment::All,
        };
        let server = ServerCommand { command: self.command, environment, set: self.env };
        let options = wrap::Options {
            server,
            settings,
            restart: self.restart,
            start_timeout: self.start_timeout,
        };
        let wrap = wrap::Wrap::new(options)?;
        if self.print_chain {
            writeln!(std::io::stdout(), "{}", wrap.chain())?;
            return Ok(ExitCode::SUCCESS);
        }
        if std::io::stdin().is_terminal() {
            explain();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let code = runtime.block_on(wrap.run());
        // A read of a terminal that never ends must not keep us.
        runtime.shutdown_background();
        Ok(ExitCode::from(code))
    }

    /// The file first, then the options over it.
    fn settings(&self) -> anyhow::Result<Settings> {
        let loaded = self.config.as_deref().map(config::read).transpose()?;
        let says_audit = loaded.as_ref().is_some_and(|loaded| loaded.says_audit);
        let mut settings = loaded.map(|loaded| loaded.settings).unwrap_or_default();
        if let Some(tier) = self.safety {
            settings.safety = Some(tier);
        }
        if let Some(limit) = self.limit {
            settings.limits.response_bytes = limit;
        }
        if let Some(timeout) = self.timeout {
            settings.limits.timeout = timeout;
        }
        if let Some(times) = self.retry {
            settings.retry = Some(RetryConfig { times, ..settings.retry.unwrap_or_default() });
        }
        match &self.audit {
            Some(target) => settings.audit.file = Target::from(target.as_str()),
            None if says_audit => {}
            None => settings.audit.file = Target::File(default_audit_file()?),
        }
        Ok(settings)
    }
}

fn default_audit_file() -> anyhow::Result<PathBuf> {
    let folder = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    let state = state.context(
        "no place for the audit file: neither XDG_STATE_HOME nor HOME is set; choose one with `--audit`",
    )?;
    Ok(state.join("toolgate/audit.jsonl"))
}

/// Tells a person who runs it by hand what it waits for.
#[expect(clippy::print_stderr, reason = "a word to the person at the terminal")]
fn explain() {
    let words: Vec<String> = std::env::args().skip(1).map(|word| format!("{word:?}")).collect();
    eprintln!(
        "toolgate: waiting for an MCP client on standard input. To use it, put this into your \
         client's config\n(the file with `mcpServers`), or type JSON-RPC here, one message a line:\n\n  \
         \"my-server\": {{ \"command\": \"toolgate\", \"args\": [{}] }}\n",
        words.join(", ")
    );
}

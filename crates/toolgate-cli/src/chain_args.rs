//! The options that set the chain, shared by all commands that use one. Precedence: command line, environment, config
//! file.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use clap::Args;
use toolgate::{
    Facts, Selection, Tier,
    middleware::{
        audit::{self, Target},
        preconditions::{ConfirmConfig, Mode},
        scopes,
    },
    presets::Preset,
    settings::{ChainOrder, Settings, Switch},
    stack::{self, Parts, StackError},
};
use toolgate_gateway::{
    Environment, ServerCommand,
    config::{
        Config, ConfigWatch, NAMESPACE, SERVER, ServerConfig, TelemetryConfig, toolgate_variables,
    },
    instances::{self, Instance},
};

use crate::{config_file, inputs, log};

/// The options that set the chain.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ChainArgs {
    /// Read this config: a toolgate.toml, or the config of an MCP client
    #[arg(long, value_name = "FILE", env = "TOOLGATE_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Use the settings of this namespace [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Use this chain: default, or the one of another system: libtmux, metamcp, mcp-core
    #[arg(long, value_name = "NAME", env = "TOOLGATE_CHAIN", value_parser = chain)]
    chain: Option<ChainOrder>,

    /// Allow tools up to this tier: readonly, mutating or destructive. toolgate hides and refuses all others
    #[arg(long, value_name = "TIER", env = "TOOLGATE_SAFETY")]
    pub(crate) safety: Option<Tier>,

    /// Ask a person before calls of this tier and above, in the client or with `toolgate approve`
    #[arg(long, value_name = "TIER", env = "TOOLGATE_CONFIRM")]
    confirm: Option<Tier>,

    /// Show what calls would do instead of running them. Applies to the tools that need a confirmation; if none is
    /// configured, to all tools that are not readonly
    #[arg(
        long,
        value_name = "true|false",
        env = "TOOLGATE_DRY_RUN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    dry_run: Option<bool>,

    /// Write the audit to this file, to `stderr`, or not at all (`off`) [default: ~/.local/state/toolgate/audit.jsonl]
    #[arg(long, value_name = "FILE", env = "TOOLGATE_AUDIT")]
    audit: Option<String>,

    /// Shorten results to this many bytes, or `off` [default: 1000000]
    #[arg(long, value_name = "BYTES", env = "TOOLGATE_LIMIT")]
    limit: Option<Switch<usize>>,

    /// Cancel calls that take longer, for example 60s or 5m, or `off` [default: 5m]
    #[arg(long, value_name = "TIME", env = "TOOLGATE_TIMEOUT")]
    timeout: Option<Switch<Duration>>,

    /// Retry read-only calls up to this many times after transient errors [default: 0]
    #[arg(long, value_name = "TIMES", env = "TOOLGATE_RETRY", value_parser = times)]
    retry: Option<u32>,

    /// Record all calls in this database, sqlite:FILE; read it with `toolgate log` [default: no call log]
    #[arg(long, value_name = "URL", env = "TOOLGATE_STORE")]
    store: Option<String>,

    /// Send spans and metrics to this OTLP collector, for example `http://127.0.0.1:4318`
    #[arg(long, value_name = "URL", env = "TOOLGATE_OTLP", hide_env_values = true)]
    otlp: Option<String>,

    /// Use this server of the config, by its name
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
}

impl ChainArgs {
    /// No option but the config.
    pub(crate) fn of_config(config: Option<PathBuf>) -> Self {
        Self { config, ..Self::default() }
    }

    /// The namespace whose settings apply.
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(NAMESPACE)
    }

    /// Reads the file, if there is one.
    pub(crate) fn read(&self) -> anyhow::Result<Config> {
        for (name, nearest) in toolgate_variables::unknown() {
            let help = nearest.map(|n| format!("; did you mean {n}?")).unwrap_or_default();
            tracing::warn!("the variable {name} is unknown to toolgate{help}");
        }
        self.config.as_deref().map(inputs::ask).transpose()?;
        let config = self.config.as_deref().map(config_file::read).transpose()?.unwrap_or_default();
        for hint in config.hints() {
            log::warn_lines(&hint);
        }
        Ok(config)
    }

    /// The settings of the chain.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let config = self.config.as_deref().map(config_file::read).transpose()?.unwrap_or_default();
        let mut settings = config.settings_with(self.namespace(), self.chain.as_ref())?;
        if let Some(preset) = settings.chain.preset() {
            let lookup = |name: &str| std::env::var(name).ok();
            if let Some(warning) = preset.read_variables(&mut settings, &lookup)? {
                tracing::warn!("{warning}");
            }
        }
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
            settings.retry.get_or_insert_default().times = times;
        }
        settings.confirm = self.confirmed(settings.confirm.take());
        if let Some(value) = std::env::var_os(scopes::VARIABLE) {
            // A value that is not UTF-8 names no scope.
            let value = value.to_string_lossy();
            settings.granted.variable = Some(scopes::from_variable(&value)?);
        }
        match &self.audit {
            Some(target) => settings.audit.file = Target::from(target.as_str()),
            None if config.sets_audit_file(self.namespace())? => {}
            None if lacks_audit(&settings.chain) => {
                // Layers in the wrong order are told too, not only after this is corrected.
                let parts = Parts::with(|parts| parts.only_explains = true);
                let order = match stack::build_with(&settings, parts) {
                    Err(error @ StackError::Chain(_)) => {
                        format!("{}\n\n", config.located(self.namespace(), &error))
                    }
                    _ => String::new(),
                };
                bail!(
                    "{order}the chain does not name `audit`, and calls are recorded in a file by default: add `audit`, or \
                     set `audit = {{ file = \"off\" }}`"
                )
            }
            // This preset has its own default for the audit.
            None if settings.chain.preset() == Some(Preset::McpCore) => {}
            None => {
                let folder = state_folder().ok().context(
                    "no place for the audit file: neither XDG_STATE_HOME nor HOME is set; set one of them, or choose a \
                     file with `--audit`",
                )?;
                settings.audit.file = Target::File(folder.join("audit.jsonl"));
            }
        }
        Ok(settings)
    }

    /// What has to be confirmed. The command line wins over the file.
    fn confirmed(&self, file: Option<ConfirmConfig>) -> Option<ConfirmConfig> {
        let from = |tier: Tier| {
            let tiers = Tier::ALL.into_iter().filter(move |other| *other >= tier);
            tiers.map(|tier| Selection::Facts(Facts { tier: Some(tier), ..Facts::default() }))
        };
        let mut confirm = match (file, self.confirm, self.dry_run) {
            (Some(file), ..) => file,
            (None, Some(_), _) => ConfirmConfig::default(),
            (None, None, Some(true)) => {
                let when = from(Tier::Mutating).collect();
                ConfirmConfig::with(|config| config.when = when)
            }
            (None, None, _) => return None,
        };
        confirm.when.extend(self.confirm.into_iter().flat_map(from));
        if let Some(is_dry) = self.dry_run {
            confirm.set_mode(if is_dry { Mode::Preview } else { Mode::Ask });
        }
        Some(confirm)
    }

    /// The server to wrap: the one of `--server`, the command after `--`, or the only server in the file. `None` if the
    /// file has none or several.
    pub(crate) fn server(
        &self,
        config: &Config,
        command: &[OsString],
    ) -> anyhow::Result<Option<(String, ServerCommand)>> {
        if !command.is_empty() {
            if self.server.is_some() {
                bail!("`--server` and a command after `--` name two servers: leave out one of them")
            }
            // A client that starts `toolgate wrap -- CMD` sets the variables that it means for CMD on toolgate.
            let hidden = config.variables().iter().map(OsString::from).collect();
            let server = ServerCommand {
                command: command.to_vec(),
                environment: Environment::Except(hidden),
                set: Vec::new(),
                folder: None,
            };
            return Ok(Some((SERVER.to_owned(), server)));
        }
        let Some((name, server)) = self.named_server(config)? else { return Ok(None) };
        let command = server.to_command().with_context(|| {
            format!("the server `{name}` is built in: run `toolgate tmux`, or use `toolgate serve`")
        })?;
        Ok(Some((name, command)))
    }

    /// The server of `--server`, or the only server in the file. `None` if the file has none or several.
    pub(crate) fn named_server(
        &self,
        config: &Config,
    ) -> anyhow::Result<Option<(String, ServerConfig)>> {
        let only = || config.servers().keys().next().filter(|_| config.servers().len() == 1);
        let Some(name) = self.server.as_ref().or_else(only) else { return Ok(None) };
        let server = configured(config, name)?;
        if let Some(why) = server.why_unusable() {
            bail!("the server `{name}` cannot be started: {why}");
        }
        Ok(Some((name.clone(), server.clone())))
    }

    /// The one server to inspect: that of `--server`, or the command after `--`. `None`: inspect all servers of the file.
    pub(crate) fn one_server(
        &self,
        config: &Config,
        command: &[OsString],
    ) -> anyhow::Result<Option<(String, ServerConfig)>> {
        let Some(name) = &self.server else {
            if command.is_empty() {
                return Ok(None);
            }
            let server = ServerConfig::from_words(command);
            let server = server.context(
                "the command after `--` is not UTF-8: rename the program or the argument",
            )?;
            return Ok(Some((SERVER.to_owned(), server)));
        };
        if !command.is_empty() {
            bail!("`--server` and a command after `--` name two servers: leave out one of them");
        }
        Ok(Some((name.clone(), configured(config, name)?.clone())))
    }

    /// The database of the call log. A relative path starts at the folder of the config.
    pub(crate) fn store(&self, config: &Config) -> Option<String> {
        self.store.clone().or_else(|| config.store())
    }

    /// Where spans and metrics go.
    pub(crate) fn telemetry(&self, config: &Config) -> anyhow::Result<Option<TelemetryConfig>> {
        let mut telemetry = config.telemetry(self.namespace())?;
        if let Some(url) = &self.otlp {
            telemetry.get_or_insert_default().otlp = Some(url.clone().into());
        }
        Ok(telemetry)
    }

    /// Reads the file. The watch starts before the read, so that it sees every later change.
    pub(crate) fn read_watched(&self) -> anyhow::Result<(Config, ConfigWatch)> {
        let path = self.config.as_deref();
        let watch = ConfigWatch::new(path);
        let config = self.read()?;
        let watch = if config.is_watched() { watch } else { ConfigWatch::off(path) };
        Ok((config, watch))
    }

    /// Registers this process for `toolgate reload` until the returned value is dropped.
    pub(crate) fn announce(&self) -> Option<Instance> {
        let config = self.config.as_deref()?;
        let announced = run_folder().and_then(|folder| Ok(instances::announce(&folder, config)?));
        announced
            .inspect_err(|error| {
                tracing::warn!("`toolgate reload` will not find this process: {error:#}");
            })
            .ok()
    }
}

/// The server of the config with this name.
fn configured<'a>(config: &'a Config, name: &str) -> anyhow::Result<&'a ServerConfig> {
    let servers = config.servers();
    if let Some(place) = config.switched_off(name) {
        bail!(
            "the server `{name}` is switched off in {place}: switch it on there, or choose another"
        );
    }
    let known = || servers.keys().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    servers
        .get(name)
        .with_context(|| format!("the config has no server `{name}`: it has {}", known()))
}

/// Whether the chain lists its layers, without the audit. Unknown layers are another error.
fn lacks_audit(chain: &ChainOrder) -> bool {
    let ChainOrder::Listed(listed) = chain else { return false };
    let is_known = |layer: &String| stack::default_order().any(|place| place.name == layer);
    listed.iter().all(|layer| layer != audit::NAME && is_known(layer))
}

fn times(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "write a number, for example 2".to_owned())
}

fn chain(name: &str) -> Result<ChainOrder, String> {
    match (name, Preset::by_name(name)) {
        ("default", _) => Ok(ChainOrder::Default),
        (_, Some(preset)) => Ok(ChainOrder::Preset(preset)),
        _ => Err("unknown chain: write default, libtmux, metamcp or mcp-core".to_owned()),
    }
}

/// The folder in which running gateways register.
pub(crate) fn run_folder() -> anyhow::Result<PathBuf> {
    Ok(state_folder()?.join("run"))
}

/// The folder of the audit, the approvals and the cached tool lists.
pub(crate) fn state_folder() -> anyhow::Result<PathBuf> {
    toolgate_variables::state_folder().context(
        "cannot find the state folder: neither XDG_STATE_HOME nor HOME is set; set one of them",
    )
}

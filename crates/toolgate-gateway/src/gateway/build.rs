//! What a gateway is made from: the config, and what the command line lays over it.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use toolgate::{
    middleware::preconditions::Approvals,
    settings::Settings,
    stack::{self, Parts, Stack},
};

use super::{namespace::Namespace, running_gateway::GatewayError};
use crate::{
    active_chain::ActiveChain,
    approvals,
    catalog::name_owners::NameOwners,
    config::{Config, ConfigWatch, ServeConfig, TelemetryConfig, TrailConfig},
    process::child::ServerCommand,
    records::RecordSinks,
    upstream::{manifest::ManifestCache, server::Server},
    usage::Usage,
};

/// Reads the settings of a namespace, at the start and whenever the file changes.
pub type NamespaceSource = Arc<dyn Fn(&str) -> Result<NamespaceSettings, String> + Send + Sync>;

/// What a namespace is set to.
#[derive(Clone, Debug)]
pub struct NamespaceSettings {
    /// The chain.
    pub settings: Settings,
    /// Where records of calls are sent.
    pub trail: Option<TrailConfig>,
    /// Where spans and metrics go.
    pub telemetry: Option<TelemetryConfig>,
}

/// What to serve, and how.
#[derive(Clone)]
pub struct GatewayOptions {
    /// The servers and namespaces.
    pub config: Config,
    /// The door.
    pub serve: ServeConfig,
    /// What each namespace is set to.
    pub settings: NamespaceSource,
    /// Where the call log is kept.
    pub store: Option<String>,
    /// Where it is remembered what servers offer.
    pub manifests: Option<PathBuf>,
    /// Watches the file that the settings come from; begun before the file was read.
    pub watch: ConfigWatch,
    /// Only this namespace is needed.
    pub only: Option<String>,
    /// The one server that the one client has to itself, in place of those of the config.
    pub exclusive: Option<ExclusiveServer>,
    /// The namespaces to look at, for commands that only look: nothing is opened, written or remembered.
    pub inspects: Option<Vec<String>>,
}

/// A server for one client, which it has to itself: `toolgate wrap`.
#[derive(Clone, Debug)]
pub struct ExclusiveServer {
    /// The id of the server: its tools are `ID/NAME`.
    pub name: String,
    /// The command.
    pub command: ServerCommand,
    /// Start it again when it ends by itself.
    pub restart: bool,
    /// How long it may take to answer `initialize`.
    pub start_timeout: Duration,
}

impl GatewayOptions {
    /// Whether names may turn out to collide: then it is known before anybody is let in.
    pub fn settles_first(&self) -> Result<bool, GatewayError> {
        for name in self.config.namespaces() {
            let failed =
                |error: crate::config::ConfigError| GatewayError::Settings(error.to_string());
            let style = self.config.style(name).map_err(failed)?;
            let servers = self.config.servers_of(name).map_err(failed)?;
            if style.prefix == crate::config::Prefix::Never && servers.len() > 1 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Where calls wait for a person's approval.
fn approvals(options: &GatewayOptions) -> Option<Arc<dyn Approvals>> {
    if options.inspects.is_some() {
        return None;
    }
    approvals::in_state_folder(&match &options.exclusive {
        Some(exclusive) => approvals::Scope::Server(&exclusive.command),
        None => approvals::Scope::Config(options.config.path()),
    })
}

impl std::fmt::Debug for GatewayOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayOptions").finish_non_exhaustive()
    }
}

/// Where what chains tell goes: one set for all namespaces that say the same of it.
#[derive(Default)]
pub(super) struct OpenedRecords {
    sets: Vec<(NamespaceSettings, RecordSinks, Parts)>,
    /// Each with the set that it tells to.
    stacks: Vec<(usize, Settings, Stack)>,
}

impl OpenedRecords {
    /// Makes a namespace.
    pub(super) async fn namespace(
        &mut self,
        name: &str,
        options: &GatewayOptions,
        servers: &HashMap<Arc<str>, Arc<Server>>,
        has_principals: bool,
        usage: &Arc<Usage>,
    ) -> Result<Namespace, GatewayError> {
        let config = |error: crate::config::ConfigError| GatewayError::Settings(error.to_string());
        let said = (options.settings)(name).map_err(GatewayError::Settings)?;
        let at = self.outlets(&said, options).await?;
        let (acquaintances, parts) = match self.sets.get(at) {
            Some((_, outlets, parts)) => (outlets.acquaintances(), parts.clone()),
            None => (None, Parts::default()),
        };
        // Which tools are known, and what was used up of rates, is each namespace's own.
        let parts = Parts {
            known: toolgate::middleware::filter::KnownTools::default(),
            counters: toolgate::middleware::rate_limit::Counters::default(),
            approvals: approvals(options),
            ..parts
        };
        let stack = self.stack(at, &said.settings, parts)?;
        let servers: Vec<Arc<Server>> = if options.exclusive.is_some() {
            servers.values().cloned().collect()
        } else {
            let names = options.config.servers_of(name).map_err(config)?;
            names.iter().filter_map(|name| servers.get(name.as_str()).cloned()).collect()
        };
        let style = options.config.style(name).map_err(config)?;
        let charter = ActiveChain::new(stack, said.settings);
        let remembered = ManifestCache::new(options.manifests.clone());
        let owners = remembered.owners(name, options.watch.path());
        let owners = match options.inspects {
            Some(_) => NameOwners::only_read(owners),
            None => NameOwners::read(owners),
        };
        Ok(Namespace::new(
            name.into(),
            style,
            servers,
            charter,
            has_principals,
            Arc::clone(usage),
            (owners, acquaintances),
        ))
    }

    async fn outlets(
        &mut self,
        said: &NamespaceSettings,
        options: &GatewayOptions,
    ) -> Result<usize, GatewayError> {
        let is_same = |other: &NamespaceSettings| {
            other.trail == said.trail
                && other.telemetry == said.telemetry
                && other.settings.log == said.settings.log
                && other.settings.redact == said.settings.redact
                && other.settings.audit.otlp == said.settings.audit.otlp
        };
        if let Some(at) = self.sets.iter().position(|(other, ..)| is_same(other)) {
            return Ok(at);
        }
        if options.inspects.is_some() {
            let silent = RecordSinks::silent(
                options.store.as_deref(),
                said.trail.as_ref(),
                said.telemetry.as_ref(),
                &said.settings,
            );
            let parts = silent.map_err(|error| GatewayError::Settings(error.to_string()))?;
            self.sets.push((said.clone(), RecordSinks::default(), parts));
            return Ok(self.sets.len() - 1);
        }
        let opened = RecordSinks::open(
            options.store.as_deref(),
            said.trail.as_ref(),
            said.telemetry.as_ref(),
            &said.settings,
        );
        let (outlets, parts) =
            opened.await.map_err(|error| GatewayError::Settings(error.to_string()))?;
        self.sets.push((said.clone(), outlets, parts));
        Ok(self.sets.len() - 1)
    }

    fn stack(
        &mut self,
        set: usize,
        settings: &Settings,
        parts: Parts,
    ) -> Result<Stack, GatewayError> {
        let same = |known: &&(usize, Settings, Stack)| {
            (&known.1.audit, &known.1.redact) == (&settings.audit, &settings.redact)
        };
        let stack = match self.stacks.iter().find(same) {
            Some((_, own, stack)) => stack.beside(own, settings, parts)?,
            None => stack::build_with(settings, parts)?,
        };
        self.stacks.push((set, settings.clone(), stack.clone()));
        Ok(stack)
    }

    /// Writes and sends what is left.
    pub(super) async fn close(self) {
        // Before the sets, which some of their records go to.
        for audit in self.stacks.iter().filter_map(|(.., stack)| stack.audit.as_ref()) {
            audit.close(Duration::from_secs(5));
        }
        for (at, (_, outlets, _)) in self.sets.into_iter().enumerate() {
            if let Some((.., stack)) = self.stacks.iter().find(|(set, ..)| *set == at) {
                outlets.close(stack).await;
            }
        }
    }
}

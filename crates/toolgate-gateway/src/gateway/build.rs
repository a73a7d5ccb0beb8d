//! What a gateway is built from: its options, the settings of each namespace, and the record sinks.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use toolgate::{
    LayerSpec,
    middleware::preconditions::Approvals,
    settings::Settings,
    stack::{self, Parts, PlacedLayer, Stack, StackError},
};

use super::{
    error::GatewayError,
    namespace::{Namespace, NamespaceParts},
};
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

/// The settings of a namespace.
#[derive(Clone, Debug)]
pub struct NamespaceSettings {
    /// The settings of the chain.
    pub settings: Settings,
    /// Where records of calls are sent.
    pub trail: Option<TrailConfig>,
    /// Where spans and metrics go.
    pub telemetry: Option<TelemetryConfig>,
}

/// The options of a gateway.
#[derive(Clone)]
pub struct GatewayOptions {
    /// The servers and namespaces.
    pub config: Config,
    /// Addresses, tokens and limits for clients.
    pub serve: ServeConfig,
    /// Reads the settings of each namespace.
    pub settings: NamespaceSource,
    /// Where the call log is kept.
    pub store: Option<String>,
    /// The folder of the manifest cache.
    pub manifests: Option<PathBuf>,
    /// Watches the config file. The watch begins before the file is read.
    pub watch: ConfigWatch,
    /// Serve only this namespace (a stdio gateway).
    pub only: Option<String>,
    /// The server of the only client, instead of the servers of the config (`toolgate wrap`).
    pub exclusive: Option<ExclusiveServer>,
    /// Layers that the program adds, which `chain = […]` of a namespace names.
    pub layers: Vec<Arc<dyn LayerSpec>>,
    /// Layers that the program places beside those of the settings, in every namespace.
    pub placed: Vec<PlacedLayer>,
    /// The namespaces to inspect, for commands that serve nothing: the gateway then opens, writes and caches nothing.
    pub inspects: Option<Vec<String>>,
}

/// A server with exactly one client: `toolgate wrap`.
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
    /// Whether names may collide, so that the gateway must wait for the servers' lists before it accepts clients.
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

/// The folder where calls wait for a person's approval.
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

/// The open record sinks: namespaces with the same record settings share one set.
#[derive(Default)]
pub(super) struct OpenedRecords {
    sets: Vec<RecordSet>,
    stacks: Vec<OpenedStack>,
}

/// The sinks for namespaces with the same record settings.
struct RecordSet {
    settings: NamespaceSettings,
    sinks: RecordSinks,
    parts: Parts,
}

/// A chain with the settings that it was built from.
struct OpenedStack {
    /// The index of its record set.
    set: usize,
    settings: Settings,
    stack: Stack,
}

impl OpenedRecords {
    /// Builds a namespace.
    pub(super) async fn namespace(
        &mut self,
        name: &str,
        options: &GatewayOptions,
        servers: &HashMap<Arc<str>, Arc<Server>>,
        usage: &Arc<Usage>,
    ) -> Result<Namespace, GatewayError> {
        let config = |error: crate::config::ConfigError| GatewayError::Settings(error.to_string());
        let namespace_settings = (options.settings)(name).map_err(GatewayError::Settings)?;
        let at = self.sinks(&namespace_settings, options).await?;
        let (seen_tools, mut parts) = match self.sets.get(at) {
            Some(set) => (set.sinks.seen_tools(), set.parts.clone()),
            None => (None, Parts::default()),
        };
        // Known tools, rate counters and approvals belong to each namespace alone.
        parts.known = toolgate::middleware::filter::KnownTools::default();
        parts.approvals = approvals(options);
        parts.layers.clone_from(&options.layers);
        parts.placed.clone_from(&options.placed);
        let stack = self.stack(at, &namespace_settings.settings, parts);
        let stack =
            stack.map_err(|error| GatewayError::Settings(options.config.located(name, &error)))?;
        let servers: Vec<Arc<Server>> = if options.exclusive.is_some() {
            servers.values().cloned().collect()
        } else {
            let names = options.config.servers_of(name).map_err(config)?;
            names.iter().filter_map(|name| servers.get(name.as_str()).cloned()).collect()
        };
        let style = options.config.style(name).map_err(config)?;
        let chain = ActiveChain::new(stack, namespace_settings.settings);
        let remembered = ManifestCache::new(options.manifests.clone());
        let owners = remembered.owners(name, options.watch.path());
        let owners = match options.inspects {
            Some(_) => NameOwners::only_read(owners),
            None => NameOwners::read(owners),
        };
        Ok(Namespace::new(NamespaceParts {
            name: name.into(),
            style,
            servers,
            chain,
            has_principals: !options.serve.tokens.is_empty(),
            usage: Arc::clone(usage),
            owners,
            seen_tools,
        }))
    }

    async fn sinks(
        &mut self,
        namespace_settings: &NamespaceSettings,
        options: &GatewayOptions,
    ) -> Result<usize, GatewayError> {
        let is_same = |other: &NamespaceSettings| {
            other.trail == namespace_settings.trail
                && other.telemetry == namespace_settings.telemetry
                && other.settings.log == namespace_settings.settings.log
                && other.settings.redact == namespace_settings.settings.redact
                && other.settings.audit.otlp == namespace_settings.settings.audit.otlp
        };
        if let Some(at) = self.sets.iter().position(|set| is_same(&set.settings)) {
            return Ok(at);
        }
        if options.inspects.is_some() {
            let silent = RecordSinks::silent(
                options.store.as_deref(),
                namespace_settings.trail.as_ref(),
                namespace_settings.telemetry.as_ref(),
                &namespace_settings.settings,
            );
            let parts = silent.map_err(|error| GatewayError::Settings(error.to_string()))?;
            let (settings, sinks) = (namespace_settings.clone(), RecordSinks::default());
            self.sets.push(RecordSet { settings, sinks, parts });
            return Ok(self.sets.len() - 1);
        }
        let opened = RecordSinks::open(
            options.store.as_deref(),
            namespace_settings.trail.as_ref(),
            namespace_settings.telemetry.as_ref(),
            &namespace_settings.settings,
        );
        let (sinks, parts) =
            opened.await.map_err(|error| GatewayError::Settings(error.to_string()))?;
        self.sets.push(RecordSet { settings: namespace_settings.clone(), sinks, parts });
        Ok(self.sets.len() - 1)
    }

    fn stack(
        &mut self,
        set: usize,
        settings: &Settings,
        parts: Parts,
    ) -> Result<Stack, StackError> {
        let same = |opened: &&OpenedStack| {
            (&opened.settings.audit, &opened.settings.redact) == (&settings.audit, &settings.redact)
        };
        let stack = match self.stacks.iter().find(same) {
            Some(opened) => opened.stack.beside(&opened.settings, settings, parts)?,
            None => stack::build_with(settings, parts)?,
        };
        let settings = settings.clone();
        self.stacks.push(OpenedStack { set, settings, stack: stack.clone() });
        Ok(stack)
    }

    /// Writes and sends the remaining records.
    pub(super) async fn close(self) {
        // Close the audit files before the sinks, because they write to some of these.
        for audit in self.stacks.iter().filter_map(|opened| opened.stack.audit.as_ref()) {
            audit.close(Duration::from_secs(5));
        }
        for (at, RecordSet { sinks, .. }) in self.sets.into_iter().enumerate() {
            if let Some(opened) = self.stacks.iter().find(|opened| opened.set == at) {
                sinks.close(&opened.stack).await;
            }
        }
    }
}

//! The configuration: the gateway reads one file, checks all of it, and refuses it with the line of the error.

mod builtin;
mod client_servers;
mod exposure;
mod faults;
mod file;
mod listing;
mod presets;
mod reference;
pub mod serve;
mod servers;
mod telemetry;
mod text;
pub mod toolgate_variables;
mod trail;
mod watch;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

pub use builtin::BuiltinTable;
use file::{File, Namespace, Reload};
pub(crate) use listing::{ListingStyle, Prefix};
pub use presets::presets;
pub use reference::reference;
pub use serve::ServeConfig;
pub use servers::{Builtin, HttpTransport, Protocol, ServerConfig, Sharing, Start};
pub use telemetry::{Listen, TelemetryConfig};
pub use text::Text;
use toolgate::{
    Tier,
    middleware::{audit::AuditConfig, scopes::Granted},
    presets::Preset,
    settings::{ChainOrder, Settings, from_toml},
    stack::StackError,
};
pub use trail::TrailConfig;
pub use watch::{ConfigWatch, Trigger};

/// The id of a wrapped server that no config names: its tools are `main/NAME`.
pub const SERVER: &str = "main";

/// The namespace of a wrapped server, and of all servers if the config defines no namespace.
pub const NAMESPACE: &str = "default";

/// Why a config file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the config `{path}`: {source}; check the path given with `--config`")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The content of the file is not valid.
    #[error("the config `{path}` is refused:\n{why}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// The place of the error and its reason.
        why: String,
    },
    /// The config does not define the namespace: its name, and the namespaces that the config defines.
    #[error(
        "there is no namespace `{0}` in the config, which defines {1}: choose one of them with `--namespace NAME`"
    )]
    NoNamespace(String, String),
}

/// A config file that was read and checked.
#[derive(Clone, Debug, Default)]
pub struct Config {
    path: PathBuf,
    file: File,
    /// The environment variables that texts of the file name, with one entry for each occurrence.
    variables: Vec<String>,
    /// The keys of `[audit]` and of `[namespaces.NAME.audit]` that the file has.
    audit_keys: AuditKeys,
    builtin: BuiltinTable,
    /// What the file of a client has beside its servers.
    client_notes: Vec<String>,
    switched_off: BTreeMap<String, usize>,
    /// The only server, if the command line chose it.
    only: Option<(String, ServerConfig)>,
}

/// The keys of `[audit]`, by namespace. The empty name stands for the table at the top of the file.
type AuditKeys = BTreeMap<String, Vec<String>>;

fn audit_keys(text: &str) -> AuditKeys {
    let file: toml::Table = toml::from_str(text).unwrap_or_default();
    let keys = |table: &toml::Table| {
        let audit = table.get("audit").and_then(toml::Value::as_table);
        audit.map(|audit| audit.keys().cloned().collect::<Vec<String>>())
    };
    let mut all = AuditKeys::new();
    all.extend(keys(&file).map(|keys| (String::new(), keys)));
    let namespaces = file.get("namespaces").and_then(toml::Value::as_table);
    for (name, namespace) in namespaces.into_iter().flatten() {
        let keys = namespace.as_table().and_then(keys);
        all.extend(keys.map(|keys| (name.clone(), keys)));
    }
    all
}

impl Config {
    /// Reads `toolgate.toml`, or the file of an MCP client. `builtin` checks the table `[tmux]`.
    pub fn read(path: &Path, builtin: BuiltinTable) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let refused = |why: String| ConfigError::Refused { path: path.to_owned(), why };
        let mut config = if client_servers::is_client_file(path, &text) {
            let read = client_servers::read(path, text).map_err(refused)?;
            Self {
                file: File { servers: read.servers, ..File::default() },
                variables: read.variables,
                client_notes: read.notes,
                switched_off: read.switched_off,
                ..Self::default()
            }
        } else {
            let (read, variables) = text::collect_variables(|| from_toml::read_all::<File>(&text));
            let mut errors = read.errors;
            let faults = read.value.as_ref().map(faults::faults);
            if read.value.is_some() {
                errors.extend(builtin.errors(&text));
            }
            let faults = faults::not_caused_by(faults.unwrap_or_default(), &read.left_out);
            errors.extend(faults::shown(&faults, &text));
            let Some(file) = read.value.filter(|_| errors.is_empty()) else {
                let errors: Vec<&str> = errors.iter().map(|error| error.trim_end()).collect();
                return Err(refused(errors.join("\n\n")));
            };
            Self { file, variables, audit_keys: audit_keys(&text), ..Self::default() }
        };
        (config.path, config.builtin) = (path.to_owned(), builtin);
        config.hide_variables();
        Ok(config)
    }

    /// What the operator should know about the file: deprecated spellings, each with the line to write instead, and entries
    /// of a client's file that cannot be used.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let namespaces = self.file.namespaces.values().map(Namespace::layers);
        let all = std::iter::once(self.file.layers()).chain(namespaces);
        let mut hints: Vec<String> =
            all.filter_map(|layers| layers.own.confirm).flat_map(|one| one.hints()).collect();
        hints.dedup();
        hints.extend(self.client_notes.iter().cloned());
        hints
    }

    /// Where the file of a client switches a server off: `FILE:LINE`.
    #[must_use]
    pub fn switched_off(&self, name: &str) -> Option<String> {
        Some(format!("{}:{}", self.path.display(), self.switched_off.get(name)?))
    }

    /// The servers, by name.
    #[must_use]
    pub fn servers(&self) -> &BTreeMap<String, ServerConfig> {
        &self.file.servers
    }

    /// The names of the namespaces that the file defines. A file that defines none has one, `default`, with all
    /// servers.
    #[must_use]
    pub fn namespaces(&self) -> Vec<&str> {
        let names: Vec<&str> = self.file.namespaces.keys().map(String::as_str).collect();
        if names.is_empty() { vec![NAMESPACE] } else { names }
    }

    /// The servers that belong to no namespace, so that no client can reach them.
    #[must_use]
    pub fn without_namespace(&self) -> Vec<&str> {
        let has = |name: &String| {
            let mut namespaces = self.file.namespaces.values();
            namespaces.any(|namespace| match &namespace.servers {
                Some(servers) => servers.contains(name),
                None => true,
            })
        };
        let servers = self.file.servers.keys().filter(|name| !has(name));
        if self.file.namespaces.is_empty() {
            Vec::new()
        } else {
            servers.map(String::as_str).collect()
        }
    }

    /// The environment variables that the file reads. A command that is started for this config must not get them.
    #[must_use]
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// Hides from each server the variables that the file also reads for another purpose.
    fn hide_variables(&mut self) {
        for server in self.file.servers.values_mut() {
            server.hide(&self.variables);
        }
    }

    /// Reads this config file again, or another file that replaces it, with the same check of `[tmux]`.
    pub fn read_again(&self, path: &Path) -> Result<Self, ConfigError> {
        let read = Self::read(path, self.builtin)?;
        Ok(match &self.only {
            Some((name, server)) => read.with_only(name, server.clone()),
            None => read,
        })
    }

    /// A copy of this config with one server only, which belongs to every namespace: for `toolgate wrap`.
    #[must_use]
    pub fn with_only(&self, name: &str, server: ServerConfig) -> Self {
        let mut config = self.clone();
        config.only = Some((name.to_owned(), server.clone()));
        config.file.servers = BTreeMap::from([(name.to_owned(), server)]);
        for namespace in config.file.namespaces.values_mut() {
            namespace.servers = None;
            namespace.prefix = Prefix::Never;
        }
        config.hide_variables();
        config
    }

    /// The table `[tmux]`, if the file has it. `T` is the type that checked the table when the file was read.
    #[must_use]
    pub fn tmux<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        self.file.tmux.clone()?.try_into().ok()
    }

    /// A copy with the table `[tmux]` only: for a built-in server that a gateway governs with the rest of the config.
    #[must_use]
    pub fn only_tmux(&self) -> Self {
        let mut file = File::default();
        file.tmux.clone_from(&self.file.tmux);
        Self { path: self.path.clone(), file, variables: self.variables.clone(), ..Self::default() }
    }

    /// The highest `safety` of the namespaces that contain this server; `None` if none of them sets it.
    fn highest_tier(&self, server: &str) -> Option<Tier> {
        let has = |namespace: &&Namespace| {
            namespace
                .servers
                .as_ref()
                .is_none_or(|servers| servers.iter().any(|name| name == server))
        };
        self.file.namespaces.values().filter(has).filter_map(|namespace| namespace.safety).max()
    }

    /// The server with the command that starts it: a built-in server is this same program. Its own audit is off,
    /// because the gateway that starts it records the calls. Its own tier is the highest `safety` of its namespaces.
    pub(crate) fn with_command(
        &self,
        name: &str,
        server: &ServerConfig,
    ) -> std::io::Result<ServerConfig> {
        let mut server = server.clone();
        if server.builtin.is_none() {
            return Ok(server);
        }
        let mut words = vec!["tmux".to_owned(), "--behind".to_owned(), "--audit=off".to_owned()];
        if let Some(tier) = self.highest_tier(name) {
            words.push(format!("--safety={tier}"));
        }
        if self.file.tmux.is_some() {
            words.push(format!("--config={}", self.path.display()));
        }
        server.command = Some(std::env::current_exe()?.display().to_string().into());
        server.args = words.into_iter().map(Text::from).collect();
        Ok(server)
    }

    /// Whether a running gateway watches the file for changes.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.file.reload != Reload::Off
    }

    /// `[serve]`, if the file has it.
    #[must_use]
    pub fn serve(&self) -> ServeConfig {
        self.file.serve.clone().unwrap_or_default()
    }

    /// The servers of a namespace, in the order of its `servers`; all servers by name if the namespace names none.
    pub fn servers_of(&self, namespace: &str) -> Result<Vec<String>, ConfigError> {
        let all = || self.file.servers.keys().cloned().collect();
        Ok(self.namespace(namespace)?.servers.unwrap_or_else(all))
    }

    /// When names in a namespace get a prefix, and how many entries one page of a list has.
    pub(crate) fn style(&self, namespace: &str) -> Result<ListingStyle, ConfigError> {
        let namespace = self.namespace(namespace)?;
        Ok(ListingStyle { prefix: namespace.prefix, page_size: namespace.page_size.0 })
    }

    /// How many entries one page of a list of a namespace has.
    pub fn page_size(&self, namespace: &str) -> Result<usize, ConfigError> {
        Ok(self.style(namespace)?.page_size)
    }

    /// The `safety` that the file sets for a namespace.
    pub fn configured_safety(&self, namespace: &str) -> Result<Option<Tier>, ConfigError> {
        Ok(self.namespace(namespace)?.safety)
    }

    /// The URL of the store, if the file sets it.
    #[must_use]
    pub fn store(&self) -> Option<String> {
        let url = self.file.store.as_ref()?.as_str();
        // A relative path starts at the folder of the config file.
        Some(match (url.strip_prefix("sqlite:"), self.path.parent()) {
            (Some(path), Some(folder)) => format!("sqlite:{}", folder.join(path).display()),
            _ => url.to_owned(),
        })
    }

    /// The error of a chain with its place in the file. The file may not have the key: the command line and variables set
    /// some of them.
    #[must_use]
    pub fn located(&self, namespace: &str, error: &StackError) -> String {
        faults::located(&self.path, namespace, error).unwrap_or_else(|| error.to_string())
    }

    /// The `[trail]` that applies to a namespace, if the file has one.
    pub fn trail(&self, namespace: &str) -> Result<Option<TrailConfig>, ConfigError> {
        Ok(self.namespace(namespace)?.layers().over(self.file.layers()).trail)
    }

    /// The `[telemetry]` that applies to a namespace, if the file has one.
    pub fn telemetry(&self, namespace: &str) -> Result<Option<TelemetryConfig>, ConfigError> {
        Ok(self.namespace(namespace)?.layers().over(self.file.layers()).telemetry)
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn namespace(&self, name: &str) -> Result<Namespace, ConfigError> {
        match self.file.namespaces.get(name) {
            Some(namespace) => Ok(namespace.clone()),
            None if self.file.namespaces.is_empty() && name == NAMESPACE => {
                Ok(Namespace::default())
            }
            None => {
                let names: Vec<_> = self.namespaces().iter().map(|n| format!("`{n}`")).collect();
                Err(ConfigError::NoNamespace(name.to_owned(), names.join(", ")))
            }
        }
    }

    /// Whether the table `[audit]` that applies to a namespace says where records go.
    pub fn sets_audit_file(&self, namespace: &str) -> Result<bool, ConfigError> {
        self.namespace(namespace)?;
        Ok(self.has_audit_key(namespace, "file"))
    }

    fn has_audit_key(&self, namespace: &str, key: &str) -> bool {
        let keys = self.audit_keys.get(namespace).or_else(|| self.audit_keys.get(""));
        keys.is_some_and(|keys| keys.iter().any(|other| other == key))
    }

    /// The settings of the chain of a namespace.
    pub fn settings(&self, name: &str) -> Result<Settings, ConfigError> {
        self.settings_with(name, None)
    }

    /// The settings of the chain of a namespace. `chain`, if given, replaces the chain that the file sets.
    pub fn settings_with(
        &self,
        name: &str,
        chain: Option<&ChainOrder>,
    ) -> Result<Settings, ConfigError> {
        let mut namespace = self.namespace(name)?;
        if let Some(chain) = chain {
            namespace.chain = chain.clone();
        }
        let layers = namespace.layers().over(self.file.layers());
        let tools = namespace.tools.into_iter();
        let tools = tools.filter_map(|(selector, tool)| Some((selector.parse().ok()?, tool)));
        let preset = namespace.chain.preset();
        let mut settings = Settings::with(|settings| {
            settings.chain = namespace.chain;
            settings.safety = namespace.safety;
            settings.annotations = namespace.annotations;
            settings.tools = tools.collect();
            settings.audit = self.audit(name, layers.audit, preset);
            settings.redact = layers.redact.unwrap_or_default();
            settings.limits = layers.limits.unwrap_or_default();
            settings.inactive_message = namespace.inactive_message;
            settings.new_tools = namespace.new_tools;
            settings.cache_ttl = namespace.cache_ttl;
            settings.policies = self.file.policies.clone();
            settings.policy = namespace.policy;
            settings.principals = namespace.principals.into_iter().collect();
            settings.granted = Granted {
                namespace: namespace.scopes,
                principals: namespace.grants.map(|grants| grants.into_iter().collect()),
                variable: None,
            };
            settings.telemetry.arguments =
                layers.telemetry.is_some_and(|telemetry| telemetry.arguments);
        });
        layers.own.apply_to(&mut settings);
        let mut settings = settings.in_folder(self.path.parent().unwrap_or(Path::new("")));
        if let Some(preset) = preset {
            preset.fill(&mut settings);
        }
        Ok(settings)
    }

    /// The audit of a namespace. With a preset, the defaults of the preset fill the keys that the file does not set.
    fn audit(
        &self,
        namespace: &str,
        configured: Option<AuditConfig>,
        preset: Option<Preset>,
    ) -> AuditConfig {
        let is_set = |key: &str| self.has_audit_key(namespace, key);
        match (configured, preset) {
            (Some(configured), Some(preset)) => preset.audit_over(configured, is_set),
            (Some(configured), None) => configured,
            (None, preset) => preset.and_then(Preset::audit).unwrap_or_default(),
        }
    }
}

/// The JSON Schema of `toolgate.toml`, for editors.
#[must_use]
pub fn schema(builtin: BuiltinTable) -> serde_json::Value {
    let mut generator = schemars::SchemaGenerator::default();
    let mut tmux = builtin.schema(&mut generator).to_value();
    let mut schema = generator.into_root_schema_for::<File>().to_value();
    if let Some(property) = schema.pointer_mut("/properties/tmux") {
        if let (Some(about), Some(tmux)) = (property.get("description"), tmux.as_object_mut()) {
            tmux.insert("description".to_owned(), about.clone());
        }
        *property = tmux;
    }
    schema
}

//! Server manifests: what each server declared and listed last, cached on disk so that lists are known before the server
//! has started.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolgate_wire::{
    Json, Limits,
    mcp::{Era, code, method},
};

use super::connection::ServerInfo;
use crate::private_file;

/// The version of the file format. Files of other versions are ignored.
const FORM: u64 = 2;

/// A list of a server or namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListName {
    Tools = 1,
    Prompts,
    Resources,
    Templates,
}

impl ListName {
    pub(crate) const ALL: [Self; 4] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The capability that declares the list.
    pub(crate) fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// The name of the list in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resource templates",
        }
    }

    /// The method that requests the list, and the member of the result that holds its entries.
    pub(crate) fn method(self) -> (&'static str, &'static str) {
        match self {
            Self::Tools => (method::TOOLS_LIST, "tools"),
            Self::Prompts => (method::PROMPTS_LIST, "prompts"),
            Self::Resources => (method::RESOURCES_LIST, "resources"),
            Self::Templates => (method::RESOURCES_TEMPLATES_LIST, "resourceTemplates"),
        }
    }
}

/// A list of a server, with its cache hints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerList {
    /// The entries of the last successful response.
    pub(crate) entries: Arc<[Json]>,
    /// The error of the last response, if it was an error.
    pub(crate) error: Option<Json>,
    /// How long a client may cache the list, in milliseconds.
    pub(crate) ttl_ms: u64,
    /// Whether the list is the same for all clients.
    pub(crate) is_public: bool,
}

/// What a server declares and lists.
#[derive(Clone, Debug)]
pub(crate) struct ServerManifest {
    pub(crate) server_info: ServerInfo,
    pub(crate) tools: ServerList,
    pub(crate) prompts: ServerList,
    pub(crate) resources: ServerList,
    pub(crate) templates: ServerList,
}

impl ServerList {
    /// A list that the server failed to give. Keeps the entries of the old one.
    pub(crate) fn failed(error: Json, old: Option<&Self>) -> Self {
        Self { error: Some(error), ..old.cloned().unwrap_or_default() }
    }

    /// Whether clients see the same list. The text of errors may differ.
    fn lists_the_same(&self, other: &Self) -> bool {
        (&self.entries, self.ttl_ms, self.is_public, self.error.is_some())
            == (&other.entries, other.ttl_ms, other.is_public, other.error.is_some())
    }

    /// Whether the server does not know the method.
    pub(crate) fn is_unsupported(&self) -> bool {
        let code = self.error.as_ref().and_then(|error| error.get("code")?.i64());
        code == Some(code::METHOD_NOT_FOUND)
    }
}

impl ServerManifest {
    /// Whether clients see the same server.
    pub(crate) fn lists_the_same(&self, other: &Self) -> bool {
        let same = |list| self.list(list).lists_the_same(other.list(list));
        self.server_info == other.server_info && ListName::ALL.into_iter().all(same)
    }

    pub(crate) fn list(&self, list: ListName) -> &ServerList {
        match list {
            ListName::Tools => &self.tools,
            ListName::Prompts => &self.prompts,
            ListName::Resources => &self.resources,
            ListName::Templates => &self.templates,
        }
    }

    /// The error of a list that the server declares and fails to give. An unknown method is no failure.
    pub(crate) fn failure(&self, list: ListName) -> Option<&Json> {
        let listed = self.list(list);
        let error = listed.error.as_ref().filter(|_| !listed.is_unsupported())?;
        self.server_info.has(list.capability()).then_some(error)
    }

    /// The lists that the server fails to give.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (ListName, &Json)> {
        ListName::ALL.into_iter().filter_map(|list| Some((list, self.failure(list)?)))
    }
}

/// The message of an error object.
pub(crate) fn error_text(error: &Json) -> String {
    let message = error.get("message");
    let message = message.as_ref().and_then(Json::text);
    message.map_or_else(|| error.as_str().to_owned(), std::borrow::Cow::into_owned)
}

/// The folder that caches manifests.
#[derive(Clone, Debug)]
pub(crate) struct ManifestCache(Option<PathBuf>);

impl ManifestCache {
    /// Caches in this folder; `None`: caches nothing.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// The file of a server. The name contains a hash of the server's command or address: another command is another
    /// server.
    fn path(&self, server: &str, source: &str) -> Option<PathBuf> {
        let digest: [u8; 32] = Sha256::digest(source.as_bytes()).into();
        let start: u64 = digest.iter().take(6).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = server.chars().map(plain).take(64).collect();
        Some(self.0.as_ref()?.join(format!("{name}-{start:012x}.json")))
    }

    /// The file with the owners of a namespace's names. Namespaces of two configs have two files, even with the same name.
    pub(crate) fn owners(&self, namespace: &str, config: Option<&Path>) -> Option<PathBuf> {
        let source = config.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
        let source = source.unwrap_or_default();
        let folder = self.0.as_ref()?.with_file_name("names");
        Self(Some(folder)).path(namespace, &format!("{namespace}\0{}", source.display()))
    }

    /// Whether the gateway gave up waiting for the server's lists at the last start.
    pub(crate) fn is_late(&self, server: &str, source: &str) -> bool {
        self.path(server, source).is_some_and(|path| path.with_extension("late").exists())
    }

    /// Records that the server's lists take long: the next start does not wait for them.
    pub(crate) fn write_late(&self, server: &str, source: &str) {
        let Some(path) = self.path(server, source) else { return };
        if let Err(error) = private_file::write(&path.with_extension("late"), b"") {
            tracing::debug!(%error, "cannot remember that `{server}` is late");
        }
    }

    /// The cached manifest of a server.
    pub(crate) fn read(&self, server: &str, source: &str) -> Option<ServerManifest> {
        let path = self.path(server, source)?;
        let text = std::fs::read(&path).ok()?;
        let read = Json::parse(text, &Limits::default()).ok().as_ref().and_then(read);
        if read.is_none() {
            tracing::warn!(
                "what is remembered of `{server}` cannot be read, and is asked for again"
            );
        }
        read
    }

    /// Caches a manifest. Logs a failure: the gateway works without the cache.
    pub(crate) fn write(&self, server: &str, source: &str, manifest: &ServerManifest) {
        let Some(path) = self.path(server, source) else { return };
        let _ = std::fs::remove_file(path.with_extension("late"));
        if let Err(error) = private_file::write(&path, &to_bytes(manifest)) {
            tracing::warn!(%error, "cannot remember what `{server}` offers in `{}`", path.display());
        }
    }
}

fn to_bytes(manifest: &ServerManifest) -> Vec<u8> {
    let server_info = &manifest.server_info;
    let mut object = toolgate_wire::Object::new();
    object.set("toolgate", Json::value(&json!(FORM)));
    object.set("modern", Json::value(&json!(server_info.era == Era::Modern)));
    object.set("legacy", Json::value(&json!(server_info.speaks_legacy == Some(true))));
    if let Some(accepts) = server_info.speaks_legacy {
        object.set(method::INITIALIZE, Json::value(&json!(accepts)));
    }
    if let Some(announced) = &server_info.legacy_capabilities {
        object.set("legacyCapabilities", announced.clone());
    }
    object.set("version", Json::string(&server_info.version));
    object.set("capabilities", server_info.capabilities.clone());
    if let Some(info) = &server_info.info {
        object.set("info", info.clone());
    }
    if let Some(instructions) = &server_info.instructions {
        object.set("instructions", Json::string(instructions));
    }
    for (name, listed) in [
        ("tools", &manifest.tools),
        ("prompts", &manifest.prompts),
        ("resources", &manifest.resources),
        ("templates", &manifest.templates),
    ] {
        let mut list = toolgate_wire::Object::new();
        list.set("ttlMs", Json::value(&Value::from(listed.ttl_ms)));
        list.set("public", Json::value(&Value::from(listed.is_public)));
        list.set("entries", Json::list(listed.entries.iter()));
        if let Some(error) = &listed.error {
            list.set("error", error.clone());
        }
        object.set(name, list.finish());
    }
    object.finish().into_bytes().to_vec()
}

fn read(json: &Json) -> Option<ServerManifest> {
    if json.get("toolgate")?.u64()? != FORM {
        return None;
    }
    let listed = |name: &str| {
        let list = json.get(name)?;
        Some(ServerList {
            entries: list.get("entries")?.array()?.iter().map(Json::owned).collect(),
            error: list.get("error").map(|error| error.owned()),
            ttl_ms: list.get("ttlMs")?.u64()?,
            is_public: list.get("public")?.bool()?,
        })
    };
    let is_modern = json.get("modern")?.bool()?;
    Some(ServerManifest {
        server_info: ServerInfo {
            era: if is_modern { Era::Modern } else { Era::Legacy },
            version: json.get("version")?.text()?.as_ref().into(),
            capabilities: json.get("capabilities")?.owned(),
            info: json.get("info").map(|json| json.owned()),
            instructions: json.get("instructions").and_then(|j| Some(j.text()?.as_ref().into())),
            speaks_legacy: match json.get(method::INITIALIZE) {
                Some(accepts) => accepts.bool(),
                None => json.get("legacy")?.bool()?.then_some(true),
            },
            legacy_capabilities: json.get("legacyCapabilities").map(|json| json.owned()),
        },
        tools: listed("tools")?,
        prompts: listed("prompts")?,
        resources: listed("resources")?,
        templates: listed("templates")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> ServerManifest {
        let json = |text: &'static str| Json::parse(text, &Limits::default()).unwrap();
        let tools = ServerList {
            entries: [json(r#"{"name":"a","x":1e5}"#)].into_iter().collect(),
            error: Some(json(r#"{"code":-3.2e4,"message":"m"}"#)),
            ttl_ms: 7,
            is_public: true,
        };
        ServerManifest {
            server_info: ServerInfo {
                era: Era::Legacy,
                version: "2025-06-18".into(),
                capabilities: json(r#"{"tools":{}}"#),
                info: None,
                instructions: Some("say \"please\"".into()),
                speaks_legacy: Some(true),
                legacy_capabilities: Some(json(r#"{"logging":{}}"#)),
            },
            tools,
            prompts: ServerList::default(),
            resources: ServerList::default(),
            templates: ServerList::default(),
        }
    }

    #[test]
    fn what_was_kept_comes_back_byte_by_byte_and_only_for_the_same_command() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ManifestCache::new(Some(folder.path().join("deep/er")));
        assert!(cache.read("a/b", "cmd").is_none());
        cache.write("a/b", "cmd", &manifest());
        let back = cache.read("a/b", "cmd").unwrap();
        assert!(back.lists_the_same(&manifest()));
        assert_eq!(back.tools.entries[0].as_str(), r#"{"name":"a","x":1e5}"#);
        assert_eq!(back.tools.error.unwrap().as_str(), r#"{"code":-3.2e4,"message":"m"}"#);
        assert_eq!(back.server_info.instructions.as_deref(), Some("say \"please\""));
        assert!(cache.read("a/b", "other").is_none() && cache.read("b", "cmd").is_none());
    }

    #[test]
    fn half_a_file_is_no_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ManifestCache::new(Some(folder.path().to_owned()));
        cache.write("s", "cmd", &manifest());
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert!(cache.read("s", "cmd").is_none());
        std::fs::write(&file, r#"{"toolgate":99}"#).unwrap();
        assert!(cache.read("s", "cmd").is_none());
    }
}

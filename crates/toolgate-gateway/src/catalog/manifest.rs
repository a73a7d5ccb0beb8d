//! What a server offers, as it said last: remembered on disk, so that lists are there before the server is.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolgate_wire::{Json, Limits};

use crate::outbound::connection::{Era, Offer};

/// The form in which manifests are kept. Others are not read.
const FORM: u64 = 2;

/// A list of a server, and how long it may be kept by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) entries: Arc<[Json]>,
    /// How long a client may keep it, in milliseconds.
    pub(crate) ttl_ms: u64,
    /// Whether it is the same for everybody.
    pub(crate) is_public: bool,
}

/// Everything that a server offers.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) offer: Offer,
    pub(crate) tools: Listed,
    pub(crate) prompts: Listed,
    pub(crate) resources: Listed,
    pub(crate) templates: Listed,
}

impl Manifest {
    /// Whether it offers the same.
    pub(crate) fn lists_the_same(&self, other: &Self) -> bool {
        (&self.offer, &self.tools, &self.prompts, &self.resources, &self.templates)
            == (&other.offer, &other.tools, &other.prompts, &other.resources, &other.templates)
    }
}

/// The folder in which manifests are remembered.
#[derive(Clone, Debug)]
pub(crate) struct Shelf(Option<PathBuf>);

impl Shelf {
    /// Remembers in this folder; nowhere without one.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// The file of a server. What it is started or reached by is part of the name: another command is another server.
    fn path(&self, server: &str, source: &str) -> Option<PathBuf> {
        let digest: [u8; 32] = Sha256::digest(source.as_bytes()).into();
        let start: u64 = digest.iter().take(6).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = server.chars().map(plain).take(64).collect();
        Some(self.0.as_ref()?.join(format!("{name}-{start:012x}.json")))
    }

    /// The file with the owners of a namespace's names. Namespaces of two configs are two, also if they have one name.
    pub(crate) fn owners(&self, namespace: &str, config: Option<&Path>) -> Option<PathBuf> {
        let source = config.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
        let source = source.unwrap_or_default();
        let folder = self.0.as_ref()?.with_file_name("names");
        Self(Some(folder)).path(namespace, &format!("{namespace}\0{}", source.display()))
    }

    /// What a server offered last, if that is known.
    pub(crate) fn read(&self, server: &str, source: &str) -> Option<Manifest> {
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

    /// Remembers what a server offers. That it cannot be is no reason to stop.
    pub(crate) fn keep(&self, server: &str, source: &str, manifest: &Manifest) {
        let Some(path) = self.path(server, source) else { return };
        if let Err(error) = write(&path, &text(manifest)) {
            tracing::warn!(%error, "cannot remember what `{server}` offers in `{}`", path.display());
        }
    }
}

/// Tells files apart: two of one server may be written at once.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Written whole beside its place and then moved there: a reader finds the old one or the new one.
pub(super) fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let count = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let new = path.with_extension(format!("{}-{count}.new", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text)?;
    drop(file);
    std::fs::rename(&new, path)
}

fn text(manifest: &Manifest) -> Vec<u8> {
    let offer = &manifest.offer;
    let mut object = toolgate_wire::Object::new();
    object.set("toolgate", Json::value(&json!(FORM)));
    object.set("modern", Json::value(&json!(offer.era == Era::Modern)));
    object.set("legacy", Json::value(&json!(offer.speaks_legacy)));
    object.set("version", Json::string(&offer.version));
    object.set("capabilities", offer.capabilities.clone());
    if let Some(info) = &offer.info {
        object.set("info", info.clone());
    }
    if let Some(instructions) = &offer.instructions {
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
        object.set(name, list.finish());
    }
    object.finish().into_bytes().to_vec()
}

fn read(json: &Json) -> Option<Manifest> {
    if json.get("toolgate")?.u64()? != FORM {
        return None;
    }
    let listed = |name: &str| {
        let list = json.get(name)?;
        Some(Listed {
            entries: list.get("entries")?.array()?.iter().map(Json::owned).collect(),
            ttl_ms: list.get("ttlMs")?.u64()?,
            is_public: list.get("public")?.bool()?,
        })
    };
    let is_modern = json.get("modern")?.bool()?;
    Some(Manifest {
        offer: Offer {
            era: if is_modern { Era::Modern } else { Era::Legacy },
            version: json.get("version")?.text()?.as_ref().into(),
            capabilities: json.get("capabilities")?.owned(),
            info: json.get("info").map(|json| json.owned()),
            instructions: json.get("instructions").and_then(|j| Some(j.text()?.as_ref().into())),
            speaks_legacy: json.get("legacy")?.bool()?,
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

    fn manifest() -> Manifest {
        let json = |text: &'static str| Json::parse(text, &Limits::default()).unwrap();
        let tools = Listed {
            entries: [json(r#"{"name":"a","x":1e5}"#)].into_iter().collect(),
            ttl_ms: 7,
            is_public: true,
        };
        Manifest {
            offer: Offer {
                era: Era::Legacy,
                version: "2025-06-18".into(),
                capabilities: json(r#"{"tools":{}}"#),
                info: None,
                instructions: Some("say \"please\"".into()),
                speaks_legacy: true,
            },
            tools,
            prompts: Listed::default(),
            resources: Listed::default(),
            templates: Listed::default(),
        }
    }

    #[test]
    fn what_was_kept_comes_back_byte_by_byte_and_only_for_the_same_command() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(Some(folder.path().join("deep/er")));
        assert!(shelf.read("a/b", "cmd").is_none());
        shelf.keep("a/b", "cmd", &manifest());
        let back = shelf.read("a/b", "cmd").unwrap();
        assert!(back.lists_the_same(&manifest()));
        assert_eq!(back.tools.entries[0].as_str(), r#"{"name":"a","x":1e5}"#);
        assert_eq!(back.offer.instructions.as_deref(), Some("say \"please\""));
        assert!(shelf.read("a/b", "other").is_none() && shelf.read("b", "cmd").is_none());
    }

    #[test]
    fn half_a_file_is_no_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(Some(folder.path().to_owned()));
        shelf.keep("s", "cmd", &manifest());
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert!(shelf.read("s", "cmd").is_none());
        std::fs::write(&file, r#"{"toolgate":99}"#).unwrap();
        assert!(shelf.read("s", "cmd").is_none());
    }
}

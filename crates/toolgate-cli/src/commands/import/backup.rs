//! The originals of changed files, and what was changed in them: `import/ID` in the state folder. They may contain
//! secrets, so only the user can read them.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use toolgate_gateway::client_files::{ChangedEntry, FilePlan};

/// The folder of all backups.
pub(super) struct Backups {
    folder: PathBuf,
}

/// The backup of one file.
pub(super) struct Backup {
    folder: PathBuf,
    /// The file that was changed.
    pub(super) path: PathBuf,
    /// Its content before the change.
    pub(super) before: String,
    /// Its content after the change.
    pub(super) after: String,
    /// The entries that were changed.
    pub(super) entries: Vec<ChangedEntry>,
}

impl Backups {
    pub(super) fn new(state: &Path) -> Self {
        Self { folder: state.join("import") }
    }

    fn create(&self) -> anyhow::Result<()> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.with_context(|| format!("cannot create the folder `{}`", self.folder.display()))
    }

    /// Keeps other processes from changing client files until the returned file is dropped.
    pub(super) fn lock(&self) -> anyhow::Result<File> {
        self.create()?;
        let path = self.folder.join("lock");
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.with_context(|| format!("cannot open `{}`", path.display()))?;
        if file.try_lock().is_err() {
            bail!("another `toolgate import` is running: wait until it has ended");
        }
        Ok(file)
    }

    /// A new, empty backup of a file.
    pub(super) fn folder_of(&self, path: &Path) -> anyhow::Result<Backup> {
        self.create()?;
        let now = jiff::Timestamp::now().as_millisecond();
        let folder = (0..1000)
            .map(|n| self.folder.join(format!("{now}-{n:03}")))
            .find(|folder| DirBuilder::new().mode(0o700).create(folder).is_ok())
            .with_context(|| format!("cannot keep the original in `{}`", self.folder.display()))?;
        Ok(Backup {
            folder,
            path: path.to_owned(),
            before: String::new(),
            after: String::new(),
            entries: Vec::new(),
        })
    }

    /// All backups, newest first.
    pub(super) fn all(&self) -> anyhow::Result<Vec<Backup>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => bail!("cannot read `{}`: {error}", self.folder.display()),
        };
        let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        folders.retain(|folder| folder.join("manifest.json").is_file());
        folders.sort_unstable_by(|one, other| other.cmp(one));
        folders.into_iter().map(Backup::read).collect()
    }
}

impl Backup {
    fn read(folder: PathBuf) -> anyhow::Result<Self> {
        let text = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read `{}`", path.display()))
        };
        let manifest: Value = serde_json::from_str(&text("manifest.json")?)
            .with_context(|| format!("the backup `{}` is damaged", folder.display()))?;
        let path = manifest.get("path").and_then(Value::as_str).unwrap_or_default();
        let entries = manifest.get("entries").cloned().unwrap_or_default();
        Ok(Self {
            path: PathBuf::from(path),
            before: text("before")?,
            after: text("after")?,
            entries: serde_json::from_value(entries)
                .with_context(|| format!("the backup `{}` is damaged", folder.display()))?,
            folder,
        })
    }

    /// The file from which toolgate serves servers whose entries it replaced. Its last names are those of the client's
    /// file, which tell the client.
    pub(super) fn servers_file(&self) -> PathBuf {
        let parent = self.path.parent().and_then(Path::file_name).unwrap_or_default();
        let name = self.path.file_name().unwrap_or_default();
        self.folder.join(parent).join(name)
    }

    /// Keeps the content of a file that is about to be changed, and what changes.
    pub(super) fn keep(
        &self,
        before: &str,
        plan: &FilePlan,
        servers: Option<&str>,
    ) -> anyhow::Result<()> {
        let kept = self.keep_all(before, plan, servers);
        if kept.is_err() {
            self.discard();
        }
        kept
    }

    fn keep_all(&self, before: &str, plan: &FilePlan, servers: Option<&str>) -> anyhow::Result<()> {
        let named = self.path.to_str().context("its path is not UTF-8: rename it")?;
        self.write("before", before)?;
        self.write("after", &plan.after)?;
        if let Some(servers) = servers {
            let path = self.servers_file();
            let parent = path.parent().unwrap_or(&self.folder);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.with_context(|| format!("cannot create `{}`", parent.display()))?;
            self.write(
                &path.strip_prefix(&self.folder).unwrap_or(&path).to_string_lossy(),
                servers,
            )?;
        }
        // Last: without it, the folder is no backup.
        self.write("manifest.json", &json!({"path": named, "entries": plan.changed}).to_string())
    }

    fn write(&self, name: &str, content: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.sync_all()
        });
        written.with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Removes the backup.
    pub(super) fn discard(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    /// Keeps the content, and marks the change as taken back.
    pub(super) fn mark_undone(&self) -> anyhow::Result<PathBuf> {
        let (from, to) = (self.folder.join("manifest.json"), self.folder.join("undone.json"));
        std::fs::rename(&from, &to)
            .with_context(|| format!("cannot rename `{}`", from.display()))?;
        Ok(self.folder.join("before"))
    }
}

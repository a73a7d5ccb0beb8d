//! `toolgate init`

mod servers;

use std::{
    fs::{DirBuilder, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};
use clap::Args;
use servers::Found;

use super::log::style::clean;

/// Write a commented toolgate.toml with your clients' servers
///
/// Reads the configs of the MCP clients on this machine and of this folder, or those of --from, and changes none of them.
/// Secrets that these files have literally are written to the folder `toolgate.secrets` beside the config, which names them
/// as `file:…`. Writes the file with a line that lets editors check and complete it, and the JSON Schema for that beside it. Entries
/// that cannot be used yet, for example because a variable is not set, are comments with the reason.
///
/// It never replaces a file.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Write this file
    #[arg(value_name = "FILE", default_value = "toolgate.toml")]
    file: PathBuf,

    /// Read only the servers of this client's config; can be repeated
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
}

/// The name of the schema beside the config.
const SCHEMA_FILE: &str = "toolgate.schema.json";

/// The folder of secrets beside the config.
const SECRETS_FOLDER: &str = "toolgate.secrets";

/// Writes the secrets that clients' files have literally, each into a file that only the user can read.
fn keep_secrets(found: &[Found], folder: &Path) -> anyhow::Result<()> {
    let secrets: Vec<_> = found.iter().flat_map(|one| &one.secrets).collect();
    if secrets.is_empty() {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot create the folder `{}`", folder.display()))?;
    let ignores = (folder.join(".gitignore"), "*\n".to_owned());
    std::iter::once(&ignores)
        .chain(secrets)
        .try_for_each(|(path, content)| write_new(path, content))
}

/// Writes a file that only the user can read. A file that is there already stays, and must have the same content.
fn write_new(path: &Path, content: &str) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let written = match options.write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if std::fs::read(path).is_ok_and(|old| old == content.as_bytes()) {
                return Ok(());
            }
            bail!("`{}` exists with another content: move it away first", path.display())
        }
        file => file.and_then(|mut file| file.write_all(content.as_bytes())),
    };
    written.with_context(|| format!("cannot write `{}`", path.display()))
}

const HEAD: &str = "\
#:schema ./toolgate.schema.json
# The config of toolgate. `toolgate check` tests it, `toolgate serve` serves it.
# `toolgate config reference` describes every key.

store = \"sqlite:toolgate.db\"          # the call log: `toolgate log`
";

const RULES: &str = "
# What clients connect to, at /mcp.
[namespaces.default]
# safety = \"mutating\"                 # readonly, mutating or destructive
# policy = \"team\"
# new_tools = \"quarantine\"            # hides tools that a server adds later

# [namespaces.default.tools.\"SERVER/TOOL\"]
# tier = \"destructive\"                # wins over the tool's own annotations
# status = \"inactive\"                 # hides and refuses the tool

# [policies.team]
# allow = [\"*/*\"]                     # tools as server/tool, with * and ?
# deny = [\"*/delete*\"]

# [confirm]
# when = [{ tier = \"destructive\" }]   # a person confirms each call

[limits]
timeout = \"5m\"                        # a call is cancelled after this time
response_bytes = 1_000_000            # longer results are shortened
# rate = [{ tools = \"*/*\", per = \"principal\", limit = \"10/s\" }]

[sanitize]
secrets = true                        # tokens and keys in results become [redacted: KIND]

# [serve]
# listen = \"127.0.0.1:8642\"

# [serve.tokens]                      # clients need one of these tokens
# me = \"${GATEWAY_TOKEN}\"
";

/// The servers if none were found.
const EXAMPLE: &str = "
# [servers.files]
# command = \"npx\"
# args = [\"-y\", \"@modelcontextprotocol/server-filesystem\", \".\"]
";

impl Init {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let shown = self.file.display().to_string();
        let again = || format!("`{shown}` exists: name another file, or remove it first");
        if self.file.exists() {
            bail!(again());
        }
        let schema = self.schema_path()?;
        let secrets = self.secrets_folder()?;
        let found = if self.from.is_empty() {
            servers::installed(&secrets)?
        } else {
            servers::of_files(&self.from, &secrets)?
        };
        let mut text = HEAD.to_owned();
        if found.is_empty() {
            text.push_str(EXAMPLE);
        }
        text.extend(found.iter().map(|one| one.text.as_str()));
        text.push_str(RULES);
        keep_secrets(&found, &secrets)?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&self.file);
        let mut file = match file {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(again()),
            file => file.with_context(|| format!("cannot write `{shown}`"))?,
        };
        file.write_all(text.as_bytes()).with_context(|| format!("cannot write `{shown}`"))?;
        drop(file);
        let bytes = serde_json::to_vec_pretty(&crate::config_file::schema())?;
        std::fs::write(&schema, bytes)
            .with_context(|| format!("cannot write `{}`", schema.display()))?;
        self.tell(&found, &schema)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The folder for the secrets of servers, beside the config. Its path is absolute, because toolgate may run elsewhere.
    fn secrets_folder(&self) -> anyhow::Result<PathBuf> {
        let parent = self.file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let parent = parent
            .canonicalize()
            .with_context(|| format!("cannot find the folder `{}`", parent.display()))?;
        Ok(parent.join(SECRETS_FOLDER))
    }

    /// The file of the schema, beside the config. Only a schema of toolgate is replaced.
    fn schema_path(&self) -> anyhow::Result<PathBuf> {
        let path = self.file.parent().unwrap_or(Path::new("")).join(SCHEMA_FILE);
        let title = |text: String| -> Option<serde_json::Value> {
            serde_json::from_str::<serde_json::Value>(&text).ok()?.get("title").cloned()
        };
        let ours = crate::config_file::schema().get("title").cloned();
        if std::fs::read_to_string(&path).is_ok_and(|text| title(text) != ours) {
            bail!(
                "`{}` is another file than the schema of toolgate: move it, or write the config in another folder",
                path.display()
            );
        }
        Ok(path)
    }

    fn tell(&self, found: &[Found], schema: &Path) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let used = found.iter().filter(|one| one.reason.is_none()).count();
        let plural = if used == 1 { "" } else { "s" };
        let file = self.file.display();
        writeln!(
            out,
            "wrote `{file}` with {used} server{plural}, and `{}` for editors",
            schema.display()
        )?;
        for one in found {
            let (name, from) = (clean(&one.name), clean(&one.from));
            let reason = one.reason.as_ref();
            let reason = reason.map(|reason| format!(" is a comment: {}", clean(reason)));
            writeln!(out, "  {name} of {from}{}", reason.unwrap_or_default())?;
        }
        let secrets: usize = found.iter().map(|one| one.secrets.len()).sum();
        if secrets > 0 {
            writeln!(
                out,
                "\n`{SECRETS_FOLDER}/` has {secrets} secrets of these servers, which `{file}` names as `file:…`. Only you can read it, \n\
                 and git ignores it: keep it out of every other version control."
            )?;
        }
        let config = if self.file == Path::new("toolgate.toml") {
            String::new()
        } else {
            format!(" {file}")
        };
        let option = if config.is_empty() { String::new() } else { format!(" --config{config}") };
        writeln!(out, "\nnext: `toolgate check{option}`, then `toolgate serve{config}`")?;
        Ok(())
    }
}

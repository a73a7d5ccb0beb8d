//! The MCP clients that toolgate knows: where their files are and what an entry looks like. One dated file per client, in
//! the folder `known`.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use serde::Deserialize;

/// The data files. The name of a file is the id of its client.
const DATA: [(&str, &str); 22] = [
    ("claude-desktop", include_str!("known/claude-desktop.toml")),
    ("claude-code", include_str!("known/claude-code.toml")),
    ("cursor", include_str!("known/cursor.toml")),
    ("vscode", include_str!("known/vscode.toml")),
    ("copilot-cli", include_str!("known/copilot-cli.toml")),
    ("windsurf", include_str!("known/windsurf.toml")),
    ("devin", include_str!("known/devin.toml")),
    ("zed", include_str!("known/zed.toml")),
    ("codex", include_str!("known/codex.toml")),
    ("gemini", include_str!("known/gemini.toml")),
    ("opencode", include_str!("known/opencode.toml")),
    ("cline", include_str!("known/cline.toml")),
    ("roo", include_str!("known/roo.toml")),
    ("continue", include_str!("known/continue.toml")),
    ("junie", include_str!("known/junie.toml")),
    ("jetbrains", include_str!("known/jetbrains.toml")),
    ("goose", include_str!("known/goose.toml")),
    ("kiro", include_str!("known/kiro.toml")),
    ("amazon-q", include_str!("known/amazon-q.toml")),
    ("lm-studio", include_str!("known/lm-studio.toml")),
    ("warp", include_str!("known/warp.toml")),
    ("antigravity", include_str!("known/antigravity.toml")),
];

/// One client. In paths, `~` is the home folder, `$NAME` a variable, and `*` any text within one name. A path whose
/// variable is not set is left out; `$XDG_CONFIG_HOME` is `~/.config` then.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownClient {
    /// The id: the name of its data file.
    #[serde(default)]
    pub id: String,
    /// The name that people know.
    pub name: String,
    /// The day on which the data was checked against the client's documentation or source.
    pub checked: String,
    /// The files of the user, the preferred one first.
    user: Vec<String>,
    user_macos: Option<Vec<String>>,
    user_windows: Option<Vec<String>>,
    /// Files inside a project's folder.
    #[serde(default)]
    pub project: Vec<String>,
    /// Files of an administrator, which toolgate never edits.
    #[serde(default)]
    managed: Vec<String>,
    managed_macos: Option<Vec<String>>,
    managed_windows: Option<Vec<String>>,
    /// The key that holds the servers.
    pub servers: String,
    /// The key of a URL; `none` if the client takes commands only.
    pub urls: String,
    /// The `type` of a URL entry, if the client needs one.
    pub url_type: Option<String>,
    /// The `type` of a command entry, if the client needs one.
    pub command_type: Option<String>,
    /// The key of the command, if it is not `command`.
    pub command: Option<String>,
    /// The key of the environment, if it is not `env`.
    pub env: Option<String>,
    /// The variables that the client replaces in an entry.
    #[serde(default)]
    pub variables: Vec<String>,
    /// Whether the client reads comments.
    pub comments: bool,
    /// Whether `$NAME` is a variable in `env`.
    #[serde(default)]
    pub has_dollar_variables: bool,
    /// How the client's permission rules for a server begin; `{server}` stands for its name.
    #[serde(default)]
    pub rules: Vec<String>,
    /// The other files that hold permission rules.
    #[serde(default)]
    pub rule_files: Vec<String>,
    /// Whether the client writes its file while it runs.
    #[serde(default)]
    pub is_rewritten: bool,
    /// The name of its process, if it matters that it runs.
    pub process: Option<String>,
    /// What a user should know.
    #[serde(default)]
    pub notes: Vec<String>,
}

static CLIENTS: LazyLock<Vec<KnownClient>> = LazyLock::new(|| {
    let read = DATA.iter().filter_map(|(id, text)| {
        let mut client: KnownClient = toml::from_str(text).ok()?;
        (*id).clone_into(&mut client.id);
        Some(client)
    });
    read.collect()
});

/// All clients.
#[must_use]
pub fn clients() -> &'static [KnownClient] {
    &CLIENTS
}

/// The operating system whose paths apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    /// Linux and other Unix systems.
    #[default]
    Linux,
    /// macOS.
    Macos,
    /// Windows.
    Windows,
}

/// Who a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileScope {
    /// The user.
    User,
    /// A project: the file may be shared with others.
    Project,
    /// An administrator: toolgate reads the file and never edits it.
    Managed,
}

/// Where the files of clients are looked for.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The operating system.
    pub platform: Platform,
    /// The home folder.
    pub home: Option<PathBuf>,
    /// The folder of the project.
    pub folder: PathBuf,
    /// The environment variables.
    pub variables: BTreeMap<String, String>,
}

impl Machine {
    /// This machine, with the current folder as project.
    #[must_use]
    pub fn current() -> Self {
        let platform = if cfg!(windows) {
            Platform::Windows
        } else if cfg!(target_os = "macos") {
            Platform::Macos
        } else {
            Platform::Linux
        };
        let variables = std::env::vars_os();
        let variables =
            variables.filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        Self {
            platform,
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            folder: std::env::current_dir().unwrap_or_default(),
            variables: variables.collect(),
        }
    }

    /// The path that a template of the data stands for; `None` if its variable is not set.
    #[must_use]
    pub fn path(&self, template: &str) -> Option<PathBuf> {
        if let Some(rest) = template.strip_prefix("~/") {
            return Some(self.home.as_ref()?.join(rest));
        }
        let Some(rest) = template.strip_prefix('$') else {
            return Some(self.folder.join(template));
        };
        let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let value = self.variables.get(name).filter(|value| Path::new(value).is_absolute());
        let start = match (value, name) {
            (Some(value), _) => PathBuf::from(value),
            (None, "XDG_CONFIG_HOME") => self.home.as_ref()?.join(".config"),
            _ => return None,
        };
        Some(if rest.is_empty() { start } else { start.join(rest) })
    }

    /// The files that exist and match a template.
    fn existing(&self, template: &str) -> Vec<PathBuf> {
        let Some(path) = self.path(template) else { return Vec::new() };
        let mut found = vec![PathBuf::new()];
        for part in path.components() {
            let part = part.as_os_str();
            if !part.as_encoded_bytes().contains(&b'*') {
                found = found.into_iter().map(|path| path.join(part)).collect();
                continue;
            }
            let matches =
                |name: &OsStr| matches_pattern(&part.to_string_lossy(), &name.to_string_lossy());
            let entries =
                found.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
            let names = entries.flatten().filter(|entry| matches(&entry.file_name()));
            found = names.map(|entry| entry.path()).collect();
            found.sort();
        }
        found.retain(|path| path.is_file());
        found
    }
}

/// Whether a name matches a pattern with at most one `*`.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((start, end)) = pattern.split_once('*') else { return pattern == name };
    name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
}

impl KnownClient {
    /// The templates of its files on a platform, by scope.
    #[must_use]
    pub fn templates(&self, platform: Platform) -> Vec<(FileScope, &str)> {
        let choose = |all, macos, windows| choose(platform, all, macos, windows);
        let user = choose(&self.user, self.user_macos.as_ref(), self.user_windows.as_ref());
        let managed =
            choose(&self.managed, self.managed_macos.as_ref(), self.managed_windows.as_ref());
        let user = user.iter().map(|path| (FileScope::User, path.as_str()));
        let project = self.project.iter().map(|path| (FileScope::Project, path.as_str()));
        let managed = managed.iter().map(|path| (FileScope::Managed, path.as_str()));
        user.chain(project).chain(managed).collect()
    }

    /// The files of the client that exist.
    #[must_use]
    pub fn files(&self, machine: &Machine) -> Vec<(FileScope, PathBuf)> {
        let templates = self.templates(machine.platform).into_iter();
        let mut found: Vec<(FileScope, PathBuf)> = Vec::new();
        for (scope, template) in templates {
            for path in machine.existing(template) {
                if !found.iter().any(|(_, other)| *other == path) {
                    found.push((scope, path));
                }
            }
        }
        found
    }

    /// How many of the last names of a path are those of one of the client's templates, on any platform; 0: the client
    /// would not read the file.
    fn matched_names(&self, path: &Path) -> usize {
        let platforms = [Platform::Linux, Platform::Macos, Platform::Windows];
        let templates = platforms.into_iter().flat_map(|platform| self.templates(platform));
        let matched = templates.map(|(_, template)| {
            let names = template.strip_prefix("~/").or_else(|| {
                let (variable, names) = template.strip_prefix('$')?.split_once('/')?;
                ["XDG_CONFIG_HOME", "APPDATA", "LOCALAPPDATA"].contains(&variable).then_some(names)
            });
            let names = names.unwrap_or(if template.starts_with('$') { "" } else { template });
            matched_names(names, path)
        });
        matched.max().unwrap_or_default()
    }
}

fn choose<'a>(
    platform: Platform,
    all: &'a Vec<String>,
    macos: Option<&'a Vec<String>>,
    windows: Option<&'a Vec<String>>,
) -> &'a Vec<String> {
    match platform {
        Platform::Linux => all,
        Platform::Macos => macos.unwrap_or(all),
        Platform::Windows => windows.unwrap_or(all),
    }
}

/// How many names a relative template has, if they are the last names of a path; else 0.
fn matched_names(template: &str, path: &Path) -> usize {
    let names: Vec<&str> = template.split('/').filter(|name| !name.is_empty()).collect();
    let mut own = path.components().rev().map(|part| part.as_os_str().to_string_lossy());
    let matches = |name: &&str| own.next().is_some_and(|own| matches_pattern(name, &own));
    if names.iter().rev().all(matches) { names.len() } else { 0 }
}

/// How many of the last names of a path lie inside a project, if it is a project's file of a client; else 0.
pub(super) fn names_inside_project(path: &Path) -> usize {
    let templates = clients().iter().flat_map(|client| &client.project);
    templates.map(|template| matched_names(template, path)).max().unwrap_or_default()
}

/// The client whose file has this path, if the path tells.
#[must_use]
pub fn client_of(path: &Path) -> Option<&'static KnownClient> {
    let matched = clients().iter().map(|client| (client.matched_names(path), client));
    // Of two that match equally well, the first one.
    let best = matched.rev().max_by_key(|(names, _)| *names);
    best.filter(|(names, _)| *names > 0).map(|(_, client)| client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_data_file_is_read() {
        assert_eq!(clients().len(), DATA.len());
        for client in clients() {
            assert!(client.checked.starts_with("20") && client.checked.len() == 10, "{client:?}");
        }
    }

    #[test]
    fn a_path_tells_its_client() {
        for (path, id) in [
            ("/home/me/.cursor/mcp.json", Some("cursor")),
            ("/src/app/.vscode/mcp.json", Some("vscode")),
            ("/Users/me/Library/Application Support/Code/User/mcp.json", Some("vscode")),
            ("/home/me/.codex/config.toml", Some("codex")),
            ("/home/me/.continue/mcpServers/files.yaml", Some("continue")),
            (".mcp.json", Some("claude-code")),
            ("/home/me/.warp/.mcp.json", Some("warp")),
            ("/home/me/mcp.json", None),
        ] {
            let client = client_of(Path::new(path)).map(|client| client.id.as_str());
            assert_eq!(client, id, "{path}");
        }
    }

    #[test]
    fn files_are_found_where_the_machine_has_them() {
        let home = tempfile::tempdir().unwrap();
        let project = tempfile::tempdir().unwrap();
        for (folder, path) in [
            (&home, ".claude.json"),
            (&home, "xdg/zed/settings.json"),
            (&home, ".aws/amazonq/cli-agents/b.json"),
            (&home, ".aws/amazonq/cli-agents/a.json"),
            (&project, ".mcp.json"),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "{}").unwrap();
        }
        let xdg = home.path().join("xdg").display().to_string();
        let machine = Machine {
            home: Some(home.path().to_owned()),
            folder: project.path().to_owned(),
            variables: BTreeMap::from([("XDG_CONFIG_HOME".to_owned(), xdg)]),
            ..Machine::default()
        };
        let found = |id: &str| {
            let client = clients().iter().find(|client| client.id == id).unwrap();
            let files = client.files(&machine).into_iter();
            files
                .map(|(scope, path)| (scope, path.file_name().unwrap().to_owned()))
                .collect::<Vec<_>>()
        };
        let expected =
            [(FileScope::User, ".claude.json".into()), (FileScope::Project, ".mcp.json".into())];
        assert_eq!(found("claude-code"), expected);
        assert_eq!(found("zed"), [(FileScope::User, "settings.json".into())]);
        assert_eq!(found("amazon-q").len(), 2);
        assert!(found("cursor").is_empty());
    }
}

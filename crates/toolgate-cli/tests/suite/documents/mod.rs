//! The documents: every config in them is accepted, every command and option exists, and what a page shows of a command is
//! what the command prints.

mod alerts;
mod commands;
mod configs;
mod recipes;

use std::path::{Path, PathBuf};

/// A fenced block of a page.
struct Block {
    page: String,
    line: usize,
    language: String,
    text: String,
}

impl Block {
    fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    /// The name of the file in the block's first line: `# next.toml`, `// drafts.cedar`.
    fn file(&self) -> Option<&str> {
        let first = self.text.lines().next()?;
        let name = first.strip_prefix("# ").or_else(|| first.strip_prefix("// "))?;
        let name = name.split([':', ' ']).next()?;
        let is_file = [".toml", ".cedar", ".yml"].iter().any(|end| name.ends_with(end));
        (is_file && !name.contains('/')).then_some(name)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages for users: the README, everything in docs, and the pages of the layers and of the terminal.
fn pages() -> Vec<(String, String)> {
    let mut folders = vec!["docs", "crates/toolgate/src/middleware", "crates/toolgate-tmux/src"]
        .into_iter()
        .map(PathBuf::from)
        .collect::<Vec<_>>();
    let mut paths = vec![PathBuf::from("README.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        (path.display().to_string(), text)
    };
    paths.into_iter().map(read).collect()
}

fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (at, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            is_open = !is_open;
            if is_open {
                let (page, language) = (page.to_owned(), language.to_owned());
                found.push(Block { page, line: at + 1, language, text: String::new() });
            }
        } else if is_open {
            let block = found.last_mut().unwrap();
            block.text += line;
            block.text.push('\n');
        }
    }
    found
}

/// All blocks of all pages.
fn all_blocks() -> Vec<Block> {
    pages().iter().flat_map(|(page, text)| blocks(page, text)).collect()
}

/// The words of a command line, as a shell reads quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quote, mut is_word) = (vec![String::new()], None, false);
    for sign in line.chars() {
        match (quote, sign) {
            (None, '\'' | '"') => (quote, is_word) = (Some(sign), true),
            (Some(open), _) if open == sign => quote = None,
            (None, ' ') if is_word => {
                words.push(String::new());
                is_word = false;
            }
            (None, ' ') => {}
            _ => {
                words.last_mut().unwrap().push(sign);
                is_word = true;
            }
        }
    }
    if !is_word {
        words.pop();
    }
    words
}

/// A program in the place of `npx` and `uvx`: an MCP server that lists the tools of the reference server that it is asked for.
fn write_servers(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let (reads, changes, destroys) = (
        "{\"readOnlyHint\": true}",
        "{\"readOnlyHint\": false, \"destructiveHint\": false}",
        "{\"readOnlyHint\": false, \"destructiveHint\": true}",
    );
    let files = [
        ("read_text_file list_directory search_files", reads),
        ("create_directory", changes),
        ("write_file edit_file move_file", destroys),
    ];
    let git = [
        ("git_status git_diff git_log", reads),
        ("git_add git_commit git_checkout", changes),
        ("git_reset", destroys),
    ];
    let mut script = "#!/bin/sh\ncase \"$*\" in\n".to_owned();
    for (package, tools) in [
        ("server-filesystem", &files[..]),
        ("server-git", &git),
        ("server-fetch", &[("fetch", reads)]),
    ] {
        let tool = |name: &str, hints: &str| {
            format!(
                "{{\"name\": \"{name}\", \"inputSchema\": {{\"type\": \"object\"}}, \"annotations\": {hints}}}"
            )
        };
        let tools =
            tools.iter().flat_map(|(names, hints)| names.split(' ').map(|name| tool(name, hints)));
        let tools = tools.collect::<Vec<_>>().join(", ");
        let fixture = crate::harness::fixture().display().to_string();
        let case = format!(
            "*{package}*) exec '{fixture}' --reply tools/list '\"result\":{{\"tools\":[{tools}]}}' ;;\n"
        );
        script.push_str(&case);
    }
    script += "esac\nexit 1\n";
    std::fs::create_dir_all(folder).unwrap();
    for name in ["npx", "uvx"] {
        let path = folder.join(name);
        std::fs::write(&path, &script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

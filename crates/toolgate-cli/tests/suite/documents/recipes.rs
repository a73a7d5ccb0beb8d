//! What pages show of `toolgate why` and `--print-chain` is what these commands print, and every recipe proves its effect.

use std::process::Command;

use super::{Block, all_blocks, words, write_servers};
use crate::harness::toolgate;

/// The commands of a console block, each with the output that the page shows.
fn commands(block: &Block) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in block.text.lines() {
        if let Some(command) = line.strip_prefix("$ toolgate ") {
            found.push((command.to_owned(), String::new()));
        } else if let Some((_, output)) = found.last_mut() {
            *output += line;
            output.push('\n');
        }
    }
    found
}

/// Whether a text is what the page shows; a line `…` of the page stands for any lines.
fn matches(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (format!("{}\n", shown.trim()), format!("{}\n", printed.trim()));
    let parts: Vec<&str> = shown.split("…\n").collect();
    let mut rest = printed.as_str();
    for (at, part) in parts.iter().enumerate() {
        let Some(found) = rest.find(part).filter(|found| at > 0 || *found == 0) else {
            return false;
        };
        rest = &rest[found + part.len()..];
    }
    rest.is_empty() || parts.last() == Some(&"")
}

#[test]
fn pages_show_what_the_commands_print() {
    let folder = tempfile::tempdir().unwrap();
    write_servers(&folder.path().join("bin"));
    let path =
        format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap());
    let (blocks, mut recipes, mut wrong) =
        (all_blocks(), std::collections::BTreeSet::new(), Vec::new());
    for block in blocks.iter().filter(|block| block.language == "console") {
        // The files of the page, beside each other as on the reader's machine.
        let project = tempfile::tempdir().unwrap();
        for own in blocks.iter().filter(|own| own.page == block.page) {
            let is_config = own.language == "toml" && own.line < block.line;
            let is_only = own.language == "toml" && !project.path().join("toolgate.toml").exists();
            if let Some(name) = own.file().or((is_config || is_only).then_some("toolgate.toml")) {
                std::fs::write(project.path().join(name), &own.text).unwrap();
            }
        }
        for (command, shown) in commands(block) {
            let words = words(&command);
            let is_run = words[0] == "why" || words.iter().any(|word| word == "--print-chain");
            if !is_run {
                continue;
            }
            let mut run = Command::new(toolgate());
            run.args(&words).current_dir(project.path()).env_clear().env("PATH", &path);
            for name in ["MY_TOKEN", "CI_TOKEN", "WEB_TOKEN", "OPS_TOKEN"] {
                run.env(name, format!("the-value-of-{name}-is-long-enough"));
            }
            let state = project.path().join("state");
            run.env("HOME", project.path()).env("XDG_STATE_HOME", &state);
            run.env("USER", "me").env("LOGNAME", "me");
            let output = run.output().unwrap();
            let printed = String::from_utf8(output.stdout).unwrap();
            let printed = printed.replace(&state.display().to_string(), "/home/me/.local/state");
            let is_shown = matches(&shown, &printed);
            if !is_shown && std::env::var_os("TOOLGATE_UPDATE").is_some() && !shown.contains('…')
            {
                let page = super::root().join(&block.page);
                let text = std::fs::read_to_string(&page).unwrap();
                let (old, new) = (format!("{command}\n{}", shown.trim_end()), printed.trim_end());
                std::fs::write(page, text.replace(&old, &format!("{command}\n{new}"))).unwrap();
            } else if !is_shown {
                let told = String::from_utf8_lossy(&output.stderr);
                wrong.push(format!("{}: `{command}` prints\n{printed}{told}", block.place()));
            }
            if words[0] == "why" {
                recipes.insert(block.page.clone());
            }
        }
    }
    let how = "`TOOLGATE_UPDATE=1 cargo test -p toolgate-cli --test suite documents::recipes` writes the outputs";
    assert!(wrong.is_empty(), "{}\n\n{how}", wrong.join("\n\n"));
    for entry in std::fs::read_dir(super::root().join("docs/recipes")).unwrap() {
        let page = format!("docs/recipes/{}", entry.unwrap().file_name().to_str().unwrap());
        assert!(recipes.contains(&page), "{page} has no `toolgate why`");
    }
}

#[test]
fn an_output_that_differs_is_found() {
    assert!(matches("a\nb\n", "a\nb\n"));
    assert!(!matches("a\nb\n", "a\nb\nc\n"));
    assert!(!matches("a\nb\n", "x\na\nb\n"));
    assert!(matches("…\nb\n", "x\na\nb\n"));
    assert!(matches("a\n…\nc\n", "a\nx\nc\n"));
    assert!(matches("a\n…\n", "a\nx\n"));
    assert!(!matches("a\n…\nd\n", "a\nx\nc\n"));
}

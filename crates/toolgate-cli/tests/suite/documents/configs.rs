//! Every config of a page is read by the program. The test completes what a page leaves out: variables, files, a store.

use std::{path::Path, process::Command};

use super::{Block, all_blocks};
use crate::harness::toolgate;

#[test]
fn every_config_of_a_page_is_accepted() {
    let blocks = all_blocks();
    // Blocks of pages about clients are entries of the clients: the gateway's tests read those.
    let configs = blocks
        .iter()
        .filter(|block| block.language == "toml" && !block.page.starts_with("docs/clients/"));
    let configs: Vec<&Block> = configs.collect();
    assert!(configs.len() > 30, "{} configs", configs.len());
    let refused: Vec<String> =
        configs.into_iter().filter_map(|block| refusal(block, &blocks)).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n\n"));
}

/// What the program says against a config; `None` if it accepts it.
fn refusal(block: &Block, all: &[Block]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut text = block.text.clone();
    if text.contains("\"quarantine\"") && !text.contains("store =") {
        text.insert_str(0, "store = \"sqlite:toolgate.db\"\n");
    }
    let absolute = format!("file:{}/", folder.path().display());
    text = text.replace("file:/", &absolute);
    let mut check = Command::new(toolgate());
    check.args(["check", "--offline", "--config", "toolgate.toml"]).current_dir(folder.path());
    check.env("XDG_STATE_HOME", folder.path().join("state"));
    for name in text.split("${").skip(1).filter_map(|rest| rest.split(['}', ':']).next()) {
        check.env(name, format!("the-value-of-{name}-is-long-enough-for-a-token"));
    }
    for named in text.split('"').map(|part| part.strip_prefix("file:").unwrap_or(part)) {
        let content = match Path::new(named).extension().and_then(|extension| extension.to_str()) {
            Some("cedar") => {
                let own = all.iter().find(|b| b.page == block.page && b.file() == Some(named));
                own.map_or("permit (principal, action, resource);", |own| &own.text)
            }
            Some("json") => "{}",
            _ if named.starts_with(absolute.trim_start_matches("file:")) => {
                "a-secret-of-a-file-that-is-long-enough"
            }
            _ => continue,
        };
        let path = folder.path().join(named);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    std::fs::write(folder.path().join("toolgate.toml"), &text).unwrap();
    let output = check.output().unwrap();
    // 0: fine; 1: something to look at, such as a server that is not on this machine; 2: invalid.
    let is_accepted = matches!(output.status.code(), Some(0 | 1));
    let told = || String::from_utf8_lossy(&output.stderr).into_owned();
    (!is_accepted).then(|| format!("{}: {}", block.place(), told()))
}

//! `-h` fits a screen of 24 lines with 80 columns; `--help` has all commands, in groups.

use serde_json::Value;

use super::{Machine, stderr, stdout};

/// The short help at 80 columns, which must fit a screen.
fn short(machine: &Machine, words: &[&str]) -> String {
    let output = machine.command(&[words, &["-h"]].concat()).env("COLUMNS", "80").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let help = stdout(&output);
    assert!(help.lines().count() <= 24, "{words:?}: {} lines:\n{help}", help.lines().count());
    let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
    assert_eq!(long, Vec::<&str>::new(), "{words:?}");
    help
}

#[test]
fn the_short_help_of_every_command_fits_one_screen() {
    let machine = Machine::new();
    let help = short(&machine, &[]);
    let long = stdout(&machine.run(&["--help"]));
    let commands = long.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<&str> = commands.filter(|name| !name.is_empty()).collect();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        assert!(help.contains(command), "{command} is missing:\n{help}");
        short(&machine, &[command]);
    }
    short(&machine, &["audit", "verify"]);
    let wrap = short(&machine, &["wrap"]);
    assert!(wrap.contains("Allow tools up to this tier"), "{wrap}");
    assert!(wrap.contains("`--help` tells more"), "{wrap}");
}

#[test]
fn the_long_help_describes_every_command_in_its_group() {
    let machine = Machine::new();
    let help = stdout(&machine.run(&["--help"]));
    let groups: Vec<&str> =
        help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    assert_eq!(groups.first(), Some(&"First steps:"), "{help}");
    assert_eq!(groups.len(), 4, "{help}");
    assert!(help.contains("  replay       "), "{help}");
    // A program without arguments gets the same help, as an error.
    let output = machine.run(&[]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn every_error_code_is_explained_within_80_columns() {
    let machine = Machine::new();
    let explain = |words: &[&str]| {
        let words = [&["explain"], words].concat();
        machine.command(&words).env("COLUMNS", "80").output().unwrap()
    };
    let all: Vec<Value> = serde_json::from_str(&stdout(&explain(&["--json"]))).unwrap();
    assert!(all.len() > 40, "{all:?}");
    let list = stdout(&explain(&[]));
    let mut pages = list.clone();
    for page in &all {
        let code = page["code"].as_str().unwrap();
        assert!(list.contains(code), "{code}:\n{list}");
        let page = stdout(&explain(&[&code.to_lowercase()]));
        assert!(page.starts_with(code) && page.contains("\nWhat the operator can do\n"), "{page}");
        pages += &page;
    }
    let long: Vec<&str> = pages.lines().filter(|line| line.chars().count() > 80).collect();
    assert_eq!(long, Vec::<&str>::new());
    let unknown = explain(&["TIER_DENID"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("did you mean `TIER_DENIED`?"), "{}", stderr(&unknown));
}

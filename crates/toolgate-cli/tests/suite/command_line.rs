//! The command line as a person meets it: help, refusals that say what to do, completions, the chain.

use std::process::{Command, Output};

use crate::harness::{Session, fixture, toolgate};

fn run(arguments: &[&str]) -> Output {
    Command::new(toolgate()).args(arguments).env("HOME", "/nowhere").output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs `wrap --print-chain` with a config of this text.
fn chain(config: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolgate.toml");
    std::fs::write(&path, config).unwrap();
    let path = path.display().to_string();
    let all = [&["wrap", "--print-chain", "--audit", "off", "--config", &path], options].concat();
    run(&all)
}

#[test]
fn help_names_every_option_and_shows_an_example() {
    let output = run(&["wrap", "--help"]);
    let help = String::from_utf8_lossy(&output.stdout);
    for option in [
        "--safety",
        "--audit",
        "--limit",
        "--timeout",
        "--retry",
        "--config",
        "--restart",
        "--start-timeout",
        "--env",
        "--only-env",
        "--print-chain",
    ] {
        assert!(help.contains(option), "{option} is missing:\n{help}");
    }
    assert!(help.contains("mcpServers"));
    assert!(
        !help.contains("keep-server")
            && !String::from_utf8_lossy(&run(&["--help"]).stdout).contains("keep-server")
    );
}

#[test]
fn the_chain_is_printed_in_order_with_its_settings() {
    let output =
        chain("", &["--safety", "readonly", "--retry", "2", "--limit", "5000", "--timeout", "90s"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        " client\n  \
           1  response-limit     at most 5000 bytes a result, keeps the tail\n  \
           2  errors-to-results  a failed call answers with isError, the message and _meta\n  \
           3  filter             all tools active; new tools are allowed; _meta.allowedTools narrows\n  \
           4  policy             none bound\n  \
           5  safety             up to readonly; a tool without a tier is denied\n  \
           6  preconditions      none; _meta.toolgate/dry_run shows a call instead\n  \
           7  retry              readonly calls, up to 2 more after a transient error, first after 100ms\n  \
           8  timeout            a call is cancelled after 90s\n tool\n"
    );
}

#[test]
fn a_chain_in_the_wrong_order_is_refused_with_the_reason() {
    let config = "[namespaces.default]\nsafety = \"readonly\"\nchain = [\"safety\", \"errors-to-results\"]\n";
    let output = chain(config, &[]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    assert!(told.contains("line 3, column 1"), "{told}");
    assert!(
        told.ends_with(
            "the chain is refused: `errors-to-results` must stand outside `safety`: it turns failures of the layers inside of it \
             into error results; move `errors-to-results` before `safety` in the chain\n"
        ),
        "{told}"
    );
    let output = chain(
        "[namespaces.default]\nsafety = \"readonly\"\nchain = [\"errors-to-results\"]\n",
        &[],
    );
    assert!(
        stderr(&output).contains("`safety` is set, but the chain does not name `safety`"),
        "{}",
        stderr(&output)
    );
    let output = chain("[namespaces.default]\nchain = [\"saftey\"]\n", &[]);
    assert!(stderr(&output).contains("unknown layer `saftey`"), "{}", stderr(&output));
}

#[test]
fn a_chain_without_the_audit_has_to_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolgate.toml");
    let chain = |config: &str| {
        std::fs::write(&path, config).unwrap();
        run(&["wrap", "--print-chain", "--config", &path.display().to_string()])
    };
    let without = "[namespaces.default]\nchain = [\"filter\", \"policy\"]\n";
    let output = chain(without);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("set `audit = { file = \"off\" }`"), "{}", stderr(&output));
    let output = chain(&format!("audit = {{ file = \"off\" }}\n{without}"));
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_wrong_config_says_where_and_refuses_to_start() {
    for (config, told) in [
        ("[limits]\nresponse_byte = 5\n", &["line 2", "response_byte", "response_bytes"][..]),
        ("[namespaces.default]\nsafety = \"all\"\n", &["line 2", "all", "readonly"]),
        ("[limits]\ntimeout = \"soon\"\n", &["`soon` is not a duration"]),
        ("[limits]\nresponse_bytes = 10\n", &["too small"]),
        (
            "[namespaces.default.tools.\"echo\"]\ntier = \"readonly\"\n",
            &["`echo` does not select tools"],
        ),
        ("[namespaces.default]\npolicy = \"team\"\n", &["`team`, which does not exist"]),
        ("oh no", &["line 1"]),
    ] {
        let output = chain(config, &[]);
        assert_eq!(output.status.code(), Some(2), "{config}");
        for part in told {
            assert!(stderr(&output).contains(part), "{config} gave {}", stderr(&output));
        }
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn wrong_options_are_refused_with_what_is_right() {
    for (arguments, told) in [
        (&["wrap", "--safety", "readonl", "--", "x"][..], "unknown safety tier `readonl`"),
        (&["wrap", "--limit", "many", "--", "x"], "not a number of bytes"),
        (&["wrap", "--limit", "1", "--", "x"], "too small"),
        (&["wrap", "--timeout", "5", "--", "x"], "not a duration"),
        (&["wrap", "--env", "NOVALUE", "--", "x"], "write NAME=VALUE"),
        (&["wrap"], "CMD"),
        (
            &["wrap", "--config", "/no/such.toml", "--", "x"],
            "cannot read the config `/no/such.toml`",
        ),
        (&["warp"], "wrap"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(told), "{arguments:?} gave {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{arguments:?} wrote to stdout");
    }
}

/// Some programs that start toolgate remove `--` from its arguments.
#[test]
fn wrap_takes_a_command_without_two_dashes() {
    let fixture = fixture().display().to_string();
    for options in [
        vec![fixture.as_str()],
        vec!["--safety", "readonly", &fixture],
        vec!["--env", "A=1", "--restart", &fixture],
        vec!["--", &fixture],
        // One of them may be removed on the way.
        vec!["--", "--", &fixture],
        // Options and dashes after the command are the command's.
        vec![&fixture, "--unknown-here", "-x", "--", "y"],
        vec!["--", &fixture, "--safety", "readonly"],
    ] {
        let mut session = Session::wrap_bare(&options, |_| {});
        let name = session.initialize()["result"]["serverInfo"]["name"].clone();
        assert_eq!(name, "fixture", "{options:?}");
        let denied =
            session.call("spawn", serde_json::json!({}))["result"]["_meta"]["code"].clone();
        let is_readonly = options.first() == Some(&"--safety");
        assert_eq!(denied == "TIER_DENIED", is_readonly, "{options:?}: {denied}");
    }
}

#[test]
fn an_option_after_the_command_is_refused_where_nobody_can_tell_whose_it_is() {
    for (arguments, word) in [
        (["node", "x.js", "--safety", "readonly"], "--safety"),
        (["node", "--config=x.json", "-y", "z"], "--config=x.json"),
        (["npx", "-y", "server", "--timeout"], "--timeout"),
    ] {
        let output = run(&[&["wrap", "--audit", "off"], &arguments[..]].concat());
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        let program = arguments[0];
        assert!(told.contains(&format!("`{word}` comes after the command `{program}`")), "{told}");
        assert!(told.contains("write it before the command"), "{told}");
        assert!(told.contains(&format!("toolgate wrap [OPTIONS] -- {program}")), "{told}");
    }
}

#[test]
fn a_wrong_log_level_refuses_to_start() {
    let output =
        Command::new(toolgate()).args(["wrap", "--", "x"]).env("TOOLGATE_LOG", "loud").output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("TOOLGATE_LOG=`loud` is unknown"), "{}", stderr(&output));
}

#[test]
fn without_a_home_the_audit_asks_for_a_place() {
    let command = Command::new(toolgate()).args(["wrap", "--", "x"]).env_clear().output();
    let output = command.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("choose a file with `--audit`"), "{}", stderr(&output));
}

#[test]
fn completions_come_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert!(
            output.status.success()
                && String::from_utf8_lossy(&output.stdout).contains("print-chain"),
            "{shell}"
        );
    }
}

#[test]
fn man_writes_a_page_for_each_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    let output = run(&["man", &pages.display().to_string()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |page: &str| std::fs::read_to_string(pages.join(page)).unwrap();
    let main = read("toolgate.1");
    let help = run(&["--help"]);
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let commands = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<&str> = commands.filter(|name| !name.is_empty()).collect();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        assert!(main.contains(&format!("toolgate\\-{command}(1)")), "{command}: {main}");
        assert!(read(&format!("toolgate-{command}.1")).contains(".SH DESCRIPTION"), "{command}");
    }
    assert!(read("toolgate-wrap.1").contains("\\-\\-safety"));
    assert!(read("toolgate-audit-verify.1").contains("toolgate\\-audit\\-verify"));

    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = run(&["man", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot write man pages into `"), "{}", stderr(&output));
}

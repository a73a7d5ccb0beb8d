//! Settings from files, through the program: servers by name, variables, namespaces, and changes while
//! it runs.

use std::{path::Path, process::Command};

use serde_json::{Value, json};

use crate::harness::{Session, fixture, text, toolgate};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(config: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write(config);
        folder
    }

    fn path(&self) -> String {
        self.0.path().join("toolgate.toml").display().to_string()
    }

    /// As editors do: a new file is moved over the old one.
    fn write(&self, config: &str) {
        let new = self.0.path().join("new");
        std::fs::write(&new, config).unwrap();
        std::fs::rename(new, self.0.path().join("toolgate.toml")).unwrap();
    }
}

fn wrap(options: &[&str]) -> Session {
    Session::wrap_bare(options, |wrap| {
        wrap.env("FIXTURE", fixture())
            .env("WORD", "from the environment")
            .env("TOOLGATE_LOG", "info");
    })
}

fn code(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["code"]
}

#[test]
fn a_server_of_the_config_is_wrapped_by_its_name() {
    let config = "audit = { file = \"off\" }\n\
        [servers.fix]\ncommand = \"${FIXTURE}\"\nenv = { GREETING = \"${WORD} ${NOPE:-and a default}\" }\n\
        [servers.other]\ncommand = \"false\"\n\
        [namespaces.default.tools.\"fix/echo\"]\ntier = \"destructive\"\n";
    let folder = Folder::new(config);
    let mut session =
        wrap(&["--config", &folder.path(), "--server", "fix", "--safety", "readonly"]);
    session.initialize();
    let env = session.call("env", json!({"name": "GREETING"}));
    assert_eq!(
        code(&env),
        "UNKNOWN_TOOL",
        "the fixture does not list `env`, so nobody may call it"
    );
    assert_eq!(code(&session.call("echo", json!({}))), "TIER_DENIED");
    drop(session);
    // Without a rule that names tools, `wrap` passes calls of unlisted tools on.
    let folder = Folder::new(config.split("[namespaces").next().unwrap());
    let mut session = wrap(&["--config", &folder.path(), "--server", "fix"]);
    session.initialize();
    let env = session.call("env", json!({"name": "GREETING"}));
    assert_eq!(text(&env), "from the environment and a default");
}

#[test]
fn the_file_of_an_existing_client_is_accepted_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    let file = json!({"mcpServers": {
        "fix": {"command": "${env:FIXTURE}", "args": [], "type": "stdio", "autoApprove": ["echo"], "timeout": 60},
        "off": {"command": "false", "disabled": true}}, "globalShortcut": "x"});
    std::fs::write(&path, file.to_string()).unwrap();
    let mut session = wrap(&["--audit", "off", "--config", path.to_str().unwrap()]);
    session.initialize();
    assert_eq!(text(&session.call("echo", json!({"text": "as it is"}))), "as it is");
}

fn refused(config: &str, options: &[&str]) -> String {
    let folder = Folder::new(config);
    let mut command = Command::new(toolgate());
    command
        .args(["check", "--offline", "--audit", "off", "--config", &folder.path()])
        .args(options);
    let output = command.output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(2),
        "{config}: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_the_nearest_right_word() {
    let told = refused("[limits]\nresponse_byts = 5\n", &[]);
    assert!(
        told.contains("line 2, column 1") && told.contains("did you mean `response_bytes`?"),
        "{told}"
    );
    let told = refused("[servers.x]\ncommand = \"${NO_SUCH_VARIABLE}\"\n", &[]);
    assert!(
        told.contains("line 2, column 11") && told.contains("`NO_SUCH_VARIABLE` is not set"),
        "{told}"
    );
    let told = refused("[servers.x]\ncommand = \"a\"\nurl = \"b\"\n", &[]);
    assert!(told.contains("server `x` has a command and an url"), "{told}");
    let told = refused("[namespaces.a]\nservers = [\"nope\"]\n", &[]);
    assert!(told.contains("unknown server `nope`"), "{told}");
    let told = refused("", &["--namespace", "nope"]);
    assert!(told.contains("there is no namespace `nope`"), "{told}");
    let told = refused("[servers.x]\ncommand = \"file:/no/such/secret\"\n", &[]);
    assert!(told.contains("cannot read the file `/no/such/secret`"), "{told}");
}

#[test]
fn errors_of_the_config_say_what_to_write() {
    let server = "[servers.a]\ncommand = \"x\"\n";
    for (config, expected) in [
        (format!("{server}args = \"-y x\"\n"), "help: write a list"),
        (format!("{server}env = {{ PORT = 8080 }}\n"), "help: write it in quotes"),
        ("[limits]\ntimeout = 60\n".to_owned(), "for example \"60s\""),
        (
            "[tools.\"mem/x\"]\ntier = \"readonly\"\n".to_owned(),
            "help: write [namespaces.default.tools",
        ),
        ("safety = \"readonly\"\n".to_owned(), "help: this key belongs to a namespace"),
        (format!("{server}[servers.a]\ncommand = \"y\"\n"), "merge them"),
        (
            "[servers.a]\nurl = \"127.0.0.1:9000/mcp\"\n".to_owned(),
            "has an url without a scheme: write `http://`",
        ),
        (
            "[serve]\nlisten = [\"127.0.0.1:8660\", \"127.0.0.1:8660\"]\n".to_owned(),
            "names `127.0.0.1:8660` twice: remove one",
        ),
        ("[namespaces.\"my team\"]\n".to_owned(), "its name is part of an address"),
        (
            format!("{server}[namespaces.x]\nservers = [\"b\"]\n"),
            "unknown server `b`: write one of [servers], which has `a`",
        ),
        (
            "[confirm]\nwhen = [\"destructive\"]\n".to_owned(),
            "`destructive` is a tier, not a tool: write { tier = \"destructive\" }",
        ),
        ("retry = 3\n".to_owned(), "expected a table\n  help: write its keys"),
        ("[limits]\nrate = [5]\n".to_owned(), "expected a table"),
        (
            "[namespaces.default.tools.\"a/x\"]\ntier = 5\n".to_owned(),
            "expected a string\n  help: write it in quotes",
        ),
        (format!("{server}retry = 3\n"), "help: `retry` belongs to the top of the file"),
        (
            format!("{server}[namespaces.default.tools.\"a/[xy]\"]\ntier = \"readonly\"\n"),
            "`[` stands for itself, and no name has it; write `*`",
        ),
        (
            "[namespaces.default]\npolicy = \"teem\"\n[policies.team]\nallow = [\"*/*\"]\n".to_owned(),
            "line 2, column 1",
        ),
        (
            "[namespaces.default]\npolicy = \"teem\"\n[policies.team]\nallow = [\"*/*\"]\n".to_owned(),
            "`teem`, which does not exist: did you mean `team`?",
        ),
        (
            "[namespaces.default.principals]\n\"local:*\" = \"x\"\n".to_owned(),
            "the principal `local:*` is bound to the policy `x`, which does not exist: write it as [policies.x]",
        ),
        (
            "[policies.p]\ncedar = \"none.cedar\"\n[namespaces.default]\npolicy = \"p\"\n".to_owned(),
            "none.cedar`: No such file or directory (os error 2); correct the path in `cedar`",
        ),
        (
            "[policies.p]\ncedar = \"none.cedar\"\n[namespaces.default]\npolicy = \"p\"\n".to_owned(),
            "line 1, column 11",
        ),
        (
            "audit = { file = \"off\" }\n[namespaces.default]\nchain = [\"errors-to-results\", \"saftey\"]\n".to_owned(),
            "line 3, column 31",
        ),
        (
            "audit = { file = \"off\" }\n[namespaces.default]\nchain = [\"errors-to-results\", \"saftey\"]\n".to_owned(),
            "unknown layer `saftey` (did you mean `safety`?)",
        ),
        (
            "[audit]\nfile = \"a.jsonl\"\nkey_file = \"none\"\n".to_owned(),
            "cannot read the key file `",
        ),
        ("store = \"x.db\"\n".to_owned(), "line 1, column 1"),
        ("[telemetry]\notlp = \"localhost:4318\"\n".to_owned(), "write `http://` or `https://` before it"),
        ("[trail]\nurl = \"localhost:1\"\n".to_owned(), "line 2, column 1"),
        (
            "[serve.tokens]\nme = \"0123456789abcdef\"\n[namespaces.default.grants]\n\"key:mee\" = [\"*\"]\n".to_owned(),
            "[serve.tokens] has no `mee`; did you mean `key:me`?",
        ),
        ("[servers.a]\ncommand = \"sh -c true\"\n".to_owned(), "put them into `args`"),
        ("[servers.a]\ncommand = \"\"\n".to_owned(), "has an empty command"),
        ("[servers.a]\nurl = \"http://x\"\nheaders = { \"A b\" = \"c\" }\n".to_owned(), "a header whose name is invalid"),
        ("[serve]\nhosts = [\"https://x.example\"]\n".to_owned(), "write the name of the host alone"),
        ("[serve]\norigins = [\"x.example\"]\n".to_owned(), "write it with its scheme"),
    ] {
        let told = refused(&config, &[]);
        assert!(told.contains(expected), "{config}\n{told}");
    }
}

#[test]
fn a_folder_that_does_not_exist_is_not_blamed_on_the_program() {
    let config = format!(
        "[servers.a]\ncommand = {:?}\ncwd = \"/nonexistent\"\n",
        fixture().display().to_string()
    );
    let folder = Folder::new(&config);
    let output = Command::new(toolgate())
        .args(["wrap", "--audit", "off", "--config", &folder.path()])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("the folder `/nonexistent` does not exist; create it, or correct `cwd`"),
        "{told}"
    );
}

#[test]
fn all_errors_are_told_at_once_with_their_lines() {
    let told = refused(
        "[servers.a]\nurl = \"x\"\n[servers.b]\ncommand = \"s3cret\"\nurl = \"y\"\n[namespaces.x]\nservers = [\"a\", \"c\"]\n",
        &[],
    );
    for part in [
        "line 1, column 10",
        "server `a` has an url without a scheme",
        "line 3, column 10",
        "server `b` has a command and an url",
        "line 7, column 1",
        "unknown server `c`",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    assert!(!told.contains("s3cret"), "{told}");
}

#[test]
fn errors_of_every_kind_are_told_at_once() {
    let told = refused(
        "[limits]\ntimeot = \"5s\"\nkeep = 5\nrate = \"s3cret\"\n[servers.a]\ncomand = \"s3cret\"\n[servers.b]\ncommand = \"x\"\n\
         url = \"http://y\"\n[namespaces.default]\npolicy = \"nope\"\n[tmux]\nsockt_name = \"x\"\n",
        &[],
    );
    for part in [
        "line 2, column 1",
        "did you mean `timeout`?",
        "line 3, column 8",
        "line 4, column 8",
        "expected a list",
        "line 6, column 1",
        "did you mean `command`?",
        "line 7, column 10",
        "server `b` has a command and an url",
        "line 11, column 1",
        "the policy `nope`, which does not exist",
        "line 13, column 1",
        "did you mean `socket_name`?",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    assert!(!told.contains("s3cret"), "{told}");
    assert!(!told.contains("server `a` has neither"), "it follows from the misspelt key: {told}");
}

#[test]
fn sizes_and_ports_are_read_as_people_write_them() {
    let folder = Folder::new(
        "audit = { file = \"off\" }\n[limits]\nresponse_bytes = \"2MB\"\nmessage_bytes = \"64MiB\"\n\
         [telemetry]\nprometheus = 0\n[serve]\nlisten = 8642\n",
    );
    let output =
        Command::new(toolgate()).args(["chain", "--config", &folder.path()]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("at most 2000000 bytes"), "{told}{:?}", output.stderr);
}

#[test]
fn a_store_in_a_folder_that_does_not_exist_is_refused_and_no_folder_is_created() {
    let folder = Folder::new("store = \"sqlite:no/such/x.db\"\naudit = { file = \"off\" }\n");
    for (command, status) in [("wrap", 2), ("check", 1)] {
        let mut toolgate = Command::new(toolgate());
        toolgate.args([command, "--config", &folder.path(), "--"]).arg(fixture());
        let output = toolgate.stdin(std::process::Stdio::null()).output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert_eq!(output.status.code(), Some(status), "{command}: {told}");
        assert!(told.contains("no/such` does not exist: create it"), "{command}: {told}");
    }
    assert!(!folder.0.path().join("no").exists());
}

#[test]
fn a_chain_in_the_wrong_order_is_told_with_all_that_is_wrong() {
    let folder = Folder::new(
        "[namespaces.default]\nsafety = \"readonly\"\nchain = [\"safety\", \"errors-to-results\", \"filter\", \"policy\"]\n",
    );
    let mut command = Command::new(toolgate());
    let output = command.args(["check", "--offline", "--config", &folder.path()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    for part in ["line 3, column 1", "move `errors-to-results` before `safety`", "add `audit`"] {
        assert!(told.contains(part), "{part}\n{told}");
    }
}

#[test]
fn check_without_a_config_says_that_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(toolgate())
        .args(["check", "--offline"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{told}");
    for part in
        ["there is no config to check", "`--config FILE`", "`toolgate init`", "check -- CMD"]
    {
        assert!(told.contains(part), "{part}\n{told}");
    }
}

#[test]
fn a_namespace_has_its_own_tables() {
    let folder = Folder::new(
        "audit = { file = \"off\" }\n[limits]\nresponse_bytes = 4000\n\
         [namespaces.default]\n[namespaces.small]\nsafety = \"readonly\"\n[namespaces.small.limits]\nresponse_bytes = 2000\n",
    );
    let chain = |namespace: &str| {
        let arguments = ["chain", "--config", &folder.path(), "--namespace", namespace];
        let output = Command::new(toolgate()).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(
        chain("default").contains("at most 4000 bytes") && !chain("default").contains("safety")
    );
    assert!(chain("small").contains("at most 2000 bytes") && chain("small").contains("safety"));
    assert_eq!(chain("other"), "", "a namespace that the file does not define is refused");
}

#[test]
fn the_environment_stands_over_the_file_and_under_the_command_line() {
    let folder =
        Folder::new("audit = { file = \"off\" }\n[namespaces.default]\nsafety = \"readonly\"\n");
    let chain = |options: &[&str]| {
        let mut command = Command::new(toolgate());
        command.args(["chain", "--config", &folder.path()]).args(options);
        let output =
            command.env("TOOLGATE_SAFETY", "mutating").env("TOOLGATE_SAFTY", "x").output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            told.contains("TOOLGATE_SAFTY is unknown to toolgate")
                && told.contains("did you mean TOOLGATE_SAFETY"),
            "{told}"
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(chain(&[]).contains("up to mutating"));
    assert!(chain(&["--safety", "destructive"]).contains("up to destructive"));
}

#[test]
fn a_change_is_picked_up_and_a_wrong_one_refused() {
    let config = |safety: &str| {
        format!("audit = {{ file = \"off\" }}\n[namespaces.default]\nsafety = \"{safety}\"\n")
    };
    let folder = Folder::new(&config("readonly"));
    let command = fixture().display().to_string();
    let mut session = wrap(&["--config", &folder.path(), "--", &command]);
    session.initialize();
    assert_eq!(code(&session.call("spawn", json!({}))), "TIER_DENIED");
    folder.write(&config("mutating"));
    session.reload();
    session.wait_for_stderr("the config has changed");
    assert!(session.call("spawn", json!({}))["result"]["_meta"].is_null());
    folder.write(&config("everything"));
    session.wait_for_stderr("the changed config is refused");
    assert!(
        session.call("spawn", json!({}))["result"]["_meta"].is_null(),
        "the old one stays in force"
    );
    assert_eq!(code(&session.call("crash", json!({}))), "TIER_DENIED");
}

#[test]
fn a_change_under_load_loses_no_call_and_judges_each_by_one_config() {
    // Under either config `echo` may run: by its tier under the first, by the level under the second.
    // A call judged half by each would be denied.
    let open = "audit = { file = \"off\" }\n[namespaces.default]\nsafety = \"readonly\"\n";
    let other = "audit = { file = \"off\" }\n[namespaces.default]\nsafety = \"destructive\"\n\
        [namespaces.default.tools.\"main/echo\"]\ntier = \"destructive\"\n";
    let folder = Folder::new(open);
    let command = fixture().display().to_string();
    let mut session = wrap(&["--config", &folder.path(), "--", &command]);
    session.initialize();
    for round in 0..6 {
        folder.write(if round % 2 == 0 { other } else { open });
        session.reload();
        loop {
            let ids: Vec<i64> = (0..100)
                .map(|n| session.post_call("echo", json!({"text": n.to_string()})))
                .collect();
            for (n, id) in ids.into_iter().enumerate() {
                assert_eq!(text(&session.answer(id)), n.to_string(), "round {round}");
            }
            if session.stderr_so_far().iter().any(|line| line.contains("the config has changed")) {
                break;
            }
        }
    }
}

#[test]
fn the_schema_describes_every_example_and_refuses_a_slip() {
    let output = Command::new(toolgate()).args(["config", "schema"]).output().unwrap();
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    for key in ["store", "servers", "namespaces", "audit", "redact", "limits", "retry"] {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
    for name in ["reference", "presets"] {
        let page = Command::new(toolgate()).args(["config", name]).output().unwrap();
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let committed = std::fs::read_to_string(docs.join(name).with_extension("md"));
        assert_eq!(
            committed.unwrap_or_default(),
            String::from_utf8_lossy(&page.stdout),
            "run `cargo run -- config {name} > docs/{name}.md`"
        );
    }
}

#[test]
fn why_tells_layer_by_layer() {
    let fixture = fixture().display().to_string();
    let why = |arguments: &[&str]| {
        let mut command = Command::new(toolgate());
        command.args(["why", "--audit", "off"]).args(arguments).args(["--", &fixture]);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (status, told) = why(&["spawn", "--safety", "readonly", "--as", "key:ci"]);
    assert_eq!(status, Some(1), "{told}");
    assert!(told.contains("main/spawn for key:ci in namespace default"), "{told}");
    assert!(told.contains("DENIES  mutating > readonly"), "{told}");
    let (status, told) = why(&["main/echo", "--safety", "readonly"]);
    assert!(status == Some(0) && told.contains("the call would run"), "{told}");
}

#[test]
fn check_finds_tools_without_tier_and_selectors_that_cover_nothing() {
    let config = "audit = { file = \"off\" }\n[namespaces.default]\nsafety = \"readonly\"\n\
        [namespaces.default.tools.\"main/no_such_*\"]\ntier = \"readonly\"\n\
        [namespaces.default.tools.\"main/echo\"]\nname = \"pid\"\n";
    let folder = Folder::new(config);
    let mut command = Command::new(toolgate());
    command.args(["check", "--config", &folder.path(), "--"]).arg(fixture()).arg("--bad-schema");
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("`main/fail` has no tier"), "{told}");
    assert!(told.contains("`main/no_such_*` match no tool"), "{told}");
    assert!(told.contains("the input schema of `main/bad_schema` cannot be used"), "{told}");
    assert!(told.contains("main/echo") && told.contains("`pid`"), "{told}");
}

//! `check`, `why` and `chain` look at the gateway that `serve` would build.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{
    fixture,
    gateway::{Place, stdio},
    toolgate,
    upstream::Upstream,
};

/// The exit code and the output of a command.
struct CommandResult {
    code: Option<i32>,
    out: String,
    err: String,
}

fn run(place: &Place, arguments: &[&str]) -> CommandResult {
    let mut command = Command::new(toolgate());
    command.args(arguments).env("TOOLGATE_CONFIG", place.path("toolgate.toml"));
    let output = command.env("XDG_STATE_HOME", place.path("state")).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    CommandResult {
        code: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

/// What `serve` refuses, `check` refuses with the same words and the same exit code.
#[test]
fn check_refuses_what_serve_refuses_and_says_the_same() {
    let two = format!("{}{}", stdio("a", &[], ""), stdio("b", &[], ""));
    let never = "[namespaces.default]\nprefix = \"never\"\n";
    for (config, words) in [
        (format!("{two}{never}"), "the namespace `default` is refused: `b/"),
        (
            format!("{two}[namespaces.one]\n[namespaces.two]\nprefix = \"never\"\n"),
            "`two` is refused",
        ),
        (format!("{two}[log]\n"), "`[log]` needs somewhere to write to"),
        (format!("{two}[namespaces.x]\nnew_tools = \"quarantine\"\n"), "needs to remember tools"),
        (format!("store = \"mysql:x\"\n{two}"), "`mysql:` is no store"),
        (format!("{two}[namespaces.x]\nchain = [\"nothing\"]\n"), "unknown layer `nothing`"),
        (format!("{two}[namespaces.x]\npolicy = \"gone\"\n"), "gone"),
        (format!("{two}[servers.c]\nurl = \"${{NO_SUCH_VARIABLE}}\"\n"), "NO_SUCH_VARIABLE"),
        (format!("{two}[namespaces.x]\nservers = [\"c\"]\n"), "unknown server `c`"),
        (format!("{two}[namespaces.x.audit]\notlp = true\nfile = \"off\"\n"), "otlp"),
    ] {
        let place = Place::new(&config);
        let (status, served) = place.refused();
        assert_eq!(status.code(), Some(2), "{served}");
        assert!(served.contains(words), "serve: {served}");
        let output = run(&place, &["check"]);
        assert_eq!(output.code, Some(2), "{config}: {}{}", output.out, output.err);
        let error = |text: &str| {
            let line = text.lines().rfind(|line| line.contains("error: ")).unwrap().to_owned();
            line.split_once("error: ").unwrap().1.to_owned()
        };
        assert_eq!(error(&output.err), error(&served), "check and serve differ");
    }
}

const NAMESPACES: &str = "[namespaces.all]\n[namespaces.dev]\nservers = [\"b\"]\nsafety = \"readonly\"\n\
    policy = \"p\"\n[namespaces.dev.tools.\"b/no_such_*\"]\ntier = \"readonly\"\n\
    [policies.p]\nallow = [\"b/*\", \"b/ecko\"]\ndeny = [\"*/delete*\", \"other/x\"]\n";

#[test]
fn check_looks_at_every_server_and_namespace() {
    let address = Upstream::modern("b");
    let place = Place::new(&format!(
        "{}{}{}{NAMESPACES}",
        stdio("a", &[], "start = \"on-demand\""),
        address.table(""),
        "[servers.gone]\nurl = \"http://127.0.0.1:1/mcp\"\n[servers.dead]\ncommand = \"/no/such\"\n",
    ));
    let output = run(&place, &["check"]);
    assert_eq!(output.code, Some(1), "{}{}", output.out, output.err);
    for line in [
        "ok    the server `a` lists 14 tools",
        "ok    the server `b` lists 14 tools",
        "look  the server `gone` is not ready (failed): cannot be reached",
        "look  the server `dead` is not ready (failed): ",
        "ok    namespace `all`: its chain has ",
        "ok    namespace `dev`: its chain has ",
        "note  `b/echo` is listed as `b__echo`: `echo` is the name of `a/echo`",
        "look  the settings of `b/no_such_*` match no tool",
        "look  `policies.p.allow` names `b/ecko`, which the server `b` does not list",
    ] {
        assert!(output.out.contains(line), "{line}\nis not in\n{}", output.out);
    }
    assert!(!output.out.contains("delete") && !output.out.contains("other/x"), "{}", output.out);
    // Nothing is left of it: no process, no audit, no names that belong to somebody.
    assert!(!place.path("audit.jsonl").exists() && !place.path("state/toolgate").exists());
    // One namespace alone.
    let output = run(&place, &["check", "--namespace", "dev"]);
    assert!(!output.out.contains("`a`") && !output.out.contains("gone"), "{}", output.out);
    let output = run(&place, &["check", "--namespace", "prod"]);
    assert!(output.code == Some(2) && output.err.contains("no namespace `prod`"), "{}", output.err);
    let output = run(&place, &["check", "--json"]);
    let told: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!((output.code, &told["ok"]), (Some(1), &json!(false)));
    assert_eq!(told["servers"][0]["name"], "a");
    let names: Vec<&Value> =
        told["namespaces"].as_array().unwrap().iter().map(|one| &one["namespace"]).collect();
    assert_eq!(names, ["all", "dev"]);
    let tools = told["namespaces"][0]["tools"].as_array().unwrap();
    let renamed = tools.iter().find(|tool| tool["tool"] == "b/echo").unwrap();
    assert_eq!(renamed["name"], "b__echo");
}

#[test]
fn a_config_that_serve_serves_without_a_word_is_fine() {
    let address = Upstream::legacy("b");
    let place = Place::new(&format!("{}{}", stdio("a", &[], ""), address.table("")));
    let output = run(&place, &["check"]);
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    assert!(output.out.contains("28 tools of `a`, `b`"), "{}", output.out);
    let output = run(&place, &["check", "--offline"]);
    assert!(output.code == Some(0) && output.out.contains("no server was asked"), "{}", output.out);
}

#[test]
fn why_explains_by_identity_and_by_the_name_that_clients_see() {
    let address = Upstream::modern("b");
    let place = Place::new(&format!(
        "{}{}{NAMESPACES}[namespaces.all.tools.\"a/echo\"]\nname = \"say\"\n",
        stdio("a", &[], ""),
        address.table(""),
    ));
    let why = |arguments: &[&str]| run(&place, &[&["why"], arguments].concat());
    // The identity says it in every namespace that has the server.
    let output = why(&["b/write"]);
    assert_eq!(output.code, Some(1), "{}{}", output.out, output.err);
    assert!(output.out.contains("b/write for") && output.out.contains("in namespace all"));
    assert!(
        output.out.contains("in namespace dev")
            && output.out.contains("DENIES  mutating > readonly")
    );
    assert!(output.out.contains("the call would run\n"), "{}", output.out);
    let output = why(&["b/write", "--namespace", "all"]);
    assert!(output.code == Some(0) && !output.out.contains("dev"), "{}", output.out);
    let output = why(&["b/write", "--json"]);
    assert_eq!(output.code, Some(1), "{}{}", output.out, output.err);
    let answers: Value = serde_json::from_str(&output.out).unwrap();
    let outcome =
        |answer: &Value| json!([answer["namespace"], answer["outcome"], answer["denied_by"]]);
    let outcomes: Vec<Value> = answers.as_array().unwrap().iter().map(outcome).collect();
    assert!(outcomes.contains(&json!(["all", "runs", null])), "{answers}");
    assert!(outcomes.contains(&json!(["dev", "denied", "safety"])), "{answers}");
    assert!(answers[0]["tool"] == "b/write" && answers[0]["listed"] == true, "{answers}");
    // The name that clients see, which is another tool's own.
    let output = why(&["say", "--namespace", "all"]);
    assert!(output.out.starts_with("a/echo for"), "{}{}", output.out, output.err);
    assert!(output.out.contains("clients see it as `say`"), "{}", output.out);
    let output = why(&["echo", "--namespace", "all"]);
    assert!(output.out.starts_with("b/echo for"), "{}{}", output.out, output.err);
    // What a client names in `_meta` is what it sees.
    let narrowed = |name: &str| {
        let meta = format!("{{\"allowedTools\": [{name:?}]}}");
        why(&["a/echo", "--namespace", "all", "--meta", &meta]).code
    };
    assert_eq!((narrowed("say"), narrowed("echo")), (Some(0), Some(1)));
    // What nobody lists.
    let output = why(&["b/nothing", "--namespace", "all"]);
    assert!(output.out.contains("NOT listed by its server"), "{}{}", output.out, output.err);
    let output = why(&["nothing"]);
    assert!(output.code == Some(2) && output.err.contains("lists `nothing`"), "{}", output.err);
    let output = why(&["c/echo"]);
    assert!(output.code == Some(2) && output.err.contains("has no server `c`"), "{}", output.err);
}

#[test]
fn why_agrees_with_the_running_gateway() {
    let place = Place::new(&format!(
        "{}{}[namespaces.default]\nsafety = \"mutating\"\n[namespaces.default.tools.\"a/spawn\"]\n\
         name = \"launch\"\n[namespaces.default.tools.\"b/echo\"]\nstatus = \"inactive\"\n",
        stdio("a", &[], ""),
        stdio("b", &[], ""),
    ));
    let allowed = |name: &str| run(&place, &["why", name]).code == Some(0);
    let explained: Vec<(&str, bool)> =
        ["echo", "b__echo", "launch", "spawn", "b__spawn", "a/echo", "crash", "b__crash"]
            .map(|n| (n, allowed(n)))
            .into();
    let gateway = place.start();
    gateway.settled(23);
    let listed = gateway.modern().tools();
    for (name, is_allowed) in explained {
        let name = name.trim_start_matches("a/");
        assert_eq!(listed.contains(&name.to_owned()), is_allowed, "{name}: {listed:?}");
    }
}

#[test]
fn one_server_is_looked_at_as_wrap_governs_it() {
    let place = Place::new(&format!(
        "{}{}[namespaces.default]\nservers = [\"a\"]\nprefix = \"always\"\n[namespaces.other]\n",
        stdio("a", &[], ""),
        stdio("b", &[], ""),
    ));
    let fixture = fixture().display().to_string();
    let output = run(&place, &["why", "echo", "--", &fixture]);
    assert!(
        output.code == Some(0) && output.out.starts_with("main/echo for"),
        "{}{}",
        output.out,
        output.err
    );
    assert!(output.out.contains("listed by its server\n"), "{}", output.out);
    let output = run(&place, &["why", "b/echo", "--server", "b"]);
    assert!(
        output.code == Some(0) && output.out.starts_with("b/echo for"),
        "{}{}",
        output.out,
        output.err
    );
    let output = run(&place, &["check", "--", &fixture]);
    assert!(
        output.out.contains("the server `main` lists 14 tools"),
        "{}{}",
        output.out,
        output.err
    );
    assert!(!output.out.contains("other") && !output.out.contains("`b`"), "{}", output.out);
    let output = run(&place, &["why", "echo", "--server", "c"]);
    assert!(output.code == Some(2) && output.err.contains("it has `a`, `b`"), "{}", output.err);
}

#[test]
fn chain_prints_every_namespace_or_the_one_that_is_named() {
    let place = Place::new(
        "[namespaces.one]\nsafety = \"readonly\"\n[namespaces.two]\nsafety = \"mutating\"\n",
    );
    let both = run(&place, &["chain"]).out;
    let (one, two) =
        (both.find("namespace `one`:").unwrap(), both.find("namespace `two`:").unwrap());
    assert!(
        one < both.find("up to readonly").unwrap() && two < both.find("up to mutating").unwrap()
    );
    let one = run(&place, &["chain", "--namespace", "one"]).out;
    assert!(one.contains("up to readonly") && !one.contains("namespace"), "{one}");
    let both: Value = serde_json::from_str(&run(&place, &["chain", "--json"]).out).unwrap();
    let safety = |at: usize| {
        let layers = both[at]["layers"].as_array().unwrap();
        let safety = layers.iter().find(|layer| layer["name"] == "safety").unwrap();
        json!([
            both[at]["namespace"],
            safety["settings"].as_str().unwrap().contains("up to readonly")
        ])
    };
    assert_eq!([safety(0), safety(1)], [json!(["one", true]), json!(["two", false])], "{both}");
}

/// The tools that the store knows count, and nothing is approved by looking.
#[test]
fn quarantine_is_explained_by_what_the_store_knows() {
    let server = Upstream::legacy("a");
    let config = format!(
        "store = \"sqlite:toolgate.db\"\n{}[namespaces.default]\nnew_tools = \"quarantine\"\n",
        server.table("")
    );
    let place = Place::new(&config);
    assert_eq!(run(&place, &["why", "a/echo"]).code, Some(0), "the first list is approved");
    assert!(!place.path("toolgate.db").exists(), "looking makes no store");
    let gateway = place.start();
    gateway.settled(14);
    let place = gateway.into_place();
    server.add_tool("late");
    let output = run(&place, &["why", "a/late"]);
    assert!(
        output.code == Some(1) && output.out.contains("listed by its server"),
        "{}{}",
        output.out,
        output.err
    );
    assert_eq!(run(&place, &["why", "a/echo"]).code, Some(0));
}

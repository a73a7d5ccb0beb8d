//! Overrides from outside: other names, titles, descriptions and annotations, arguments filled in or
//! hidden; and everything that nobody changes stays as its server wrote it.

use serde_json::{Value, json};

use crate::harness::{
    Session,
    governed::{
        Governed, TOOLS, assert_refused, call_with, code, definition, definitions, listed, modern,
        refusal,
    },
    text,
};

const EXTRA: [&str; 2] = ["--extra-tool", "move_file"];

/// What the tool got, where it is one that answers with its line.
fn got(answer: &Value) -> Value {
    let line: Value = serde_json::from_str(text(answer)).unwrap();
    line["params"].clone()
}

#[test]
fn a_tool_is_shown_as_it_is_set_and_called_by_its_new_name() {
    let folder = Governed::new(
        "[namespaces.default.tools.\"main/move_file\"]\nname = \"relocate\"\n\
         title = \"Relocate\"\ndescription = \"\"\n\
         annotations = { readOnlyHint = false, destructiveHint = true }\n",
    );
    let mut session = folder.start_with(&EXTRA);
    let mut plain = Session::fixture(&[], &EXTRA);
    plain.initialize();
    let mut expected = definition(&mut plain, "move_file");
    expected["name"] = json!("relocate");
    expected["title"] = json!("Relocate");
    // An empty description is one, which MetaMCP takes for none.
    expected["description"] = json!("");
    expected["annotations"] = json!({"title": "Relocate", "readOnlyHint": false,
        "openWorldHint": false, "destructiveHint": true});
    assert_eq!(definition(&mut session, "relocate"), expected);
    let params = got(&session.call("relocate", json!({"path": "a"})));
    assert_eq!(params, json!({"name": "move_file", "arguments": {"path": "a"}}));
    let modern_answer = call_with(&mut session, "relocate", json!({}), modern(json!({})));
    assert_eq!(got(&modern_answer)["name"], "move_file");
    // Without `original = "callable"` the own name is nobody's.
    let refused = session.call("move_file", json!({}));
    assert_refused(&refused, "UNKNOWN_TOOL", false);
    assert!(!listed(&mut session).contains(&"move_file".to_owned()));
    let refused = call_with(&mut session, "move_file", json!({}), modern(json!({})));
    assert_refused(&refused, "UNKNOWN_TOOL", true);
}

/// `MetaMCP`'s BUG 14: there every tool that has some setting loses the title that its server gave it.
#[test]
fn a_title_that_nobody_overrides_is_never_lost() {
    let folder = Governed::new(
        "[namespaces.default.tools.\"main/move_file\"]\nname = \"relocate\"\n\
         description = \"other\"\nstatus = \"active\"\nannotations = { idempotentHint = true }\n",
    );
    let mut session = folder.start_with(&EXTRA);
    let shown = definition(&mut session, "relocate");
    assert_eq!(shown["title"], "The tool move_file");
    assert_eq!(
        shown["annotations"],
        json!({"title": "Old move_file", "readOnlyHint": true, "openWorldHint": false,
            "idempotentHint": true})
    );
    assert_eq!(shown["description"], "other");
}

#[test]
fn the_own_name_stays_callable_where_it_is_said_so() {
    let folder = Governed::new(
        "[namespaces.default.tools.\"main/echo\"]\nname = \"say\"\noriginal = \"callable\"\n",
    );
    let mut session = folder.start();
    for name in ["say", "echo"] {
        assert_eq!(text(&session.call(name, json!({"text": name}))), name);
    }
    let shown = listed(&mut session);
    assert!(shown.contains(&"say".to_owned()) && !shown.contains(&"echo".to_owned()), "{shown:?}");
}

#[test]
fn what_nobody_changes_leaves_byte_by_byte() {
    let lines = |config: Option<&str>| {
        let folder = config.map(Governed::new);
        let mut session = match &folder {
            Some(folder) => folder.start_with(&EXTRA),
            None => Session::fixture(&["--limit", "off"], &EXTRA),
        };
        if folder.is_none() {
            session.initialize();
        }
        session.post("tools/list", json!({}));
        session.line()
    };
    let own = lines(None);
    assert_eq!(lines(Some("")), own);
    let described =
        lines(Some("[namespaces.default.tools.\"main/echo\"]\ndescription = \"says it again\"\n"));
    // The one member apart, every byte is the server's.
    let member = r#""description":"says it again""#;
    assert_eq!(described.matches(member).count(), 1, "{described}");
    let without = described.replace(&format!(",{member}"), "").replace(&format!("{member},"), "");
    assert_eq!(without, own);
}

#[test]
fn defaults_and_hidden_arguments_are_filled_in_and_published_so() {
    let folder = Governed::new(
        "[namespaces.default.tools.\"main/move_file\"]\n\
         defaults = { mode = \"copy\" }\nhidden = { overwrite = false }\n",
    );
    let mut session = folder.start_with(&EXTRA);
    assert_eq!(
        definition(&mut session, "move_file")["inputSchema"],
        json!({"type": "object", "properties": {"path": {"type": "string"},
            "mode": {"type": "string", "enum": ["copy", "move"], "default": "copy"}},
            "required": ["path"]})
    );
    for (sent, expected) in [
        (json!({"path": "a"}), json!({"path": "a", "mode": "copy", "overwrite": false})),
        (
            json!({"path": "a", "mode": "move"}),
            json!({"path": "a", "mode": "move", "overwrite": false}),
        ),
        (json!({"mode": null}), json!({"mode": null, "overwrite": false})),
        (json!({}), json!({"mode": "copy", "overwrite": false})),
    ] {
        assert_eq!(got(&session.call("move_file", sent.clone()))["arguments"], expected, "{sent}");
    }
    let params = got(&session.request("tools/call", json!({"name": "move_file"})));
    assert_eq!(params["arguments"], json!({"mode": "copy", "overwrite": false}));
    for name in ["overwrite", "Overwrite", "OVERWRITE"] {
        let refused = session.call("move_file", json!({"path": "a", name: "hunter2"}));
        assert_refused(&refused, "INVALID_ARGUMENTS", false);
        assert!(text(&refused).starts_with(&format!("Unexpected argument: '{name}'\n")));
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
        let meta = modern(json!({}));
        let refused = call_with(&mut session, "move_file", json!({name: true}), meta);
        assert_refused(&refused, "INVALID_ARGUMENTS", true);
    }
    let refused = session.call("move_file", json!(["overwrite"]));
    assert!(code(&refused) == "INVALID_ARGUMENTS" || refused.get("error").is_some(), "{refused}");
    let (runs, told) = folder.why("move_file", &["--args", r#"{"overwrite": true}"#]);
    assert!(!runs && told.contains("unexpected argument"), "{told}");
    session.finish();
    // What is recorded is what the caller sent.
    let arguments = &folder.audit()[0]["args"];
    assert!(arguments.get("overwrite").is_none() && arguments.get("path").is_some(), "{arguments}");
}

/// `MetaMCP`'s BUG 15, and its missing check of collisions: there the new name of one tool takes the calls
/// of another that is really called so.
#[test]
fn a_new_name_never_takes_the_calls_of_another_tool() {
    let config = "[namespaces.default.tools.\"main/crash\"]\nname = \"echo\"\ntitle = \"Boom\"\n";
    for list_first in [true, false] {
        let folder = Governed::new(config);
        let mut session = folder.start_with(&["--page-size", "3"]);
        if list_first {
            let shown = listed(&mut session);
            let twice = shown.iter().filter(|name| *name == "echo").count();
            assert_eq!((twice, shown.len()), (1, TOOLS.len()), "{shown:?}");
        }
        assert_eq!(text(&session.call("echo", json!({"text": "still me"}))), "still me");
        let line = session.wait_for_stderr("is not renamed");
        assert!(
            line.contains(
                "`main/crash` is not renamed to `echo`: `main/echo` is called so; choose another name, or \
                 rename `main/echo` too"
            ),
            "{line}"
        );
        // The rest of the override holds, and so does the own name.
        assert_eq!(definition(&mut session, "crash")["title"], "Boom");
        assert_eq!(refusal(&mut session, "crash", json!({})), None);
    }
}

#[test]
fn a_tool_that_comes_later_gets_its_own_name_back() {
    for announced in [true, false] {
        let folder = Governed::new("[namespaces.default.tools.\"main/echo\"]\nname = \"late\"\n");
        let mut session = folder.start();
        assert_eq!(text(&session.call("late", json!({"text": "renamed"}))), "renamed");
        session.request("vendor/grow", json!({"name": "late", "announced": announced}));
        if announced {
            session.wait_for(|m| m["method"] == "notifications/tools/list_changed");
        } else {
            listed(&mut session);
        }
        assert_eq!(got(&session.call("late", json!({})))["name"], "late", "{announced}");
        assert_eq!(text(&session.call("echo", json!({"text": "own"}))), "own");
        let shown = listed(&mut session);
        assert_eq!(shown.iter().filter(|name| *name == "late").count(), 1, "{shown:?}");
        assert!(shown.contains(&"echo".to_owned()), "{shown:?}");
    }
}

#[test]
fn two_tools_may_swap_their_names() {
    let folder = Governed::new(
        "[namespaces.default.tools.\"main/echo\"]\nname = \"see_line\"\n\
         [namespaces.default.tools.\"main/see_line\"]\nname = \"echo\"\n",
    );
    let mut session = folder.start();
    assert_eq!(text(&session.call("see_line", json!({"text": "swapped"}))), "swapped");
    assert_eq!(got(&session.call("echo", json!({})))["name"], "see_line");
    let shown = listed(&mut session);
    assert_eq!(shown.len(), TOOLS.len());
    assert_eq!((shown[0].as_str(), shown[1].as_str()), ("see_line", "echo"));
}

#[test]
fn what_is_shown_decides_nothing() {
    // `crash` says of itself that it destroys; what the override shows opens nothing.
    let folder = Governed::new(
        "[namespaces.default]\nsafety = \"readonly\"\n\
         [namespaces.default.tools.\"main/crash\"]\nname = \"peek\"\n\
         annotations = { readOnlyHint = true, destructiveHint = false }\n",
    );
    let mut session = folder.start();
    assert_eq!(code(&session.call("peek", json!({}))), "TIER_DENIED");
    assert!(!listed(&mut session).contains(&"peek".to_owned()));
    assert!(!folder.why("crash", &[]).0);
}

#[test]
fn overrides_that_do_not_fit_together_do_not_start() {
    let tool = |name: &str, settings: &str| {
        format!("[namespaces.default.tools.\"main/{name}\"]\n{settings}\n")
    };
    for (config, told) in [
        (
            tool("a", "name = \"x\"") + &tool("b", "name = \"x\""),
            "`main/a` and `main/b` are both named `x`",
        ),
        (tool("a", "name = \"b\"") + &tool("b", "title = \"B\""), "`main/b` is still called so"),
        (
            tool("a", "name = \"b\"") + &tool("b", "name = \"c\"\noriginal = \"callable\""),
            "`main/b` is still called so",
        ),
        (tool("a", "name = \"no spaces\""), "`no spaces` cannot be the name of `main/a`"),
        (tool("a", "name = \"\""), "cannot be the name of `main/a`"),
        (tool("a", "title = \" \""), "the title of `main/a` is empty"),
        (
            tool("a", "defaults = { x = 1 }\nhidden = { x = 2 }"),
            "argument `x` of `main/a` is hidden and has a default",
        ),
        (tool("a*", "name = \"x\""), "main/a*"),
    ] {
        let refused = Governed::new(&config).refused();
        assert!(refused.contains(told), "{config}: {refused}");
        assert!(!refused.contains("fixture is up"), "{refused}");
    }
}

#[test]
fn a_change_while_running_changes_names_and_texts() {
    let config =
        |name: &str| format!("[namespaces.default.tools.\"main/echo\"]\nname = \"{name}\"\n");
    let folder = Governed::new(&config("say"));
    let mut session = folder.start();
    assert_eq!(text(&session.call("say", json!({"text": "x"}))), "x");
    folder.change(&config("pid"));
    session.reload();
    session.wait_for_stderr("is not renamed to `pid`");
    assert_eq!(text(&session.call("echo", json!({"text": "x"}))), "x");
    assert!(text(&session.call("pid", json!({}))).parse::<u32>().is_ok());
    folder.change(&config("shout"));
    session.reload();
    session.wait_for_stderr("the config has changed");
    session.wait_for_stderr("the config has changed");
    // A name that nobody gives any more means what the server takes it for.
    assert!(text(&session.call("say", json!({}))).starts_with("Unknown tool"));
    assert_eq!(text(&session.call("shout", json!({"text": "x"}))), "x");
    let names = definitions(&mut session, json!({}));
    assert_eq!(names[0]["name"], "shout");
}

#[test]
fn an_allow_list_knows_the_names_that_clients_see() {
    let folder = Governed::new("[namespaces.default.tools.\"main/echo\"]\nname = \"say\"\n");
    let mut session = folder.start();
    assert_eq!(refusal(&mut session, "say", json!({"allowedTools": ["say"]})), None);
    assert_eq!(refusal(&mut session, "say", json!({"allowedTools": ["main/echo"]})), None);
    // The own name is retired: it means no tool.
    let refused = refusal(&mut session, "say", json!({"allowedTools": ["echo"]}));
    assert!(refused.is_some(), "an allow list with a retired name lets the tool pass");
}

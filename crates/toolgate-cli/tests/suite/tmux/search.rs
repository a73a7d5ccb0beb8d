//! `search_panes` over MCP, against real tmux.

use serde_json::{Value, json};

use crate::harness::{
    text,
    tmux::{Tmux, structured},
};

/// A pane that shows these lines and does nothing else.
fn shows(tmux: &Tmux, target: &str, lines: &[&str]) -> String {
    let quoted: Vec<String> = lines.iter().map(|line| format!("'{line}'")).collect();
    let command = format!("printf '%s\\n' {} END; exec cat", quoted.join(" "));
    let pane = tmux.run(&["new-window", "-d", "-t", target, "-P", "-F", "#{pane_id}", &command]);
    tmux.until("shown", |tmux| tmux.run(&["capture-pane", "-p", "-t", &pane]).ends_with("END"));
    pane
}

fn panes(found: &Value) -> Vec<&str> {
    let matches = found["matches"].as_array().unwrap();
    matches.iter().map(|one| one["pane_id"].as_str().unwrap()).collect()
}

#[test]
fn text_is_found_wherever_it_stands_and_patterns_are_never_formats() {
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "two", "-x", "40", "-y", "20", "cat"]);
    let odd = ["#{pid} }", "#(touch /tmp/never)", "a.c abc"];
    let here = shows(&tmux, "one:", &odd);
    let wrapped = format!("{} across the edge", "w".repeat(30));
    let there = shows(&tmux, "two:", &[&wrapped, "Straße"]);
    tmux.run(&["link-window", "-s", &there, "-t", "one:9"]);
    let mut session = tmux.serve(&[]);
    let mut search =
        |arguments: Value| structured(&session.call("search_panes", arguments)).clone();
    let found = search(json!({"pattern": "www across THE edge"}));
    assert_eq!(panes(&found), [&*there], "it wraps, and is linked twice: {found}");
    assert_eq!(found["matches"][0]["matched_lines"], json!([wrapped]));
    assert_eq!((&found["total_panes_matched"], &found["truncated"]), (&json!(1), &json!(false)));
    assert_eq!((&found["offset"], &found["limit"]), (&json!(0), &json!(500)));
    let one = &found["matches"][0];
    for field in ["pane_tty", "pane_current_command", "window_id", "window_name", "session_name"] {
        assert!(one[field].is_string(), "{field}: {one}");
    }
    assert!(one["pane_left"].is_number() && one["pane_at_top"].is_boolean(), "{one}");
    for (arguments, count) in [
        (json!({"pattern": "#{pid} }"}), 1),
        (json!({"pattern": "#(touch /tmp/never)"}), 1),
        (json!({"pattern": "a.c"}), 1),
        (json!({"pattern": "^a.c a.c$", "regex": true}), 1),
        (json!({"pattern": "A.C", "match_case": true}), 0),
        (json!({"pattern": "STRASSE"}), 0),
        (json!({"pattern": "straße"}), 1),
        (json!({"pattern": "straße", "session_name": "one"}), 1),
        (json!({"pattern": "#{pid}", "session_name": "two"}), 0),
        (json!({"pattern": "^END$", "regex": true}), 2),
    ] {
        assert_eq!(search(arguments.clone())["total_panes_matched"], count, "{arguments}");
    }
    assert_eq!(panes(&search(json!({"pattern": "#{pid}"}))), [&*here]);
    for (arguments, words) in [
        (json!({"pattern": "(", "regex": true}), "Invalid regex pattern: unclosed group"),
        (json!({"pattern": "a{1000}{1000}", "regex": true}), "Invalid regex pattern: "),
        (json!({"pattern": "x", "session_name": "nope"}), "Session not found: nope"),
    ] {
        let refused = session.call("search_panes", arguments);
        assert!(text(&refused).starts_with(words), "{refused}");
    }
    for wrong in [
        json!({"pattern": "x".repeat(1001)}),
        json!({"pattern": "x", "limit": -1}),
        json!({"pattern": "x", "limit": 0}),
        json!({"pattern": "x", "offset": -1}),
        json!({"pattern": "x", "max_matched_lines_per_pane": 0}),
    ] {
        let refused = session.call("search_panes", wrong.clone());
        assert_eq!(refused["result"]["_meta"]["code"], "INVALID_ARGUMENTS", "{wrong}");
    }
    // What would take a backtracking engine years.
    let evil = json!({"pattern": "(w+)+(w+)+(w+)+x", "regex": true});
    assert_eq!(structured(&session.call("search_panes", evil))["total_panes_matched"], 0);
    tmux.run(&["kill-server"]);
    let none = session.call("search_panes", json!({"pattern": "x"}));
    assert_eq!(structured(&none)["matches"], json!([]));
}

#[test]
fn pages_are_in_the_order_of_ids_and_panes_may_go_while_it_searches() {
    let tmux = Tmux::start();
    tmux.run(&["resize-window", "-t", "one", "-x", "200", "-y", "400"]);
    // Sixty panes: more than one round trip takes.
    for _ in 0..59 {
        tmux.run(&[
            "split-window",
            "-d",
            "-t",
            "one:",
            "printf 'needle 1\\nneedle 2\\nneedle 3\\n'; exec cat",
        ]);
        tmux.run(&["select-layout", "-t", "one:", "even-vertical"]);
    }
    let mut session = tmux.serve(&[]);
    let all = json!({"pattern": "needle 3"});
    tmux.until("shown", |_| {
        structured(&session.call("search_panes", all.clone()))["total_panes_matched"] == 59
    });
    let page =
        json!({"pattern": "needle", "limit": 4, "offset": 7, "max_matched_lines_per_pane": 2});
    let page = session.call("search_panes", page);
    let page = structured(&page);
    assert_eq!(panes(page), ["%8", "%9", "%10", "%11"]);
    assert_eq!(page["matches"][0]["matched_lines"], json!(["needle 2", "needle 3"]));
    let rest = page["truncated_panes"].as_array().unwrap();
    assert_eq!((rest.len(), &rest[0], &rest[47]), (48, &json!("%12"), &json!("%59")));
    assert_eq!((&page["total_panes_matched"], &page["truncated"]), (&json!(59), &json!(true)));
    let beyond =
        session.call("search_panes", json!({"pattern": "needle", "offset": 1000, "limit": null}));
    assert_eq!(
        (panes(structured(&beyond)).len(), &structured(&beyond)["limit"]),
        (0, &Value::Null)
    );
    // History, where it is asked for.
    tmux.run(&["respawn-pane", "-k", "-t", "%1", "echo far up; seq 1 900; exec cat"]);
    tmux.until("filled", |tmux| tmux.run(&["capture-pane", "-p", "-t", "%1"]).contains("900"));
    for (start, count) in [(Value::Null, 0), (json!(-2000), 1)] {
        let arguments = json!({"pattern": "far up", "content_start": start});
        let found = session.call("search_panes", arguments);
        assert_eq!(structured(&found)["total_panes_matched"], count);
    }
    // Panes go while searches run: each search is answered, and none fails.
    let ids: Vec<i64> = (0..30).map(|_| session.post_call("search_panes", all.clone())).collect();
    for pane in 30..50 {
        tmux.run(&["kill-pane", "-t", &format!("%{pane}")]);
    }
    for id in ids {
        structured(&session.answer(id));
    }
}

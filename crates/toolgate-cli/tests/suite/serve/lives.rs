//! The lives of servers behind the gateway: started at once or when they are needed, stopped when nobody needs them, one for
//! each session, started again with pauses, and what is told of those that never come up.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::harness::{
    assert_gone,
    clients::{Legacy, Modern},
    fixture,
    gateway::{Gateway, Place, kill, stdio, until, until_or},
    governed::code,
    is_alive, text,
    upstream::{Fault, Upstream},
};

/// The table of a server that a script becomes; the script is a file beside the config.
fn scripted(name: &str, more: &str) -> String {
    format!("[servers.{name}]\ncommand = \"sh\"\nargs = [\"{name}.sh\"]\n{more}\n")
}

/// A script that becomes the fixture.
fn good(options: &str) -> String {
    format!("exec '{}' {options}\n", fixture().display())
}

fn pid(answer: &Value) -> u32 {
    text(answer).parse().unwrap_or_else(|_| panic!("no process: {answer}"))
}

#[test]
fn a_server_on_demand_is_no_process_before_somebody_needs_it() {
    let config =
        format!("{}{}", stdio("eager", &[], ""), stdio("later", &[], "start = \"on-demand\""));
    let gateway = Gateway::start(&config);
    gateway.wait_for_stderr("starts when it is first needed");
    assert_eq!(gateway.fixtures().len(), 1, "only the one that starts at once");
    // What nobody knows has to be asked.
    assert_eq!(gateway.modern().tools().len(), 28);
    gateway.wait_for_fixtures(|count| count == 2, "both are there");
    let gateway = gateway.into_place().start();
    gateway.wait_for_stderr("[eager] fixture is up");
    gateway.wait_for_stderr("starts when it is first needed");
    for client in gateway.both() {
        assert_eq!(client.tools().len(), 28, "listed from what is remembered");
        client.call("eager__echo", json!({}));
    }
    assert!(
        !gateway.stderr().iter().any(|line| line.contains("[later]")),
        "{:#?}",
        gateway.stderr()
    );
    assert_eq!(gateway.fixtures().len(), 1);
    let first = pid(&gateway.modern().call("later__pid", json!({})));
    assert_eq!(pid(&gateway.legacy().call("later__pid", json!({}))), first, "and then it stays");
    // One that was killed is started again by the next call that needs it.
    kill(first);
    assert_gone(first);
    until("it is back", || code(&gateway.modern().call("later__pid", json!({}))).is_empty());
}

#[test]
fn a_server_that_nobody_uses_is_stopped_and_comes_back() {
    for protocol in ["legacy", "modern"] {
        let more = format!("idle_stop = \"400ms\"\nprotocol = {protocol:?}");
        let gateway =
            Gateway::start(&format!("{}{}", stdio("idle", &[], &more), stdio("busy", &[], &more)));
        gateway.settled(28);
        let client = gateway.legacy();
        let before = pid(&client.call("idle__pid", json!({})));
        let hanging = client.open_call("busy__hang", json!({}));
        gateway.wait_for_stderr("[busy] hanging");
        // Both were used last at about the same time.
        for times in 1..=2 {
            gateway.wait_for_stderr_times("the server `idle` is stopped: it was not used", times);
            gateway.wait_for_fixtures(|count| count == 1, "only the busy one is left");
            assert_eq!(client.tools().len(), 28, "what it offers is still listed");
            assert_eq!(gateway.fixtures().len(), 1, "for a list nobody is started");
            let again = pid(&client.call("idle__pid", json!({})));
            assert_ne!(again, before);
        }
        let busy = |line: &String| line.contains("`busy` is stopped");
        assert!(!gateway.stderr().iter().any(busy), "a call is under way");
        drop(hanging);
    }
}

#[test]
fn each_session_has_its_own_process_and_it_ends_with_it() {
    let config = format!(
        "[serve]\ntokens = {{ anna = \"token-of-anna-0001\", ben = \"token-of-ben-000022\" }}\n{}",
        stdio("own", &["--full", "own"], "sharing = \"session\"")
    );
    let gateway = Gateway::start(&config);
    let legacy = |token: &str| Legacy::new(gateway.address, "/mcp").with_token(token).connected();
    let modern = |token: &str| Modern::new(gateway.address, "/mcp").with_token(token);
    let (anna, ben) = ("token-of-anna-0001", "token-of-ben-000022");
    until_or(|| modern(anna).tools().len() == 21, || format!("{:?}", modern(anna).tools()));
    gateway.wait_for_fixtures(|count| count == 0, "the one that was asked for the list is gone");
    let sessions = [legacy(anna), legacy(anna), legacy(ben)];
    let pids: Vec<u32> =
        sessions.iter().map(|client| pid(&client.call("pid", json!({})))).collect();
    assert_eq!(pids.iter().collect::<HashSet<_>>().len(), 3, "{pids:?}");
    for (client, known) in sessions.iter().zip(&pids) {
        assert_eq!(pid(&client.call("pid", json!({}))), *known, "the same one each time");
    }
    // Requests without a session: those of one principal that can be asked the same.
    let asked = |token: &str| modern(token).able(json!({"elicitation": {}}));
    let theirs: Vec<u32> = [modern(anna), modern(anna), asked(anna), modern(ben)]
        .iter()
        .map(|c| pid(&c.call("pid", json!({}))))
        .collect();
    assert_eq!(theirs[0], theirs[1]);
    let all: HashSet<u32> = pids.iter().chain(&theirs).copied().collect();
    assert_eq!(all.len(), 6, "{pids:?} {theirs:?}");
    gateway.wait_for_fixtures(|count| count == 6, "no more than that");
    assert_eq!(sessions[0].delete(), 204);
    assert_gone(pids[0]);
    assert!(pids[1..].iter().chain(&theirs).all(|pid| is_alive(*pid)), "nobody else's");
    // One that crashes takes nobody with it.
    assert_eq!(code(&sessions[1].call("crash", json!({}))), "SERVER_CRASHED");
    assert_eq!(pid(&sessions[2].call("pid", json!({}))), pids[2]);
    until("its owner has another one", || {
        let answer = sessions[1].call("pid", json!({}));
        code(&answer).is_empty() && pid(&answer) != pids[1]
    });
}

#[test]
fn a_session_that_is_idle_takes_its_process_with_it() {
    let config = format!(
        "[serve]\nsession_idle = \"500ms\"\n{}",
        stdio("own", &[], "sharing = \"session\"")
    );
    let gateway = Gateway::start(&config);
    gateway.settled(14);
    let own = pid(&gateway.legacy().call("pid", json!({})));
    assert_gone(own);
}

#[test]
fn a_server_that_ends_is_started_again_with_growing_pauses() {
    let place =
        Place::new(&format!("{}{}", scripted("shaky", ""), stdio("firm", &["--full", "firm"], "")));
    place.write("shaky.sh", &good(""));
    let gateway = place.start();
    gateway.settled(35);
    let client = gateway.legacy();
    let firm = pid(&client.call("firm__pid", json!({})));
    let before = pid(&client.call("shaky__pid", json!({})));
    assert_eq!(code(&client.call("shaky__crash", json!({}))), "SERVER_CRASHED");
    until("it is back", || code(&client.call("shaky__pid", json!({}))).is_empty());
    assert_ne!(pid(&client.call("shaky__pid", json!({}))), before);
    // From here on it dies at its start.
    let starts = gateway.path("starts");
    let script = format!("date +%s%N >> '{}'\necho 'out of luck' >&2\nexit 4\n", starts.display());
    gateway.place().write("shaky.sh", &script);
    assert_eq!(code(&client.call("shaky__crash", json!({}))), "SERVER_CRASHED");
    let began = || -> Vec<u128> {
        let told = std::fs::read_to_string(&starts).unwrap_or_default();
        told.lines().filter_map(|line| line.parse().ok()).collect()
    };
    until("a few starts", || began().len() >= 5);
    let pauses: Vec<u128> =
        began().windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000).collect();
    // Whatever the first one was, it doubles: 100 ms, 200 ms, ...
    assert!(pauses[3] >= 600 && pauses[3] > pauses[1], "{pauses:?}");
    let answer = client.call("shaky__echo", json!({"text": "x"}));
    assert_eq!(code(&answer), "SERVER_UNAVAILABLE", "{}", answer.raw);
    let told = text(&answer);
    assert!(told.contains("`shaky`") && told.contains('4'), "why: {told}");
    gateway.wait_for_stderr("[shaky] out of luck");
    assert_eq!(pid(&client.call("firm__pid", json!({}))), firm, "nobody else notices");
    assert_eq!(client.tools().len(), 35, "what it offers is still listed");
    // And back again.
    gateway.place().write("shaky.sh", &good(""));
    until("it is well", || code(&client.call("shaky__echo", json!({}))).is_empty());
}

#[test]
fn servers_that_never_come_up_are_told_of_and_delay_nobody() {
    let gateway = Gateway::start(&format!(
        "{}{}{}[servers.nothing]\ncommand = \"no-such-program-anywhere\"\n[servers.refusing]\nurl = \"http://127.0.0.1:1/mcp\"\n",
        stdio("good", &[], ""),
        stdio("dying", &["--die-at-start"], ""),
        stdio("silent", &["--hang-initialize"], "protocol = \"legacy\"\nstart_timeout = \"700ms\""),
    ));
    assert_eq!(gateway.modern().tools().len(), 14);
    for (server, why) in [
        ("nothing", "cannot start `no-such-program-anywhere`: no such program"),
        ("refusing", "127.0.0.1:1"),
        ("silent", "did not answer within 700ms"),
        ("dying", "code 3"),
    ] {
        gateway.wait_for_stderr(&format!("`{server}`"));
        let row = gateway.wait_for_stderr(&format!("  {server} "));
        assert!(row.contains("failed"), "{row}");
        let told = gateway.stderr();
        let found =
            told.iter().find(|line| line.contains(&format!("`{server}`")) && line.contains(why));
        assert!(found.is_some(), "{server}: {told:#?}");
    }
    let told = gateway.stderr().join("\n");
    assert!(!told.contains("after `--`"), "there is no `--` here: {told}");
    for client in gateway.both() {
        assert_eq!(text(&client.call("echo", json!({"text": "well"}))), "well");
    }
    // The gateway tries `silent` again from time to time, and leaves nothing of it behind.
    until("only the good one runs", || {
        gateway.fixtures().iter().filter(|pid| is_alive(**pid)).count() == 1
    });
}

#[test]
fn a_server_that_hangs_at_its_start_holds_up_neither_lists_nor_others() {
    let slow = Upstream::legacy("slow");
    let config = format!(
        "{}{}",
        slow.table("start_timeout = \"10m\""),
        stdio("good", &["--full", "good"], "")
    );
    let place = Place::new(&config).start();
    place.settled(35);
    let place = place.into_place();
    for method in ["initialize", "server/discover"] {
        slow.fail(method, Fault::Hang, 1000);
    }
    let gateway = place.start();
    for client in gateway.both() {
        let started = Instant::now();
        assert_eq!(client.tools().len(), 35);
        assert_eq!(text(&client.call("good__echo", json!({"text": "x"}))), "x");
        // A gateway that waits for the lists of `slow` answers after 10 s.
        assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    }
    // Once it is well, a call that waits for it is answered.
    let pending = gateway.legacy();
    let mut pending = pending.open_call("slow__echo", json!({"text": "at last"}));
    slow.heal();
    slow.restart();
    let answer = pending.answer();
    assert!(text(&answer) == "at last" || code(&answer) == "SERVER_UNAVAILABLE", "{}", answer.raw);
    until("it is back", || text(&gateway.modern().call("slow__echo", json!({"text": "y"}))) == "y");
}

#[test]
fn what_is_remembered_is_of_this_command_and_can_be_lost() {
    let config = |tool: &str| stdio("fix", &["--extra-tool", tool], "start = \"on-demand\"");
    let gateway = Gateway::start(&config("one"));
    assert!(gateway.modern().tools().contains(&"one".to_owned()));
    let place = gateway.into_place();
    let manifests = || -> Vec<_> {
        let files = std::fs::read_dir(place.path("state/toolgate/manifests")).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    };
    until("it is remembered", || manifests().len() == 1);
    // Another command is another server.
    place.configure(&config("two"));
    let gateway = place.start();
    let tools = gateway.modern().tools();
    assert!(tools.contains(&"two".to_owned()) && !tools.contains(&"one".to_owned()), "{tools:?}");
    let place = gateway.into_place();
    // Files that nobody can read are asked for again.
    for (n, garbage) in ["", "{", "[]", "{\"toolgate\":99}", "\0\0\0"].into_iter().enumerate() {
        for file in std::fs::read_dir(place.path("state/toolgate/manifests")).unwrap() {
            std::fs::write(file.unwrap().path(), garbage).unwrap();
        }
        let gateway = Gateway::start(&config("three"));
        assert_eq!(gateway.modern().tools().len(), 15, "{n}");
    }
    let gateway = place.start();
    gateway.wait_for_stderr("what is remembered of `fix` cannot be read");
    assert_eq!(gateway.modern().tools().len(), 15);
    let place = gateway.into_place();
    // A folder that nothing can be written to is told of, and nothing else.
    std::fs::remove_dir_all(place.path("state")).unwrap();
    std::fs::create_dir_all(place.path("state/toolgate")).unwrap();
    std::fs::write(place.path("state/toolgate/manifests"), "a file").unwrap();
    let gateway = place.start();
    assert_eq!(gateway.modern().tools().len(), 15);
    let line = gateway.wait_for_stderr("cannot remember what `fix` offers");
    assert!(line.contains("warning") && line.contains("manifests"), "{line}");
    assert_eq!(
        text(&gateway.legacy().call("echo", json!({"text": "all the same"}))),
        "all the same"
    );
}

#[test]
fn a_server_that_keeps_failing_is_left_alone_by_the_breaker() {
    let (good, bad) = (Upstream::legacy("good"), Upstream::modern("bad"));
    let gateway = Gateway::start(&format!(
        "{}{}[breaker]\nfailures = 3\nwait = \"300ms\"\n",
        good.table(""),
        bad.table("")
    ));
    gateway.settled(28);
    bad.fail("tools/call", Fault::CloseBefore, 1000);
    let client = gateway.legacy();
    let call = |server: &str| {
        code(&client.call(&format!("{server}__write"), json!({"key": "k"}))).to_owned()
    };
    for _ in 0..3 {
        assert!(["SERVER_CRASHED", "SERVER_UNAVAILABLE"].contains(&call("bad").as_str()));
    }
    let asked = bad.calls("write");
    let answer = client.call("bad__write", json!({"key": "k"}));
    assert_eq!(code(&answer), "CIRCUIT_OPEN", "{}", answer.raw);
    assert_eq!(bad.calls("write"), asked, "it was not asked");
    assert_eq!(call("good"), "", "each server has its own");
    bad.heal();
    until("it is tried again", || call("bad").is_empty());
    assert_eq!(bad.complaints(), Vec::<String>::new());
}

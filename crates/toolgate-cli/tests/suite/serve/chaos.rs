//! Servers that are killed, hang, restart, flap, page without end, lie and flood, while clients of both eras
//! call them: no tool is lost, no call reaches another server, no write happens twice, nothing is left behind.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json};

use crate::harness::{
    assert_gone,
    clients::either::Either,
    gateway::{Gateway, Place, kill, stdio, until, until_or},
    governed::code,
    text,
    upstream::{Era, Fault, Upstream},
};

/// What a call may come to when its server fails.
const FAILURES: [&str; 7] = [
    "SERVER_UNAVAILABLE",
    "SERVER_CRASHED",
    "SERVER_PROTOCOL",
    "SERVER_REJECTED",
    "TIMED_OUT",
    "CIRCUIT_OPEN",
    "OVERLOADED",
];
/// Codes that promise that nothing ran.
const DID_NOT_RUN: [&str; 3] = ["SERVER_UNAVAILABLE", "CIRCUIT_OPEN", "OVERLOADED"];

/// A breaker that never opens: here the server's own failures are looked at.
const BREAKER_OFF: &str = "[breaker]\nfailures = 1000000\nshare = 1.0\nof = 64\n";

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides).unwrap()).unwrap()
    }
}

/// What happens while misfortunes come.
#[derive(Default)]
struct Storm {
    /// What became of each write: its server and key, and the code, empty where it succeeded.
    ledger: Mutex<BTreeMap<(String, String), String>>,
    calls: AtomicUsize,
    lists: AtomicUsize,
    over: AtomicBool,
}

impl Storm {
    /// Waits until so many more calls have ended.
    fn pass(&self, calls: usize) {
        let before = self.calls.load(Ordering::Relaxed);
        until("calls go on", || self.calls.load(Ordering::Relaxed) >= before + calls);
    }
}

/// Calls until the storm is over, and keeps what was promised about each write.
fn call_around(client: &Either, names: &[String], seed: u64, storm: &Storm) {
    let mut dice = Dice(seed);
    for n in 0.. {
        if storm.over.load(Ordering::Relaxed) {
            return;
        }
        let server = &names[dice.roll(names.len())];
        let key = format!("{seed}-{n}");
        let writes = dice.roll(3) == 0;
        let (tool, said) = match (server.as_str(), writes) {
            // The one over pipes has names of its own.
            ("pipes", true) => ("write".to_owned(), "written".to_owned()),
            ("pipes", false) => ("echo".to_owned(), key.clone()),
            _ => {
                let which = if writes { "write".to_owned() } else { dice.roll(5).to_string() };
                let tool = format!("{server}_{which}");
                (tool.clone(), format!("{server}:{tool}:{key}"))
            }
        };
        let answer = client.call(&tool, json!({"key": key, "text": key}));
        let code = code(&answer).to_owned();
        if code.is_empty() {
            assert_eq!(text(&answer), said, "{}", client.era());
        } else {
            assert!(FAILURES.contains(&code.as_str()), "{tool}: {}", answer.raw);
        }
        if writes {
            storm.ledger.lock().unwrap().insert((server.clone(), key), code);
        }
        storm.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// One misfortune after the other.
fn misfortune(server: &Upstream, dice: &mut Dice, storm: &Storm) {
    match dice.roll(9) {
        0 => server.restart(),
        1 => {
            server.stop();
            storm.pass(5);
            server.resume();
        }
        2 => server.forget_sessions(),
        3 => server.fail("tools/call", Fault::CloseBefore, 2),
        4 => server.fail("tools/call", Fault::CloseAfter, 2),
        5 => server.fail("tools/call", Fault::CloseMid, 2),
        6 => server.fail("tools/call", Fault::Garbage, 1),
        7 => server.fail("tools/call", Fault::Hang, 1),
        _ => {
            server.fail("tools/list", Fault::CloseMid, 1);
            (0..20).for_each(|_| server.announce("tools"));
        }
    }
}

#[test]
fn no_tool_is_lost_no_call_strays_and_no_write_is_repeated() {
    let servers = [
        Upstream::numbered("alpha", Era::Legacy, 5),
        Upstream::numbered("beta", Era::Modern, 5),
        Upstream::numbered("gamma", Era::OldSse, 5),
        Upstream::numbered("delta", Era::Legacy, 5),
    ];
    let folder = tempfile::tempdir().unwrap();
    let writes = folder.path().join("writes");
    let pipes = stdio("pipes", &["--full", "pipes", "--writes", writes.to_str().unwrap()], "");
    let tables: String = servers.iter().map(|server| server.table("")).collect();
    let gateway =
        Gateway::start(&format!("{tables}{pipes}[limits]\ntimeout = \"700ms\"\n{BREAKER_OFF}"));
    gateway.settled(45);
    let whole = gateway.modern().tools();
    let mut names: Vec<String> = servers.iter().map(|server| server.name().to_owned()).collect();
    names.push("pipes".to_owned());
    let storm = Storm::default();
    let clients: Vec<Either> = (0..3).flat_map(|_| gateway.both()).collect();
    std::thread::scope(|scope| {
        for (client, n) in clients.iter().zip(1..) {
            let (names, storm) = (&names, &storm);
            scope.spawn(move || call_around(client, names, n * 7919, storm));
        }
        scope.spawn(|| {
            let client = gateway.modern();
            while !storm.over.load(Ordering::Relaxed) {
                assert_eq!(client.tools(), whole, "the list of tools at any time");
                storm.lists.fetch_add(1, Ordering::Relaxed);
            }
        });
        let end = Over(&storm);
        let mut dice = Dice(4_711);
        for _ in 0..200 {
            match servers.get(dice.roll(names.len())) {
                Some(server) => misfortune(server, &mut dice, &storm),
                None => gateway.fixtures().into_iter().for_each(kill),
            }
            storm.pass(5);
        }
        drop(end);
    });
    servers.iter().for_each(Upstream::heal);
    assert!(storm.lists.load(Ordering::Relaxed) > 20, "{:?} lists", storm.lists);
    let written = std::fs::read_to_string(&writes).unwrap();
    judge(&servers, &written, &storm.ledger.into_inner().unwrap());
    // Afterwards everything is as before.
    for client in gateway.both() {
        assert_eq!(client.tools(), whole);
        for name in &names {
            let tool = if name == "pipes" { "echo".to_owned() } else { format!("{name}_0") };
            until_or(
                || code(&client.call(&tool, json!({"key": "after"}))).is_empty(),
                || format!("{name} is back: {}", client.call(&tool, json!({})).raw),
            );
        }
    }
}

/// Ends the storm, also when a test fails in it.
struct Over<'a>(&'a Storm);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// No write happened twice, and what was promised about each is true.
fn judge(servers: &[Upstream], written: &str, ledger: &BTreeMap<(String, String), String>) {
    let succeeded = ledger.values().filter(|code| code.is_empty()).count();
    assert!(succeeded > 50, "{succeeded} writes of {}", ledger.len());
    for ((server, key), code) in ledger {
        let ran = match servers.iter().find(|known| known.name() == server) {
            Some(server) => server.executions(&format!("{}_write", server.name()), key),
            None => written.lines().filter(|line| line == key).count(),
        };
        assert!(ran <= 1, "{key} was written {ran} times");
        assert!(!code.is_empty() || ran == 1, "{key} succeeded and did not run");
        assert!(!DID_NOT_RUN.contains(&code.as_str()) || ran == 0, "{key}: {code}, and it ran");
    }
}

/// Servers close connections that nobody uses, also while a request is on its way.
#[test]
fn a_list_that_is_lost_with_a_kept_connection_is_asked_for_again_and_a_call_is_not() {
    for era in [Era::Legacy, Era::Modern, Era::OldSse] {
        let server = Upstream::start("alpha", era);
        for kind in ["tools", "prompts", "resources", "resources/templates"] {
            server.fail(&format!("{kind}/list"), Fault::CloseKept, 1000);
        }
        let gateway = Gateway::start(&format!("{}{BREAKER_OFF}", server.table("")));
        gateway.settled(14);
        let tools = server.count("tools/list");
        server.announce("tools");
        until("the changed list is asked for", || server.count("tools/list") > tools);
        server.heal();
        gateway.settled(14);
        if era == Era::OldSse {
            continue;
        }
        server.fail("tools/call", Fault::CloseKept, 1000);
        for client in gateway.both() {
            let mut losses = 0;
            for n in 0..20 {
                let (key, before) = (format!("{n} {}", client.era()), server.count("tools/call"));
                let answer = client.call("write", json!({"key": key}));
                let is_lost = code(&answer) == "SERVER_CRASHED";
                assert!(is_lost || code(&answer).is_empty(), "{}", answer.raw);
                assert_eq!(server.executions("write", &key), usize::from(!is_lost), "{key}");
                assert_eq!(server.count("tools/call"), before + 1, "{key} is sent once");
                losses += usize::from(is_lost);
            }
            assert!(
                losses > 0,
                "{era:?}, {}: no call met a connection that was kept",
                client.era()
            );
        }
    }
}

/// What a client reads for a fault, and how often the tool has run.
#[test]
fn each_fault_is_told_as_what_it_is() {
    let expected: [(Fault, &[&str], usize); 8] = [
        (Fault::CloseBefore, &["SERVER_CRASHED"], 0),
        (Fault::CloseAfter, &["SERVER_CRASHED"], 1),
        (Fault::CloseMid, &["SERVER_CRASHED", "SERVER_PROTOCOL"], 1),
        (Fault::Garbage, &["SERVER_PROTOCOL"], 0),
        (Fault::WrongId, &["SERVER_PROTOCOL", "SERVER_CRASHED"], 1),
        (Fault::Duplicate, &[""], 1),
        (Fault::Drip, &[""], 1),
        (Fault::Hang, &["TIMED_OUT"], 0),
    ];
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("alpha", era);
        let gateway = Gateway::start(&format!(
            "{}[limits]\ntimeout = \"2s\"\n{BREAKER_OFF}",
            server.table("")
        ));
        gateway.settled(14);
        for client in gateway.both() {
            for (n, (fault, codes, ran)) in expected.iter().enumerate() {
                let key = format!("{n} {}", client.era());
                server.fail("tools/call:write", *fault, 1);
                let answer = client.call("write", json!({"key": key}));
                let (code, what) = (code(&answer), format!("{era:?}, {}, {fault:?}", client.era()));
                assert!(codes.contains(&code), "{what}: {}", answer.raw);
                assert_eq!(server.executions("write", &key), *ran, "{what}");
                // The next call is not disturbed by what is left of this one.
                let answer = client.call("echo", json!({"text": key}));
                assert_eq!(text(&answer), key, "after {what}");
            }
        }
        assert_eq!(server.complaints(), Vec::<String>::new());
    }
}

#[test]
fn a_status_that_is_no_answer_is_told_and_nothing_is_tried_twice() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&format!("{}{BREAKER_OFF}", server.table("")));
    gateway.settled(14);
    for client in gateway.both() {
        for status in [400, 401, 403, 405, 429, 500, 502, 503] {
            let before = server.calls("write");
            server.fail("tools/call:write", Fault::Status(status), 1);
            let answer = client.call("write", json!({"key": status.to_string()}));
            assert!(FAILURES.contains(&code(&answer)), "{status}: {}", answer.raw);
            assert_eq!(server.calls("write") - before, 1, "{status}");
        }
        assert_eq!(text(&client.call("echo", json!({"text": "still"}))), "still");
    }
}

#[test]
fn a_lost_session_is_begun_again_and_only_what_did_not_run_is_repeated() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    for (n, client) in gateway.both().into_iter().enumerate() {
        let hellos = server.count("initialize");
        server.forget_sessions();
        let key = format!("k{n}");
        let answer = client.call("write", json!({"key": key}));
        assert_eq!(code(&answer), "", "{}", answer.raw);
        assert_eq!(server.executions("write", &key), 1);
        assert_eq!(server.count("initialize") - hellos, 1, "one hello for everybody");
        // A server that forgets at once again is not asked for ever.
        server.fail("tools/call:write", Fault::Status(404), 1000);
        let before = server.calls("write");
        let answer = client.call("write", json!({"key": "never"}));
        assert!(FAILURES.contains(&code(&answer)), "{}", answer.raw);
        assert!(server.calls("write") - before <= 2, "{}", server.calls("write") - before);
        server.heal();
        assert_eq!(text(&client.call("echo", json!({"text": "back"}))), "back");
    }
    assert_eq!(server.executions("write", "never"), 0);
}

#[test]
fn a_hundred_calls_at_once_over_a_lost_session_begin_one_new_one() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let hellos = server.count("initialize");
    server.forget_sessions();
    let client = gateway.modern();
    let mut calls: Vec<_> =
        (0..100).map(|n| client.open_call("write", json!({"key": n.to_string()}))).collect();
    for (n, call) in calls.iter_mut().enumerate() {
        let answer = call.answer();
        assert_eq!(code(&answer), "", "{n}: {}", answer.raw);
        assert_eq!(server.executions("write", &n.to_string()), 1);
    }
    assert!(server.count("initialize") - hellos <= 2, "{}", server.count("initialize") - hellos);
}

#[test]
fn a_server_that_hangs_slows_nobody_else() {
    let (alpha, beta) =
        (Upstream::numbered("alpha", Era::Legacy, 3), Upstream::numbered("beta", Era::Legacy, 3));
    let gateway = Gateway::start(&format!("{}{}", alpha.table(""), beta.table("")));
    gateway.settled(8);
    let client = gateway.legacy();
    alpha.fail("tools/call", Fault::Hang, 1000);
    let hanging: Vec<_> = (0..200).map(|_| client.open_call("alpha_0", json!({}))).collect();
    alpha.until("the calls hang", |alpha| alpha.calls("alpha_0") == 200);
    for n in 0..200 {
        let answer = client.call("beta_1", json!({"key": n.to_string()}));
        assert_eq!(text(&answer), format!("beta:beta_1:{n}"));
    }
    drop(hanging);
}

#[test]
fn pages_without_end_end_and_hide_no_other_server() {
    for era in [Era::Legacy, Era::Modern] {
        let (alpha, beta) =
            (Upstream::numbered("alpha", era, 10), Upstream::numbered("beta", era, 3));
        alpha.page(4);
        alpha.endless(true);
        let gateway = Gateway::start(&format!("{}{}", alpha.table(""), beta.table("")));
        let client = gateway.modern();
        until_or(
            || client.tools().iter().filter(|tool| tool.starts_with("beta")).count() == 4,
            || format!("{:?}", client.tools()),
        );
        assert_eq!(text(&client.call("beta_0", json!({"key": "k"}))), "beta:beta_0:k");
        let tools = client.tools();
        let mut once = tools.clone();
        once.dedup();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), tools.len(), "no tool is listed twice: {tools:?}");
        assert!(alpha.count("tools/list") < 5000, "{}", alpha.count("tools/list"));
        // Put right, it is whole.
        alpha.endless(false);
        alpha.announce("tools");
        until_or(|| client.tools().len() == 15, || format!("{era:?}: {:?}", client.tools()));
    }
}

#[test]
fn a_flood_of_changes_is_heard_without_being_followed_blindly() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::numbered("alpha", era, 5);
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(6);
        let client = gateway.modern();
        let mut stream = client.listen(json!({"toolsListChanged": true})).0;
        server.until("the gateway listens", |server| server.streams() > 0);
        // What the first call builds is no effect of the flood.
        assert_eq!(text(&client.call("alpha_0", json!({"key": "k"}))), "alpha:alpha_0:k");
        let (asked, before) = (server.count("tools/list"), gateway.resident_bytes());
        server.add_tool("alpha_new");
        for n in 0..60_000 {
            server.announce("tools");
            if n % 1000 == 0 {
                assert_eq!(text(&client.call("alpha_0", json!({"key": "k"}))), "alpha:alpha_0:k");
            }
        }
        stream.method("notifications/tools/list_changed");
        until_or(
            || client.tools().contains(&"alpha_new".to_owned()),
            || format!("{era:?}: {:?}", client.tools()),
        );
        let asked = server.count("tools/list") - asked;
        assert!(asked < 2000, "{asked} lists for 60000 announcements");
        let grown = gateway.resident_bytes().saturating_sub(before);
        // It grows by 18 MB, after a third of the flood as after all of it: 300 bytes for each announcement.
        assert!(grown < 30_000_000, "{grown} bytes more");
    }
}

#[test]
fn tools_that_come_and_go_are_listed_as_they_are_and_called_where_they_are() {
    let (alpha, beta) =
        (Upstream::numbered("alpha", Era::Legacy, 2), Upstream::numbered("beta", Era::Modern, 2));
    let gateway = Gateway::start(&format!("{}{}", alpha.table(""), beta.table("")));
    gateway.settled(6);
    let client = gateway.legacy();
    alpha.until("the gateway listens", |server| server.streams() > 0);
    beta.until("the gateway listens", |server| server.streams() > 0);
    for round in 0..6 {
        let (has, has_not) = if round % 2 == 0 { (&alpha, &beta) } else { (&beta, &alpha) };
        has.add_tool("wanderer");
        has_not.remove_tool("wanderer");
        has.announce("tools");
        has_not.announce("tools");
        // The name belongs to the server that had it first, also while it has no such tool.
        let name = if round % 2 == 0 { "wanderer" } else { "beta__wanderer" };
        until_or(
            || {
                let answer = client.call(name, json!({"key": "k"}));
                code(&answer).is_empty() && text(&answer) == format!("{}:wanderer:k", has.name())
            },
            || client.call(name, json!({"key": "k"})).raw,
        );
        let listed = || -> Vec<String> {
            client.tools().into_iter().filter(|tool| tool.contains("wanderer")).collect()
        };
        // The lists of the two servers are refreshed one after the other.
        until_or(|| listed() == [name], || format!("{:?} are listed", listed()));
    }
}

#[test]
fn a_child_that_crashes_in_a_call_has_written_once_and_is_brought_back() {
    let folder = tempfile::tempdir().unwrap();
    let writes = folder.path().join("writes");
    let options = ["--full", "alpha", "--writes", writes.to_str().unwrap()];
    let gateway = Gateway::start(&stdio("alpha", &options, ""));
    gateway.settled(21);
    for client in gateway.both() {
        let key = client.era();
        let answer = client.call("write", json!({"key": key, "then": "crash"}));
        assert_eq!(code(&answer), "SERVER_CRASHED", "{}", answer.raw);
        until("it is back", || code(&client.call("whoami", json!({}))).is_empty());
        let written = std::fs::read_to_string(&writes).unwrap();
        assert_eq!(written.lines().filter(|line| *line == key).count(), 1);
        assert_eq!(client.tools().len(), 21);
    }
    assert_eq!(gateway.fixtures().len(), 1);
}

#[test]
fn nobody_survives_any_end_of_the_gateway() {
    let servers = [
        stdio("polite", &[], ""),
        stdio("deaf", &["--ignore-eof", "--ignore-term"], ""),
        stdio("own", &["--ignore-eof"], "sharing = \"session\""),
    ];
    let config = format!("{}[namespaces.default]\nprefix = \"always\"\n", servers.concat());
    for how in ["term", "kill"] {
        let mut gateway = Gateway::start(&config);
        let sessions = [gateway.legacy(), gateway.legacy()];
        let mut grandchildren = Vec::new();
        for session in &sessions {
            for server in ["polite", "deaf", "own"] {
                let answer = || session.call(&format!("{server}__spawn"), json!({}));
                let mut pid = None;
                until_or(
                    || {
                        pid = text(&answer()).parse::<u32>().ok();
                        pid.is_some()
                    },
                    || answer().raw,
                );
                grandchildren.extend(pid);
            }
        }
        let fixtures = gateway.fixtures().len();
        assert!(fixtures >= 4, "{fixtures}: two shared, and one for each session");
        let mut family = gateway.descendants();
        family.extend(grandchildren);
        if how == "kill" {
            gateway.kill();
        } else {
            assert_eq!(gateway.terminate().code(), Some(0));
        }
        family.into_iter().for_each(assert_gone);
    }
}

#[test]
fn a_server_that_is_killed_over_and_over_leaves_no_process_and_no_open_file() {
    let gateway = Gateway::start(&stdio("alpha", &["--full", "alpha"], ""));
    let client = gateway.modern();
    let mut before = 0;
    for round in 0..20 {
        let mut pid = Value::Null;
        until("it answers", || {
            let answer = client.call("whoami", json!({}));
            if code(&answer).is_empty() {
                pid = serde_json::from_str::<Value>(text(&answer)).unwrap()["pid"].clone();
            }
            pid.is_u64()
        });
        if round == 3 {
            before = gateway.open_files();
        }
        kill(u32::try_from(pid.as_u64().unwrap()).unwrap());
    }
    until("it answers", || code(&client.call("whoami", json!({}))).is_empty());
    assert_eq!(gateway.fixtures().len(), 1);
    until_or(
        || gateway.open_files() <= before + 2,
        || format!("{} open files after {before}", gateway.open_files()),
    );
}

#[test]
fn an_hour_of_calls_does_not_grow_it() {
    let server = Upstream::numbered("alpha", Era::Legacy, 5);
    let gateway = Gateway::start(&format!("{}{}", server.table(""), stdio("pipes", &[], "")));
    gateway.settled(20);
    let clients: Arc<Vec<Either>> = Arc::new((0..2).flat_map(|_| gateway.both()).collect());
    let round = |calls: usize| {
        std::thread::scope(|scope| {
            for client in clients.iter() {
                scope.spawn(move || {
                    for n in 0..calls {
                        let key = n.to_string();
                        let answer =
                            client.call("alpha_1", json!({"key": key, "fill": "f".repeat(500)}));
                        assert_eq!(text(&answer), format!("alpha:alpha_1:{key}"));
                        let answer = client.call("echo", json!({"text": key}));
                        assert_eq!(text(&answer), key);
                    }
                });
            }
        });
        // Sessions come and go as well.
        for _ in 0..50 {
            assert!((200..300).contains(&gateway.legacy().delete()));
        }
    };
    round(500);
    let files = gateway.open_files();
    // A leak grows in each round; the allocator's reserve does not.
    let grown = [(); 3].map(|()| {
        let before = gateway.resident_bytes();
        round(1000);
        gateway.resident_bytes().saturating_sub(before)
    });
    assert!(grown.iter().any(|grown| *grown < 3_000_000), "{grown:?} bytes more in each round");
    until_or(
        || gateway.open_files() <= files + 4,
        || format!("{} after {files}", gateway.open_files()),
    );
}

#[test]
fn a_gateway_started_while_everything_is_down_finds_all_of_it_later() {
    let servers: Vec<Upstream> =
        [("alpha", Era::Legacy), ("beta", Era::Modern), ("gamma", Era::OldSse)]
            .map(|(name, era)| Upstream::numbered(name, era, 3))
            .into();
    servers.iter().for_each(Upstream::stop);
    let tables: String = servers.iter().map(|server| server.table("")).collect();
    let gateway = Place::new(&tables).start();
    let refused = gateway.modern().request("tools/list", json!({}));
    assert_eq!(refused["error"]["data"]["code"], "SERVER_UNAVAILABLE", "{}", refused.raw);
    for server in ["alpha", "beta", "gamma"] {
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("`{server}`: ")), "{message}");
    }
    let mut stream = gateway.modern().listen(json!({"toolsListChanged": true})).0;
    servers.iter().for_each(Upstream::resume);
    stream.method("notifications/tools/list_changed");
    gateway.settled(12);
}

#[test]
fn a_change_whose_list_cannot_be_read_at_first_is_not_forgotten() {
    for era in [Era::Legacy, Era::Modern] {
        for fault in [Fault::CloseMid, Fault::CloseBefore, Fault::Status(503), Fault::Garbage] {
            let server = Upstream::numbered("alpha", era, 2);
            let gateway = Gateway::start(&server.table(""));
            gateway.settled(3);
            server.until("the gateway listens", |server| server.streams() > 0);
            server.add_tool("alpha_late");
            server.fail("tools/list", fault, 2);
            server.announce("tools");
            until_or(
                || gateway.modern().tools().len() == 4,
                || format!("{era:?}, {fault:?}: {:?}", gateway.modern().tools()),
            );
        }
    }
}

#[test]
fn what_changed_while_the_gateway_was_away_is_learnt_even_if_the_first_list_fails() {
    // On the one stream of 2024 an answer that cannot be read is one that never comes: that takes as long as patience does.
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::numbered("alpha", era, 2);
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(3);
        let place = gateway.into_place();
        server.add_tool("alpha_late");
        server.fail("tools/list", Fault::Garbage, 1);
        let gateway = place.start();
        let list = || gateway.modern().request("tools/list", json!({}));
        let count = || list()["result"]["tools"].as_array().map(Vec::len);
        until_or(|| count() == Some(4), || format!("{era:?}: {}", list().raw));
    }
}

//! Channels: waiting for a signal, without losing one and without leaving processes behind.

use serde_json::{Value, json};

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
};

/// The processes that wait for a channel of this server.
fn waiters(tmux: &Tmux) -> Vec<u32> {
    let children = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let words: Vec<&str> = line.split('\0').collect();
        let ours = words.contains(&&*tmux.name) && words.contains(&"wait-for");
        (ours && crate::harness::is_alive(pid)).then_some(pid)
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(children).collect()
}

fn wait(session: &mut Session, channel: &str, timeout: f64) -> Value {
    session.call("wait_for_channel", json!({"channel": channel, "timeout": timeout}))
}

#[test]
fn a_signal_is_found_before_during_and_after_a_wait_that_timed_out() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let signalled = session.call("signal_channel", json!({"channel": "before"}));
    assert_eq!(structured(&signalled)["result"], "Channel 'before' signalled");
    let before = wait(&mut session, "before", 20.0);
    assert_eq!(structured(&before)["result"], "Channel 'before' was signalled (timeout 20.0s)");

    let during = json!({"channel": "during", "timeout": 20});
    let id = session.post_call("wait_for_channel", during);
    tmux.until("waiting", |tmux| !waiters(tmux).is_empty());
    // Another call is answered while one waits.
    structured(&session.call("list_sessions", json!({})));
    tmux.run(&["wait-for", "-S", "during"]);
    structured(&session.answer(id));
    tmux.until("done", |tmux| waiters(tmux).is_empty());

    // tmux forgets no waiter: one that went away would take the signal with it.
    let late = wait(&mut session, "late", 0.1);
    assert!(
        text(&late).starts_with("wait-for timeout: channel 'late' was not signalled within 0.1s"),
        "{late}"
    );
    tmux.run(&["wait-for", "-S", "late"]);
    structured(&wait(&mut session, "late", 20.0));
    // It was one signal: the next wait is in vain, and so is one that is cancelled.
    assert_eq!(wait(&mut session, "late", 0.1)["result"]["isError"], true);
    let id = session.post_call("wait_for_channel", json!({"channel": "cancelled"}));
    tmux.until("two wait", |tmux| waiters(tmux).len() == 2);
    session.notify("notifications/cancelled", json!({"requestId": id}));
    structured(&session.call("signal_channel", json!({"channel": "cancelled"})));
    structured(&wait(&mut session, "cancelled", 20.0));

    for channel in ["has space", "", "a;b", "$(x)"] {
        let bad = wait(&mut session, channel, 1.0);
        assert_eq!(bad["result"]["_meta"]["code"], "INVALID_ARGUMENTS", "{bad}");
    }
    assert_eq!(wait(&mut session, "x", 0.0)["result"]["_meta"]["code"], "INVALID_ARGUMENTS");
    assert_eq!(waiters(&tmux).len(), 1, "only the one that nobody signalled");
    assert!(session.finish().0.success());
    tmux.until("gone", |tmux| waiters(tmux).is_empty());
}

/// tmux misses the end of a client whose input closes before it has registered the client: many kills hit that moment.
/// tmux 3.3a itself crashes now and then (a segmentation fault in the system's log) when a control client is killed:
/// then no wait begins, and another tmux has to be started.
#[test]
fn nothing_is_left_of_a_server_that_is_killed() {
    let tmux = Tmux::start();
    let mut waited = 0;
    for round in 0..25 {
        if !tmux.is_up() {
            tmux.boot();
        }
        let mut session = tmux.serve(&[]);
        session.post_call("wait_for_channel", json!({"channel": format!("x{round}")}));
        tmux.until("waiting", |tmux| !waiters(tmux).is_empty() || !tmux.is_up());
        waited += usize::from(!waiters(&tmux).is_empty());
        session.child.kill().unwrap();
        tmux.until("gone", |tmux| waiters(tmux).is_empty());
    }
    assert!(waited > 15, "only {waited} of 25 waits began");
    tmux.until("alone", |tmux| !tmux.is_up() || tmux.clients() == 0);
}

#[test]
fn a_tmux_that_ends_is_no_signal() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    for again in [false, true] {
        let id = session.post_call("wait_for_channel", json!({"channel": "x"}));
        tmux.until("waiting", |tmux| !waiters(tmux).is_empty());
        tmux.run(&["kill-server"]);
        if again {
            tmux.boot();
        }
        let gone = session.answer(id);
        assert!(
            text(&gone).starts_with(
                "wait-for returned for channel 'x' but the tmux server is no longer running"
            ),
            "{gone}"
        );
        if !again {
            tmux.boot();
        }
    }
    // A wait that was given up ended with its server: that is no signal for who waits on another one.
    assert_eq!(wait(&mut session, "x", 0.1)["result"]["isError"], true);
    tmux.run(&["kill-server"]);
    tmux.until("ended", |tmux| waiters(tmux).is_empty());
    tmux.boot();
    let anew = wait(&mut session, "x", 0.1);
    assert!(text(&anew).starts_with("wait-for timeout: "), "{anew}");
    tmux.run(&["kill-server"]);
    tmux.until("down", |tmux| !tmux.output(&["list-sessions"]).status.success());
    let down = wait(&mut session, "x", 20.0);
    assert_eq!(down["result"]["_meta"]["error_type"], "TmuxServerNotRunning");
    assert!(waiters(&tmux).is_empty());
}

#[test]
fn a_waiting_client_is_told_that_it_still_waits() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let params = json!({"name": "wait_for_channel", "arguments": {"channel": "slow", "timeout": 20},
        "_meta": {"progressToken": "token"}});
    let id = session.post("tools/call", params);
    let told = |message: &Value| message["method"] == "notifications/progress";
    let first = session.wait_for(told);
    let second = session.wait_for(told);
    tmux.run(&["wait-for", "-S", "slow"]);
    structured(&session.answer(id));
    let first = &first["params"];
    assert_eq!((&first["progressToken"], &first["total"]), (&json!("token"), &json!(20.0)));
    assert!(
        first["message"].as_str().unwrap().starts_with("Waiting on channel 'slow': "),
        "{first}"
    );
    let seconds = |params: &Value| params["progress"].as_f64().unwrap();
    assert!(seconds(&second["params"]) > seconds(first), "{first} {second}");
}

//! Signals, changes of the config, and the end.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    harness::{
        assert_gone,
        matrix::{Client, Setup, Via, refused},
    },
    matrix::lists,
    matrix::scenario::Group,
};

/// Changes of the file wait for a signal.
const BEFORE: &str = "reload = 'off'\n";
const AFTER: &str = "reload = 'off'\n[namespaces.default.tools.'main/safe']\nname = 'visible'\n";

fn answers(client: &mut Client) -> bool {
    let tool = client.safe();
    !refused(&client.call(tool, json!({})))
}

pub fn hangups() -> Group {
    Group::new(Setup::new(BEFORE).spy(&["--lists", "lists.json"]))
        .everywhere("SIGHUP ends nothing", json!([true, true]), |client| {
            assert!(answers(client));
            client.signal(Signal::HUP);
            let answered = answers(client);
            json!([answered, client.runs()])
        })
        .everywhere("SIGHUP reopens the audit", json!(true), |client| {
            assert!(answers(client));
            client.until("the audit is there", |client| !client.audit_text().is_empty());
            std::fs::rename(client.path("audit.jsonl"), client.path("moved.jsonl")).unwrap();
            client.signal(Signal::HUP);
            client.until("the audit is there again", |client| {
                answers(client) && client.path("audit.jsonl").exists()
            });
            json!(true)
        })
        .spied("SIGHUP asks servers for their lists again", json!(true), |client| {
            assert!(!lists::listed(client, "fresh"));
            lists::write(client, &["safe", "fresh"]);
            client.signal(Signal::HUP);
            client.until("the new tool is listed", |client| lists::listed(client, "fresh"));
            json!(true)
        })
        .everywhere("SIGHUP applies the changed config", json!(true), |client| {
            assert!(answers(client));
            client.configure(AFTER);
            client.signal(Signal::HUP);
            client.until("the new name is listed", |client| lists::listed(client, "visible"));
            json!(true)
        })
}

fn wipe_is(status: &str) -> String {
    format!(
        "[namespaces.default]\nsafety = 'destructive'\n[namespaces.default.tools.'main/wipe']\nstatus = '{status}'\n"
    )
}

pub fn reloads() -> Group {
    Group::new(Setup::new(&wipe_is("active")).spy(&["--rich"]))
        .everywhere(
            "a change that narrows is applied by itself, and told of",
            json!(true),
            |client| {
                let tool = client.wipe();
                client.listen();
                assert!(lists::listed(client, tool));
                client.configure(&wipe_is("inactive"));
                client.notification("notifications/tools/list_changed");
                client.until("it is gone", |client| !lists::listed(client, tool));
                json!(refused(&client.call(tool, json!({}))))
            },
        )
        .everywhere("a change that widens is applied by toolgate reload", json!(true), |client| {
            let tool = client.wipe();
            if lists::listed(client, tool) {
                client.reload(&wipe_is("inactive"));
                client.until("it is gone", |client| !lists::listed(client, tool));
            }
            client.reload(&wipe_is("active"));
            client.until("it is listed", |client| lists::listed(client, tool));
            json!(true)
        })
        .everywhere("a config that is refused changes nothing", json!(true), |client| {
            assert!(answers(client));
            client.reload("nonsense = true\n");
            client.until("it is refused", |client| {
                client.stderr().iter().any(|line| line.contains("nonsense"))
            });
            json!(answers(client))
        })
}

pub fn ends() -> Group {
    fn ended(client: &mut Client, end: fn(&mut Client) -> Value) -> Value {
        assert!(answers(client));
        let family = client.descendants();
        assert!(!family.is_empty() || client.via.is_tmux(), "nothing was started");
        let ended = end(client);
        family
            .into_iter()
            .filter(|pid| {
                Some(*pid)
                    != client.terminal.as_ref().and_then(|tmux| u32::try_from(tmux.pid()).ok())
            })
            .for_each(assert_gone);
        ended
    }
    Group::new(Setup::new("").spy(&["--rich"]))
        .everywhere("SIGTERM ends toolgate and all that it started", json!([0]), |client| {
            ended(client, |client| {
                let mut codes: Vec<Option<i32>> =
                    client.terminate().iter().map(std::process::ExitStatus::code).collect();
                codes.dedup();
                json!(codes)
            })
        })
        .everywhere("SIGTERM ends toolgate during a call", json!([0]), |client| {
            ended(client, |client| {
                if !client.via.is_tmux() {
                    client.start_call("hang", json!({}));
                    client.until("it runs", |client| !client.log("ran hang").is_empty());
                }
                let mut codes: Vec<Option<i32>> =
                    client.terminate().iter().map(std::process::ExitStatus::code).collect();
                codes.dedup();
                json!(codes)
            })
        })
        .everywhere(
            "the end of the client's input ends toolgate and all that it started",
            json!(0),
            |client| {
                ended(client, |client| {
                    let bridges = matches!(client.via, Via::Bridge | Via::BridgeModern);
                    let code = client.pipe().finish().0.code();
                    // The gateway behind a bridge goes on.
                    if bridges {
                        client.terminate();
                    }
                    json!(code)
                })
            },
        )
}

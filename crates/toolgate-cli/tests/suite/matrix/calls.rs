//! A call on its way: progress, cancellation, questions, crashes, limits.

use serde_json::{Value, json};

use crate::{
    harness::matrix::{Client, Setup},
    matrix::scenario::{Group, brief},
};

pub fn calls() -> Group {
    Group::new(Setup::new("").spy(&["--rich"]))
        .spied(
            "progress comes before the response, in order",
            json!(["done", [1, 2, 3], "vendor"]),
            |client| {
                let (answer, steps) = client.progress("progress", json!({"steps": 3}), json!("t"));
                let numbers: Vec<&Value> =
                    steps.iter().map(|step| &step["params"]["progress"]).collect();
                json!([
                    brief(&answer),
                    numbers,
                    steps.first().map_or(&Value::Null, |step| &step["params"]["extra"])
                ])
            },
        )
        .spied(
            "a cancelled call is cancelled at the server once, and not answered",
            json!([1, null]),
            |client| {
                let id = client.start_call("hang", json!({"mark": "cancelled"}));
                client.until("it runs", |client| !client.log("ran hang").is_empty());
                client.cancel(&id);
                let count = |client: &Client| {
                    client
                        .log("line ")
                        .iter()
                        .filter(|line| line.contains("notifications/cancelled"))
                        .count()
                };
                client.until("the server is told", |client| count(client) > 0);
                client.fence();
                let answer = client
                    .seen()
                    .into_iter()
                    .find(|message| message["id"] == id && message.get("method").is_none());
                json!([count(client), answer])
            },
        )
        .spied(
            "a call goes on while another one hangs",
            json!("safe ran with {\"n\":2}"),
            |client| {
                let id = client.start_call("hang", json!({"mark": "hangs"}));
                let answer = brief(&client.call("safe", json!({"n": 2})));
                client.cancel(&id);
                answer
            },
        )
}

/// What the user answered, as the server's result tells it.
fn asked(answer: &Value) -> Value {
    let Some(text) = answer["result"]["content"][0]["text"].as_str() else {
        return brief(answer);
    };
    let value: Value = serde_json::from_str(text).unwrap();
    value.get("result").cloned().unwrap_or(value)
}

pub fn questions_of_servers() -> Group {
    Group::new(Setup::new("").spy(&["--rich"]).able(json!({"elicitation": {}}), |asked| {
        let text = asked["params"]["message"].as_str().unwrap_or_default();
        json!({"action": "accept", "content": {"colour": "red", "asked": text}})
    }))
    .spied(
        "a server asks the user",
        json!({"action": "accept", "content": {"asked": "Which colour?", "colour": "red"}}),
        |client| {
            let answer = client.call("ask", json!({}));
            asked(&answer)
        },
    )
}

/// Two calls of one client, each of which asks.
pub fn questions_at_once() -> Group {
    let setup = Setup::new("").spy(&["--rich", "--legacy-only"]);
    Group::new(setup.able(
        json!({"elicitation": {}}),
        |asked| json!({"action": "accept", "content": {"colour": asked["params"]["message"]}}),
    ))
    .spied("two calls in flight ask the user", json!(["first", "second"]), |client| {
        let ids = ["first", "second"].map(|mark| {
            let params = json!({"message": mark, "requestedSchema": {"type": "object",
                "properties": {"colour": {"type": "string"}}}});
            client.start_call("ask", json!({"id": mark, "params": params}))
        });
        json!(ids.map(|id| asked(&client.response(&id))["content"]["colour"].clone()))
    })
}

/// A destructive call is asked about.
const CONFIRM: &str = "
[confirm]
when = ['main/wipe']
fallback = 'refuse'
[namespaces.default]
safety = 'destructive'
";

pub fn confirmations() -> Group {
    Group::new(Setup::new(CONFIRM).spy(&["--rich"]).able(json!({"elicitation": {}}), |asked| {
        let asked = asked.to_string();
        let action = if asked.contains("decline-this") { "decline" } else { "accept" };
        json!({"action": action, "content": {"confirm": true}})
    }))
    .everywhere("a confirmed call runs", json!(false), |client| {
        let tool = client.wipe();
        let arguments = json!({"session_name": "no such"});
        let answer = client.call(tool, arguments);
        // The tool itself may say that there is no such session.
        json!(
            answer["result"]["_meta"]["code"]
                .as_str()
                .is_some_and(|code| code.starts_with("CONFIRM"))
        )
    })
    .everywhere(
        "a declined call does not run",
        json!({"refused": "CONFIRM_DECLINED"}),
        |client| {
            let tool = client.wipe();
            brief(&client.call(tool, json!({"session_name": "decline-this"})))
        },
    )
}

pub fn crashes() -> Group {
    let crashed = json!({"code": "SERVER_CRASHED", "may have run": true, "runs again": true});
    Group::new(Setup::new("").spy(&["--rich"])).spied(
        "a server that ends in the middle of a call",
        crashed,
        |client| {
            let answer = client.call("die", json!({}));
            let may_have_run = answer.to_string().contains("may have run");
            let mut again = false;
            client.until("a call runs, or toolgate ends", |client| {
                let id = client.start_call("safe", json!({"n": 1}));
                let answer = client.try_response(&id);
                again = answer.is_some_and(|answer| answer.to_string().contains("safe ran"));
                again || !client.runs()
            });
            json!({"code": answer["result"]["_meta"]["code"], "may have run": may_have_run,
                "runs again": again})
        },
    )
}

/// Limits of results and of requests in flight, for this namespace only.
const LIMITS: &str = "
[namespaces.default.limits]
response_bytes = 1000
in_flight = 2
";

pub fn limits() -> Group {
    Group::new(Setup::new(LIMITS).spy(&["--rich"]))
        .spied("a result beyond the limit is shortened", json!([true, true]), |client| {
            let text = "x".repeat(5000);
            let result =
                json!({"content": [{"type": "text", "text": text}], "resultType": "complete"});
            let answer = client.call("respond", json!({"result": result.to_string()}));
            let text = answer["result"]["content"].to_string();
            json!([text.len() < 1500, text.len() > 100])
        })
        .everywhere(
            "requests beyond the limit in flight",
            json!({"refused": "OVERLOADED"}),
            |client| {
                let (tool, arguments) = client.hanging();
                let ids = [1, 2].map(|_| client.start_call(tool, arguments.clone()));
                if !client.via.is_tmux() {
                    client.until("they run", |client| client.log("ran hang").len() == 2);
                }
                let safe = client.safe();
                let answer = brief(&client.call(safe, json!({})));
                for id in &ids {
                    client.cancel(id);
                }
                if answer.get("refused").is_some() { answer } else { json!("ran") }
            },
        )
}

/// A result that has to fit a schema is passed whole, or refused.
pub fn schemas() -> Group {
    Group::new(Setup::new(LIMITS).spy(&["--rich", "--promise"]))
        .spied("a result within its output schema and the limit", json!("whole"), |client| {
            assert!(client.definition("promise")["outputSchema"].is_object());
            let result = json!({"content": [{"type": "text", "text": "whole"}],
                "structuredContent": {"a": "aaa"}, "resultType": "complete"});
            brief(&client.call("promise", json!({"result": result.to_string()})))
        })
        .spied(
            "a result that cannot be shortened within its output schema is refused",
            json!([{"refused": "RESPONSE_TOO_LARGE"}, true, true, null]),
            |client| {
                let result = json!({"content": [], "structuredContent": {"a": "a".repeat(5000)},
                    "resultType": "complete"});
                let answer = client.call("promise", json!({"result": result.to_string()}));
                let result = &answer["result"];
                let text = result["content"][0]["text"].as_str().unwrap_or_default();
                json!([
                    brief(&answer),
                    result["_meta"]["ran"],
                    text.contains("output schema"),
                    result.get("structuredContent")
                ])
            },
        )
}

/// Errors of a server that the operator says are worth another attempt.
const RETRIES: &str = "
[retry]
times = 2
base_delay = '1ms'
codes = [-32000]
messages = ['*rate limit*']
";

pub fn retries() -> Group {
    /// How often a call reaches the server that is answered like this.
    fn attempts(client: &mut Client, tool: &str, arguments: &Value) -> Value {
        let mark = format!("ran {tool} ");
        let before = client.log(&mark).len();
        client.call(tool, arguments.clone());
        json!(client.log(&mark).len() - before)
    }
    Group::new(Setup::new(RETRIES).spy(&["--rich"]))
        .spied("an error whose code is named is tried again", json!([3, 1]), |client| {
            let error =
                |code: i64| json!({"error": json!({"code": code, "message": "busy"}).to_string()});
            json!([
                attempts(client, "respond", &error(-32000)),
                attempts(client, "respond", &error(-32001))
            ])
        })
        .spied("an error whose message is named is tried again", json!([3, 3, 1]), |client| {
            let error = json!({"code": -32603, "message": "Rate limit reached"}).to_string();
            let failed = |text: &str| {
                let content = json!([{"type": "text", "text": text}]);
                json!({"content": content, "isError": true, "resultType": "complete"}).to_string()
            };
            json!([
                attempts(client, "respond", &json!({"error": error})),
                attempts(client, "respond", &json!({"result": failed("the rate limit is hit")})),
                attempts(client, "respond", &json!({"result": failed("no such file")})),
            ])
        })
}

/// Calls that take too long, and too many of them.
const TIMES: &str = "
[namespaces.default]
safety = 'destructive'
[namespaces.default.limits]
timeout = '300ms'
rate = [{ tools = 'main/wipe', limit = '2/h' }]
";

pub fn times() -> Group {
    let limited = json!(["passed", "passed", "RATE_LIMITED"]);
    Group::new(Setup::new(TIMES).spy(&["--rich"]))
        .spied("a call that takes too long", json!([{"refused": "TIMED_OUT"}, true, 1]), |client| {
            let answer = client.call("hang", json!({}));
            let told = |client: &Client| {
                let lines = client.log("line ");
                lines.iter().filter(|line| line.contains("notifications/cancelled")).count()
            };
            client.until("the server is told", |client| told(client) > 0);
            client.fence();
            json!([brief(&answer), answer.to_string().contains("may have run"), told(client)])
        })
        .everywhere("calls beyond a rate", limited, |client| {
            let tool = client.wipe();
            let codes = [1, 2, 3].map(|_| {
                let answer = client.call(tool, json!({"session_name": "no such"}));
                let code = answer["result"]["_meta"]["code"].clone();
                if code == "RATE_LIMITED" { code } else { json!("passed") }
            });
            json!(codes)
        })
        .everywhere("a dry run", json!({"refused": "DRY_RUN_PREVIEW"}), |client| {
            let tool = client.safe();
            brief(&client.call_with(tool, json!({}), json!({"toolgate/dry_run": true})))
        })
}

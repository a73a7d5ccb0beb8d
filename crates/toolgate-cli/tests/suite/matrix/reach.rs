//! Every transport reaches its server.

use serde_json::json;

use crate::{
    harness::matrix::{Setup, refused},
    matrix::scenario::{Group, brief},
};

pub fn servers_are_reached() -> Group {
    Group::new(Setup::new("").spy(&["--legacy-only"]).able(
        json!({"elicitation": {}}),
        |_| json!({"action": "accept", "content": {"colour": "red"}}),
    ))
    .spied(
        "a call runs once and is audited",
        json!(["wipe {\"n\":1}", "wipe ran with {\"n\":1}"]),
        |client| {
            assert_eq!(client.tools(), ["safe", "wipe", "emit", "ask", "env"]);
            let answer = client.call("wipe", json!({"n": 1}));
            client.recorded(|record| record["tool"] == "wipe");
            json!([client.ran()[0], brief(&answer)])
        },
    )
    .everywhere("a read-only tool answers", json!(false), |client| {
        let tool = client.safe();
        json!(refused(&client.call(tool, json!({}))))
    })
    .spied("a legacy server asks the user", json!(true), |client| {
        json!(client.call("ask", json!({})).to_string().contains("red"))
    })
}

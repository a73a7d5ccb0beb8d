//! Lists: their pages, their changes, and how long they hold.

use serde_json::json;

use crate::{
    harness::matrix::{Client, Setup},
    matrix::scenario::Group,
};

pub fn pages() -> Group {
    Group::new(Setup::new("[namespaces.default]\npage_size = 4\n").spy(&["--pages", "3"]))
        .spied(
            "all pages of a list, each tool once",
            json!([["safe", "wipe", "emit", "ask", "env"], 15, "more_9"]),
            |client| {
                let names = client.tools();
                json!([names[..5], names.len(), names.last()])
            },
        )
        .everywhere("the size of a page is the namespace's", json!([4, true]), |client| {
            let pages = client.pages("tools/list", "tools");
            let full = &pages[..pages.len() - 1];
            json!([pages[0].len(), full.iter().all(|page| page.len() == 4)])
        })
}

pub fn listed(client: &mut Client, tool: &str) -> bool {
    client.tools().iter().any(|name| name == tool)
}

/// The spy lists what the file `lists.json` says.
pub fn write(client: &Client, tools: &[&str]) {
    let text = json!({"tools": tools, "prompts": ["p"], "resources": ["spy://r"], "templates": []});
    std::fs::write(client.path("lists.new"), text.to_string()).unwrap();
    std::fs::rename(client.path("lists.new"), client.path("lists.json")).unwrap();
}

pub fn changes() -> Group {
    Group::new(Setup::new("").spy(&["--rich"]))
        .spied("a changed list is told of, and listed anew", json!(null), |client| {
            client.listen();
            assert!(!listed(client, "fresh"));
            client.call("grow", json!({}));
            client.notification("notifications/tools/list_changed");
            client.until("the new tool is listed", |client| listed(client, "fresh"));
            json!(client.call("fresh", json!({}))["result"]["isError"])
        })
        .spied("changed prompts and resources are told of", json!([true, true]), |client| {
            client.listen();
            json!(["prompts", "resources"].map(|list| {
                let method = format!("notifications/{list}/list_changed");
                client.call("tell", json!({"method": method, "params": {}}));
                client.notification(&method)["method"] == method.as_str()
            }))
        })
}

pub fn lifetimes() -> Group {
    Group::new(
        Setup::new("[namespaces.default]\ncache_ttl = '200ms'\n").spy(&["--lists", "lists.json"]),
    )
    .spied("a list is asked for again after cache_ttl", json!(true), |client| {
        write(client, &["safe", "fresh"]);
        client.until("the new tool is listed", |client| listed(client, "fresh"));
        json!(true)
    })
}

pub fn failures() -> Group {
    Group::new(Setup::new("").spy(&["--list-fails"])).spied(
        "a server whose list fails gives an error, not an empty list",
        json!(true),
        |client| json!(client.request("tools/list", json!({})).get("error").is_some()),
    )
}

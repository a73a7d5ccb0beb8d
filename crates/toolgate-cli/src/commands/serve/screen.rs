//! What a person sees of a gateway that starts: the addresses, the servers as they come up, and what to do next.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use toolgate_gateway::serve::{Serve, Served};

use super::super::log::look::{Look, Paint, clean, fit};

/// How long a server that starts is waited for before the table is shown without it.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often it is looked how servers are.
const FRAME: Duration = Duration::from_millis(100);
#[expect(clippy::print_stderr, reason = "words to the person who started it")]
fn say(text: &str) {
    eprintln!("{text}");
}

fn url(address: SocketAddr, namespace: &str) -> String {
    match namespace {
        "default" => format!("http://{address}/mcp"),
        other => format!("http://{address}/mcp/{other}"),
    }
}

/// Tells where it listens: the addresses that there are, and no other.
pub(super) fn listening(addresses: &[SocketAddr], serve: &Serve) {
    let namespaces = serve.namespaces();
    let Some(first) = first(&namespaces) else { return };
    for address in addresses {
        say(&format!("toolgate: listening on {}", url(*address, first)));
    }
    if let Some(address) = addresses.first() {
        for name in namespaces.iter().filter(|name| *name != "default") {
            let (shown, url) = (clean(name), url(*address, name));
            say(&format!("          namespace `{shown}` at {}", clean(&url)));
        }
    }
}

/// The namespace that is shown to somebody who asks for none: `default` if there is one.
fn first(namespaces: &[String]) -> Option<&str> {
    let default = namespaces.iter().find(|name| *name == "default");
    default.or(namespaces.first()).map(String::as_str)
}

/// Shows servers as they come up, then the table and what to do next.
pub(super) async fn welcome(addresses: &[SocketAddr], serve: &Serve) {
    let look = Look::of_stderr();
    let waiting = async {
        let mut told = BTreeSet::new();
        loop {
            let servers = serve.servers();
            let (begun, total) = (servers.iter().filter(|s| s.state != "waiting"), servers.len());
            let settled: Vec<&Served> = begun.filter(|s| s.state != "starting").collect();
            for served in &settled {
                // Lines of their own: servers write to this terminal, too.
                if told.insert(served.name.clone()) {
                    let (number, name) = (told.len(), clean(&served.name));
                    let why = served.why.clone().unwrap_or_default();
                    let what = served.tools.map_or(why, |tools| format!("{tools} tools"));
                    let line =
                        format!("  {number}/{total} {name}: {}, {}", served.state, clean(&what));
                    say(&fit(&line, look.width.unwrap_or(usize::MAX)));
                }
            }
            if !servers.iter().any(|served| served.state == "starting") {
                break;
            }
            tokio::time::sleep(FRAME).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, waiting).await;
    let servers = serve.servers();
    if servers.is_empty() {
        say(NOTHING);
    } else {
        say("");
        let lines = table(&look, &servers, &serve.without_namespace());
        lines.iter().chain(&names(&serve.names_not_given())).for_each(|line| say(line));
    }
    let namespaces = serve.namespaces();
    if let (Some(address), Some(name)) = (addresses.first(), first(&namespaces)) {
        say(&next(&url(*address, name), serve.needs_token()));
    }
}

/// The table of servers, line by line.
pub(in crate::commands) fn table(
    look: &Look,
    servers: &[Served],
    unused: &[String],
) -> Vec<String> {
    let names = servers.iter().map(|served| &served.name).chain(unused);
    let longest = names.map(|name| clean(name).len()).max().unwrap_or_default().max(6);
    let head = format!("  {:longest$}  {:8}  {:>5}  {:10}", "server", "state", "tools", "protocol");
    let mut lines = vec![look.paint(Paint::Quiet, head.trim_end()).into_owned()];
    for served in servers {
        let paint = match served.state.as_str() {
            "ready" => Paint::Good,
            "starting" => Paint::Warn,
            "failed" => Paint::Bad,
            _ => Paint::Quiet,
        };
        let tools = served.tools.map_or_else(|| "-".to_owned(), |tools| tools.to_string());
        let protocol = clean(served.protocol.as_deref().unwrap_or("-"));
        let state = look.paint(paint, &format!("{:8}", served.state)).into_owned();
        let room =
            look.width.map_or(usize::MAX, |width| width.saturating_sub(longest + 33)).max(20);
        let why = clean(served.why.as_deref().unwrap_or_default());
        let why = fit(&why, room);
        let name = clean(&served.name);
        let line = format!("  {name:longest$}  {state}  {tools:>5}  {protocol:10}  {why}");
        lines.push(line.trim_end().to_owned());
    }
    for name in unused {
        let state = look.paint(Paint::Bad, "unused  ").into_owned();
        let name = clean(name);
        lines.push(format!(
            "  {name:longest$}  {state}  {:>5}  {:10}  belongs to no namespace",
            "-", "-"
        ));
    }
    lines
}

/// What is left out, or listed under another name, because another server has the name.
pub(in crate::commands) fn names(names: &[String]) -> Vec<String> {
    const MOST: usize = 20;
    let mut lines: Vec<String> = Vec::new();
    if !names.is_empty() {
        lines.push(String::new());
    }
    lines.extend(names.iter().take(MOST).map(|line| format!("  {}", clean(line))));
    if names.len() > MOST {
        lines.push(format!("  ... and {} more", names.len() - MOST));
    }
    lines
}

fn next(url: &str, needs_token: bool) -> String {
    let (headers, option, env) = if needs_token {
        (
            ", \"headers\": { \"Authorization\": \"Bearer YOUR_TOKEN\" }",
            ", \"--token-env\", \"GATEWAY_TOKEN\"",
            ", \"env\": { \"GATEWAY_TOKEN\": \"YOUR_TOKEN\" }",
        )
    } else {
        ("", "", "")
    };
    format!(
        "\nTo use it, put this into your client's config (the file with `mcpServers`), in place of the servers that \
         toolgate now serves:\n\n  \
         \"toolgate\": {{ \"type\": \"http\", \"url\": \"{url}\"{headers} }}\n\n\
         or, for a client that speaks stdio only:\n\n  \
         \"toolgate\": {{ \"command\": \"toolgate\", \"args\": [\"stdio\", \"--to\", \"{url}\"{option}]{env} }}\n\n\
         Keep the config that toolgate reads in a file of its own.\n"
    )
}

const NOTHING: &str = "
There are no servers yet. Give it the file that your client has (`toolgate serve mcp.json`), or write a toolgate.toml:

  [servers.files]
  command = \"npx\"
  args = [\"-y\", \"@modelcontextprotocol/server-filesystem\", \".\"]

and start it again in the same folder.";

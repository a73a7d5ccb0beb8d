//! What a person sees of a gateway that starts: the addresses, the servers as they come up, and what to do next.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use toolgate_gateway::gateway::{RunningGateway, ServerStatus};

use super::super::log::look::{Look, Paint, clean, fit};

/// How long a server that starts is waited for before the table is shown without it.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often it is looked how servers are.
const FRAME: Duration = Duration::from_millis(100);
/// The same, once nothing but servers that failed is waited for.
const LATER: Duration = Duration::from_secs(1);

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
pub(super) fn listening(addresses: &[SocketAddr], serve: &RunningGateway) {
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

/// Shows servers as they come up, then the table and what to do next; and then those that come up later, until all have.
pub(super) async fn welcome(addresses: &[SocketAddr], serve: &RunningGateway) {
    let mut progress = Progress { look: Look::of_stderr(), told: BTreeMap::new() };
    let _ = tokio::time::timeout(PATIENCE, progress.until(serve, FRAME, is_settled)).await;
    let servers = serve.servers();
    if servers.is_empty() {
        say(NOTHING);
    } else {
        say("");
        let lines = table(&progress.look, &servers, &serve.without_namespace());
        lines.iter().chain(&names(&serve.names_in_short())).for_each(|line| say(line));
    }
    let namespaces = serve.namespaces();
    if let (Some(address), Some(name)) = (addresses.first(), first(&namespaces)) {
        say(&next(&url(*address, name), serve.needs_token()));
    }
    if servers.is_empty() {
        return;
    }
    progress.until(serve, FRAME, is_settled).await;
    progress.summary(&serve.servers());
    if !serve.servers().iter().all(is_well) {
        progress.until(serve, LATER, is_well).await;
        progress.summary(&serve.servers());
    }
}

/// Whether it is known how a server is.
fn is_settled(served: &ServerStatus) -> bool {
    served.state != "starting"
}

/// Whether there is nothing more to tell of a server.
fn is_well(served: &ServerStatus) -> bool {
    is_settled(served) && served.state != "failed" && !is_troubled(served)
}

/// A server that can be called and has something to say all the same.
fn is_troubled(served: &ServerStatus) -> bool {
    served.state == "ready" && served.why.is_some()
}

/// What was told of servers that come up.
struct Progress {
    look: Look,
    /// By name: the state, and what was said about it.
    told: BTreeMap<String, (String, String)>,
}

impl Progress {
    /// Tells of each server as it comes up or fails, until this holds for all of them.
    async fn until(
        &mut self,
        serve: &RunningGateway,
        pause: Duration,
        holds: fn(&ServerStatus) -> bool,
    ) {
        loop {
            let servers = serve.servers();
            for served in servers.iter().filter(|served| is_settled(served)) {
                self.tell(served, servers.len());
            }
            if servers.iter().all(holds) {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Tells how a server is, unless that was told. Lines of their own: servers write to this terminal, too.
    fn tell(&mut self, served: &ServerStatus, total: usize) {
        if matches!(served.state.as_str(), "waiting" | "stopped") {
            return;
        }
        let what = match (&served.why, served.tools) {
            (Some(why), _) => why.clone(),
            (None, Some(1)) => "1 tool".to_owned(),
            (None, tools) => format!("{} tools", tools.unwrap_or_default()),
        };
        let is_new = !self.told.contains_key(&served.name);
        let before = self.told.insert(served.name.clone(), (served.state.clone(), what.clone()));
        // How many tools it has, and in which words it fails, may change at any time.
        if before.is_some_and(|(state, _)| state == served.state) {
            return;
        }
        let (name, what, count) = (clean(&served.name), clean(&what), self.told.len());
        let line = if is_new {
            format!("  {count}/{total} {name}: {}, {what}", served.state)
        } else {
            format!("  {name}: now {}, {what}", served.state)
        };
        say(&fit(&line, self.look.width.unwrap_or(usize::MAX)));
    }

    /// The last line: how many servers are ready, and which are not.
    fn summary(&self, servers: &[ServerStatus]) {
        let names = |wanted: &dyn Fn(&ServerStatus) -> bool| -> Vec<String> {
            let found = servers.iter().filter(|served| wanted(served));
            found.map(|served| clean(&served.name).into_owned()).collect()
        };
        let failed = names(&|served| served.state == "failed");
        let troubled = names(&is_troubled);
        let later = names(&|served| matches!(served.state.as_str(), "waiting" | "stopped"));
        let ready = servers.iter().filter(|served| served.state == "ready").count();
        let text = match servers.len() {
            total if ready == total && total > 1 => format!("all {total} servers are ready"),
            1 if ready == 1 => "the server is ready".to_owned(),
            total => format!("{ready} of {total} servers are ready"),
        };
        let mut parts = vec![text];
        for (what, names) in [
            ("failed, and tried again", &failed),
            ("without a list", &troubled),
            ("started when needed", &later),
        ] {
            if !names.is_empty() {
                parts.push(format!("{what}: {}", names.join(", ")));
            }
        }
        let paint =
            if failed.is_empty() && troubled.is_empty() { Paint::Good } else { Paint::Warn };
        let text = format!("toolgate: {}", parts.join("; "));
        say(&self.look.paint(paint, &text));
    }
}

/// The table of servers, line by line.
pub(in crate::commands) fn table(
    look: &Look,
    servers: &[ServerStatus],
    unused: &[String],
) -> Vec<String> {
    let names = servers.iter().map(|served| &served.name).chain(unused);
    let longest = names.map(|name| clean(name).len()).max().unwrap_or_default().max(6);
    let head = format!("  {:longest$}  {:8}  {:>5}  {:10}", "server", "state", "tools", "protocol");
    let mut lines = vec![look.paint(Paint::Quiet, head.trim_end()).into_owned()];
    for served in servers {
        let paint = match served.state.as_str() {
            "ready" if is_troubled(served) => Paint::Warn,
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

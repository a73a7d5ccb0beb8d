//! The output of a gateway that starts: its addresses, the servers as they become ready, and what to do next.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, time::Duration};

use toolgate_gateway::gateway::{RunningGateway, ServerStatus};

use super::super::{
    client_entry::{self, url},
    log::style::{Paint, Style, clean, fit, wrapped},
};

/// How long the table waits for servers that start.
const STARTUP_TIMEOUT: Duration = Duration::from_mins(1);
/// How often the state of the servers is read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The same, once all other servers than those that failed are ready.
const RETRY_POLL_INTERVAL: Duration = Duration::from_secs(1);

#[expect(clippy::print_stderr, reason = "for the person who started it")]
fn print(text: &str) {
    eprintln!("{text}");
}

/// What the person who started the gateway should know about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start<'a> {
    /// The config, if there is one.
    pub(super) config: Option<&'a Path>,
    /// Whether the system chose the port, so that the next start has another one.
    pub(super) is_port_chosen: bool,
}

/// Prints the addresses that the gateway listens on.
pub(super) fn listening(addresses: &[SocketAddr], serve: &RunningGateway) {
    let namespaces = serve.namespaces();
    let Some(first) = first(&namespaces) else { return };
    for address in addresses {
        let namespace = if first == "default" { String::new() } else { format!("/{first}") };
        print(&format!("toolgate: listening on http://{address}/mcp{namespace}"));
    }
    if let Some(address) = addresses.first() {
        for name in namespaces.iter().filter(|name| *name != "default") {
            let (shown, url) = (clean(name), url(*address, name));
            print(&format!("          namespace `{shown}` at {}", clean(&url)));
        }
    }
}

/// The namespace whose address is shown: `default` if there is one.
fn first(namespaces: &[String]) -> Option<&str> {
    let default = namespaces.iter().find(|name| *name == "default");
    default.or(namespaces.first()).map(String::as_str)
}

/// Prints servers as they become ready, then the table and what to do next, then servers that become ready later.
pub(super) async fn welcome(addresses: &[SocketAddr], serve: &RunningGateway, start: Start<'_>) {
    let mut progress = Progress { style: Style::of_stderr(), told: BTreeMap::new() };
    let _ = tokio::time::timeout(STARTUP_TIMEOUT, progress.until(serve, POLL_INTERVAL, is_settled))
        .await;
    let servers = serve.servers();
    if servers.is_empty() && start.config.is_none() {
        return;
    }
    if servers.is_empty() {
        print(NO_SERVERS);
    } else {
        print("");
        let lines = table(&progress.style, &servers, &serve.without_namespace());
        lines.iter().chain(&names(&serve.names_in_short())).for_each(|line| print(line));
    }
    let namespaces = serve.namespaces();
    if let (Some(address), Some(name)) = (addresses.first(), first(&namespaces)) {
        let url = url(*address, name);
        print(&client_entry::of_gateway(&url, serve.needs_token(), start.config));
        if start.is_port_chosen {
            print("The system chose this port; `--listen 127.0.0.1:8642` keeps one.\n");
        }
    }
    if servers.is_empty() {
        return;
    }
    progress.until(serve, POLL_INTERVAL, is_settled).await;
    progress.summary(&serve.servers());
    if !serve.servers().iter().all(is_healthy) {
        progress.until(serve, RETRY_POLL_INTERVAL, is_healthy).await;
        progress.summary(&serve.servers());
    }
}

/// Whether the server has started or failed.
fn is_settled(served: &ServerStatus) -> bool {
    served.state != "starting"
}

/// Whether the server has reached its final state.
fn is_healthy(served: &ServerStatus) -> bool {
    is_settled(served) && served.state != "failed" && !is_troubled(served)
}

/// Whether the server is ready with a problem: a list is missing.
fn is_troubled(served: &ServerStatus) -> bool {
    served.state == "ready" && served.why.is_some()
}

/// What was printed about the servers.
struct Progress {
    style: Style,
    /// The state and the text, by name.
    told: BTreeMap<String, (String, String)>,
}

impl Progress {
    /// Prints each server as it becomes ready or fails, until `holds` is true for all of them.
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

    /// Prints the state of a server if it has changed. Each state is a new line, because servers write to this terminal, too.
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
        // The number of tools and the text of an error can change at any time.
        if before.is_some_and(|(state, _)| state == served.state) {
            return;
        }
        let (name, what, count) = (clean(&served.name), clean(&what), self.told.len());
        let line = if is_new {
            format!("  {count}/{total} {name}: {}, {what}", served.state)
        } else {
            format!("  {name}: now {}, {what}", served.state)
        };
        print(&fit(&line, self.style.width.unwrap_or(usize::MAX)));
    }

    /// Prints how many servers are ready, and which are not.
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
        print(&self.style.paint(paint, &text));
    }
}

/// The table of servers, line by line.
pub(in crate::commands) fn table(
    style: &Style,
    servers: &[ServerStatus],
    unused: &[String],
) -> Vec<String> {
    let names = servers.iter().map(|served| &served.name).chain(unused);
    let longest = names.map(|name| clean(name).len()).max().unwrap_or_default().max(6);
    let head = format!("  {:longest$}  {:8}  {:>5}  {:10}", "server", "state", "tools", "protocol");
    let mut lines = vec![style.paint(Paint::Quiet, head.trim_end()).into_owned()];
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
        let state = style.paint(paint, &format!("{:8}", served.state)).into_owned();
        let room =
            style.width.map_or(usize::MAX, |width| width.saturating_sub(longest + 33)).max(20);
        let why = clean(served.why.as_deref().unwrap_or_default());
        let name = clean(&served.name);
        let mut start = format!("  {name:longest$}  {state}  {tools:>5}  {protocol:10}");
        for why in wrapped(if why.is_empty() { " " } else { &why }, room) {
            lines.push(format!("{start}  {why}").trim_end().to_owned());
            start = " ".repeat(longest + 31);
        }
    }
    for name in unused {
        let state = style.paint(Paint::Bad, "unused  ").into_owned();
        let name = clean(name);
        lines.push(format!(
            "  {name:longest$}  {state}  {:>5}  {:10}  belongs to no namespace",
            "-", "-"
        ));
    }
    lines
}

/// Tools that are left out or listed under another name, because another server has the name.
pub(in crate::commands) fn names(names: &[String]) -> Vec<String> {
    const MAX_NAMES: usize = 20;
    let mut lines: Vec<String> = Vec::new();
    if !names.is_empty() {
        lines.push(String::new());
    }
    lines.extend(names.iter().take(MAX_NAMES).map(|line| format!("  {}", clean(line))));
    if names.len() > MAX_NAMES {
        lines.push(format!("  ... and {} more", names.len() - MAX_NAMES));
    }
    lines
}

const NO_SERVERS: &str = "
The config has no servers. Add some, as in this example, and start toolgate
again:

  [servers.files]
  command = \"npx\"
  args = [\"-y\", \"@modelcontextprotocol/server-filesystem\", \".\"]";

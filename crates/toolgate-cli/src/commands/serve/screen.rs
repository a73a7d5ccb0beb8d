//! What a person sees of a gateway that starts: the addresses, the servers as they come up, and what to do next.

use std::{io::IsTerminal as _, net::SocketAddr, time::Duration};

use toolgate_gateway::serve::{Serve, Served, State};

use super::super::log::look::{Look, Paint, clean, fit};

/// How long a server that starts is waited for before the table is shown without it.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the line of progress is drawn.
const FRAME: Duration = Duration::from_millis(100);
/// What turns while it works.
const WHEEL: [&str; 4] = ["|", "/", "-", "\\"];

#[expect(clippy::print_stderr, reason = "words to the person who started it")]
fn say(text: &str) {
    eprintln!("{text}");
}

#[expect(clippy::print_stderr, reason = "a line that is drawn again and again")]
fn draw(text: &str) {
    eprint!("\r\u{1b}[2K{text}");
}

fn url(address: SocketAddr, namespace: &str) -> String {
    match namespace {
        "default" => format!("http://{address}/mcp"),
        other => format!("http://{address}/mcp/{other}"),
    }
}

/// Tells where it listens.
pub(super) fn listening(addresses: &[SocketAddr], serve: &Serve) {
    for address in addresses {
        say(&format!("toolgate: listening on {}", url(*address, "default")));
    }
    let namespaces = serve.namespaces();
    if let Some(address) = addresses.first() {
        for name in namespaces.iter().filter(|name| *name != "default") {
            say(&format!("          namespace `{name}` at {}", url(*address, name)));
        }
    }
}

/// Shows servers as they come up, then the table and what to do next.
pub(super) async fn welcome(addresses: &[SocketAddr], serve: &Serve) {
    let look = Look::of_stderr();
    let is_starting = |served: &Served| served.state == State::Starting;
    let is_terminal = std::io::stderr().is_terminal();
    let waiting = async {
        for frame in 0.. {
            let servers = serve.servers();
            let left: Vec<&str> =
                servers.iter().filter(|s| is_starting(s)).map(|s| s.name.as_str()).collect();
            if left.is_empty() {
                break;
            }
            if is_terminal {
                let wheel = WHEEL.get(frame % WHEEL.len()).copied().unwrap_or_default();
                let done = servers.len() - left.len();
                let text = format!(
                    "{wheel} {done}/{} servers, waiting for {}",
                    servers.len(),
                    left.join(", ")
                );
                draw(&fit(&text, look.width.unwrap_or(80).saturating_sub(1)));
            }
            tokio::time::sleep(FRAME).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, waiting).await;
    if is_terminal {
        draw("");
    }
    let servers = serve.servers();
    if servers.is_empty() {
        say(NOTHING);
    } else {
        table(&look, &servers);
    }
    if let Some(address) = addresses.first() {
        say(&next(&url(*address, "default")));
    }
}

fn table(look: &Look, servers: &[Served]) {
    let longest = servers.iter().map(|served| served.name.len()).max().unwrap_or_default().max(6);
    let head =
        format!("\n  {:longest$}  {:8}  {:>5}  {:10}", "server", "state", "tools", "protocol");
    say(&look.paint(Paint::Quiet, head.trim_end()));
    for served in servers {
        let (state, paint, why) = match &served.state {
            State::Ready => ("ready", Paint::Good, ""),
            State::Starting => ("starting", Paint::Warn, ""),
            State::Waiting => ("waiting", Paint::Quiet, "starts when it is first needed"),
            State::Stopped => ("stopped", Paint::Quiet, "starts when it is needed again"),
            State::Failed(why) => ("failed", Paint::Bad, &**why),
        };
        let tools = served.tools.map_or_else(|| "-".to_owned(), |tools| tools.to_string());
        let version = served.version.as_deref().unwrap_or("-");
        let state = look.paint(paint, &format!("{state:8}")).into_owned();
        let room =
            look.width.map_or(usize::MAX, |width| width.saturating_sub(longest + 33)).max(20);
        let why = clean(why);
        let why = fit(&why, room);
        let line = format!("  {:longest$}  {state}  {tools:>5}  {version:10}  {why}", served.name);
        say(line.trim_end());
    }
}

fn next(url: &str) -> String {
    format!(
        "\nTo use it, put this into your client's config (the file with `mcpServers`):\n\n  \
         \"toolgate\": {{ \"type\": \"http\", \"url\": \"{url}\" }}\n\n\
         or, for a client that speaks stdio only:\n\n  \
         \"toolgate\": {{ \"command\": \"toolgate\", \"args\": [\"stdio\", \"--to\", \"{url}\"] }}\n"
    )
}

const NOTHING: &str = "
There are no servers yet. Give it the file that your client has (`toolgate serve mcp.json`), or write a toolgate.toml:

  [servers.files]
  command = \"npx\"
  args = [\"-y\", \"@modelcontextprotocol/server-filesystem\", \".\"]

and start it again in the same folder.";

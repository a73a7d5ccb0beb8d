//! `toolgate serve` without a config: shows two governed calls, offers the configs of the MCP clients on this machine, and
//! waits for a config to serve.

use std::{
    fmt::Write as _,
    io::IsTerminal as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tokio::{sync::mpsc, task::JoinHandle};
use toolgate_gateway::{
    client_files::{FileScope, InstalledFile, Machine, installed},
    config::ConfigWatch,
};

use super::super::{
    demo,
    log::style::{Paint, Style, clean, fit},
};

/// The config files that are read if none is named, in this order.
pub(super) const CONFIG_FILES: [&str; 3] = ["toolgate.toml", ".mcp.json", "mcp.json"];

/// How long the end of the process waits for the example.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The config of a client that was found on this machine.
#[derive(Debug)]
struct Offer {
    client: String,
    path: PathBuf,
    servers: Vec<String>,
}

/// The configs of clients that have servers.
fn offers() -> Vec<Offer> {
    let folder = std::env::current_dir().unwrap_or_default();
    let files = installed(&Machine::current()).into_iter();
    let files = files.filter(|one| one.scope != FileScope::Managed);
    let offers = files.filter_map(|InstalledFile { client, path, file, .. }| {
        let file = file.ok()?;
        let entries = file.servers_in(&folder).into_iter();
        let used = entries.filter(|entry| !entry.is_off && !entry.is_wrapped());
        let servers: Vec<String> = used.map(|entry| entry.name.clone()).collect();
        (!servers.is_empty()).then(|| Offer { client: client.name.clone(), path, servers })
    });
    offers.collect()
}

/// Waits for a config to serve.
#[derive(Debug)]
pub(super) struct FirstRun {
    watches: Vec<ConfigWatch>,
    /// The config that appeared and cannot be used: it counts again once a file has changed.
    refused: Option<PathBuf>,
    is_explained: bool,
    /// The calls that are shown as an example.
    sample: Option<JoinHandle<anyhow::Result<String>>>,
}

impl FirstRun {
    /// Begins to watch for the config files of this folder.
    pub(super) fn new() -> Self {
        let watches = CONFIG_FILES.map(|name| ConfigWatch::new(Some(Path::new(name))));
        Self { watches: watches.into(), refused: None, is_explained: false, sample: None }
    }

    /// Notes that this config cannot be used.
    pub(super) fn refuse(&mut self, path: PathBuf) {
        self.refused = Some(path);
    }

    /// Explains what can be done, and waits for a config: one that appears in this folder, or one that the person at the
    /// terminal chooses. It explains only once.
    pub(super) async fn config(&mut self) -> PathBuf {
        let is_explained = std::mem::replace(&mut self.is_explained, true);
        tokio::select! {
            path = appears(&self.watches, self.refused.as_deref()) => {
                if is_asked() {
                    // Behind the question.
                    print("\n");
                }
                path
            }
            path = choice(&mut self.sample), if !is_explained => path,
        }
    }

    /// Waits until the example has removed its files.
    pub(super) async fn end(self) {
        if let Some(sample) = self.sample {
            let _ = tokio::time::timeout(SAMPLE_TIMEOUT, sample).await;
        }
    }
}

/// Waits for a config in this folder; `refused` counts once a file has changed.
async fn appears(watches: &[ConfigWatch], mut refused: Option<&Path>) -> PathBuf {
    loop {
        let mut paths = CONFIG_FILES.iter().map(Path::new).filter(|path| refused != Some(path));
        if let Some(path) = paths.find(|path| path.exists()) {
            return path.to_owned();
        }
        let [one, two, three] = watches else { return std::future::pending().await };
        tokio::select! {
            () = one.changed() => {}
            () = two.changed() => {}
            () = three.changed() => {}
        }
        refused = None;
    }
}

#[expect(clippy::print_stderr, reason = "for the person who started it")]
fn print(text: &str) {
    eprint!("{text}");
}

/// Explains, and waits for the choice of the person at the terminal, if there is one.
async fn choice(running: &mut Option<JoinHandle<anyhow::Result<String>>>) -> PathBuf {
    let style = Style::of_stderr();
    let shown = style.clone();
    // It starts processes and waits for them.
    let handle = running.insert(tokio::task::spawn_blocking(move || sample(&shown)));
    let sample = handle.await;
    *running = None;
    if let Ok(Ok(sample)) = &sample {
        print(&format!(
            "\nTwo calls of an agent through toolgate, to a built-in server:\n\n{sample}"
        ));
    }
    let offers = offers();
    print(&listed(&offers, &style));
    if !is_asked() {
        return std::future::pending().await;
    }
    let mut lines = lines_of_stdin();
    loop {
        print(&question(&offers));
        let Some(line) = lines.recv().await else { return std::future::pending().await };
        let line = line.trim();
        if line == "d" {
            let _ = tokio::task::spawn_blocking(run_demo).await;
            continue;
        }
        let number = line.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        match number.and_then(|number| offers.get(number)) {
            Some(offer) => return offer.path.clone(),
            None if line.is_empty() => {
                print("Waiting for a config in this folder.\n");
                return std::future::pending().await;
            }
            None => print(&format!("`{}` is not in the list.\n", clean(line))),
        }
    }
}

fn sample(style: &Style) -> anyhow::Result<String> {
    let mut text = Vec::new();
    demo::sample(style, &mut text)?;
    Ok(String::from_utf8(text)?)
}

fn run_demo() -> anyhow::Result<()> {
    let mut demo = Command::new(std::env::current_exe()?);
    // Standard output may be a pipe; the person looks at standard error.
    demo.arg("demo").stdout(std::io::stderr()).status()?;
    Ok(())
}

/// Whether a person can be asked: in the foreground of a terminal. A process in the background that read from the
/// terminal would be stopped.
fn is_asked() -> bool {
    let stdin = std::io::stdin();
    let foreground = rustix::termios::tcgetpgrp(&stdin).ok();
    std::io::stderr().is_terminal() && foreground == Some(rustix::process::getpgrp())
}

fn lines_of_stdin() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    // The read cannot be cancelled, so the runtime must not wait for this thread.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The client configs, and the other ways to go on.
fn listed(offers: &[Offer], style: &Style) -> String {
    let mut text = String::from("\nThere are no servers yet.");
    if offers.is_empty() {
        text.push('\n');
    } else {
        text.push_str(" MCP clients on this machine have some:\n\n");
    }
    let width = style.width.unwrap_or(usize::MAX);
    for (number, Offer { client, path, servers }) in offers.iter().enumerate() {
        let count = match servers.len() {
            1 => "1 server".to_owned(),
            count => format!("{count} servers"),
        };
        let line = format!(
            "  {}  {:14}  {count}: {}",
            number + 1,
            clean(client),
            clean(&servers.join(", "))
        );
        text.push_str(&style.paint(Paint::Strong, &fit(&line, width)));
        let path = path.display().to_string();
        let _ = write!(text, "\n     toolgate serve {}\n", clean(&path));
    }
    text + "
Ways to go on:
  toolgate import            puts toolgate in front of your clients' servers
  toolgate serve mcp.json    serves the servers of a client's config
  toolgate init              writes a commented toolgate.toml with their servers
  toolgate demo              shows all layers at work

toolgate serves a toolgate.toml, .mcp.json or mcp.json as soon as one is in this
folder.
"
}

fn question(offers: &[Offer]) -> String {
    match offers.len() {
        0 => "\n[d] demo  [Enter] wait: ".to_owned(),
        1 => "\nServe it now? [1] yes  [d] demo  [Enter] wait: ".to_owned(),
        count => format!("\nServe one of them now? [1-{count}]  [d] demo  [Enter] wait: "),
    }
}

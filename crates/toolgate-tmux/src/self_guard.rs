//! Refuses to end the pane that this server runs in. If the pane cannot be identified, the call is refused.

use std::{env, fs, path::Path};

use toolgate::{Executed, Failure};

use crate::engine::{Batch, Command, Identity, ListTarget, Row, Server};

/// Where this process runs, as far as it can be determined.
#[derive(Clone, Debug, Default)]
pub struct SelfGuard {
    /// The socket path, from `TMUX`.
    socket: Option<String>,
    /// The session id, from `TMUX`, as `$1`.
    session: Option<String>,
    /// The pane id, from `TMUX_PANE`.
    pane: Option<String>,
    /// This process and its ancestors; `None` if that is unknown.
    ancestry: Option<Vec<u32>>,
}

/// What a call would end.
#[derive(Clone, Copy, Debug)]
pub enum KillTarget<'a> {
    /// The whole server.
    Server,
    /// A session, by id.
    Session(&'a str),
    /// A window, by id.
    Window(&'a str),
    /// A pane, by id.
    Pane(&'a str),
}

impl SelfGuard {
    /// Reads the environment and the ancestors of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        let variable = |name| env::var(name).ok().filter(|value: &String| !value.is_empty());
        let tmux = variable("TMUX");
        let mut parts = tmux.as_deref().unwrap_or_default().splitn(3, ',');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let socket = part().map(str::to_owned);
        let _pid = part();
        let session = part().map(|id| format!("${}", id.trim_start_matches('$')));
        Self { socket, session, pane: variable("TMUX_PANE"), ancestry: ancestry() }
    }

    /// Refuses a call that would end the pane that this process runs in. `doing` is the verb of the message, as `kill`.
    pub async fn check(
        &self,
        server: &Server,
        victim: KillTarget<'_>,
        doing: &str,
    ) -> Result<(), Failure> {
        // The server's identity decides. If the server cannot be asked, this fails and nothing is ended.
        let identity = identity(server).await?;
        let Some(identity) = identity else {
            return Ok(());
        };
        if !self.is_inside(server, &identity) {
            return Ok(());
        }
        let fields = &["pane_id", "window_id", "session_id", "pane_pid"];
        let rows = server.each(ListTarget::Panes(None), fields).await?;
        if self.is_hit(&rows, victim) { Err(refused(victim, doing)) } else { Ok(()) }
    }

    /// Refuses to type into the pane that this process runs in. The client runs there: typed text could end it, or
    /// answer in the user's place what the client asks the user. Unlike [`check`](Self::check), this refuses only the
    /// pane that is known to be the own one: if that is unknown, every pane would have to be refused.
    pub async fn check_typing(&self, server: &Server, pane: &str) -> Result<(), Failure> {
        let Some(identity) = server.identity().await? else {
            return Ok(());
        };
        let named = self.is_caller(&identity, pane);
        let ancestry = self.ancestry.as_deref().unwrap_or_default();
        let own = if named != Some(true) && ancestry.contains(&identity.pid) {
            let rows = server.list(ListTarget::Pane(pane), &["pane_id", "pane_pid"]).await?;
            let pid = rows.first().and_then(|row| row.get("pane_pid")?.parse().ok());
            pid.is_some_and(|pid| ancestry.contains(&pid))
        } else {
            named == Some(true)
        };
        if !own {
            return Ok(());
        }
        let message = "Refusing to type into the pane running this MCP server: what is typed there reaches the \
                       client itself, as if its user had typed it.";
        Err(Failure::tool("SelfTypingRefused", message)
            .suggest("Type into another pane; split_window or create_window makes one.")
            .with_executed(Executed::No))
    }

    /// Whether a pane is the one that this process runs in; `None` if it runs in no known pane.
    #[must_use]
    pub fn is_caller(&self, identity: &Identity, pane: &str) -> Option<bool> {
        let own = self.pane.as_deref()?;
        let here = self.socket.as_deref().is_some_and(|socket| same_file(socket, &identity.socket));
        Some(here && own == pane)
    }

    /// The pane that this process runs in and the name of its socket, from the environment.
    pub(crate) fn own_pane(&self) -> Option<(&str, Option<&str>)> {
        let name = |socket| Path::new(socket).file_name().and_then(|name| name.to_str());
        Some((self.pane.as_deref()?, self.socket.as_deref().and_then(name)))
    }

    /// Whether this process runs inside of the server, or may do so.
    fn is_inside(&self, server: &Server, identity: &Identity) -> bool {
        match &self.ancestry {
            Some(ancestry) if ancestry.contains(&identity.pid) => return true,
            // The ancestors are unknown and the environment is empty: assume that it runs inside, since both may be
            // hidden on purpose.
            None if self.socket.is_none() && self.pane.is_none() => return true,
            _ => {}
        }
        match &self.socket {
            Some(socket) => {
                let name = Path::new(socket).file_name().and_then(|name| name.to_str());
                same_file(socket, &identity.socket)
                    || name.is_some_and(|name| server.socket().name() == Some(name))
            }
            None => self.pane.is_some(),
        }
    }

    fn is_hit(&self, rows: &[Row], victim: KillTarget<'_>) -> bool {
        let (field, id) = match victim {
            KillTarget::Server => return true,
            KillTarget::Session(id) => ("session_id", id),
            KillTarget::Window(id) => ("window_id", id),
            KillTarget::Pane(id) => ("pane_id", id),
        };
        let hit = |row: &Row| row.get(field) == Some(id);
        // A window may be linked into several sessions: each of its rows counts.
        let by_pane =
            |row: &&Row| self.pane.as_deref().is_some_and(|own| row.get("pane_id") == Some(own));
        let by_process = |row: &&Row| {
            let pid = row.get("pane_pid").and_then(|pid| pid.parse().ok());
            let ancestry = self.ancestry.as_deref().unwrap_or_default();
            pid.is_some_and(|pid| ancestry.contains(&pid))
        };
        let by_session = |row: &&Row| {
            self.session.as_deref().is_some_and(|own| row.get("session_id") == Some(own))
        };
        let found = |own: &dyn Fn(&&Row) -> bool| rows.iter().any(|row| own(&row));
        if found(&by_pane) || found(&by_process) {
            return rows.iter().filter(|row| by_pane(row) || by_process(row)).any(hit);
        }
        // This process runs inside, but the pane is unknown. The session may be known; if not, the whole server is
        // protected.
        !found(&by_session) || rows.iter().filter(by_session).any(hit)
    }
}

/// The identity of the server; asked in a process of its own if the server has no session to attach to.
async fn identity(server: &Server) -> Result<Option<Identity>, Failure> {
    if let Some(identity) = server.identity().await? {
        return Ok(Some(Identity::clone(&identity)));
    }
    if !server.is_listening().await {
        return Ok(None);
    }
    let ask = Command::new("display-message").flag("-p").argument(Identity::FORMAT);
    let output = server.ask(Batch::read([ask])).await?;
    let identity = Identity::parse(&output);
    identity.map(Some).ok_or_else(|| {
        Failure::tool("GuardUnclear", "Refusing: tmux does not say which server it is.")
            .with_executed(Executed::No)
    })
}

fn refused(victim: KillTarget<'_>, doing: &str) -> Failure {
    let what = match victim {
        KillTarget::Server => "the tmux server while this MCP server is running inside it",
        KillTarget::Session(_) => "the session containing this MCP server's pane",
        KillTarget::Window(_) => "the window containing this MCP server's pane",
        KillTarget::Pane(_) => "the pane running this MCP server",
    };
    let message = format!("Refusing to {doing} {what}. Use a manual tmux command if intended.");
    Failure::tool("SelfKillRefused", message).with_executed(Executed::No)
}

fn same_file(one: &str, other: &str) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// The ids of this process, its parent, and so on; `None` if `/proc` cannot be read.
fn ancestry() -> Option<Vec<u32>> {
    let mut pid = std::process::id();
    let mut all = vec![pid];
    while pid > 1 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // `PID (NAME) STATE PPID …`. NAME may contain any character, also `)`.
        let (_, rest) = stat.rsplit_once(')')?;
        pid = rest.split_whitespace().nth(1)?.parse().ok()?;
        all.push(pid);
    }
    Some(all)
}

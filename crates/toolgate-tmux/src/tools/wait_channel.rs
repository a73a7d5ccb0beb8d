//! Tools for channels (`wait-for`): a program signals that it is done, so that its screen need not be read.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::timeout;
use toolgate::{Code, Executed, Failure};

use crate::{
    call::{MAX_CHANNEL_WAITS, ToolContext},
    engine::{Command, Signal},
    progress::Progress,
    tool::Tool,
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::mutating("wait_for_channel", "Wait for tmux Channel", wait_for_channel)
            .about(
                "Use to wait until a command says that it is done, with `; tmux wait-for -S NAME` at its end.\n\
                 A signal that came before counts, also one that came after a wait that timed out.",
            )
            .self_bounded(),
        Tool::mutating("signal_channel", "Signal tmux Channel", signal_channel)
            .about("Use to end every wait for a channel; if there is none, the next wait ends at once."),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct WaitForChannel {
    /// Name of the channel.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.:-]{1,128}$"))]
    channel: String,
    /// The most seconds to wait; the server's own limit may be lower.
    #[serde(default = "half_a_minute")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout: f64,
    /// Name of the tmux socket.
    socket_name: Option<String>,
}

fn half_a_minute() -> f64 {
    30.0
}

async fn wait_for_channel(cx: ToolContext, args: WaitForChannel) -> Result<String, Failure> {
    let _permit = cx.channel_waits().try_acquire().map_err(|_| {
        let message = format!("{MAX_CHANNEL_WAITS} waits for channels are running already");
        Failure::new(Code::Refused, message)
            .suggest("Wait until one of them ends, or cancel one.")
            .with_executed(Executed::No)
    })?;
    let server = cx.server(args.socket_name.as_deref())?;
    let (channel, most) = (args.channel, cx.options().wait_max);
    let time_limit = Duration::try_from_secs_f64(args.timeout).unwrap_or(most).min(most);
    let seconds = time_limit.as_secs_f64();
    let wait = async { server.wait_for(&channel).await };
    let mut progress = Progress::new(&cx, time_limit, format!("Waiting on channel '{channel}'"));
    match timeout(time_limit, progress.during(wait)).await {
        Err(_) => Err(Failure::tool(
            "WaitTimeout",
            format!("wait-for timeout: channel '{channel}' was not signalled within {seconds:?}s"),
        )
        .suggest("Look at the pane with capture_pane, or wait again: a signal in between is not lost.")),
        Ok(Ok(Signal::Came)) => {
            Ok(format!("Channel '{channel}' was signalled (timeout {seconds:?}s)"))
        }
        Ok(Ok(Signal::ServerGone)) => Err(Failure::tool(
            "TmuxServerNotRunning",
            format!(
                "wait-for returned for channel '{channel}' but the tmux server is no longer running, so the \
                 channel was probably never signalled — tmux exits 0 for both."
            ),
        )
        .suggest("Call list_servers for the servers that run.")),
        Ok(Err(error)) => Err(error.into()),
    }
}

#[derive(Deserialize, JsonSchema)]
struct SignalChannel {
    /// Name of the channel.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.:-]{1,128}$"))]
    channel: String,
    /// Name of the tmux socket.
    socket_name: Option<String>,
}

async fn signal_channel(cx: ToolContext, args: SignalChannel) -> Result<String, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    server.run(Command::new("wait-for").flag("-S").end().argument(&*args.channel)).await?;
    Ok(format!("Channel '{}' signalled", args.channel))
}

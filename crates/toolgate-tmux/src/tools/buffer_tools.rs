//! Tools for this server's paste buffers, and for pasting.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate::{Code, Executed, Failure};

use crate::{
    buffers::{self, TemporaryBuffer},
    call::ToolContext,
    engine::{Batch, Command, Server, TmuxError, text},
    result_size,
    target::PaneArgs,
    tool::{Model, Tool},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::mutating("load_buffer", "Load tmux Buffer", load_buffer)
            .about(
                "Use to keep a text for several pastes; buffer_name of the result is its handle.\n\
                 For one paste, paste_text is enough. The buffer is gone when this server ends.",
            )
            .open_world(),
        Tool::mutating("paste_buffer", "Paste tmux Buffer", paste_buffer)
            .about("Use to paste a buffer of load_buffer into a pane. The buffer stays.")
            .open_world(),
        Tool::readonly("show_buffer", "Show tmux Buffer", show_buffer).about(
            "Use to read a buffer of load_buffer back; the last max_lines lines. Other buffers are the user's \
             clipboard and cannot be read.",
        ),
        Tool::mutating("delete_buffer", "Delete tmux Buffer", delete_buffer)
            .about("Use when a buffer of load_buffer is no longer needed. Fails if it is not there.")
            .loses(),
        Tool::mutating("paste_text", "Paste Text into tmux Pane", paste_text)
            .about(
                "Use to put text of several lines or with special characters into a pane, exactly. Newlines arrive \
                 as Enter.\nPrograms that know bracketed paste take it as one piece.",
            )
            .open_world(),
    ]
}

/// Refuses names of other buffers before tmux is asked.
fn checked(name: &str) -> Result<(), Failure> {
    if buffers::is_ours(name) {
        return Ok(());
    }
    // The name comes from the client and may be long.
    let shown: String = name.chars().take(100).collect();
    let message = format!("Invalid buffer name: '{shown}'");
    Err(Failure::tool("InvalidBufferName", message)
        .suggest("Give the buffer_name that load_buffer answered with.")
        .with_executed(Executed::No))
}

/// The failure for a tmux error about a buffer, with libtmux-mcp's message.
fn about(what: &str, name: &str, error: TmuxError) -> Failure {
    match error {
        TmuxError::Refused(message) if message.contains("buffer") => {
            let message = message.replacen("no buffer", "unknown buffer:", 1);
            Failure::tool("BufferNotFound", format!("{what} failed for '{name}': {message}"))
                .suggest("Call load_buffer again: it was deleted, or tmux was started anew.")
        }
        error => error.into(),
    }
}

#[derive(Deserialize, JsonSchema)]
struct LoadBuffer {
    /// The text.
    #[schemars(length(min = 1))]
    content: String,
    /// A word for the end of its name.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.-]{0,64}$"))]
    logical_name: Option<String>,
    /// Name of the tmux socket.
    socket_name: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct BufferRef {
    buffer_name: String,
    logical_name: Option<String>,
}

async fn load_buffer(cx: ToolContext, args: LoadBuffer) -> Result<Model<BufferRef>, Failure> {
    let server = cx.server(args.socket_name.as_deref())?;
    let logical = args.logical_name.as_deref().filter(|name| !name.is_empty());
    let mut buffer = scratch(&cx, server, logical.unwrap_or("buf")).await?;
    buffers::fill(&buffer.server, &buffer.name, &args.content).await?;
    buffer.done = true;
    let buffer_name = std::mem::take(&mut buffer.name);
    Ok(Model(BufferRef { buffer_name, logical_name: args.logical_name }))
}

/// A name for a new buffer, after the buffers of ended processes were deleted.
async fn scratch(
    cx: &ToolContext,
    server: Arc<Server>,
    logical: &str,
) -> Result<TemporaryBuffer, Failure> {
    cx.buffers().tidy(&server).await?;
    let name = cx.buffers().name(&server, logical)?;
    Ok(TemporaryBuffer { server, name, done: false })
}

#[derive(Deserialize, JsonSchema)]
struct PasteBuffer {
    /// The buffer's whole name.
    buffer_name: String,
    #[serde(flatten)]
    pane: PaneArgs,
    /// Tell programs that it is a paste.
    #[serde(default = "yes")]
    bracket: bool,
}

fn yes() -> bool {
    true
}

/// The command that pastes a buffer.
fn paste(name: &str, pane: &str, bracket: bool) -> Command {
    Command::new("paste-buffer").flag_if(bracket, "-p").option("-b", name).target(pane)
}

async fn paste_buffer(cx: ToolContext, args: PasteBuffer) -> Result<String, Failure> {
    checked(&args.buffer_name)?;
    let (server, pane) = args.pane.find(&cx).await?;
    cx.guard().check_typing(&server, &pane).await?;
    let pasted = server.run(paste(&args.buffer_name, &pane, args.bracket)).await;
    pasted.map_err(|error| about("paste-buffer", &args.buffer_name, error))?;
    Ok(format!("Buffer '{}' pasted to pane {pane}", args.buffer_name))
}

#[derive(Deserialize, JsonSchema)]
struct ShowBuffer {
    /// The buffer's whole name.
    buffer_name: String,
    /// The most lines, the last ones; null for all.
    #[serde(default = "lines")]
    #[schemars(range(min = 1))]
    max_lines: Option<u32>,
    /// Name of the tmux socket.
    socket_name: Option<String>,
}

#[expect(clippy::unnecessary_wraps, reason = "the default of an argument that may be null")]
fn lines() -> Option<u32> {
    Some(500)
}

#[derive(Serialize, JsonSchema)]
struct BufferContent {
    buffer_name: String,
    content: String,
    content_truncated: bool,
    content_truncated_lines: usize,
}

async fn show_buffer(cx: ToolContext, args: ShowBuffer) -> Result<Model<BufferContent>, Failure> {
    checked(&args.buffer_name)?;
    let server = cx.server(args.socket_name.as_deref())?;
    // In a process: over the connection tmux escapes control characters.
    let show = Command::new("show-buffer").option("-b", &*args.buffer_name);
    let shown = server.exchange(show, &[]).await;
    let whole = text(shown.map_err(|error| about("show-buffer", &args.buffer_name, error))?);
    let whole = cx.shown(&whole);
    let most = args.max_lines.and_then(|most| usize::try_from(most).ok());
    let lines = whole.lines().map(str::to_owned).collect();
    let tail = result_size::tail(lines, most, None);
    let truncated = tail.left_lines > 0 || tail.left_bytes > 0;
    Ok(Model(BufferContent {
        buffer_name: args.buffer_name,
        content: if truncated { tail.lines.join("\n") } else { whole.into_owned() },
        content_truncated: truncated,
        content_truncated_lines: tail.left_lines,
    }))
}

#[derive(Deserialize, JsonSchema)]
struct DeleteBuffer {
    /// The buffer's whole name.
    buffer_name: String,
    /// Name of the tmux socket.
    socket_name: Option<String>,
}

async fn delete_buffer(cx: ToolContext, args: DeleteBuffer) -> Result<String, Failure> {
    checked(&args.buffer_name)?;
    let server = cx.server(args.socket_name.as_deref())?;
    let deleted = server.run(buffers::delete(&args.buffer_name)).await;
    deleted.map_err(|error| about("delete-buffer", &args.buffer_name, error))?;
    cx.buffers().forget(&server, &args.buffer_name);
    Ok(format!("Buffer '{}' deleted", args.buffer_name))
}

#[derive(Deserialize, JsonSchema)]
struct PasteText {
    /// The text.
    #[schemars(length(min = 1))]
    text: String,
    #[serde(flatten)]
    pane: PaneArgs,
    /// Tell programs that it is a paste.
    #[serde(default = "yes")]
    bracket: bool,
}

async fn paste_text(cx: ToolContext, args: PasteText) -> Result<String, Failure> {
    // The text would end the bracketed paste early; the rest would be typed.
    if args.bracket && args.text.contains("\x1b[201~") {
        let message = "the text has the sequence that ends a bracketed paste (ESC [201~)";
        return Err(Failure::new(Code::InvalidArguments, message)
            .suggest("Take it out, or set bracket=false if what follows it shall be typed.")
            .with_executed(Executed::No));
    }
    let (server, pane) = args.pane.find(&cx).await?;
    cx.guard().check_typing(&server, &pane).await?;
    let mut buffer = scratch(&cx, server, "paste").await?;
    let paste = paste(&buffer.name, &pane, args.bracket).flag("-d");
    // One list of commands if possible, so that no other client runs commands in between.
    if let Some(set) = buffers::set(&buffer.name, &args.text) {
        buffer.server.run(Batch::write([set, paste])).await?;
    } else {
        buffers::fill(&buffer.server, &buffer.name, &args.text).await?;
        buffer.server.run(paste).await?;
    }
    buffer.done = true;
    cx.buffers().forget(&buffer.server, &buffer.name);
    Ok(format!("Text pasted to pane {pane}"))
}

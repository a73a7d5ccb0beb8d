//! A server over stdio with three tools and a chain around them.

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex, atomic::AtomicU32, atomic::Ordering::Relaxed},
    time::Duration,
};

use rmcp::{
    ServerHandler, ServiceExt, handler::server::wrapper::Parameters, schemars::JsonSchema, tool,
    tool_handler, tool_router,
};
use serde::Deserialize;
use toolgate::{
    Call, Chain, Code, Context, Failure, Middleware, Next, Outcome, Ran, Tier,
    middleware::{
        audit::{Audit, AuditConfig, AuditSink, RedactConfig, Target},
        error_results::ErrorResults,
        safety::Safety,
    },
};
use toolgate_rmcp::Governed;

/// Notes by title, for as long as the server runs.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<BTreeMap<String, String>>>);

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
struct Note {
    title: String,
    text: String,
}

#[tool_router]
impl Notes {
    #[tool(description = "Shows all notes", annotations(read_only_hint = true))]
    fn read_notes(&self) -> String {
        let notes = self.0.lock().unwrap();
        notes
            .iter()
            .map(|(title, text)| format!("{title}: {text}\n"))
            .collect()
    }

    #[tool(
        description = "Adds a note, unless its title is taken",
        annotations(read_only_hint = false, destructive_hint = false)
    )]
    fn write_note(&self, Parameters(Note { title, text }): Parameters<Note>) -> String {
        let mut notes = self.0.lock().unwrap();
        notes.entry(title).or_insert(text).clone()
    }

    #[tool(
        description = "Deletes all notes",
        annotations(destructive_hint = true)
    )]
    fn delete_notes(&self) -> String {
        let mut notes = self.0.lock().unwrap();
        format!("{} deleted", std::mem::take(&mut *notes).len())
    }
}

#[tool_handler(name = "notes", version = "1.0.0")]
impl ServerHandler for Notes {}

/// A middleware of our own: a session has so many calls, and no more.
struct Budget(AtomicU32);

impl Middleware for Budget {
    fn name(&self) -> &'static str {
        "budget"
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        if self
            .0
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
            .is_ok()
        {
            return next.call(cx, call).await;
        }
        Failure::new(Code::ToolFailed, "this session has used up its calls")
            .ran(Ran::No)
            .into()
    }
}

/// The server with its chain, outermost layer first, and the sink that its audit writes to.
fn governed(audit: Target) -> Result<(Governed<Notes>, AuditSink), Box<dyn Error>> {
    let config = AuditConfig {
        file: audit,
        ..AuditConfig::default()
    };
    let sink = AuditSink::open(&config, &RedactConfig::default())?.ok_or("the audit is off")?;
    let chain = Chain::builder()
        .layer(ErrorResults)
        .layer(Audit::new(sink.clone()))
        .layer(Safety::new(Tier::Mutating))
        .layer(Budget(AtomicU32::new(100)))
        .build()?;
    Ok((
        Governed::new(Notes::default(), chain).server_name("notes"),
        sink,
    ))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, audit) = governed(Target::Stderr)?;
    server
        .serve(rmcp::transport::stdio())
        .await?
        .waiting()
        .await?;
    audit.close(Duration::from_secs(1));
    Ok(())
}

//! A server over stdio with three tools and a chain around them.

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64, atomic::Ordering::Relaxed},
    time::Duration,
};

use rmcp::{
    ServerHandler, ServiceExt, handler::server::wrapper::Parameters, schemars::JsonSchema, tool,
    tool_handler, tool_router,
};
use serde::Deserialize;
use toolgate::{
    Call, Chain, Context, Failure, Middleware, Next, Outcome, Tier,
    middleware::{
        audit::{Audit, AuditConfig, AuditSink, RedactConfig, Target},
        error_results::ErrorResults,
        safety::Safety,
    },
};
use toolgate_rmcp::Governed;

/// Notes by title, for as long as the server runs.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<BTreeMap<String, String>>>);

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(deny_unknown_fields)]
struct Note {
    title: String,
    text: String,
}

impl Notes {
    fn notes(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[tool_router]
impl Notes {
    #[tool(description = "Shows all notes", annotations(read_only_hint = true))]
    fn read_notes(&self) -> String {
        let notes = self.notes();
        let lines = notes.iter().map(|(title, text)| format!("{title}: {text}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[tool(
        description = "Adds a note, unless its title is taken",
        annotations(read_only_hint = false, destructive_hint = false)
    )]
    fn write_note(&self, Parameters(Note { title, text }): Parameters<Note>) -> String {
        let mut notes = self.notes();
        notes.entry(title).or_insert(text).clone()
    }

    #[tool(description = "Deletes all notes", annotations(destructive_hint = true))]
    fn delete_notes(&self) -> String {
        let mut notes = self.notes();
        format!("{} deleted", std::mem::take(&mut *notes).len())
    }
}

#[tool_handler(name = "notes", version = "1.0.0")]
impl ServerHandler for Notes {}

/// How many calls the server answers.
const CALLS: u64 = 100;

/// A middleware of our own: it counts the calls, and refuses those beyond the last.
#[derive(Default)]
struct Budget(AtomicU64);

impl Middleware for Budget {
    fn name(&self) -> &'static str {
        "budget"
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        if self.0.fetch_add(1, Relaxed) < CALLS {
            return next.call(cx, call).await;
        }
        Failure::refused("this server has used up its calls").into()
    }
}

/// The server with its chain, outermost layer first, and the sink that its audit writes to.
pub(crate) fn governed(audit: Target) -> Result<(Governed<Notes>, AuditSink), Box<dyn Error>> {
    let config = AuditConfig { file: audit, ..AuditConfig::default() };
    let sink = AuditSink::open(&config, &RedactConfig::default())?.ok_or("the audit is off")?;
    let chain = Chain::builder()
        .layer(ErrorResults)
        .layer(Audit::new(sink.clone()))
        .layer(Safety::new(Tier::Mutating))
        .layer(Budget::default())
        .build()?;
    Ok((Governed::new(Notes::default(), chain).server_name("notes"), sink))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (server, audit) = governed(Target::Stderr)?;
    server.serve(rmcp::transport::stdio()).await?.waiting().await?;
    audit.close(Duration::from_secs(1));
    Ok(())
}

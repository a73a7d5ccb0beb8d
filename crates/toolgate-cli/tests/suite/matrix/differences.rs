//! What a transport legitimately shows otherwise. An entry whose difference does not occur fails its test.

use Via::{
    Bridge, BridgeModern, Legacy, Modern, Sse, StdioModern, Tmux, TmuxModern, Wrap, WrapModern,
};

use crate::harness::matrix::Via;

/// What the client sees instead.
pub enum Seen {
    /// This, as JSON.
    Json(&'static str),
    /// Nothing: the transport cannot have the scenario, so that it does not run there.
    Absent,
}

pub struct Difference {
    pub scenario: &'static str,
    pub ways: &'static [Via],
    pub seen: Seen,
    /// Why this is right.
    pub reason: &'static str,
}

const fn differs(
    scenario: &'static str,
    ways: &'static [Via],
    seen: &'static str,
    reason: &'static str,
) -> Difference {
    Difference { scenario, ways, seen: Seen::Json(seen), reason }
}

const fn absent(scenario: &'static str, ways: &'static [Via], reason: &'static str) -> Difference {
    Difference { scenario, ways, seen: Seen::Absent, reason }
}

/// Clients without batches.
const MODERN_AND_SSE: &[Via] = &[WrapModern, StdioModern, BridgeModern, Modern, Sse, TmuxModern];
const NO_BATCHES: &str = "only sessions of 2025-03-26 have batches";
const RMCP_READS_NONE: &str =
    "rmcp, which speaks for the terminal, has no batches: the refusal says so";
const NO_BATCH: &str = r#"{"error": -32600, "data": "INVALID_REQUEST"}"#;
const SERVER_DECIDES: &str = "wrap is transparent: the server decides, and this one takes anything";
const NO_TRANSLATION: &str = "wrap does not translate between protocol versions";
const NO_ELICITATION: &str = "2024-11-05 has no elicitation";
const EXIT_CODE: &str = "a program in a pipeline ends with 128 + the signal, a service with 0";

/// Every legitimate difference.
pub const DIFFERENCES: &[Difference] = &[
    differs("a batch", MODERN_AND_SSE, NO_BATCH, NO_BATCHES),
    differs("a batch with a number in it", MODERN_AND_SSE, NO_BATCH, NO_BATCHES),
    differs(
        "a batch of notifications only",
        MODERN_AND_SSE,
        r#"[{"error": -32600, "data": "INVALID_REQUEST"}]"#,
        NO_BATCHES,
    ),
    differs("a batch", &[Tmux], NO_BATCH, RMCP_READS_NONE),
    differs("a batch with a number in it", &[Tmux], NO_BATCH, RMCP_READS_NONE),
    differs(
        "a batch of notifications only",
        &[Tmux],
        r#"[{"error": -32600, "data": "INVALID_REQUEST"}]"#,
        RMCP_READS_NONE,
    ),
    differs(
        "ping",
        &[StdioModern, BridgeModern, Modern],
        r#"{"error": -32601, "data": null}"#,
        "2026-07-28 has no ping; wrap passes what its server supports",
    ),
    differs("an unknown tool", &[Wrap, WrapModern], r#""nope ran with {}""#, SERVER_DECIDES),
    differs("a made-up cursor", &[Wrap, WrapModern], "null", SERVER_DECIDES),
    differs("a level that does not exist", &[Wrap, WrapModern], "null", SERVER_DECIDES),
    differs(
        "a level that does not exist",
        &[StdioModern, BridgeModern, Modern],
        "-32601",
        "2026-07-28 has no logging/setLevel: the level is in _meta of each request",
    ),
    differs(
        "a call with an id that is in use does not run",
        &[Legacy],
        r#"[{"error": -32600, "data": "INVALID_REQUEST"}, 1]"#,
        "the response to this POST cannot be taken for that of the other one",
    ),
    absent(
        "a call with an id that is in use does not run",
        &[Modern],
        "each POST of 2026-07-28 stands on its own",
    ),
    differs(
        "the size of a page is the namespace's",
        &[Wrap, WrapModern],
        "[3, false]",
        "wrap passes the server's own pages",
    ),
    differs(
        "the size of a page is the namespace's",
        &[Tmux, TmuxModern],
        "[2, false]",
        "the chain hides tools of each page: it has at most so many",
    ),
    differs(
        "a server that ends in the middle of a call",
        &[Wrap, WrapModern],
        r#"{"code": "SERVER_CRASHED", "may have run": true, "runs again": false}"#,
        "wrap without --restart ends with its server",
    ),
    differs(
        "a response to nothing goes nowhere",
        &[Wrap, WrapModern],
        "[true, true]",
        "wrap is transparent: the server knows what it asked",
    ),
    differs(
        "a result has the members that the server gave it",
        &[WrapModern, StdioModern, BridgeModern, Modern],
        r#"["content", "resultType"]"#,
        "2026-07-28 has resultType in every result",
    ),
    absent("two calls in flight ask the user", &[WrapModern], NO_TRANSLATION),
    absent("two calls in flight ask the user", &[Sse], NO_ELICITATION),
    absent(
        "two calls in flight ask the user",
        &[StdioModern, BridgeModern, Modern],
        "2026-07-28 asks in the response to the call, which is never ambiguous",
    ),
    absent("a legacy server asks the user", &[Sse], NO_ELICITATION),
    absent("a legacy server asks the user", &[WrapModern], NO_TRANSLATION),
    differs(
        "a server asks the user",
        &[Sse],
        r#"{"error": -32021, "data": "CLIENT_INCAPABLE"}"#,
        NO_ELICITATION,
    ),
    differs("a confirmed call runs", &[Sse], "true", NO_ELICITATION),
    differs(
        "a declined call does not run",
        &[Sse],
        r#"{"refused": "CONFIRM_REQUIRED"}"#,
        NO_ELICITATION,
    ),
    absent("a server samples from the client's model", &[WrapModern], NO_TRANSLATION),
    absent("a server asks for the client's roots", &[WrapModern], NO_TRANSLATION),
    absent("a vendor's request to the client", &[WrapModern], NO_TRANSLATION),
    differs(
        "SIGTERM ends toolgate and all that it started",
        &[Wrap, WrapModern],
        "[143]",
        EXIT_CODE,
    ),
    differs(
        "SIGTERM ends toolgate and all that it started",
        &[Bridge, BridgeModern],
        "[0, 143]",
        EXIT_CODE,
    ),
    differs("SIGTERM ends toolgate during a call", &[Wrap, WrapModern], "[143]", EXIT_CODE),
    differs("SIGTERM ends toolgate during a call", &[Bridge, BridgeModern], "[0, 143]", EXIT_CODE),
    absent(
        "the end of the client's input ends toolgate and all that it started",
        &[Legacy, Modern, Sse],
        "a service outlives its clients",
    ),
];

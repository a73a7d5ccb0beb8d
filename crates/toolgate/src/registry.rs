//! Every error code of toolgate, in one table: what it means, whether to retry, how it is told.

use std::fmt;

use toolgate_wire::mcp::code;

/// How a call ended. What the client reads, what is counted and what is recorded derive from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The tool ran and answered.
    Ok,
    /// The tool ran and said that it failed.
    ToolError,
    /// A layer, or the server itself, refused the call before it ran.
    Denied,
    /// Nothing ran: the caller was shown what would.
    Preview,
    /// The tool asks for more input before it goes on.
    InputRequired,
    /// The client gave the call up.
    Cancelled,
    /// The call took longer than it may.
    TimedOut,
    /// The server could not be reached, died or answered nonsense.
    UpstreamFailed,
    /// A fault of toolgate's own.
    Internal,
}

impl Class {
    /// The name in records and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::Denied => "denied",
            Self::Preview => "preview",
            Self::InputRequired => "input_required",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::UpstreamFailed => "upstream_failed",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether the same call may simply be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetrySafety {
    /// Nothing ran, and the cause passes by itself.
    Safe,
    /// It may have run: only a readonly call may be sent again.
    OnlyReadonly,
    /// Sending the same again gives the same answer.
    Useless,
}

/// How a failure reaches the client of a `tools/call`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A result with `isError`, so that the model reads it (where errors-to-results is in the chain).
    Result,
    /// Always a JSON-RPC error: there is no call that a result could answer.
    Error,
    /// Not at all: the protocol forbids an answer to a cancelled call.
    Silence,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name that the client reads in `_meta.code` or `error.data.code`.
    pub name: &'static str,
    /// The class of the outcome.
    pub class: Class,
    /// Whether to send the same call again.
    pub retry: RetrySafety,
    /// How it reaches the client.
    pub delivery: Delivery,
    /// The code of the JSON-RPC error, where it is one.
    pub rpc: i64,
    /// Whether the caller can put it right (logged as a warning, not as an error).
    pub expected: bool,
    /// What to do next, where the failure does not say it better.
    pub hint: &'static str,
}

macro_rules! registry {
    ($($(#[$doc:meta])* $code:ident = $name:literal, $class:ident, $retry:ident, $delivery:ident($rpc:expr), $expected:ident, $hint:literal;)*) => {
        /// An error code. The table is in the source of this module, one row per code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $code,)* }

        impl Code {
            /// Every code there is.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// The code's row.
            #[must_use]
            pub const fn entry(self) -> Entry {
                match self {
                    $(Self::$code => Entry {
                        name: $name,
                        class: Class::$class,
                        retry: RetrySafety::$retry,
                        delivery: Delivery::$delivery,
                        rpc: $rpc,
                        expected: registry!(@expected $expected),
                        hint: $hint,
                    },)*
                }
            }
        }
    };
    (@expected expected) => { true };
    (@expected unexpected) => { false };
}

// JSON-RPC codes of our own are HTTP's numbers: the range from -32768 to -32000 is the protocol's.
registry! {
    /// The client sent something that is not JSON.
    ParseError = "PARSE_ERROR", Denied, Useless, Error(code::PARSE_ERROR), expected,
        "send one JSON-RPC message per line, as UTF-8 JSON";
    /// The client sent JSON that is not one JSON-RPC message, or not an unambiguous one.
    InvalidRequest = "INVALID_REQUEST", Denied, Useless, Error(code::INVALID_REQUEST), expected,
        "send each envelope key once, spelt exactly, with the type that JSON-RPC 2.0 gives it";
    /// The client's message is larger or deeper than allowed.
    MessageTooLarge = "MESSAGE_TOO_LARGE", Denied, Useless, Error(code::INVALID_REQUEST), expected,
        "send less at once, or raise `limits.message_bytes`";
    /// There is no tool of this name.
    UnknownTool = "UNKNOWN_TOOL", Denied, Useless, Result(code::INVALID_PARAMS), expected,
        "call tools/list for the names of the tools";
    /// The arguments do not fit the tool's schema.
    InvalidArguments = "INVALID_ARGUMENTS", Denied, Useless, Result(code::INVALID_PARAMS), expected,
        "correct the arguments to fit the tool's inputSchema";
    /// The tool's tier is above the tier that is allowed.
    TierDenied = "TIER_DENIED", Denied, Useless, Result(403), expected,
        "ask the operator to raise the safety tier";
    /// A tier is set and nobody says which one the tool has.
    TierUnknown = "TIER_UNKNOWN", Denied, Useless, Result(403), expected,
        "ask the operator to give the tool a tier";
    /// The caller's scopes do not reach the tool.
    ScopeRejected = "SCOPE_REJECTED", Denied, Useless, Result(403), expected,
        "ask the operator to grant the scopes that the tool requires";
    /// A layer of your own refuses the call.
    Refused = "REFUSED", Denied, Useless, Result(403), expected,
        "read why, and call something else";
    /// A policy refuses the tool, or nobody knows the policy.
    PolicyDenied = "POLICY_DENIED", Denied, Useless, Result(403), expected,
        "ask the operator which policy allows the tool";
    /// The tool is switched off in this namespace.
    ToolInactive = "TOOL_INACTIVE", Denied, Useless, Result(403), expected,
        "call tools/list for the tools that are active";
    /// The tool is not among those that the request allows itself.
    ToolNotAllowed = "TOOL_NOT_ALLOWED", Denied, Useless, Result(403), expected,
        "call one of the tools in `_meta.allowedTools`";
    /// What the request says in `_meta` to narrow itself is more than is read.
    ControlTooLarge = "CONTROL_TOO_LARGE", Denied, Useless, Result(code::INVALID_PARAMS), expected,
        "send less in `_meta`";
    /// The server asks the client for something that the client cannot do.
    ClientIncapable = "CLIENT_INCAPABLE", Denied, Useless, Error(code::MISSING_CLIENT_CAPABILITY), expected,
        "use a client that has the capability, or another tool";
    /// The tool is new, and nobody has looked at it yet.
    ToolQuarantined = "TOOL_QUARANTINED", Denied, Useless, Result(403), expected,
        "ask the operator to look at the new tool and set its status to active";
    /// The tool is switched off for a while.
    ToolDisabled = "TOOL_DISABLED", Denied, Useless, Result(503), expected,
        "use another tool, or call again later";
    /// More calls than allowed in this time.
    RateLimited = "RATE_LIMITED", Denied, Safe, Result(429), expected,
        "wait as long as `retry_after` says, then call again";
    /// The calls of this day are used up.
    QuotaExceeded = "QUOTA_EXCEEDED", Denied, Useless, Result(429), expected,
        "wait for the next day, or ask the operator for more";
    /// The server keeps failing, and is left alone for a while.
    CircuitOpen = "CIRCUIT_OPEN", Denied, Safe, Result(503), unexpected,
        "wait as long as `retry_after` says, then call again";
    /// A precondition says: not now.
    Deferred = "DEFERRED", Denied, Safe, Result(429), expected,
        "wait as long as `retry_after` says, then call again";
    /// Nothing ran: a dry run shows what would.
    DryRunPreview = "DRY_RUN_PREVIEW", Preview, Useless, Result(403), expected,
        "read which key is missing, and who holds it";
    /// Nothing ran: the call has to be confirmed first.
    ConfirmRequired = "CONFIRM_REQUIRED", Preview, Useless, Result(403), expected,
        "have a person confirm it, then repeat the same call";
    /// The user said no.
    ConfirmDeclined = "CONFIRM_DECLINED", Denied, Useless, Result(403), expected,
        "do not repeat the call: the user does not want it";
    /// The user closed the question without an answer.
    ConfirmCancelled = "CONFIRM_CANCELLED", Denied, Useless, Result(403), expected,
        "call again if the user wants to be asked again";
    /// The confirmation came too late.
    ConfirmExpired = "CONFIRM_EXPIRED", Denied, Useless, Result(403), expected,
        "call again without it for a new one";
    /// The confirmation was used before.
    ConfirmReplayed = "CONFIRM_REPLAYED", Denied, Useless, Result(403), expected,
        "call again without it for a new one: each works once";
    /// The confirmation is none of ours, or was changed.
    ConfirmTampered = "CONFIRM_TAMPERED", Denied, Useless, Result(403), expected,
        "repeat the token exactly as it was given, or call again without it for a new one";
    /// The confirmation is for another call.
    ConfirmMismatch = "CONFIRM_MISMATCH", Denied, Useless, Result(403), expected,
        "repeat the call with exactly the arguments that were shown, or call again without the token";
    /// The call cannot be recorded, and must be.
    AuditUnavailable = "AUDIT_UNAVAILABLE", Denied, Safe, Result(503), unexpected,
        "call again later, or ask the operator to look at the audit file";
    /// The tool raised an error.
    ToolFailed = "TOOL_FAILED", ToolError, Useless, Result(code::INTERNAL_ERROR), expected,
        "read the message and correct the call";
    /// The tool's result does not fit the output schema that it published.
    OutputInvalid = "OUTPUT_INVALID", ToolError, Useless, Result(code::INTERNAL_ERROR), unexpected,
        "report it to the server's authors";
    /// The client gave the call up.
    Cancelled = "CANCELLED", Cancelled, OnlyReadonly, Silence(code::INTERNAL_ERROR), expected,
        "call again if the answer is still wanted";
    /// The call took longer than allowed.
    TimedOut = "TIMED_OUT", TimedOut, OnlyReadonly, Result(408), unexpected,
        "ask for less at once, or raise `limits.timeout`";
    /// The server answered the call with a JSON-RPC error.
    ServerRejected = "SERVER_REJECTED", UpstreamFailed, Useless, Result(code::INTERNAL_ERROR), unexpected,
        "read the server's message";
    /// The server ended while the call was under way.
    ServerCrashed = "SERVER_CRASHED", UpstreamFailed, OnlyReadonly, Result(502), unexpected,
        "check what the call did before you repeat it";
    /// The server is not running.
    ServerUnavailable = "SERVER_UNAVAILABLE", UpstreamFailed, Safe, Result(503), unexpected,
        "try again in a moment";
    /// The server did not answer `initialize` in time.
    ServerStartTimeout = "SERVER_START_TIMEOUT", UpstreamFailed, Safe, Error(504), unexpected,
        "start the server by hand to see why it hangs, or raise `--start-timeout`";
    /// The server's answer could not be read.
    ServerProtocol = "SERVER_PROTOCOL", UpstreamFailed, OnlyReadonly, Result(502), unexpected,
        "report it to the server's authors";
    /// More calls are in flight than allowed.
    Overloaded = "OVERLOADED", UpstreamFailed, Safe, Result(429), expected,
        "wait for calls in flight to end, then call again";
    /// The result is over the limit and cannot be shortened without breaking it.
    ResponseTooLarge = "RESPONSE_TOO_LARGE", ToolError, Useless, Result(413), expected,
        "ask for less at once, or raise `limits.response_bytes`";
    /// A fault of toolgate's own.
    Internal = "INTERNAL", Internal, OnlyReadonly, Result(code::INTERNAL_ERROR), unexpected,
        "look at toolgate's log on stderr";
}

impl Code {
    /// The name that the client reads.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The code of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

#[cfg(test)]
mod tests;

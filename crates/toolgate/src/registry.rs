//! All error codes of toolgate in one table: meaning, retry safety and delivery.

use std::fmt;

use toolgate_wire::mcp::code;

/// The class of an outcome. The response to the client, metrics and records derive from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The tool ran and answered.
    Ok,
    /// The tool ran and reported an error.
    ToolError,
    /// A layer, or the server itself, refused the call before it ran.
    Denied,
    /// The tool did not run: the caller received a preview.
    Preview,
    /// The tool asks for more input before it goes on.
    InputRequired,
    /// The client cancelled the call.
    Cancelled,
    /// The call exceeded its time limit.
    TimedOut,
    /// The server could not be reached, ended, or sent an invalid response.
    UpstreamFailed,
    /// A bug in toolgate.
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

/// Whether the same call may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetrySafety {
    /// The tool did not run, and the cause is transient.
    Safe,
    /// The tool may have run: only a readonly call may be sent again.
    OnlyReadonly,
    /// The same call gets the same response.
    Useless,
}

/// How a failure reaches the client of a `tools/call`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// As a result with `isError`, so that the model reads it (if the layer `error-results` is in the chain).
    Result,
    /// Always as a JSON-RPC error.
    Error,
    /// Not at all: the protocol forbids a response to a cancelled call.
    Silence,
}

/// One row of the table.
///
/// ```
/// use toolgate::{Class, Code, RetrySafety};
///
/// let entry = Code::RateLimited.entry();
/// assert_eq!((entry.name, entry.class, entry.retry), ("RATE_LIMITED", Class::Denied, RetrySafety::Safe));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name in `_meta.code` or `error.data.code`.
    pub name: &'static str,
    /// What happened, in one sentence: the documentation of the code.
    pub meaning: &'static str,
    /// The class of the outcome.
    pub class: Class,
    /// Whether the same call may be sent again.
    pub retry: RetrySafety,
    /// How the failure reaches the client.
    pub delivery: Delivery,
    /// The code of the JSON-RPC error.
    pub rpc: i64,
    /// Whether the caller can correct the call. Such failures are logged as warnings, others as errors.
    pub expected: bool,
    /// The next step, if the failure has no suggestion of its own.
    pub hint: &'static str,
}

macro_rules! registry {
    ($(#[doc = $meaning:literal] $code:ident = $name:literal, $class:ident, $retry:ident, $delivery:ident($rpc:expr), $expected:ident, $hint:literal;)*) => {
        /// An error code. The table is in the source of this module, one row per code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $(#[doc = $meaning] $code,)* }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// The code's row.
            #[must_use]
            pub const fn entry(self) -> Entry {
                match self {
                    $(Self::$code => Entry {
                        name: $name,
                        meaning: $meaning.trim_ascii(),
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

// toolgate's own JSON-RPC codes are HTTP status codes: JSON-RPC reserves the range from -32768 to -32000.
registry! {
    /// The client sent something that is not JSON.
    ParseError = "PARSE_ERROR", Denied, Useless, Error(code::PARSE_ERROR), expected,
        "send one JSON-RPC message per line, as UTF-8 JSON";
    /// The client sent an invalid or ambiguous JSON-RPC message.
    InvalidRequest = "INVALID_REQUEST", Denied, Useless, Error(code::INVALID_REQUEST), expected,
        "send each envelope key once, spelt exactly, with the type that JSON-RPC 2.0 gives it";
    /// The client's message exceeds the size or depth limit.
    MessageTooLarge = "MESSAGE_TOO_LARGE", Denied, Useless, Error(code::INVALID_REQUEST), expected,
        "send less at once; only the operator can raise `limits.message_bytes`";
    /// There is no tool of this name.
    UnknownTool = "UNKNOWN_TOOL", Denied, Useless, Result(code::INVALID_PARAMS), expected,
        "call tools/list for the names of the tools";
    /// The arguments do not fit the tool's schema.
    InvalidArguments = "INVALID_ARGUMENTS", Denied, Useless, Result(code::INVALID_PARAMS), expected,
        "correct the arguments to fit the tool's inputSchema";
    /// The tool's tier is above the allowed tier.
    TierDenied = "TIER_DENIED", Denied, Useless, Result(403), expected,
        "ask the operator to raise the safety tier";
    /// The tool has no tier, and the allowed tier is limited.
    TierUnknown = "TIER_UNKNOWN", Denied, Useless, Result(403), expected,
        "ask the operator to give the tool a tier";
    /// The caller's scopes do not cover the tool.
    ScopeRejected = "SCOPE_REJECTED", Denied, Useless, Result(403), expected,
        "ask the operator to grant the scopes that the tool requires";
    /// A rule without a code of its own refuses the call.
    Refused = "REFUSED", Denied, Useless, Result(403), expected,
        "read why, and call something else";
    /// A policy denies the tool, or the policy does not exist.
    PolicyDenied = "POLICY_DENIED", Denied, Useless, Result(403), expected,
        "ask the operator which policy allows the tool";
    /// The tool is inactive in this namespace.
    ToolInactive = "TOOL_INACTIVE", Denied, Useless, Result(403), expected,
        "call tools/list for the tools that are active";
    /// The tool is not in the request's `_meta.allowedTools`.
    ToolNotAllowed = "TOOL_NOT_ALLOWED", Denied, Useless, Result(403), expected,
        "call one of the tools in `_meta.allowedTools`";
    /// The control data in the request's `_meta` exceeds a limit.
    ControlTooLarge = "CONTROL_TOO_LARGE", Denied, Useless, Result(code::INVALID_PARAMS), expected,
        "send less in `_meta`";
    /// The server needs a capability that the client lacks.
    ClientIncapable = "CLIENT_INCAPABLE", Denied, Useless, Error(code::MISSING_CLIENT_CAPABILITY), expected,
        "use a client that has the capability, or another tool";
    /// The tool is new, and the operator has not approved it yet.
    ToolQuarantined = "TOOL_QUARANTINED", Denied, Useless, Result(403), expected,
        "ask the operator to look at the new tool and set its status to active";
    /// The tool is temporarily disabled.
    ToolDisabled = "TOOL_DISABLED", Denied, Useless, Result(503), expected,
        "use another tool, or call again later";
    /// The caller exceeded a rate limit.
    RateLimited = "RATE_LIMITED", Denied, Safe, Result(429), expected,
        "wait as long as `retry_after` says, then call again";
    /// The caller exceeded the quota of this day.
    QuotaExceeded = "QUOTA_EXCEEDED", Denied, Useless, Result(429), expected,
        "wait for the next day, or ask the operator for more";
    /// The server keeps failing, so it is not called for a while.
    CircuitOpen = "CIRCUIT_OPEN", Denied, Safe, Result(503), unexpected,
        "wait as long as `retry_after` says, then call again";
    /// A precondition defers the call.
    Deferred = "DEFERRED", Denied, Safe, Result(429), expected,
        "wait as long as `retry_after` says, then call again";
    /// The tool did not run: this is a dry run's preview.
    DryRunPreview = "DRY_RUN_PREVIEW", Preview, Useless, Result(403), expected,
        "read which key is missing, and who holds it";
    /// The tool did not run: the call has to be confirmed first.
    ConfirmRequired = "CONFIRM_REQUIRED", Preview, Useless, Result(403), expected,
        "have a person confirm it, then repeat the same call";
    /// A person declined the call.
    ConfirmDeclined = "CONFIRM_DECLINED", Denied, Useless, Result(403), expected,
        "do not repeat the call: the user does not want it";
    /// The user dismissed the question.
    ConfirmCancelled = "CONFIRM_CANCELLED", Denied, Useless, Result(403), expected,
        "call again if the user wants to be asked again";
    /// The confirmation has expired.
    ConfirmExpired = "CONFIRM_EXPIRED", Denied, Useless, Result(403), expected,
        "call again without it for a new one";
    /// The confirmation was used before.
    ConfirmReplayed = "CONFIRM_REPLAYED", Denied, Useless, Result(403), expected,
        "call again without it for a new one: each works once";
    /// The confirmation is not one of toolgate, or was changed.
    ConfirmTampered = "CONFIRM_TAMPERED", Denied, Useless, Result(403), expected,
        "repeat the token exactly as it was given, or call again without it for a new one";
    /// The confirmation is for another call.
    ConfirmMismatch = "CONFIRM_MISMATCH", Denied, Useless, Result(403), expected,
        "repeat the call with exactly the arguments that were shown, or call again without the token";
    /// The audit record, which is required, cannot be written.
    AuditUnavailable = "AUDIT_UNAVAILABLE", Denied, Safe, Result(503), unexpected,
        "call again later, or ask the operator to look at the audit file";
    /// The tool raised an error.
    ToolFailed = "TOOL_FAILED", ToolError, Useless, Result(code::INTERNAL_ERROR), expected,
        "read the message and correct the call";
    /// The tool's result does not fit its own output schema.
    OutputInvalid = "OUTPUT_INVALID", ToolError, Useless, Result(code::INTERNAL_ERROR), unexpected,
        "report it to the server's authors";
    /// The client cancelled the call.
    Cancelled = "CANCELLED", Cancelled, OnlyReadonly, Silence(code::INTERNAL_ERROR), expected,
        "call again if the answer is still wanted";
    /// The call exceeded its time limit.
    TimedOut = "TIMED_OUT", TimedOut, OnlyReadonly, Result(408), unexpected,
        "ask for less at once; only the operator can raise `limits.timeout`";
    /// The server answered the call with a JSON-RPC error.
    ServerRejected = "SERVER_REJECTED", UpstreamFailed, Useless, Result(code::INTERNAL_ERROR), unexpected,
        "read the server's message";
    /// The server ended during the call.
    ServerCrashed = "SERVER_CRASHED", UpstreamFailed, OnlyReadonly, Result(502), unexpected,
        "check what the call did before you repeat it";
    /// The server is not running, or cannot be reached.
    ServerUnavailable = "SERVER_UNAVAILABLE", UpstreamFailed, Safe, Result(503), unexpected,
        "try again in a moment";
    /// The server did not answer `initialize` in time.
    ServerStartTimeout = "SERVER_START_TIMEOUT", UpstreamFailed, Safe, Error(504), unexpected,
        "tell the user; the operator finds out by hand why the server hangs at its start";
    /// The server's response is invalid.
    ServerProtocol = "SERVER_PROTOCOL", UpstreamFailed, OnlyReadonly, Result(502), unexpected,
        "report it to the server's authors";
    /// A limit of requests, sessions or subscriptions is reached.
    Overloaded = "OVERLOADED", UpstreamFailed, Safe, Result(429), expected,
        "wait for calls in flight to end, then call again";
    /// The result is over the limit and cannot be shortened.
    ResponseTooLarge = "RESPONSE_TOO_LARGE", ToolError, Useless, Result(413), expected,
        "ask for less at once; only the operator can raise `limits.response_bytes`";
    /// A bug in toolgate.
    Internal = "INTERNAL", Internal, OnlyReadonly, Result(code::INTERNAL_ERROR), unexpected,
        "look at toolgate's log on stderr";
}

impl Code {
    /// The name that the client receives.
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

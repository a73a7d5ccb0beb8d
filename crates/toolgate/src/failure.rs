//! Failures of calls: the one error type inside the chain.

use std::{borrow::Cow, fmt, time::Duration};

use toolgate_wire::{Json, mcp::code};

use crate::{
    readable::{self, Area},
    registry::{Code, RetrySafety},
};

/// Whether the tool ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executed {
    /// The tool ran.
    Yes,
    /// The tool did not run.
    No,
    /// Unknown: the request may have reached the tool.
    Maybe,
}

impl Executed {
    /// The name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Maybe => "maybe",
        }
    }
}

/// The failure of a call, from which the response to the client, the log level and the record derive.
#[derive(Clone, Debug)]
pub struct Failure(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    code: Code,
    own_code: Option<&'static str>,
    own_rpc: Option<i64>,
    error_type: Cow<'static, str>,
    message: String,
    suggestion: Option<String>,
    expected: bool,
    by: Option<&'static str>,
    rule: Option<String>,
    executed: Executed,
    retry: RetrySafety,
    retry_after: Option<Duration>,
    rpc: Option<RpcError>,
    facts: Vec<(&'static str, serde_json::Value)>,
}

/// A JSON-RPC error object.
#[derive(Clone, Debug)]
pub struct RpcError {
    /// `error.code`
    pub code: i64,
    /// `error.message`
    pub message: String,
    /// `error.data`
    pub data: Option<Json>,
}

impl RpcError {
    /// Whether the error is one of the protocol's own (`-32042`: open this page first; `-32021`: declare this
    /// capability). The client acts on the data of such an error; a result would hide the data from the client.
    pub(crate) fn is_for_the_client(&self) -> bool {
        code::MCP.contains(&self.code)
    }

    /// The error with the readable texts replaced for which `replacement` returns another one; `None` if there are none.
    pub(crate) fn replace_texts(
        &self,
        replacement: &mut dyn FnMut(&str) -> Option<String>,
    ) -> Option<Self> {
        let message = replacement(&self.message);
        let data = self.data.as_ref().filter(|_| !self.is_for_the_client());
        let data = data.and_then(|data| readable::replace(data, Area::Data, replacement));
        if message.is_none() && data.is_none() {
            return None;
        }
        Some(Self {
            code: self.code,
            message: message.unwrap_or_else(|| self.message.clone()),
            data: data.or_else(|| self.data.clone()),
        })
    }

    /// The error object as JSON.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut error = toolgate_wire::Object::new();
        error.set("code", Json::value(&self.code.into()));
        error.set("message", Json::string(&self.message));
        if let Some(data) = &self.data {
            error.set("data", data.clone());
        }
        error.finish()
    }
}

impl Failure {
    /// A failure with this code. The client receives the message unchanged.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let entry = code.entry();
        let executed = match entry.class {
            crate::registry::Class::Denied | crate::registry::Class::Preview => Executed::No,
            crate::registry::Class::ToolError => Executed::Yes,
            _ if entry.retry == RetrySafety::Safe => Executed::No,
            _ => Executed::Maybe,
        };
        Self(Box::new(Inner {
            code,
            own_code: None,
            own_rpc: None,
            error_type: Cow::Borrowed(type_name(code)),
            message: message.into(),
            suggestion: None,
            expected: entry.expected,
            by: None,
            rule: None,
            executed,
            retry: entry.retry,
            retry_after: None,
            rpc: None,
            facts: Vec::new(),
        }))
    }

    /// An error that a tool raised, with the name of its type, such as `PaneNotFound`. It is expected: the caller can
    /// correct the call.
    pub fn tool(error_type: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let mut failure = Self::new(Code::ToolFailed, message);
        failure.0.error_type = error_type.into();
        failure
    }

    /// A refusal of a layer of your own: the tool did not run.
    ///
    /// ```
    /// use toolgate::{Code, Executed, Failure};
    ///
    /// let failure = Failure::refused("the quota is used up").suggest("Call again tomorrow.");
    /// assert_eq!((failure.code(), failure.executed()), (Code::Refused, Executed::No));
    /// ```
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Code::Refused, message)
    }

    /// A bug in toolgate or in a custom middleware.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// The server answered with a JSON-RPC error.
    #[must_use]
    pub fn rejected(rpc: RpcError) -> Self {
        let (code, error_type) = match rpc.code {
            code::INVALID_PARAMS => (Code::InvalidArguments, "InvalidParams"),
            code::METHOD_NOT_FOUND => (Code::ServerRejected, "MethodNotFound"),
            code::INVALID_REQUEST => (Code::ServerRejected, "InvalidRequest"),
            code::INTERNAL_ERROR => (Code::ServerRejected, "InternalError"),
            code::MISSING_CLIENT_CAPABILITY => {
                (Code::ServerRejected, "MissingRequiredClientCapability")
            }
            code::UNSUPPORTED_PROTOCOL_VERSION => {
                (Code::ServerRejected, "UnsupportedProtocolVersion")
            }
            _ => (Code::ServerRejected, "McpError"),
        };
        let mut failure = Self::new(code, rpc.message.clone());
        failure.0.error_type = Cow::Borrowed(error_type);
        failure.0.rpc = Some(rpc);
        failure
    }

    /// Sets the server's error. The client receives it if no layer renders the failure as a result. The code stays.
    #[must_use]
    pub fn with_rpc(mut self, rpc: RpcError) -> Self {
        self.0.rpc = Some(rpc);
        self
    }

    /// Sets the next step for the caller.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.0.suggestion = Some(suggestion.into());
        self
    }

    /// Sets a code of your own, such as `QUOTA_GONE`, which clients and records read instead of the name of the code. The
    /// code still decides about class, retry and delivery, and names the failure in metrics. The name of a code of
    /// toolgate changes nothing.
    ///
    /// ```
    /// use toolgate::Failure;
    ///
    /// let failure = Failure::refused("the quota is used up").with_own_code("QUOTA_GONE");
    /// assert_eq!(failure.code_name(), "QUOTA_GONE");
    /// ```
    #[must_use]
    pub fn with_own_code(mut self, name: &'static str) -> Self {
        self.0.own_code = Code::by_name(name).is_none().then_some(name);
        self
    }

    /// Sets the code of the JSON-RPC error, for clients that get the failure as one.
    ///
    /// ```
    /// use toolgate::Failure;
    ///
    /// let failure = Failure::refused("the quota is used up").with_rpc_code(1429);
    /// assert_eq!(failure.to_rpc().code, 1429);
    /// ```
    #[must_use]
    pub fn with_rpc_code(mut self, code: i64) -> Self {
        self.0.own_rpc = Some(code);
        self
    }

    /// Sets whether the caller can correct the call.
    #[must_use]
    pub fn expected(mut self, expected: bool) -> Self {
        self.0.expected = expected;
        self
    }

    /// Sets the layer and the rule that decided.
    #[must_use]
    pub fn by(mut self, middleware: &'static str, rule: impl Into<String>) -> Self {
        self.0.by = Some(middleware);
        self.0.rule = Some(rule.into());
        self
    }

    /// Sets whether the tool ran.
    #[must_use]
    pub fn with_executed(mut self, executed: Executed) -> Self {
        self.0.executed = executed;
        self
    }

    /// Marks an error of a tool as transient, so that a readonly call may be retried.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.0.retry = RetrySafety::OnlyReadonly;
        self
    }

    /// Sets the time to wait before a retry. The caller receives it in seconds.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Adds a machine-readable fact beside the code.
    #[must_use]
    pub fn with_fact(mut self, name: &'static str, value: impl Into<serde_json::Value>) -> Self {
        self.0.facts.push((name, value.into()));
        self
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Sets the layer that decided, unless a layer is set.
    #[must_use]
    pub(crate) fn or_by(mut self, middleware: &'static str) -> Self {
        self.0.by.get_or_insert(middleware);
        self
    }

    /// The failure with the readable texts replaced for which `replacement` returns another one; `None` if there are
    /// none.
    pub(crate) fn replace_texts(
        &self,
        replacement: &mut dyn FnMut(&str) -> Option<String>,
    ) -> Option<Self> {
        let message = replacement(self.message());
        let suggestion = self.suggestion().and_then(&mut *replacement);
        let rpc = self.rpc().and_then(|rpc| rpc.replace_texts(replacement));
        if message.is_none() && suggestion.is_none() && rpc.is_none() {
            return None;
        }
        let mut replaced = self.clone();
        replaced.0.message = message.unwrap_or(replaced.0.message);
        replaced.0.suggestion = suggestion.or(replaced.0.suggestion);
        replaced.0.rpc = rpc.or(replaced.0.rpc);
        Some(replaced)
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The name of the code that clients and records read: one of your own, or that of [`code`](Self::code).
    #[must_use]
    pub fn code_name(&self) -> &'static str {
        self.0.own_code.unwrap_or_else(|| self.0.code.name())
    }

    /// The name of the error's type, as libtmux-mcp names it.
    #[must_use]
    pub fn error_type(&self) -> &str {
        &self.0.error_type
    }

    /// The message, unchanged.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The next step for the caller, if the failure has one.
    #[must_use]
    pub fn suggestion(&self) -> Option<&str> {
        self.0.suggestion.as_deref()
    }

    /// Whether the caller can correct the call.
    #[must_use]
    pub fn is_expected(&self) -> bool {
        self.0.expected
    }

    /// The layer that decided, if a layer did.
    #[must_use]
    pub fn decided_by(&self) -> Option<&'static str> {
        self.0.by
    }

    /// The rule that decided, if a rule did.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        self.0.rule.as_deref()
    }

    /// Whether the tool ran.
    #[must_use]
    pub fn executed(&self) -> Executed {
        self.0.executed
    }

    /// Whether the same call may be sent again.
    #[must_use]
    pub fn retry(&self) -> RetrySafety {
        self.0.retry
    }

    /// Seconds to wait before a retry, rounded up, if the failure has them.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        let wait = self.0.retry_after?;
        Some(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
    }

    /// Whether the tool ran, as the client receives it in `ran`; `None` if unknown. An error of a server does not
    /// tell: the server may have refused the call halfway.
    #[must_use]
    pub fn known_executed(&self) -> Option<bool> {
        match self.0.executed {
            _ if self.0.rpc.is_some() => None,
            Executed::Yes => Some(true),
            Executed::No => Some(false),
            Executed::Maybe => None,
        }
    }

    /// Machine-readable facts, by name.
    #[must_use]
    pub fn facts(&self) -> &[(&'static str, serde_json::Value)] {
        &self.0.facts
    }

    /// The server's error, if the failure came from one.
    #[must_use]
    pub fn rpc(&self) -> Option<&RpcError> {
        self.0.rpc.as_ref()
    }

    /// The failure as a JSON-RPC error: the server's own, or one of toolgate with the details in `data`.
    #[must_use]
    pub fn to_rpc(&self) -> RpcError {
        if let Some(rpc) = &self.0.rpc {
            return rpc.clone();
        }
        let mut data = serde_json::json!({
            "code": self.code_name(),
            "error_type": self.0.error_type,
            "expected": self.0.expected,
            "suggestion": self.suggestion().unwrap_or(self.0.code.entry().hint),
        });
        if let Some(data) = data.as_object_mut() {
            if let Some(ran) = self.known_executed() {
                data.insert("ran".to_owned(), ran.into());
            }
            if let Some(rule) = &self.0.rule {
                data.insert("rule".to_owned(), rule.as_str().into());
            }
            if let Some(seconds) = self.retry_after_seconds() {
                data.insert("retry_after".to_owned(), seconds.into());
            }
            for (name, value) in &self.0.facts {
                data.insert((*name).to_owned(), value.clone());
            }
        }
        RpcError {
            code: self.0.own_rpc.unwrap_or(self.0.code.entry().rpc),
            message: self.0.message.clone(),
            data: Some(Json::value(&data)),
        }
    }
}

/// JSON that a layer of your own reads or writes with serde does not fit its type. The text of the error may quote the
/// value, so that only the kind and the place of the error are kept.
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        let (kind, line, column) = (error.classify(), error.line(), error.column());
        let place = format!("{kind:?} error at line {line}, column {column}");
        Self::internal(format!("a layer could not read or write JSON: {place}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Failure {}

/// The default name of an error's type.
const fn type_name(code: Code) -> &'static str {
    match code {
        Code::ParseError => "ParseError",
        Code::InvalidRequest => "InvalidRequest",
        Code::MessageTooLarge => "MessageTooLarge",
        Code::UnknownTool => "UnknownTool",
        Code::InvalidArguments => "ValidationError",
        Code::TierDenied => "TierDenied",
        Code::TierUnknown => "TierUnknown",
        Code::ScopeRejected => "ScopeRejected",
        Code::Refused => "Refused",
        Code::PolicyDenied => "PolicyDenied",
        Code::ToolInactive => "ToolInactive",
        Code::ToolNotAllowed => "ToolNotAllowed",
        Code::ControlTooLarge => "ControlTooLarge",
        Code::ClientIncapable => "MissingRequiredClientCapability",
        Code::ToolQuarantined => "ToolQuarantined",
        Code::ToolDisabled => "ToolDisabled",
        Code::RateLimited => "RateLimited",
        Code::QuotaExceeded => "QuotaExceeded",
        Code::CircuitOpen => "CircuitOpen",
        Code::Deferred => "Deferred",
        Code::DryRunPreview => "DryRunPreview",
        Code::ConfirmRequired => "ConfirmRequired",
        Code::ConfirmDeclined => "ConfirmDeclined",
        Code::ConfirmCancelled => "ConfirmCancelled",
        Code::ConfirmExpired => "ConfirmExpired",
        Code::ConfirmReplayed => "ConfirmReplayed",
        Code::ConfirmTampered => "ConfirmTampered",
        Code::ConfirmMismatch => "ConfirmMismatch",
        Code::AuditUnavailable => "AuditUnavailable",
        Code::ToolFailed => "ToolError",
        Code::OutputInvalid => "OutputInvalid",
        Code::Cancelled => "Cancelled",
        Code::TimedOut => "TimedOut",
        Code::ServerRejected => "McpError",
        Code::ServerCrashed => "ServerCrashed",
        Code::ServerUnavailable => "ServerUnavailable",
        Code::ServerStartTimeout => "ServerStartTimeout",
        Code::ServerProtocol => "ServerProtocol",
        Code::Overloaded => "Overloaded",
        Code::ResponseTooLarge => "ResponseTooLarge",
        Code::Internal => "Internal",
    }
}

//! The constants of MCP: protocol versions, methods, error codes, and the names of members and `_meta` keys.
//! Every crate of the workspace takes them from here; a test of the house finds literals that stand elsewhere.

/// Every published version, oldest first.
pub const VERSIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The first version without a session handshake: each request carries its own context.
pub const MODERN: &str = "2026-07-28";
/// The last version with a session handshake: the one to offer in `initialize`.
pub const LEGACY: &str = "2025-11-25";

/// Which of the two families of protocol versions a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// 2025-11-25 and earlier: `initialize` opens a session.
    Legacy,
    /// 2026-07-28 and later: each request stands alone.
    Modern,
}

/// Whether a version is 2026-07-28 or later. Text that is not a date is not modern.
#[must_use]
pub fn is_modern(version: &str) -> bool {
    is_date(version) && version >= MODERN
}

fn is_date(version: &str) -> bool {
    version.len() == MODERN.len()
        && version.bytes().zip(MODERN.bytes()).all(|(byte, shape)| match shape {
            b'-' => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$((stringify!($name), $text)),*];
    };
}

/// Methods of requests and notifications. Each constant is named like its method: `tools/call` is `TOOLS_CALL`.
pub mod method {
    names! {
        /// Request: the completions for an argument of a prompt or resource template.
        COMPLETION_COMPLETE = "completion/complete";
        /// Request of a server: ask the user.
        ELICITATION_CREATE = "elicitation/create";
        /// Request: open a session (2025-11-25 and earlier).
        INITIALIZE = "initialize";
        /// Request: the least severe log messages to send (2025-11-25 and earlier).
        LOGGING_SET_LEVEL = "logging/setLevel";
        /// Request: answer with an empty result.
        PING = "ping";
        /// Request: one prompt.
        PROMPTS_GET = "prompts/get";
        /// Request: one page of the prompts.
        PROMPTS_LIST = "prompts/list";
        /// Request: one page of the resources.
        RESOURCES_LIST = "resources/list";
        /// Request: the contents of a resource.
        RESOURCES_READ = "resources/read";
        /// Request: notify of updates of a resource (2025-11-25 and earlier).
        RESOURCES_SUBSCRIBE = "resources/subscribe";
        /// Request: one page of the resource templates.
        RESOURCES_TEMPLATES_LIST = "resources/templates/list";
        /// Request: the end of `resources/subscribe`.
        RESOURCES_UNSUBSCRIBE = "resources/unsubscribe";
        /// Request of a server: the root folders of the client.
        ROOTS_LIST = "roots/list";
        /// Request of a server: ask the client's model.
        SAMPLING_CREATE_MESSAGE = "sampling/createMessage";
        /// Request: versions, capabilities and name of the server (2026-07-28).
        SERVER_DISCOVER = "server/discover";
        /// Request: a stream of the notifications that it names (2026-07-28).
        SUBSCRIPTIONS_LISTEN = "subscriptions/listen";
        /// Request: end a task.
        TASKS_CANCEL = "tasks/cancel";
        /// Request: the state of a task.
        TASKS_GET = "tasks/get";
        /// Request: one page of the tasks (2025-11-25).
        TASKS_LIST = "tasks/list";
        /// Request: the result of a task (2025-11-25).
        TASKS_RESULT = "tasks/result";
        /// Request: more input for a task (2026-07-28).
        TASKS_UPDATE = "tasks/update";
        /// Request: run a tool.
        TOOLS_CALL = "tools/call";
        /// Request: one page of the tools.
        TOOLS_LIST = "tools/list";

        /// Notification: the sender of a request cancels it.
        NOTIFICATIONS_CANCELLED = "notifications/cancelled";
        /// Notification: the user has finished with the page that a server asked to open (2025-11-25).
        NOTIFICATIONS_ELICITATION_COMPLETE = "notifications/elicitation/complete";
        /// Notification: the client has read the response to `initialize` (2025-11-25 and earlier).
        NOTIFICATIONS_INITIALIZED = "notifications/initialized";
        /// Notification: a log message.
        NOTIFICATIONS_MESSAGE = "notifications/message";
        /// Notification: how far a request has come.
        NOTIFICATIONS_PROGRESS = "notifications/progress";
        /// Notification: the list of prompts has changed.
        NOTIFICATIONS_PROMPTS_LIST_CHANGED = "notifications/prompts/list_changed";
        /// Notification: the list of resources has changed.
        NOTIFICATIONS_RESOURCES_LIST_CHANGED = "notifications/resources/list_changed";
        /// Notification: a resource has changed.
        NOTIFICATIONS_RESOURCES_UPDATED = "notifications/resources/updated";
        /// Notification: the client's root folders have changed.
        NOTIFICATIONS_ROOTS_LIST_CHANGED = "notifications/roots/list_changed";
        /// Notification: `subscriptions/listen` is open (2026-07-28).
        NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED = "notifications/subscriptions/acknowledged";
        /// Notification: the state of a task (2026-07-28).
        NOTIFICATIONS_TASKS = "notifications/tasks";
        /// Notification: the state of a task (2025-11-25).
        NOTIFICATIONS_TASKS_STATUS = "notifications/tasks/status";
        /// Notification: the list of tools has changed.
        NOTIFICATIONS_TOOLS_LIST_CHANGED = "notifications/tools/list_changed";
    }
}

/// Error codes of JSON-RPC and of MCP.
pub mod code {
    use std::ops::RangeInclusive;

    /// The message is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The message is JSON, but not JSON-RPC.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The receiver does not have the method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The receiver failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// There is no resource with this URI (2025-11-25 and earlier; later versions use [`INVALID_PARAMS`]).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// An HTTP header contradicts the body (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client has not declared a capability that the request needs (2026-07-28).
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// The server does not speak the version of the request (2026-07-28).
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
    /// The user must open a page first (2025-11-25).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;

    /// The codes that MCP gives a meaning of its own.
    pub const MCP: RangeInclusive<i64> = -32099..=-32020;
}

/// Names of members in params and results that more than one module reads or writes.
pub mod member {
    names! {
        /// Params and results: members that the protocol reserves for additions.
        META = "_meta";
        /// Params of `tools/call` and `prompts/get`.
        ARGUMENTS = "arguments";
        /// Params of `initialize`, its result, and the result of `server/discover`.
        CAPABILITIES = "capabilities";
        /// Params of `initialize`.
        CLIENT_INFO = "clientInfo";
        /// Params of a list request: where the page begins.
        CURSOR = "cursor";
        /// Of an elicitation that opens a page.
        ELICITATION_ID = "elicitationId";
        /// Result: requests of the server that the client is to answer (2026-07-28).
        INPUT_REQUESTS = "inputRequests";
        /// Params: the client's answers to `inputRequests` (2026-07-28).
        INPUT_RESPONSES = "inputResponses";
        /// Definition of a tool: the JSON Schema of its arguments.
        INPUT_SCHEMA = "inputSchema";
        /// Result of `tools/call`: whether the tool failed.
        IS_ERROR = "isError";
        /// Result of a list request: the cursor of the next page.
        NEXT_CURSOR = "nextCursor";
        /// Definition of a tool: the JSON Schema of its structured content.
        OUTPUT_SCHEMA = "outputSchema";
        /// `_meta` of a request, and params of a progress notification.
        PROGRESS_TOKEN = "progressToken";
        /// Params of `initialize` and its result.
        PROTOCOL_VERSION = "protocolVersion";
        /// Params of a cancellation: the id of the cancelled request.
        REQUEST_ID = "requestId";
        /// Result with `inputRequests`, and params of the request that follows: the server's state (2026-07-28).
        REQUEST_STATE = "requestState";
        /// Params of an elicitation: the JSON Schema of the answer.
        REQUESTED_SCHEMA = "requestedSchema";
        /// Result: whether the request is complete (2026-07-28).
        RESULT_TYPE = "resultType";
        /// Result of `initialize`.
        SERVER_INFO = "serverInfo";
        /// Result of `tools/call`: the result as JSON.
        STRUCTURED_CONTENT = "structuredContent";
        /// Params and results of task methods.
        TASK_ID = "taskId";
    }
}

/// Keys in `_meta`.
pub mod meta {
    names! {
        /// Of a request: what the client can do (2026-07-28).
        CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
        /// Of a request: name and version of the client (2026-07-28).
        CLIENT_INFO = "io.modelcontextprotocol/clientInfo";
        /// Of a request: the least severe log messages that the server may send (2026-07-28).
        LOG_LEVEL = "io.modelcontextprotocol/logLevel";
        /// Of a request: the version that it speaks (2026-07-28).
        PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion";
        /// Of a message about a task: which task (2025-11-25).
        RELATED_TASK = "io.modelcontextprotocol/related-task";
        /// Of a result: name and version of the server (2026-07-28).
        SERVER_INFO = "io.modelcontextprotocol/serverInfo";
        /// Of a notification: the request that subscribed to it (2026-07-28).
        SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_published_version_is_modern() {
        let modern: Vec<_> = VERSIONS.into_iter().filter(|v| is_modern(v)).collect();
        assert_eq!(modern, ["2026-07-28"]);
        assert!(is_modern("2027-01-01"));
    }

    #[test]
    fn text_that_is_not_a_date_is_not_modern() {
        for odd in ["", "latest", "2026-07-281", "9999", "2026/07/28", "DRAFT-2099", "２026-07-2"]
        {
            assert!(!is_modern(odd), "{odd}");
        }
    }

    /// `tools/call` as the name of a constant: `TOOLS_CALL`.
    fn constant(text: &str) -> String {
        let mut name = String::new();
        for c in text.chars() {
            match c {
                '/' | '-' => name.push('_'),
                c if c.is_ascii_uppercase() => name.extend(['_', c]),
                c => name.push(c.to_ascii_uppercase()),
            }
        }
        name
    }

    #[test]
    fn constants_are_named_like_their_text() {
        for (name, text) in method::ALL.iter().chain(member::ALL) {
            assert_eq!(*name, constant(text.trim_start_matches('_')), "{text}");
        }
        for (name, text) in meta::ALL {
            let key = text.strip_prefix("io.modelcontextprotocol/").unwrap();
            assert_eq!(*name, constant(key), "{text}");
        }
    }
}

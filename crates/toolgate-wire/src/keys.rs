//! The keys that affect decisions, and the other spellings of them.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::Reason;
use crate::mcp::meta;
use crate::text::unescape;

/// Whether a spelling (between the quotes) has this key as its value.
#[inline]
pub(crate) fn says(spelling: &[u8], key: &str) -> bool {
    match memchr::memchr(b'\\', spelling) {
        None => spelling == key.as_bytes(),
        Some(_) => &*unescape(spelling) == key.as_bytes(),
    }
}

/// Whether a lenient parser could read the key as this name: in another case or spelling.
///
/// Go's `encoding/json` folds case by Unicode, where two letters outside of ASCII fold into it: `ſ` (U+017F) is an `s`
/// and `K` (U+212A) is a `k`. Java's `equalsIgnoreCase` reads `İ` (U+0130) and `ı` (U+0131) as an `i`.
fn resembles(key: &str, name: &str) -> bool {
    if key.is_ascii() {
        return key.eq_ignore_ascii_case(name);
    }
    let folded = key.chars().map(|c| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        '\u{130}' | '\u{131}' => 'i',
        other => other.to_ascii_lowercase(),
    });
    folded.eq(name.chars().map(|c| c.to_ascii_lowercase()))
}

/// The keys of one object that affect decisions: none may occur twice, or in another spelling.
#[derive(Debug)]
pub(crate) struct GuardedKeys {
    names: &'static [&'static str],
    /// The keys whose values are objects with watched keys of their own.
    inner: &'static [(&'static str, &'static GuardedKeys)],
    /// Whether no key at all may occur twice: the keys are names that a peer has chosen.
    distinct: bool,
}

const fn plain(names: &'static [&'static str]) -> GuardedKeys {
    GuardedKeys { names, inner: &[], distinct: false }
}

/// The envelope, in the order of [`crate::envelope::EnvelopePart`].
pub(crate) const ENVELOPE: GuardedKeys =
    plain(&["jsonrpc", "id", "method", "params", "result", "error"]);

/// The keys of params that layers, the gateway, clients and servers decide by.
pub(crate) const PARAMS: GuardedKeys = GuardedKeys {
    names: &[
        "name",
        "arguments",
        "_meta",
        "cursor",
        "uri",
        "requestId",
        "progressToken",
        "ref",
        "argument",
        "context",
        "task",
        "taskId",
        "status",
        "level",
        "data",
        "requestState",
        "inputResponses",
        "inputRequests",
        "protocolVersion",
        "capabilities",
        "clientInfo",
        "notifications",
        "message",
        "messages",
        "systemPrompt",
        "mode",
        "url",
        "requestedSchema",
        "elicitationId",
        "result",
        "error",
    ],
    inner: &[
        ("_meta", &META),
        ("ref", &plain(&["type", "name", "uri"])),
        ("argument", &plain(&["name", "value"])),
        ("context", &plain(&["arguments"])),
        ("task", &TASK),
        ("inputResponses", &CHOSEN),
        ("inputRequests", &CHOSEN),
        ("capabilities", &CAPABILITIES),
        ("clientInfo", &INFO),
        (
            "notifications",
            &plain(&[
                "toolsListChanged",
                "promptsListChanged",
                "resourcesListChanged",
                "resourceSubscriptions",
            ]),
        ),
    ],
    distinct: false,
};

pub(crate) const RESULT: GuardedKeys = GuardedKeys {
    names: &[
        "content",
        "isError",
        "structuredContent",
        "_meta",
        "resultType",
        "tools",
        "prompts",
        "resources",
        "resourceTemplates",
        "nextCursor",
        "contents",
        "messages",
        "completion",
        "task",
        "taskId",
        "status",
        "result",
        "error",
        "requestState",
        "inputRequests",
        "protocolVersion",
        "capabilities",
        "serverInfo",
        "action",
    ],
    inner: &[
        ("_meta", &META),
        ("task", &TASK),
        ("inputRequests", &CHOSEN),
        ("capabilities", &CAPABILITIES),
        ("serverInfo", &INFO),
        ("completion", &plain(&["values"])),
    ],
    distinct: false,
};

/// The types of these members are checked, so each must occur once.
pub(crate) const ERROR: GuardedKeys = plain(&["code", "message", "data"]);

const META: GuardedKeys = GuardedKeys {
    names: &[
        "progressToken",
        "parent_call_uuid",
        "policyId",
        "allowedTools",
        "toolgate/confirm",
        "toolgate/dry_run",
        "traceparent",
        "tracestate",
        "baggage",
        meta::PROTOCOL_VERSION,
        meta::CLIENT_INFO,
        meta::CLIENT_CAPABILITIES,
        meta::LOG_LEVEL,
        meta::SERVER_INFO,
        meta::SUBSCRIPTION_ID,
        meta::RELATED_TASK,
    ],
    inner: &[
        (meta::CLIENT_INFO, &INFO),
        (meta::SERVER_INFO, &INFO),
        (meta::CLIENT_CAPABILITIES, &CAPABILITIES),
        (meta::RELATED_TASK, &plain(&["taskId"])),
    ],
    distinct: false,
};

const INFO: GuardedKeys = plain(&["name", "version"]);

const TASK: GuardedKeys = plain(&["taskId", "status", "ttl"]);

const CAPABILITIES: GuardedKeys = GuardedKeys {
    names: &[
        "elicitation",
        "sampling",
        "roots",
        "tools",
        "prompts",
        "resources",
        "completions",
        "logging",
        "tasks",
        "extensions",
        "experimental",
    ],
    inner: &[
        ("elicitation", &plain(&["form", "url"])),
        ("sampling", &plain(&["context", "tools"])),
        ("roots", &LIST),
        ("tools", &LIST),
        ("prompts", &LIST),
        ("resources", &LIST),
    ],
    distinct: false,
};

const LIST: GuardedKeys = plain(&["listChanged", "subscribe"]);

const CHOSEN: GuardedKeys = GuardedKeys { names: &[], inner: &[], distinct: true };

/// The watched key that a spelling matches.
pub(crate) enum Match {
    None,
    /// This key, in its exact spelling (or a harmless one).
    Key(usize),
    /// A key that must be spelled exactly, in another spelling.
    Variant(usize),
}

impl GuardedKeys {
    pub(crate) fn name(&self, index: usize) -> &'static str {
        self.names.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn names(&self) -> &'static [&'static str] {
        self.names
    }

    /// The keys whose values are watched, too, with their tables.
    pub(crate) fn nested(&self) -> &'static [(&'static str, &'static Self)] {
        self.inner
    }

    pub(crate) fn is_distinct(&self) -> bool {
        self.distinct
    }

    /// The table for the value of this key.
    pub(crate) fn inner(&self, index: usize) -> Option<&'static Self> {
        let name = self.name(index);
        self.inner.iter().find(|(key, _)| *key == name).map(|(_, watched)| *watched)
    }

    /// Finds the watched key with this spelling.
    pub(crate) fn find(&self, spelling: &[u8]) -> Match {
        if let Some(index) = self.position(spelling) {
            return Match::Key(index);
        }
        let key = unescape(spelling);
        match self.variant(&String::from_utf8_lossy(&key)) {
            // PHP escapes slashes, and every parser decodes that.
            Some(index) if slashes_only(spelling) && *key == *self.name(index).as_bytes() => {
                Match::Key(index)
            }
            Some(index) => Match::Variant(index),
            None => Match::None,
        }
    }

    fn position(&self, key: &[u8]) -> Option<usize> {
        // Comparing the first byte avoids most calls of memcmp.
        let mut names = self.names.iter().map(|name| name.as_bytes());
        names.position(|name| name.first() == key.first() && name == key)
    }

    fn variant(&self, key: &str) -> Option<usize> {
        self.names.iter().position(|name| resembles(key, name))
    }
}

/// Whether all escapes of a spelling are `\/`.
fn slashes_only(spelling: &[u8]) -> bool {
    memchr::memchr_iter(b'\\', spelling).all(|at| spelling.get(at + 1) == Some(&b'/'))
}

/// The watched keys of one object that have occurred.
#[derive(Debug, Default)]
pub(crate) struct SeenKeys<'a> {
    watched: u64,
    /// All keys, if none may occur twice.
    all: HashSet<Cow<'a, [u8]>>,
}

impl<'a> SeenKeys<'a> {
    /// Records a key; false if it has occurred before.
    pub(crate) fn first(&mut self, index: usize) -> bool {
        let bit = 1 << index;
        let first = self.watched & bit == 0;
        self.watched |= bit;
        first
    }

    pub(crate) fn has(&self, index: usize) -> bool {
        self.watched & (1 << index) != 0
    }

    /// Checks a key against the rules; returns the index of a watched key.
    pub(crate) fn check(
        &mut self,
        spelling: &'a [u8],
        watched: &GuardedKeys,
    ) -> Result<Option<usize>, Reason> {
        if watched.distinct && !self.all.insert(unescape(spelling)) {
            return Err(Reason::DuplicateName);
        }
        match watched.find(spelling) {
            Match::Key(index) if self.first(index) => Ok(Some(index)),
            Match::Key(index) => Err(Reason::Duplicate(watched.name(index))),
            Match::Variant(index) => Err(misspelled(spelling, watched.name(index))),
            Match::None => Ok(None),
        }
    }
}

pub(crate) fn misspelled(spelling: &[u8], want: &'static str) -> Reason {
    Reason::Spelling { found: String::from_utf8_lossy(spelling).into(), want }
}

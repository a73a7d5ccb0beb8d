//! Keys that decide something: which they are, and the other ways in which one could write them.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::Reason;
use crate::mcp::meta;
use crate::text::unescape;

/// Whether a key, spelled like this between its quotes, is this one.
#[inline]
pub(crate) fn says(spelling: &[u8], key: &str) -> bool {
    match memchr::memchr(b'\\', spelling) {
        None => spelling == key.as_bytes(),
        Some(_) => &*unescape(spelling) == key.as_bytes(),
    }
}

/// Whether a lenient parser could take the key for this one: other case, other spelling.
///
/// Go's `encoding/json` folds case by Unicode, where two letters outside of ASCII fold into it:
/// `ſ` (U+017F) is an `s` and `K` (U+212A) is a `k`. Java's `equalsIgnoreCase` takes `İ` (U+0130) and
/// `ı` (U+0131) for an `i`.
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

/// The keys of one object that decide something: none may stand there twice, or in another spelling.
#[derive(Debug)]
pub(crate) struct Watched {
    names: &'static [&'static str],
    /// Those of them whose values are objects with watched keys of their own.
    inner: &'static [(&'static str, &'static Watched)],
    /// Whether no key at all may stand there twice: the keys are names that somebody else has chosen.
    distinct: bool,
}

const fn plain(names: &'static [&'static str]) -> Watched {
    Watched { names, inner: &[], distinct: false }
}

/// The envelope, in the order of [`crate::envelope::Part`].
pub(crate) const ENVELOPE: Watched =
    plain(&["jsonrpc", "id", "method", "params", "result", "error"]);

/// What requests and notifications are decided by: by layers, by the gateway, and by who reads them.
pub(crate) const PARAMS: Watched = Watched {
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

pub(crate) const RESULT: Watched = Watched {
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

/// Their types are checked, so the ones that were checked must be the only ones.
pub(crate) const ERROR: Watched = plain(&["code", "message", "data"]);

const META: Watched = Watched {
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

const INFO: Watched = plain(&["name", "version"]);

const TASK: Watched = plain(&["taskId", "status", "ttl"]);

const CAPABILITIES: Watched = Watched {
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

const LIST: Watched = plain(&["listChanged", "subscribe"]);

const CHOSEN: Watched = Watched { names: &[], inner: &[], distinct: true };

/// Which watched key this is.
pub(crate) enum Match {
    None,
    /// This one, spelled as it should be (or in a way that does no harm).
    Key(usize),
    /// One that must be spelled exactly, in another spelling.
    Variant(usize),
}

impl Watched {
    pub(crate) fn name(&self, index: usize) -> &'static str {
        self.names.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn names(&self) -> &'static [&'static str] {
        self.names
    }

    /// Keys whose values are watched too, and what is watched there.
    pub(crate) fn nested(&self) -> &'static [(&'static str, &'static Self)] {
        self.inner
    }

    pub(crate) fn is_distinct(&self) -> bool {
        self.distinct
    }

    /// What to watch in the value of this key.
    pub(crate) fn inner(&self, index: usize) -> Option<&'static Self> {
        let name = self.name(index);
        self.inner.iter().find(|(key, _)| *key == name).map(|(_, watched)| *watched)
    }

    /// Which watched key is spelled like this.
    pub(crate) fn find(&self, spelling: &[u8]) -> Match {
        if let Some(index) = self.position(spelling) {
            return Match::Key(index);
        }
        let key = unescape(spelling);
        match self.variant(&String::from_utf8_lossy(&key)) {
            // PHP escapes slashes, and everybody reads that.
            Some(index) if slashes_only(spelling) && *key == *self.name(index).as_bytes() => {
                Match::Key(index)
            }
            Some(index) => Match::Variant(index),
            None => Match::None,
        }
    }

    fn position(&self, key: &[u8]) -> Option<usize> {
        // The first byte spares most calls to memcmp.
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

/// Which watched keys of one object have been seen.
#[derive(Debug, Default)]
pub(crate) struct Seen<'a> {
    watched: u64,
    /// All of them, where none may stand there twice.
    all: HashSet<Cow<'a, [u8]>>,
}

impl<'a> Seen<'a> {
    /// False if it was there already.
    pub(crate) fn first(&mut self, index: usize) -> bool {
        let bit = 1 << index;
        let first = self.watched & bit == 0;
        self.watched |= bit;
        first
    }

    pub(crate) fn has(&self, index: usize) -> bool {
        self.watched & (1 << index) != 0
    }

    /// Checks a key against the rules; gives the number of a watched one.
    pub(crate) fn check(
        &mut self,
        spelling: &'a [u8],
        watched: &Watched,
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

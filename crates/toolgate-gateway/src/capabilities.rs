//! The client capabilities that decide which questions of servers a client can answer.

use toolgate_wire::{Json, Object, mcp::method};

/// The set of servers' questions that a client can answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ClientCapabilities(u8);

impl ClientCapabilities {
    /// Elicitation by a form.
    pub(crate) const FORMS: Self = Self(1);
    /// Elicitation by a page to open.
    pub(crate) const URLS: Self = Self(2);
    /// `sampling/createMessage`
    pub(crate) const SAMPLING: Self = Self(4);
    /// `roots/list`
    pub(crate) const ROOTS: Self = Self(8);

    /// Reads the `capabilities` object of a client.
    pub(crate) fn of(capabilities: &Json) -> Self {
        let mut abilities = Self::default();
        let Some(capabilities) = capabilities.object() else { return abilities };
        if let Some(modes) = capabilities.get("elicitation").and_then(|json| json.object()) {
            // An empty object means forms: versions before 2025-11-25 have no modes.
            if modes.is_empty() || modes.contains("form") {
                abilities = abilities.and(Self::FORMS);
            }
            if modes.contains("url") {
                abilities = abilities.and(Self::URLS);
            }
        }
        let is_object = |key| capabilities.get(key).is_some_and(|json| json.object().is_some());
        if is_object("sampling") {
            abilities = abilities.and(Self::SAMPLING);
        }
        if is_object("roots") {
            abilities = abilities.and(Self::ROOTS);
        }
        abilities
    }

    /// The `capabilities` object for this set.
    pub(crate) fn capabilities(self) -> Json {
        let mut capabilities = Object::new();
        let mut modes = Object::new();
        for (ability, mode) in [(Self::FORMS, "form"), (Self::URLS, "url")] {
            if self.has(ability) {
                modes.set(mode, Json::empty_object());
            }
        }
        if !modes.is_empty() {
            capabilities.set("elicitation", modes.finish());
        }
        for (ability, name) in [(Self::SAMPLING, "sampling"), (Self::ROOTS, "roots")] {
            if self.has(ability) {
                capabilities.set(name, Json::empty_object());
            }
        }
        capabilities.finish()
    }

    /// The set as a bit mask.
    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    /// The union of both sets.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set contains all of `other`.
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the set is empty.
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the client can answer this question of a server.
    pub(crate) fn can_answer(self, method: &str, params: Option<&Json>) -> bool {
        let needed = Self::needed_for(method, params);
        !needed.is_empty() && self.has(needed)
    }

    /// The capabilities that a client needs to answer this question of a server. Empty for any other method.
    pub(crate) fn needed_for(method: &str, params: Option<&Json>) -> Self {
        match method {
            method::ELICITATION_CREATE => {
                let mode = params.and_then(|params| params.get("mode"));
                let is_url = mode.as_ref().and_then(Json::text).is_some_and(|mode| mode == "url");
                if is_url { Self::URLS } else { Self::FORMS }
            }
            method::SAMPLING_CREATE_MESSAGE => Self::SAMPLING,
            method::ROOTS_LIST => Self::ROOTS,
            _ => Self::default(),
        }
    }
}

/// Whether the method is one of MCP's requests from servers to clients.
pub(crate) fn is_question(method: &str) -> bool {
    matches!(
        method,
        method::ELICITATION_CREATE | method::SAMPLING_CREATE_MESSAGE | method::ROOTS_LIST
    )
}

/// Whether MCP does not define the method. The gateway passes such requests between server and client unread.
pub(crate) fn is_vendor(method: &str) -> bool {
    let family = method.split('/').next().unwrap_or_default();
    !matches!(
        family,
        "completion"
            | "elicitation"
            | method::INITIALIZE
            | "logging"
            | "notifications"
            | method::PING
            | "prompts"
            | "resources"
            | "roots"
            | "sampling"
            | "server"
            | "subscriptions"
            | "tasks"
            | "tools"
    )
}

#[cfg(test)]
mod tests {
    use toolgate_wire::Limits;

    use super::*;

    fn json(text: &'static str) -> Json {
        Json::parse(text, &Limits::default()).unwrap()
    }

    #[test]
    fn a_client_is_asked_only_what_it_says_that_it_can_answer() {
        let of = |text| ClientCapabilities::of(&json(text));
        assert!(of("{}").is_empty() && of("null").is_empty());
        assert_eq!(of(r#"{"elicitation":{}}"#), ClientCapabilities::FORMS);
        assert_eq!(of(r#"{"elicitation":{"url":{}}}"#), ClientCapabilities::URLS);
        assert_eq!(of(r#"{"elicitation":true,"sampling":null}"#), ClientCapabilities::default());
        let all = of(r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#);
        assert!(all.can_answer("roots/list", None));
        assert!(all.can_answer("elicitation/create", Some(&json(r#"{"mode":"url"}"#))));
        let forms = ClientCapabilities::FORMS;
        assert!(forms.can_answer("elicitation/create", Some(&json("{}"))));
        assert!(!forms.can_answer("elicitation/create", Some(&json(r#"{"mode":"url"}"#))));
        assert!(!forms.can_answer("sampling/createMessage", None));
        assert!(!all.can_answer("vendor/ask", None));
    }
}

//! The explanation of one error code. The files in `pages` have the text; the facts come from the registry.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use toolgate::{Code, Delivery, Executed, Failure, RetrySafety};

/// The name of each code with its file.
macro_rules! pages {
    ($($name:literal)*) => { [$(($name, include_str!(concat!("pages/", $name, ".md")))),*] };
}

const PAGES: [(&str, &str); 41] = pages![
    "PARSE_ERROR" "INVALID_REQUEST" "MESSAGE_TOO_LARGE" "UNKNOWN_TOOL" "INVALID_ARGUMENTS"
    "TIER_DENIED" "TIER_UNKNOWN" "SCOPE_REJECTED" "REFUSED" "POLICY_DENIED" "TOOL_INACTIVE"
    "TOOL_NOT_ALLOWED" "CONTROL_TOO_LARGE" "CLIENT_INCAPABLE" "TOOL_QUARANTINED" "TOOL_DISABLED"
    "RATE_LIMITED" "QUOTA_EXCEEDED" "CIRCUIT_OPEN" "DEFERRED" "DRY_RUN_PREVIEW" "CONFIRM_REQUIRED"
    "CONFIRM_DECLINED" "CONFIRM_CANCELLED" "CONFIRM_EXPIRED" "CONFIRM_REPLAYED" "CONFIRM_TAMPERED"
    "CONFIRM_MISMATCH" "AUDIT_UNAVAILABLE" "TOOL_FAILED" "OUTPUT_INVALID" "CANCELLED" "TIMED_OUT"
    "SERVER_REJECTED" "SERVER_CRASHED" "SERVER_UNAVAILABLE" "SERVER_START_TIMEOUT" "SERVER_PROTOCOL"
    "OVERLOADED" "RESPONSE_TOO_LARGE" "INTERNAL"
];

/// The headings of every page with their names in JSON. Only the last one may be missing.
pub(super) const SECTIONS: [(&str, &str); 6] = [
    ("What happened", "what_happened"),
    ("Who decided", "who_decided"),
    ("What an agent can do", "agent"),
    ("What the operator can do", "operator"),
    ("Example", "example"),
    ("Settings", "settings"),
];

/// Examples with fewer words say too little to recognize a message.
const MIN_WORDS: usize = 4;

/// The explanation of a code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) code: Code,
    /// Markdown: the sections with their headings.
    pub(super) text: &'static str,
}

impl Page {
    pub(super) fn of(code: Code) -> Self {
        let page = PAGES.iter().find(|(name, _)| *name == code.name());
        Self { code, text: page.map_or("", |(_, text)| text) }
    }

    /// Each heading with its text.
    pub(super) fn sections(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let parts = self.text.split("## ").filter_map(|part| part.split_once('\n'));
        parts.map(|(heading, text)| (heading.trim(), text.trim()))
    }

    fn section(&self, heading: &str) -> Option<&'static str> {
        self.sections().find(|(other, _)| *other == heading).map(|(_, text)| text)
    }

    /// The message that a client reads, as an example.
    pub(super) fn example(&self) -> &'static str {
        let text = self.section("Example").unwrap_or_default();
        text.trim_start_matches("```text").trim_end_matches("```").trim()
    }

    /// The keys of the config that the page names.
    pub(super) fn settings(&self) -> impl Iterator<Item = &'static str> {
        let lines = self.section("Settings").unwrap_or_default().lines();
        lines.map(|line| line.trim_matches(['-', ' ', '`']))
    }

    /// How many words of the example's first line are in a message, in percent.
    pub(super) fn likeness(&self, message: &str) -> usize {
        let words = |text: &str| -> HashSet<String> {
            let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1);
            words.map(str::to_lowercase).collect()
        };
        let example = words(self.example().lines().next().unwrap_or_default());
        if example.len() < MIN_WORDS {
            return 0;
        }
        example.intersection(&words(message)).count() * 100 / example.len()
    }

    pub(super) fn has_words(&self, phrase: &str) -> bool {
        let text = self.text.replace('\n', " ").to_lowercase();
        text.contains(phrase) || self.code.entry().meaning.to_lowercase().contains(phrase)
    }

    /// What the registry knows of the code, in words.
    pub(super) fn facts(&self) -> [(&'static str, String); 3] {
        let entry = self.code.entry();
        let ran = match Failure::new(self.code, "").executed() {
            Executed::Yes => "the tool ran",
            Executed::No => "the tool did not run",
            Executed::Maybe => "the tool may have run",
        };
        let again = match entry.retry {
            RetrySafety::Safe => "safe: the tool did not run, and the cause is transient",
            RetrySafety::OnlyReadonly => "only a readonly call: the tool may have run",
            RetrySafety::Useless => "does not help: the cause does not pass by itself",
        };
        let delivery = match entry.delivery {
            Delivery::Result => {
                format!("a result with `isError`, or the JSON-RPC error {}", entry.rpc)
            }
            Delivery::Error => format!("the JSON-RPC error {}", entry.rpc),
            Delivery::Silence => "none: a cancelled call gets no response".to_owned(),
        };
        [
            ("outcome", format!("`{}`: {ran}", entry.class)),
            ("repeating", again.to_owned()),
            ("response", delivery),
        ]
    }

    pub(super) fn to_json(self) -> Value {
        let entry = self.code.entry();
        let failure = Failure::new(self.code, "");
        let retry = match entry.retry {
            RetrySafety::Safe => "safe",
            RetrySafety::OnlyReadonly => "only_readonly",
            RetrySafety::Useless => "useless",
        };
        let delivery = match entry.delivery {
            Delivery::Result => "result",
            Delivery::Error => "error",
            Delivery::Silence => "silence",
        };
        let text = |heading: &str| self.section(heading).unwrap_or_default().replace('\n', " ");
        let sections: Map<String, Value> = SECTIONS
            .iter()
            .map(|(heading, name)| {
                let value = match *heading {
                    "Example" => self.example().into(),
                    "Settings" => self.settings().collect::<Vec<_>>().into(),
                    _ => text(heading).into(),
                };
                ((*name).to_owned(), value)
            })
            .collect();
        let mut page = json!({
            "code": entry.name,
            "meaning": entry.meaning,
            "outcome": entry.class.name(),
            "ran": failure.executed().name(),
            "retry": retry,
            "delivery": delivery,
            "rpc": entry.rpc,
            "error_type": failure.error_type(),
        });
        if let Some(page) = page.as_object_mut() {
            page.extend(sections);
        }
        page
    }
}

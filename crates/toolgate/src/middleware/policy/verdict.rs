//! What a policy is asked, and what it answers.

use std::sync::Arc;

use toolgate_wire::Json;

use crate::{context::Context, tool::Tool};

/// One question: may this tool be called in these surroundings?
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) cx: &'a Context,
    pub(super) tool: &'a Tool,
    #[cfg_attr(
        not(feature = "cedar"),
        expect(dead_code, reason = "only Cedar looks at arguments")
    )]
    pub(super) arguments: Arguments<'a>,
}

/// What is known of the arguments.
#[derive(Clone, Copy)]
pub(super) enum Arguments<'a> {
    /// They are these: a call.
    Are(
        #[cfg_attr(
            not(feature = "cedar"),
            expect(dead_code, reason = "only Cedar looks at arguments")
        )]
        Option<&'a Json>,
    ),
    /// Nothing yet: a listing. A tool is shown if there may be arguments that are allowed.
    Open,
}

/// What one policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// The id of the rule that decides.
    pub(super) rule: Arc<str>,
    /// What went wrong, where something did. May quote arguments: for those who ask why, not for records.
    pub(super) fault: Option<String>,
}

impl Verdict {
    pub(super) fn allow(rule: impl Into<Arc<str>>) -> Self {
        Self { allowed: true, rule: rule.into(), fault: None }
    }

    pub(super) fn deny(rule: impl Into<Arc<str>>) -> Self {
        Self { allowed: false, rule: rule.into(), fault: None }
    }

    /// Denies because nobody can tell.
    #[cfg(feature = "cedar")]
    pub(super) fn failed(rule: impl Into<Arc<str>>, fault: impl Into<String>) -> Self {
        Self { fault: Some(fault.into()), ..Self::deny(rule) }
    }
}

//! The request to a policy and its verdict.

use std::sync::Arc;

use toolgate_wire::Json;

use crate::{authorize::ToolAccess, context::Context, tool::Tool};

/// The question to a policy: may this caller call this tool?
#[derive(Clone, Copy)]
pub(super) struct PolicyRequest<'a> {
    pub(super) cx: &'a Context,
    pub(super) tool: &'a Tool,
    #[cfg_attr(
        not(feature = "cedar"),
        expect(dead_code, reason = "only Cedar looks at arguments")
    )]
    pub(super) arguments: PolicyArguments<'a>,
}

impl<'a> PolicyRequest<'a> {
    /// The question of a layer that authorizes.
    pub(super) fn of(cx: &'a Context, access: &ToolAccess<'a>) -> Self {
        let arguments = match access.call() {
            Some(call) => PolicyArguments::Known(call.arguments()),
            None => PolicyArguments::Unknown,
        };
        Self { cx, tool: access.tool(), arguments }
    }
}

/// The arguments of the call, if there is a call yet.
#[derive(Clone, Copy)]
pub(super) enum PolicyArguments<'a> {
    /// The arguments of a call.
    Known(
        #[cfg_attr(
            not(feature = "cedar"),
            expect(dead_code, reason = "only Cedar looks at arguments")
        )]
        Option<&'a Json>,
    ),
    /// A listing has no arguments. It shows a tool if a call with some arguments could be allowed.
    Unknown,
}

/// The verdict of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PolicyVerdict {
    pub(super) allowed: bool,
    /// The id of the deciding rule.
    pub(super) rule: Arc<str>,
    /// The evaluation error, if one occurred. It may quote arguments, so `why` shows it and records do not.
    pub(super) fault: Option<String>,
}

impl PolicyVerdict {
    pub(super) fn allow(rule: impl Into<Arc<str>>) -> Self {
        Self { allowed: true, rule: rule.into(), fault: None }
    }

    pub(super) fn deny(rule: impl Into<Arc<str>>) -> Self {
        Self { allowed: false, rule: rule.into(), fault: None }
    }

    /// Denies because the policy could not be evaluated.
    #[cfg(feature = "cedar")]
    pub(super) fn failed(rule: impl Into<Arc<str>>, fault: impl Into<String>) -> Self {
        Self { fault: Some(fault.into()), ..Self::deny(rule) }
    }
}

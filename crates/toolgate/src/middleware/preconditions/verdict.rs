//! The [`Precondition`] trait and its verdicts.

use std::time::Duration;

use crate::{call::Call, context::Context, failure::Failure, middleware::Boxed};

/// A condition that has to hold before a tool is called.
///
/// ```
/// use toolgate::{Boxed, Call, Context, middleware::preconditions::{Precondition, Verdict}};
///
/// #[derive(Debug)]
/// struct OfficeHours(fn() -> bool);
///
/// impl Precondition for OfficeHours {
///     fn id(&self) -> &str { "office_hours" }
///
///     fn check<'a>(&'a self, _: &'a Context, _: &'a Call) -> Boxed<'a, Verdict> {
///         let verdict = if (self.0)() { Verdict::Allow } else { Verdict::ask("It is late.") };
///         Box::pin(std::future::ready(verdict))
///     }
/// }
/// ```
pub trait Precondition: Send + Sync + std::fmt::Debug + 'static {
    /// The id in settings and refusals.
    fn id(&self) -> &str;

    /// Whether the call may run.
    fn check<'a>(&'a self, cx: &'a Context, call: &'a Call) -> Boxed<'a, Verdict>;

    /// The verdict of [`Self::check`] without side effects, for `toolgate why`. `None` if it cannot be known before
    /// the call.
    fn foresee(&self, _cx: &Context, _call: &Call) -> Option<Verdict> {
        None
    }

    /// Whether it may ask for a confirmation, so that the argument `__confirm` is needed.
    fn asks(&self) -> bool {
        true
    }

    /// Whether it depends on the tool's definition.
    fn needs_tools(&self) -> bool {
        false
    }
}

/// The verdict of a precondition. Of several verdicts the strictest counts.
#[derive(Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// The call may run.
    Allow,
    /// The call may run after a confirmation.
    Ask(Question),
    /// The call does not run; the caller receives a preview.
    Preview(Preview),
    /// The call may be repeated after this time.
    Defer(Duration),
    /// The call does not run.
    Deny(Failure),
}

/// Why a confirmation is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The reason, as a sentence; may be empty.
    pub why: String,
}

/// Why a call is only previewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The reason, as a sentence.
    pub why: String,
    /// The missing keys.
    pub missing: Vec<ConfirmKey>,
}

/// One of the two keys of a call that has to be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfirmKey {
    /// The operator's: the settings permit such calls.
    Operator,
    /// The caller's: the confirmation of this call.
    Caller,
}

impl ConfirmKey {
    /// The name in previews.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Caller => "caller",
        }
    }
}

impl Verdict {
    /// Asks for a confirmation, for this reason.
    pub fn ask(why: impl Into<String>) -> Self {
        Self::Ask(Question { why: why.into() })
    }

    /// Its strictness.
    fn weight(&self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Ask(_) => 1,
            Self::Preview(_) => 2,
            Self::Defer(_) => 3,
            Self::Deny(_) => 4,
        }
    }

    /// The stricter of two verdicts. Two questions are combined into one; of two waits the longer counts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Ask(one), Self::Ask(two)) => {
                let reasons = [one.why, two.why];
                let reasons: Vec<_> = reasons.into_iter().filter(|why| !why.is_empty()).collect();
                Self::Ask(Question { why: reasons.join(" ") })
            }
            (Self::Defer(one), Self::Defer(two)) => Self::Defer(one.max(two)),
            (Self::Preview(mut one), Self::Preview(two)) => {
                for key in two.missing {
                    if !one.missing.contains(&key) {
                        one.missing.push(key);
                    }
                }
                Self::Preview(one)
            }
            (one, two) if two.weight() > one.weight() => two,
            (one, _) => one,
        }
    }
}

//! What a precondition is, and what it may answer.

use std::time::Duration;

use crate::{call::Call, context::Context, failure::Failure, middleware::Boxed};

/// Something that must hold before a tool is called.
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
    /// The id by which a config requires it, and refusals name it.
    fn id(&self) -> &str;

    /// Whether the call may run.
    fn check<'a>(&'a self, cx: &'a Context, call: &'a Call) -> Boxed<'a, Verdict>;

    /// What [`Self::check`] would say, without any effect: no connection, no count, nothing remembered. `None`
    /// where that cannot be told before the call; whoever asks why reads so.
    fn foresee(&self, _cx: &Context, _call: &Call) -> Option<Verdict> {
        None
    }

    /// Whether it may ask for a confirmation: only then the reserved argument `__confirm` is of use.
    fn asks(&self) -> bool {
        true
    }

    /// Whether it decides on what the tool's server published.
    fn needs_tools(&self) -> bool {
        false
    }
}

/// What a precondition answers. Of several answers the one that allows least counts.
#[derive(Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// Nothing speaks against it.
    Allow,
    /// It may run once the caller has confirmed it.
    Ask(Question),
    /// It does not run; the caller is shown what would.
    Preview(Preview),
    /// Not now: the same call may pass after this time.
    Defer(Duration),
    /// It does not run.
    Deny(Failure),
}

/// Why a confirmation is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The reason, as a sentence; may be empty.
    pub why: String,
}

/// Why a call is only shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The reason, as a sentence.
    pub why: String,
    /// The keys that are missing, each with who holds it.
    pub missing: Vec<ConfirmKey>,
}

/// One of the two keys of a call that has to be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfirmKey {
    /// The operator's: the deployment is open for such calls.
    Operator,
    /// The caller's: this very call is wanted.
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

    /// How little it allows.
    fn weight(&self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Ask(_) => 1,
            Self::Preview(_) => 2,
            Self::Defer(_) => 3,
            Self::Deny(_) => 4,
        }
    }

    /// Both: the one that allows less. Two questions become one, of two waits the longer counts.
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

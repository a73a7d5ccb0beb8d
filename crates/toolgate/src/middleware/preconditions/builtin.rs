//! The preconditions that come with toolgate.

use super::{ConfirmKey, Mode, Precondition, Preview, Verdict};
use crate::{call::Call, context::Context, middleware::Boxed};

/// `confirm`: a person confirms each call, or calls are only previewed.
#[derive(Debug)]
pub(super) struct ConfirmRequired {
    mode: Mode,
}

impl ConfirmRequired {
    pub(super) fn new(mode: Mode) -> Self {
        Self { mode }
    }

    fn verdict(&self) -> Verdict {
        if self.mode == Mode::Preview {
            let why = "This deployment runs dry.".to_owned();
            Verdict::Preview(Preview {
                why,
                missing: vec![ConfirmKey::Operator, ConfirmKey::Caller],
            })
        } else {
            Verdict::ask("")
        }
    }
}

impl Precondition for ConfirmRequired {
    fn id(&self) -> &'static str {
        "confirm"
    }

    fn check<'a>(&'a self, _: &'a Context, _: &'a Call) -> Boxed<'a, Verdict> {
        Box::pin(std::future::ready(self.verdict()))
    }

    fn foresee(&self, _: &Context, _: &Call) -> Option<Verdict> {
        Some(self.verdict())
    }
}

/// `dry_run`: calls are only previewed.
#[derive(Debug)]
pub(super) struct DryRun;

impl DryRun {
    fn verdict() -> Verdict {
        let why = "A precondition keeps this tool dry.".to_owned();
        Verdict::Preview(Preview { why, missing: vec![ConfirmKey::Operator] })
    }
}

impl Precondition for DryRun {
    fn id(&self) -> &'static str {
        "dry_run"
    }

    fn check<'a>(&'a self, _: &'a Context, _: &'a Call) -> Boxed<'a, Verdict> {
        Box::pin(std::future::ready(Self::verdict()))
    }

    fn foresee(&self, _: &Context, _: &Call) -> Option<Verdict> {
        Some(Self::verdict())
    }

    fn asks(&self) -> bool {
        false
    }
}

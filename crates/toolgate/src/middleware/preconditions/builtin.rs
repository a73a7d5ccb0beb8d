//! The preconditions that come with toolgate.

use super::{Key, Precondition, Preview, Verdict};
use crate::{call::Call, context::Context, middleware::Boxed};

/// `confirm`: two keys. While the operator's is missing, calls are shown; then each one is confirmed.
#[derive(Debug)]
pub(super) struct ConfirmRequired {
    dry_run: bool,
}

impl ConfirmRequired {
    pub(super) fn new(dry_run: bool) -> Self {
        Self { dry_run }
    }

    fn verdict(&self) -> Verdict {
        if self.dry_run {
            let why = "This deployment runs dry.".to_owned();
            Verdict::Preview(Preview { why, missing: vec![Key::Operator, Key::Caller] })
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

/// `dry_run`: calls are only ever shown.
#[derive(Debug)]
pub(super) struct DryRun;

impl DryRun {
    fn verdict() -> Verdict {
        let why = "A precondition keeps this tool dry.".to_owned();
        Verdict::Preview(Preview { why, missing: vec![Key::Operator] })
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

//! A layer that allows or denies tools by one function.

use std::fmt;

use crate::{
    authorize::{Authorize, Denial, ToolAccess},
    context::Context,
    failure::Failure,
    layer::Order,
    middleware::{audit, retry},
};

/// A layer that allows or denies tools. One function decides about calls, listings and explanations: a tool that it
/// denies is neither called nor listed. Access to a listed tool has no [`call`](ToolAccess::call), so that a decision on
/// arguments has to allow it.
///
/// ```
/// use toolgate::{Chain, Failure, Principal, Tier, gate};
///
/// let admins = gate("admins", |cx, access| match (access.tool().tier(), cx.principal()) {
///     (Some(Tier::Readonly), _) | (_, Principal::Local(_)) => Ok(()),
///     _ => Err(Failure::refused("only admins change data")),
/// });
/// let chain = Chain::builder().layer(admins).build()?;
/// assert!(chain.sees_listings());
/// # Ok::<(), toolgate::BadChain>(())
/// ```
pub fn gate<F>(name: &'static str, allows: F) -> GateLayer<F>
where
    F: Fn(&Context, &ToolAccess<'_>) -> Result<(), Failure> + Send + Sync + 'static,
{
    GateLayer(name, allows)
}

/// The layer of [`gate`].
pub struct GateLayer<F>(&'static str, F);

impl<F> Authorize for GateLayer<F>
where
    F: Fn(&Context, &ToolAccess<'_>) -> Result<(), Failure> + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        self.0
    }

    fn describe(&self) -> String {
        String::new()
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Outside(audit::intent::NAME, "an intent is recorded only for a permitted call"),
            Order::Outside(retry::NAME, "a refused call must never be tried again"),
        ]
    }

    fn needs_tools(&self) -> bool {
        true
    }

    fn decide(&self, cx: &Context, access: &mut ToolAccess<'_>) -> Result<(), Denial> {
        (self.1)(cx, access).map_err(|failure| failure.or_by(self.0).into())
    }

    fn allowed_by(&self, _cx: &Context, _access: &ToolAccess<'_>) -> String {
        self.0.to_owned()
    }
}

impl<F> fmt::Debug for GateLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GateLayer").field(&self.0).finish()
    }
}

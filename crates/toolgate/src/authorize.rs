//! Layers that decide which tools a caller may use: one decision for calls, listings and explanations.

use crate::{
    call::{Call, Listing, ToolList},
    context::Context,
    failure::Failure,
    layer::{Explanation, Hooks, Middleware, Next, Order},
    outcome::Outcome,
    selector::Steps,
    tool::Tool,
};

/// A layer that allows or denies tools. It is a [`Middleware`]: a call of a tool that [`decide`](Self::decide) denies
/// is refused, and a listing does not show the tool. A layer cannot hide a tool and let it be called.
///
/// ```
/// use toolgate::{Authorize, Context, Denial, Failure, Order, ToolAccess};
///
/// struct Weekdays(bool);
///
/// impl Authorize for Weekdays {
///     fn name(&self) -> &'static str { "weekdays" }
///
///     fn describe(&self) -> String { String::new() }
///
///     fn order(&self) -> &'static [Order] { &[] }
///
///     fn decide(&self, _: &Context, access: &mut ToolAccess<'_>) -> Result<(), Denial> {
///         if self.0 {
///             return Ok(());
///         }
///         Err(Failure::refused(format!("`{}` waits until Monday", access.name())).into())
///     }
///
///     fn allowed_by(&self, _: &Context, _: &ToolAccess<'_>) -> String { "a weekday".to_owned() }
/// }
/// ```
pub trait Authorize: Send + Sync + 'static {
    /// See [`Middleware::name`].
    fn name(&self) -> &'static str;

    /// See [`Middleware::describe`].
    fn describe(&self) -> String;

    /// See [`Middleware::order`].
    fn order(&self) -> &'static [Order];

    /// See [`Middleware::needs_tools`].
    fn needs_tools(&self) -> bool {
        false
    }

    /// Whether listings leave out denied tools. If not, clients see tools that they cannot call.
    fn hides(&self) -> bool {
        true
    }

    /// Decides whether a listing is refused as a whole, before the gateway asks any server.
    fn check_listing(&self, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }

    /// Decides whether the caller may use the tool.
    fn decide(&self, cx: &Context, access: &mut ToolAccess<'_>) -> Result<(), Denial>;

    /// The rule by which an allowed tool passes, for `toolgate why`.
    fn allowed_by(&self, cx: &Context, access: &ToolAccess<'_>) -> String;

    /// The rule and the reason of a decision, for `toolgate why`.
    fn reason(
        &self,
        cx: &Context,
        access: &ToolAccess<'_>,
        decision: Result<(), &Failure>,
    ) -> (String, String) {
        match decision {
            Ok(()) => (self.allowed_by(cx, access), String::new()),
            Err(denial) => {
                (denial.rule().unwrap_or_default().to_owned(), denial.message().to_owned())
            }
        }
    }
}

/// A tool that a caller wants to use: a call of it, or its entry in a listing.
#[derive(Debug)]
pub struct ToolAccess<'a> {
    tool: &'a Tool,
    call: Option<&'a Call>,
    /// The remaining steps for matching patterns that the client sent. A call has one budget, and a whole listing has
    /// one.
    pub steps: &'a mut Steps,
}

impl<'a> ToolAccess<'a> {
    /// The tool.
    #[must_use]
    pub fn tool(&self) -> &'a Tool {
        self.tool
    }

    /// The call. `None` for a listing, which has no arguments: it shows a tool if the caller may call the tool with
    /// some arguments.
    #[must_use]
    pub fn call(&self) -> Option<&'a Call> {
        self.call
    }

    /// The name under which the caller knows the tool.
    #[must_use]
    pub fn name(&self) -> &'a str {
        let wire_name = self.call.and_then(Call::wire_name);
        wire_name.map_or_else(|| self.tool.id().name(), AsRef::as_ref)
    }
}

/// A denied tool.
#[derive(Clone, Debug)]
pub enum Denial {
    /// The caller may not use this tool.
    Tool(Failure),
    /// The request itself is invalid and may use no tool. A listing fails as a whole.
    Request(Failure),
}

impl Denial {
    fn failure(&self) -> &Failure {
        match self {
            Self::Tool(failure) | Self::Request(failure) => failure,
        }
    }

    fn into_failure(self) -> Failure {
        match self {
            Self::Tool(failure) | Self::Request(failure) => failure,
        }
    }
}

impl From<Failure> for Denial {
    fn from(failure: Failure) -> Self {
        Self::Tool(failure)
    }
}

/// The decision about a call.
fn check(layer: &impl Authorize, cx: &Context, call: &Call) -> Result<(), Denial> {
    let mut steps = Steps::default();
    layer.decide(cx, &mut ToolAccess { tool: call.tool(), call: Some(call), steps: &mut steps })
}

impl<A: Authorize> Middleware for A {
    fn name(&self) -> &'static str {
        Authorize::name(self)
    }

    fn describe(&self) -> String {
        Authorize::describe(self)
    }

    fn hooks(&self) -> Hooks {
        if self.hides() { Hooks::TOOLS } else { Hooks::CALL }
    }

    fn order(&self) -> &'static [Order] {
        Authorize::order(self)
    }

    fn needs_tools(&self) -> bool {
        Authorize::needs_tools(self)
    }

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explanation> {
        let mut steps = Steps::default();
        let mut access = ToolAccess { tool: call.tool(), call: Some(call), steps: &mut steps };
        let decision = self.decide(cx, &mut access);
        let decision = decision.as_ref().copied().map_err(Denial::failure);
        let (rule, why) = self.reason(cx, &access, decision);
        let code = decision.err().map(Failure::code);
        Some(Explanation { allowed: decision.is_ok(), asks: false, rule, why, code })
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        match check(self, cx, &call) {
            Ok(()) => next.call(cx, call).await,
            Err(denial) => denial.into_failure().into(),
        }
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        self.check_listing(cx)?;
        let mut list = next.list(cx, listing).await?;
        let mut steps = Steps::default();
        let mut undecided = None;
        list.retain(|tool| {
            let mut access = ToolAccess { tool, call: None, steps: &mut steps };
            let decision = self.decide(cx, &mut access);
            if let Err(Denial::Request(failure)) = decision {
                undecided = Some(failure);
                return false;
            }
            decision.is_ok()
        });
        undecided.map_or(Ok(list), Err)
    }
}

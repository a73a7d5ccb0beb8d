//! The three safety tiers, and how a tool's hints determine its tier.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The harm that a tool can do. Ordered: `readonly < mutating < destructive`.
///
/// ```
/// use toolgate::Tier;
///
/// assert!(Tier::Readonly < Tier::Mutating && Tier::Mutating < Tier::Destructive);
/// assert_eq!("destructive".parse(), Ok(Tier::Destructive));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Changes nothing.
    Readonly,
    /// Makes changes that can be undone or are limited.
    Mutating,
    /// May destroy data that cannot be restored.
    Destructive,
}

impl Tier {
    /// All tiers, least harmful first.
    pub const ALL: [Self; 3] = [Self::Readonly, Self::Mutating, Self::Destructive];

    /// The name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Readonly => "readonly",
            Self::Mutating => "mutating",
            Self::Destructive => "destructive",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unknown tier, which is an error at startup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown safety tier `{0}`: write one of `readonly`, `mutating`, `destructive`")]
pub struct UnknownTier(String);

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|tier| tier.name() == text)
            .ok_or_else(|| UnknownTier(text.to_owned()))
    }
}

/// The hints of a tool's `annotations` on which decisions depend.
///
/// A hint of the wrong type counts as absent.
///
/// ```
/// use toolgate::{Tier, ToolHints};
///
/// let hints = ToolHints { read_only: Some(true), ..ToolHints::default() };
/// assert_eq!(hints.tier(), Some(Tier::Readonly));
/// assert_eq!(ToolHints::default().tier(), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolHints {
    /// `readOnlyHint`
    pub read_only: Option<bool>,
    /// `destructiveHint`
    pub destructive: Option<bool>,
    /// `idempotentHint`
    pub idempotent: Option<bool>,
    /// `openWorldHint`
    pub open_world: Option<bool>,
}

impl ToolHints {
    /// The tier that follows from the hints, or `None` without enough hints.
    ///
    /// The protocol's default for a tool that is not read-only is `destructiveHint: true`. Of contradicting hints the
    /// worse one counts.
    #[must_use]
    pub fn tier(self) -> Option<Tier> {
        match (self.read_only, self.destructive) {
            (_, Some(true)) | (Some(false), None) => Some(Tier::Destructive),
            (Some(true), _) => Some(Tier::Readonly),
            (_, Some(false)) => Some(Tier::Mutating),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_ordered_and_parse_exactly() {
        assert!(Tier::Readonly < Tier::Mutating && Tier::Mutating < Tier::Destructive);
        assert_eq!("mutating".parse(), Ok(Tier::Mutating));
        for wrong in ["Readonly", "all", "", " readonly"] {
            assert!(wrong.parse::<Tier>().is_err(), "{wrong:?} must not parse");
        }
    }

    #[test]
    fn hints_speak_for_the_worse_tier() {
        let hints =
            |read_only, destructive| ToolHints { read_only, destructive, ..ToolHints::default() };
        assert_eq!(hints(None, None).tier(), None);
        assert_eq!(hints(Some(true), None).tier(), Some(Tier::Readonly));
        assert_eq!(hints(Some(true), Some(false)).tier(), Some(Tier::Readonly));
        assert_eq!(hints(Some(true), Some(true)).tier(), Some(Tier::Destructive));
        assert_eq!(hints(Some(false), None).tier(), Some(Tier::Destructive));
        assert_eq!(hints(Some(false), Some(false)).tier(), Some(Tier::Mutating));
        assert_eq!(hints(None, Some(false)).tier(), Some(Tier::Mutating));
        assert_eq!(hints(None, Some(true)).tier(), Some(Tier::Destructive));
    }
}

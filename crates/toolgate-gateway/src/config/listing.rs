//! How a namespace names its tools and prompts, and how many entries one page of a list has.

use serde::{Deserialize, Deserializer, Serialize};

/// `prefix = "always" | "on-collision" | "never"`
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Prefix {
    /// All.
    Always,
    /// Those whose name another server of the namespace had first.
    #[default]
    OnCollision,
    /// None, except names that begin with another server's prefix. A name that several servers have is an error at
    /// startup.
    Never,
}

/// How many entries a list has on one page: 1000 if not set.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq, schemars::JsonSchema)]
#[schemars(transparent)]
pub(crate) struct PageSize(pub(crate) usize);

impl Default for PageSize {
    fn default() -> Self {
        Self(1000)
    }
}

impl<'de> Deserialize<'de> for PageSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match usize::deserialize(deserializer)? {
            0 => Err(serde::de::Error::custom("a page of `0` has nothing on it: write at least 1")),
            size => Ok(Self(size)),
        }
    }
}

/// How a namespace names its tools and prompts, and how it divides lists into pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListingStyle {
    pub(crate) prefix: Prefix,
    pub(crate) page_size: usize,
}

//! The side and the size of a new pane, for `split_window` and `join_pane`.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::Command;

/// The side of a pane on which another one is placed.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SplitSide {
    Above,
    Below,
    Left,
    Right,
}

impl SplitSide {
    /// Adds the flags for the side; below by default.
    pub(super) fn put(place: Option<Self>, command: Command) -> Command {
        match place {
            Some(Self::Above) => command.flag("-v").flag("-b"),
            Some(Self::Below) | None => command.flag("-v"),
            Some(Self::Left) => command.flag("-h").flag("-b"),
            Some(Self::Right) => command.flag("-h"),
        }
    }
}

/// Rows or columns, or a percentage of the pane that is split.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum SplitSize {
    Cells(#[schemars(range(min = 1, max = 10_000))] u32),
    Text(#[schemars(regex(pattern = "^([1-9][0-9]{0,3}|[1-9][0-9]?%|100%)$"))] String),
}

impl SplitSize {
    /// Adds `-l` with the size.
    pub(super) fn put(size: Option<&Self>, command: Command) -> Command {
        match size {
            None => command,
            Some(Self::Cells(cells)) => command.option("-l", cells.to_string()),
            Some(Self::Text(text)) => command.option("-l", text),
        }
    }
}

//! Where a pane goes and how large it is: what `split_window` and `join_pane` share.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::Command;

/// On which side of a pane another one goes.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SplitSide {
    Above,
    Below,
    Left,
    Right,
}

impl SplitSide {
    /// The command with its flags; below where nothing is said.
    pub(super) fn put(place: Option<Self>, command: Command) -> Command {
        match place {
            Some(Self::Above) => command.flag("-v").flag("-b"),
            Some(Self::Below) | None => command.flag("-v"),
            Some(Self::Left) => command.flag("-h").flag("-b"),
            Some(Self::Right) => command.flag("-h"),
        }
    }
}

/// Rows or columns, or a part of the pane that is split.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum SplitSize {
    Cells(#[schemars(range(min = 1, max = 10_000))] u32),
    Text(#[schemars(regex(pattern = "^([1-9][0-9]{0,3}|[1-9][0-9]?%|100%)$"))] String),
}

impl SplitSize {
    /// The command with its `-l`.
    pub(super) fn put(size: Option<&Self>, command: Command) -> Command {
        match size {
            None => command,
            Some(Self::Cells(cells)) => command.option("-l", cells.to_string()),
            Some(Self::Text(text)) => command.option("-l", text),
        }
    }
}

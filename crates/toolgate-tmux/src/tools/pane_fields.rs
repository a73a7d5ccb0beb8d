//! The arguments `fields` and `filters` of `list_panes`: which fields tmux is asked for, and which the caller gets.

use rmcp::model::JsonObject;
use serde::Serialize;
use toolgate::Failure;

use crate::{
    filters::{Filters, ParsedFilters},
    info::PaneInfo,
    schema::object,
    tool::{SharedModel, invalid_arguments},
};

/// The field that identifies a pane: it is in every row.
const ID: &str = "pane_id";
/// The field that tmux does not know.
const OURS: &str = "is_caller";

/// The fields of a listing.
pub(super) struct PaneFields {
    /// The fields that the caller gets; all if it chose none.
    chosen: Option<Vec<String>>,
    filters: ParsedFilters,
}

/// A pane with all fields, or with those that the caller chose.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum PaneRow {
    All(Box<PaneInfo>),
    Chosen(JsonObject),
}

impl SharedModel for PaneRow {
    const FULL_SCHEMA_TOOL: &'static str = PaneInfo::FULL_SCHEMA_TOOL;
}

impl PaneFields {
    /// Reads the arguments. An unknown field is an error.
    pub(super) fn new(
        chosen: Option<&[String]>,
        filters: Option<&Filters>,
    ) -> Result<Self, Failure> {
        let all = [PaneInfo::FIELDS, &[OURS]].concat();
        let filters = ParsedFilters::parse(filters, &all)?;
        if let Some(unknown) =
            chosen.into_iter().flatten().find(|field| !all.contains(&field.as_str()))
        {
            let all = all.join(", ");
            return Err(invalid_arguments(format!(
                "Invalid field '{unknown}' in fields. Valid fields: {all}"
            )));
        }
        Ok(Self { chosen: chosen.map(<[String]>::to_vec), filters })
    }

    /// The fields to ask tmux for: those that the caller gets and those that a filter needs.
    pub(super) fn tmux_fields(&self) -> Vec<&'static str> {
        let is_needed = |field: &&str| self.is_chosen(field) || self.filters.needs(field);
        PaneInfo::FIELDS.iter().copied().filter(is_needed).collect()
    }

    /// The panes that pass the filters, with the fields that the caller gets.
    pub(super) fn rows(&self, panes: Vec<PaneInfo>) -> Vec<PaneRow> {
        let panes = self.filters.passing(panes).into_iter();
        if self.chosen.is_none() {
            return panes.map(|pane| PaneRow::All(Box::new(pane))).collect();
        }
        let row = |pane| {
            let mut row = object(serde_json::to_value(pane).unwrap_or_default());
            row.retain(|field, _| self.is_chosen(field));
            PaneRow::Chosen(row)
        };
        panes.map(row).collect()
    }

    /// Whether the caller gets this field.
    fn is_chosen(&self, field: &str) -> bool {
        let chosen = self.chosen.as_ref();
        field == ID || chosen.is_none_or(|chosen| chosen.iter().any(|name| name == field))
    }
}

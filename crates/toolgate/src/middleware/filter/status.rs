//! The status of a tool: by its exact name, otherwise by globs, of which `inactive` takes precedence.

use std::collections::HashMap;

use super::{FilterError, config::Status};
use crate::{identity::ToolId, selector::Selector};

/// The compiled statuses of a namespace: exact names in a map, then globs.
#[derive(Clone, Debug, Default)]
pub(super) struct Statuses {
    named: HashMap<ToolId, (Status, Selector)>,
    inactive: Vec<Selector>,
    active: Vec<Selector>,
}

impl Statuses {
    /// Refuses a selector that is set both ways.
    pub(super) fn new(inactive: &[Selector], active: &[Selector]) -> Result<Self, FilterError> {
        if let Some(both) = inactive.iter().find(|selector| active.contains(selector)) {
            return Err(FilterError::Contradiction(both.clone()));
        }
        let mut statuses = Self::default();
        for (status, selectors) in [(Status::Inactive, inactive), (Status::Active, active)] {
            for selector in selectors {
                statuses.add(status, selector);
            }
        }
        Ok(statuses)
    }

    fn add(&mut self, status: Status, selector: &Selector) {
        let text = selector.to_string();
        match (text.split_once('/'), status) {
            (Some((server, name)), _) if selector.is_exact() => {
                let id = ToolId::new(server, name);
                self.named.insert(id, (status, selector.clone()));
            }
            (_, Status::Inactive) => self.inactive.push(selector.clone()),
            (_, Status::Active) => self.active.push(selector.clone()),
        }
    }

    /// The status that the settings give this tool, and the deciding selector.
    pub(super) fn of(&self, tool: &ToolId) -> Option<(Status, &Selector)> {
        if let Some((status, selector)) = self.named.get(tool) {
            return Some((*status, selector));
        }
        if let Some(selector) = self.inactive.iter().find(|selector| selector.covers(tool)) {
            return Some((Status::Inactive, selector));
        }
        let selector = self.active.iter().find(|selector| selector.covers(tool))?;
        Some((Status::Active, selector))
    }

    /// The numbers of inactive and active selectors.
    pub(super) fn count(&self) -> (usize, usize) {
        let named = |wanted| self.named.values().filter(|(status, _)| *status == wanted).count();
        (self.inactive.len() + named(Status::Inactive), self.active.len() + named(Status::Active))
    }
}

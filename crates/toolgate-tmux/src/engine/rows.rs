//! Lists of sessions, windows, panes and clients, read as rows of fields.

use std::{collections::HashSet, fmt::Write as _, sync::Arc};

use super::{command::Command, error::TmuxError, nonce::nonce};

/// What to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListTarget<'a> {
    /// All sessions.
    Sessions,
    /// All windows, or those of a session (`$1`).
    Windows(Option<&'a str>),
    /// The window with this id (`@1`) alone.
    Window(&'a str),
    /// All panes, those of a session (`$1`), or those of a window (`@1`, or `%1` for the window of that pane).
    Panes(Option<&'a str>),
    /// The pane with this id (`%1`) alone.
    Pane(&'a str),
    /// All attached clients.
    Clients,
}

impl ListTarget<'_> {
    pub(super) fn command(self) -> Command {
        match self {
            Self::Sessions => Command::new("list-sessions"),
            Self::Windows(None) => Command::new("list-windows").flag("-a"),
            Self::Windows(Some(session)) => Command::new("list-windows").target(session),
            // The window's links are in several sessions, from which `-t` would choose one. The id is checked to be
            // one.
            Self::Window(id) => {
                let this = format!("#{{==:#{{window_id}},{id}}}");
                Command::new("list-windows").flag("-a").option("-f", this)
            }
            Self::Panes(None) => Command::new("list-panes").flag("-a"),
            Self::Panes(Some(id)) => {
                Command::new("list-panes").flag_if(id.starts_with('$'), "-s").target(id)
            }
            // Lists the window's panes; the filter selects one. The id is checked to be one.
            Self::Pane(id) => {
                let this = format!("#{{==:#{{pane_id}},{id}}}");
                Command::new("list-panes").option("-f", this).target(id)
            }
            Self::Clients => Command::new("list-clients"),
        }
    }

    /// Whether the list covers all sessions.
    pub(super) fn is_everywhere(self) -> bool {
        !matches!(self, Self::Windows(Some(_)) | Self::Panes(Some(_)) | Self::Pane(_))
    }

    /// Keeps one row of each window and pane: tmux lists one for each session that the window is linked into.
    pub(super) fn once_each(self, mut rows: Vec<Row>) -> Vec<Row> {
        let id = match self {
            Self::Sessions => "session_id",
            Self::Windows(_) | Self::Window(_) => "window_id",
            Self::Panes(_) | Self::Pane(_) => "pane_id",
            Self::Clients => "client_name",
        };
        let mut seen = HashSet::new();
        rows.retain(|row| row.get(id).is_none_or(|id| seen.insert(id.to_owned())));
        rows
    }
}

/// The fields of one session, window, pane or client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    fields: Arc<[&'static str]>,
    values: Vec<String>,
}

impl Row {
    /// The value of a field that was requested.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&str> {
        let at = self.fields.iter().position(|name| *name == field)?;
        self.values.get(at).map(String::as_str)
    }

    /// The value of a field; empty if it was not requested.
    #[must_use]
    pub fn text(&self, field: &str) -> String {
        self.get(field).unwrap_or_default().to_owned()
    }

    /// The value of a field; `None` if it is empty.
    #[must_use]
    pub fn maybe(&self, field: &str) -> Option<String> {
        self.get(field).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// The value of a field as a number; 0 if it is none.
    #[must_use]
    pub fn number(&self, field: &str) -> i64 {
        self.get(field).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// Whether the value of a field is `1`.
    #[must_use]
    pub fn is_set(&self, field: &str) -> bool {
        self.get(field) == Some("1")
    }

    pub(super) fn reduce(&mut self, field: &str, by: usize) {
        let at = self.fields.iter().position(|name| *name == field);
        if let Some(value) = at.and_then(|at| self.values.get_mut(at))
            && let Ok(count) = value.parse::<usize>()
        {
            *value = count.saturating_sub(by).to_string();
        }
    }
}

/// A tmux format whose fields are separated by a random mark, since names and paths may contain any text, also
/// newlines.
pub(super) struct Listing {
    fields: Arc<[&'static str]>,
    mark: String,
}

impl Listing {
    pub(super) fn new(fields: &[&'static str]) -> Self {
        Self { fields: fields.into(), mark: nonce() }
    }

    pub(super) fn format(&self) -> String {
        let mut format = String::new();
        for field in &*self.fields {
            // Writing to a string cannot fail.
            let _ = write!(format, "#{{{field}}}{}", self.mark);
        }
        format
    }

    pub(super) fn rows(&self, printed: &str) -> Result<Vec<Row>, TmuxError> {
        let mut values = printed.split(&self.mark).collect::<Vec<_>>();
        // The text after the last mark is empty.
        values.pop();
        if self.fields.is_empty() || !values.len().is_multiple_of(self.fields.len()) {
            return Err(TmuxError::Garbled("a list has fields that toolgate did not ask for"));
        }
        let row = |(at, values): (usize, &[&str])| {
            let mut values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            // A row begins after the newline that ends the row before.
            if at > 0
                && let Some(first) = values.first_mut()
            {
                *first = first.strip_prefix('\n').unwrap_or(first).to_owned();
            }
            Row { fields: Arc::clone(&self.fields), values }
        };
        Ok(values.chunks(self.fields.len()).enumerate().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_hold_anything_but_the_mark() {
        let listing = Listing { fields: ["a", "b"].into(), mark: "M".to_owned() };
        assert_eq!(listing.format(), "#{a}M#{b}M");
        let rows = listing.rows("1Mx\ny\nM\n2M%endM").unwrap();
        let values: Vec<_> = rows.iter().map(|row| (row.text("a"), row.text("b"))).collect();
        assert_eq!(values, [("1".into(), "x\ny\n".into()), ("2".into(), "%end".into())]);
        assert!(listing.rows("1M").is_err());
        assert_eq!(listing.rows("").unwrap(), []);
    }
}

//! Calls as JSON, JSON lines and CSV.

use std::io::{self, Write};

use toolgate_store::CallRecord;

/// Writes calls one by one.
#[derive(Debug)]
pub(super) struct Export {
    form: ExportFormat,
    is_first: bool,
}

#[derive(Clone, Copy, Debug)]
enum ExportFormat {
    Json,
    Jsonl,
    Csv,
}

impl Export {
    pub(super) fn json() -> Self {
        Self { form: ExportFormat::Json, is_first: true }
    }

    pub(super) fn jsonl() -> Self {
        Self { form: ExportFormat::Jsonl, is_first: true }
    }

    pub(super) fn csv() -> Self {
        Self { form: ExportFormat::Csv, is_first: true }
    }

    pub(super) fn write(&mut self, records: &[CallRecord], out: &mut impl Write) -> io::Result<()> {
        if self.is_first && matches!(self.form, ExportFormat::Csv) {
            self.is_first = false;
            let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
            write!(out, "{}\r\n", names.join(","))?;
        }
        for record in records {
            match self.form {
                ExportFormat::Json => {
                    out.write_all(if self.is_first { b"[\n" } else { b",\n" })?;
                    out.write_all(json(record)?.as_bytes())?;
                }
                ExportFormat::Jsonl => {
                    out.write_all(json(record)?.as_bytes())?;
                    out.write_all(b"\n")?;
                }
                ExportFormat::Csv => {
                    let values = COLUMNS.iter().map(|(_, value)| field(value(record)));
                    write!(out, "{}\r\n", values.collect::<Vec<_>>().join(","))?;
                }
            }
            self.is_first = false;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        match (self.form, self.is_first) {
            (ExportFormat::Json, true) => out.write_all(b"[]\n"),
            (ExportFormat::Json, false) => out.write_all(b"\n]\n"),
            _ => Ok(()),
        }
    }
}

/// The record as JSON, with terminal control characters escaped.
fn json(record: &CallRecord) -> serde_json::Result<String> {
    let text = serde_json::to_string(record)?;
    Ok(toolgate::printable::json(&text).into_owned())
}

/// One field by RFC 4180: quoted if necessary, with quotes doubled.
fn field(text: String) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

type Column = (&'static str, fn(&CallRecord) -> String);

/// The same names as in JSON.
const COLUMNS: &[Column] = &[
    ("ts", |record| {
        let at = jiff::Timestamp::from_microsecond(record.at_us).unwrap_or_default();
        format!("{at:.6}")
    }),
    ("event", |record| record.kind.name().to_owned()),
    ("call_id", |record| record.id.clone()),
    ("parent_call_uuid", |record| text(record.parent.as_ref())),
    ("session", |record| record.session.clone()),
    ("principal", |record| record.principal.clone()),
    ("namespace", |record| record.namespace.clone()),
    ("client", |record| text(record.client.as_ref())),
    ("server", |record| text(record.server.as_ref())),
    ("tool", |record| text(record.tool.as_ref())),
    ("wire_name", |record| text(record.wire_name.as_ref())),
    ("outcome", |record| record.outcome.clone()),
    ("ran", |record| record.ran.clone()),
    ("code", |record| text(record.code.as_ref())),
    ("decided_by", |record| text(record.decided_by.as_ref())),
    ("rule", |record| text(record.rule.as_ref())),
    ("approval", |record| text(record.approval.as_ref())),
    ("duration_us", |record| record.duration_us.to_string()),
    ("arguments_bytes", |record| number(record.arguments_bytes)),
    ("result_bytes", |record| number(record.result_bytes)),
    ("error_bytes", |record| number(record.error_bytes)),
    ("error", |record| text(record.error.as_ref())),
    ("arguments", |record| text(record.arguments.as_ref())),
    ("result", |record| text(record.result.as_ref())),
];

fn text(value: Option<&String>) -> String {
    value.cloned().unwrap_or_default()
}

fn number(value: Option<u64>) -> String {
    value.map(|number| number.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_have_to_be() {
        let told = ["plain", "a,b", "say \"hi\"", "two\nlines", ""].map(str::to_owned).map(field);
        assert_eq!(told, ["plain", "\"a,b\"", "\"say \"\"hi\"\"\"", "\"two\nlines\"", ""]);
    }

    /// Exports have every field of a record.
    #[test]
    fn csv_has_every_field_that_json_has() {
        let full = CallRecord {
            parent: Some(String::new()),
            client: Some(String::new()),
            server: Some(String::new()),
            tool: Some(String::new()),
            wire_name: Some(String::new()),
            code: Some(String::new()),
            decided_by: Some(String::new()),
            rule: Some(String::new()),
            approval: Some("{}".to_owned()),
            arguments_bytes: Some(0),
            result_bytes: Some(0),
            error_bytes: Some(0),
            error: Some(String::new()),
            arguments: Some("{}".to_owned()),
            result: Some("{}".to_owned()),
            ..CallRecord::default()
        };
        let json = serde_json::to_value(&full).unwrap();
        let mut in_json: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut in_csv: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        in_json.sort_unstable();
        in_csv.sort_unstable();
        assert_eq!(in_csv, in_json);
    }
}

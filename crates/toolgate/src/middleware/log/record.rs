//! A record of the call log, as the store keeps it.

use serde::{Deserialize, Serialize};

/// The subject of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// A call of a tool.
    #[default]
    Call,
    /// A listing of tools.
    Listing,
}

impl RecordKind {
    /// The name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Listing => "listing",
        }
    }
}

/// One ended call or listing. Arguments, result and error are redacted and shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The id of the call.
    #[serde(rename = "call_id")]
    pub id: String,
    /// The id of the parent call, as the client sent it.
    #[serde(rename = "parent_call_uuid", default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The subject of the record.
    #[serde(rename = "event")]
    pub kind: RecordKind,
    /// Start, in microseconds since 1970.
    #[serde(rename = "ts", with = "timestamp")]
    pub at_us: i64,
    /// Duration, in microseconds.
    pub duration_us: u64,
    /// The session.
    pub session: String,
    /// The caller.
    pub principal: String,
    /// The namespace that the client was connected to.
    pub namespace: String,
    /// The client's name and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The server of the tool; none for a listing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The server's own name for the tool; none for a listing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The name that the client used, if the transport set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_name: Option<String>,
    /// The outcome: the name of a [`Class`](crate::Class).
    pub outcome: String,
    /// Whether the tool ran: `yes`, `no` or `maybe`.
    pub ran: String,
    /// The code of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The layer that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The decision by `toolgate approve` or `toolgate deny`: JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "json_text")]
    pub approval: Option<String>,
    /// Size of the arguments, in bytes, before redaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_bytes: Option<u64>,
    /// Size of the result, in bytes, before redaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Size of the error's message, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_bytes: Option<u64>,
    /// The redacted message of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The redacted arguments: JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "json_text")]
    pub arguments: Option<String>,
    /// The redacted result: JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "json_text")]
    pub result: Option<String>,
}

/// Serializes microseconds since 1970 as a timestamp.
mod timestamp {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    pub(super) fn serialize<S: Serializer>(at_us: &i64, to: S) -> Result<S::Ok, S::Error> {
        let at = jiff::Timestamp::from_microsecond(*at_us).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        to.collect_str(&format_args!("{at:.6}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
        let text = String::deserialize(from)?;
        let at: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(at.as_microsecond())
    }
}

/// Serializes JSON text as JSON.
mod json_text {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use serde_json::value::RawValue;

    #[expect(clippy::ref_option, reason = "serde passes fields by reference")]
    pub(super) fn serialize<S: Serializer>(
        text: &Option<String>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match text {
            None => to.serialize_none(),
            Some(text) => match RawValue::from_string(text.clone()) {
                Ok(json) => json.serialize(to),
                // Not valid JSON, so toolgate did not write it. Serialize it as a string.
                Err(_) => to.serialize_str(text),
            },
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<String>, D::Error> {
        let json = Option::<Box<RawValue>>::deserialize(from)?;
        Ok(json.map(|json| json.get().to_owned()))
    }
}

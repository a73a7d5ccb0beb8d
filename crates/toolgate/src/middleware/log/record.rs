//! One record of the log: plain data, as a store keeps it and as people read it.

use serde::{Deserialize, Serialize};

/// What a record tells of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A call of a tool.
    #[default]
    Call,
    /// A listing of tools.
    Listing,
}

impl Kind {
    /// The name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Listing => "listing",
        }
    }
}

/// One call, or listing, that has ended. Arguments, result and error are redacted and cut already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The id of the call.
    #[serde(rename = "call_id")]
    pub id: String,
    /// The id of the call that it was part of, as the client gave it.
    #[serde(rename = "parent_call_uuid", default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What it tells of.
    #[serde(rename = "event")]
    pub kind: Kind,
    /// When it began, in microseconds since 1970.
    #[serde(rename = "ts", with = "timestamp")]
    pub at_us: i64,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// The connection.
    pub session: String,
    /// Who called.
    pub principal: String,
    /// The namespace that the client was connected to.
    pub namespace: String,
    /// What the client said that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The server that has the tool; none for a listing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The server's own name for the tool; none for a listing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The name that the client called it by, where the door says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_name: Option<String>,
    /// How it ended: the name of a [`Class`](crate::Class).
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
    /// What a person decided about it, by `toolgate approve` or `toolgate deny`: JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "json_text")]
    pub approval: Option<String>,
    /// The size of the arguments as they came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_bytes: Option<u64>,
    /// The size of the result as it came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// The size of the error's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_bytes: Option<u64>,
    /// What is kept of the error's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is kept of the arguments: JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "json_text")]
    pub arguments: Option<String>,
    /// What is kept of the result: JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "json_text")]
    pub result: Option<String>,
}

/// Microseconds since 1970, written as people write times.
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

/// JSON kept as text, written as the JSON that it is.
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
                // Nothing that we write; whoever did, it is told as it is.
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

//! The file format of a record: a line of JSON, and a line with its authentication tag.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;

/// The key that authenticates records: 32 bytes from the system's randomness.
pub(super) type Key = [u8; 32];

/// What a person has decided so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalState {
    /// Nothing.
    Pending,
    /// The call may run once.
    Approved,
    /// The call may not run.
    Denied,
    /// It was approved, and a call has used the approval. A layer after that may still have refused the call.
    Used,
}

/// One request for approval, with what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRecord {
    /// The id that people type.
    pub id: String,
    /// What was decided.
    pub state: ApprovalState,
    /// Who calls.
    pub principal: String,
    /// The namespace.
    pub namespace: String,
    /// What the client says that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The server that has the tool.
    pub server: String,
    /// The server's own name for the tool.
    pub tool: String,
    /// Why a person has to approve; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The rule that asks for the approval.
    pub rule: String,
    /// The arguments, without secrets.
    pub arguments: Value,
    /// Whether all arguments are shown.
    pub is_whole: bool,
    /// When the call was first made, in milliseconds since 1970.
    pub created_ms: i64,
    /// When a pending request expires, an approval can no longer be used, or a denial no longer holds.
    pub expires_ms: i64,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_ms: Option<i64>,
    /// The reason of a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the approval was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_ms: Option<i64>,
    /// How long a decision holds.
    pub ttl_ms: i64,
    /// The digest of the call.
    pub call: String,
}

impl ApprovalRecord {
    /// Whether the record still applies to calls: it is pending, approved or denied, and has not expired.
    #[must_use]
    pub fn is_live(&self, now_ms: i64) -> bool {
        self.state != ApprovalState::Used && now_ms < self.expires_ms
    }

    /// Whether a person can still decide the request.
    #[must_use]
    pub fn is_pending(&self, now_ms: i64) -> bool {
        self.state == ApprovalState::Pending && self.is_live(now_ms)
    }

    /// The two lines of the file.
    pub(super) fn to_bytes(&self, key: &Key) -> serde_json::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        let tag = hex(&tag(key, b"record", &[&bytes]));
        bytes.push(b'\n');
        bytes.extend_from_slice(tag.as_bytes());
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Reads the two lines; `None` if the tag is not valid for this key, or if the record has another id.
    pub(super) fn from_bytes(bytes: &[u8], id: &str, key: &Key) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let (json, found) = text.rsplit_once('\n')?;
        let own = hex(&tag(key, b"record", &[json.as_bytes()]));
        if !bool::from(subtle::ConstantTimeEq::ct_eq(own.as_bytes(), found.as_bytes())) {
            return None;
        }
        // A copy under another file name must not count as a second approval.
        serde_json::from_str(json).ok().filter(|record: &Self| record.id == id)
    }
}

/// An authentication tag. It includes the length of each part, so that different lists of parts have different tags.
pub(super) fn tag(key: &Key, purpose: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut out = [0; 32];
    // HMAC accepts a key of any length, so this cannot fail.
    if let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) {
        mac.update(purpose);
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        out = mac.finalize().into_bytes().into();
    }
    out
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

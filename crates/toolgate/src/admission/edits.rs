//! What has to change in a request's params before they are sent to a server.

use toolgate_wire::{Json, Message, Object, mcp::member};

use crate::client_input::InputRound;

/// The changes that admission makes to the params of one request. Without any, the client's bytes can be sent as they
/// are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    members: Vec<(&'static str, Json)>,
    meta: Meta,
    has_own_round: bool,
}

/// The `_meta` of a request after control data was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Meta {
    #[default]
    Unchanged,
    Replaced(Json),
    Removed,
}

impl Edits {
    /// Sends this `_meta` instead of the client's, or none.
    pub(super) fn of_meta(rest: Option<Json>) -> Self {
        Self { meta: rest.map_or(Meta::Removed, Meta::Replaced), ..Self::default() }
    }

    /// Sends this member instead of the client's.
    pub fn set(&mut self, member: &'static str, value: Json) {
        self.members.push((member, value));
    }

    /// Sends neither `requestState` nor `inputResponses` of the client: they answer a question of toolgate's own.
    pub(super) fn take_input(&mut self) {
        self.has_own_round = true;
    }

    /// Whether the client's `requestState` and `inputResponses` answer a question of toolgate's own.
    #[must_use]
    pub fn has_own_round(&self) -> bool {
        self.has_own_round
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.meta == Meta::Unchanged && !self.has_own_round
    }

    /// The `_meta` that is sent for `message`.
    #[must_use]
    pub fn meta(&self, message: &Message) -> Option<Json> {
        match &self.meta {
            Meta::Unchanged => message.member(member::META),
            Meta::Replaced(meta) => Some(meta.clone()),
            Meta::Removed => None,
        }
    }

    /// Changes the params. `resumed` is what a layer hands the server back of the server's own question.
    pub fn apply(&self, params: &mut Object, resumed: Option<&InputRound>) {
        for (key, value) in &self.members {
            params.set(key, value.clone());
        }
        match &self.meta {
            Meta::Replaced(meta) => params.set(member::META, meta.clone()),
            Meta::Removed => drop(params.remove(member::META)),
            Meta::Unchanged => {}
        }
        if self.has_own_round {
            put_input(params, resumed);
        }
    }
}

/// Replaces `requestState` and `inputResponses`, or removes them.
pub fn put_input(params: &mut Object, round: Option<&InputRound>) {
    for (key, value) in [
        ("requestState", round.and_then(|round| round.state.as_ref())),
        ("inputResponses", round.and_then(|round| round.responses.as_ref())),
    ] {
        match value {
            Some(value) => params.set(key, value.clone()),
            None => drop(params.remove(key)),
        }
    }
}

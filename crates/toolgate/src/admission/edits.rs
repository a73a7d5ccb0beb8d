//! Changes to a request's params before they are sent to a server.

use toolgate_wire::{Json, Message, Object, mcp::member};

use crate::client_input::InputRound;

/// The changes to the params of one request. Without any, the client's bytes are sent unchanged.
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
    /// Replaces the client's `_meta`, or removes it.
    pub(super) fn of_meta(rest: Option<Json>) -> Self {
        Self { meta: rest.map_or(Meta::Removed, Meta::Replaced), ..Self::default() }
    }

    /// Replaces a member.
    pub fn set(&mut self, member: &'static str, value: Json) {
        self.members.push((member, value));
    }

    /// Removes the client's `requestState` and `inputResponses`, which answer a question of toolgate.
    pub(super) fn take_input(&mut self) {
        self.has_own_round = true;
    }

    /// Whether the client's `requestState` and `inputResponses` answer a question of toolgate.
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

    /// Applies the changes to the params. `forwarded` is the input for the server's own question, which a layer
    /// forwards.
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

//! The line that is sent to a server: the client's own bytes, or what they have to be on this hop.

use bytes::Bytes;
use toolgate::{Context, Round, Trace};
use toolgate_wire::{Json, Object};

use super::{Conversation, Meta};
use crate::{
    hops,
    outbound::{connection::Era, flight::Hop},
    serve::eras,
};

impl Conversation<'_> {
    /// The line to send: the client's own bytes unless something has to change.
    pub(super) fn line(
        &self,
        cx: &Context,
        hop: &Hop,
        era: Era,
        (arguments, round): (Option<&Json>, Option<&Round>),
        hops: Option<&Json>,
    ) -> Bytes {
        let is_translated = self.caller.era() != era;
        let changes = &self.changes;
        let is_same = arguments.is_none()
            && round.is_none()
            && changes.members.is_empty()
            && changes.meta == Meta::AsItCame
            && !changes.has_our_round
            && cx.span().is_none()
            && hop.token.is_none()
            && hops.is_none()
            && !is_translated;
        if is_same {
            return match &hop.id {
                None => self.message.line().clone(),
                Some(id) => self.message.with_id(id),
            };
        }
        let mut params = self.message.body().unwrap_or_default();
        if let Some(arguments) = arguments {
            params.set("arguments", arguments.clone());
        }
        for (key, value) in &changes.members {
            params.set(key, value.clone());
        }
        match &changes.meta {
            Meta::Replaced(meta) => params.set("_meta", meta.clone()),
            Meta::Removed => drop(params.remove("_meta")),
            Meta::AsItCame => {}
        }
        if changes.has_our_round {
            put_round(&mut params, cx.resumed());
        }
        if is_translated {
            eras::translate_meta(&mut params, self.caller, era);
        }
        if round.is_some() {
            put_round(&mut params, round);
        }
        follow(&mut params, cx.span(), hop.token.as_ref(), hops);
        self.message.with(hop.id.as_ref(), Some(params.finish()))
    }
}

fn put_round(params: &mut Object, round: Option<&Round>) {
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

/// Names our span as the server's parent, the token under which it tells of progress, and the gateways that the request
/// has passed. A `_meta` that is no object stays.
fn follow(params: &mut Object, span: Option<&Trace>, token: Option<&Json>, hops: Option<&Json>) {
    if span.is_none() && token.is_none() && hops.is_none() {
        return;
    }
    let meta = params.get("_meta").map_or_else(|| Some(Object::new()), |meta| meta.object());
    if let Some(mut meta) = meta {
        if let Some(span) = span {
            span.put(&mut meta);
        }
        if let Some(token) = token {
            meta.set("progressToken", token.clone());
        }
        if let Some(hops) = hops {
            meta.set(hops::META, hops.clone());
        }
        params.set("_meta", meta.finish());
    }
}

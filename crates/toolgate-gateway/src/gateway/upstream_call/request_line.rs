//! Composes the line to send to the server: the client's own bytes, or a rewritten copy.

use bytes::Bytes;
use toolgate::{Context, InputRound, Trace, admission::put_input};
use toolgate_wire::{
    Json, Object,
    mcp::{Era, member},
};

use super::UpstreamCall;
use crate::{gateway::era_bridge, hops, upstream::request::IdRewrite};

/// What one attempt to send a request changes in it, besides the edits of the call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestChanges<'a> {
    /// The arguments, if a layer changed them.
    pub(super) arguments: Option<&'a Json>,
    /// The client's input that the server requested.
    pub(super) input: Option<&'a InputRound>,
    /// The gateways that the request has passed.
    pub(super) hops: Option<&'a Json>,
}

impl UpstreamCall<'_> {
    /// The line to send: the client's own bytes unless something must change.
    pub(super) fn line(
        &self,
        cx: &Context,
        hop: &IdRewrite,
        era: Era,
        RequestChanges { arguments, input, hops }: RequestChanges<'_>,
    ) -> Bytes {
        let is_translated = self.caller.era() != era;
        let is_same = arguments.is_none()
            && input.is_none()
            && self.edits.is_empty()
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
            params.set(member::ARGUMENTS, arguments.clone());
        }
        self.edits.apply(&mut params, cx.forwarded_input());
        if is_translated {
            era_bridge::translate_meta(&mut params, self.caller, era);
        }
        if input.is_some() {
            put_input(&mut params, input);
        }
        follow(&mut params, cx.span(), hop.token.as_ref(), hops);
        self.message.with(hop.id.as_ref(), Some(params.finish()))
    }
}

/// Sets the trace context, the progress token and the list of gateways in `_meta`. Leaves a `_meta` that is not an object
/// unchanged.
fn follow(params: &mut Object, span: Option<&Trace>, token: Option<&Json>, hops: Option<&Json>) {
    if span.is_none() && token.is_none() && hops.is_none() {
        return;
    }
    let meta = params.get(member::META).map_or_else(|| Some(Object::new()), |meta| meta.object());
    if let Some(mut meta) = meta {
        if let Some(span) = span {
            span.put(&mut meta);
        }
        if let Some(token) = token {
            meta.set(member::PROGRESS_TOKEN, token.clone());
        }
        if let Some(hops) = hops {
            meta.set(hops::META, hops.clone());
        }
        params.set(member::META, meta.finish());
    }
}

#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod admission;
pub mod attribution;
mod authorize;
pub mod background;
mod boxed;
pub mod byte_size;
mod call;
mod chain;
mod changed_defaults;
mod client_input;
#[doc = include_str!("../docs/coming-from.md")]
pub mod coming_from {}
mod context;
mod control;
pub mod duration;
mod failure;
mod fingerprint;
mod from_fn;
mod gate;
mod identity;
mod layer;
pub mod layer_spec;
pub mod layers;
pub mod middleware;
mod outcome;
mod peer;
mod preset;
pub mod presets;
pub mod printable;
#[cfg(test)]
mod random;
mod readable;
mod registry;
mod requests;
#[cfg(feature = "schema")]
pub mod schema;
mod selection;
mod selector;
pub mod settings;
pub mod stack;
pub mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tier;
mod tool;
mod trace;
mod transform;

/// Types of other crates that stand in signatures here.
pub use {bytes::Bytes, jiff::Timestamp, serde_json, tokio_util::sync::CancellationToken};

pub use authorize::{Authorize, Denial, ToolAccess};
pub use boxed::Boxed;
pub use call::{Answer, Call, Listing, Request, ToolList};
pub use chain::{BadChain, Builder, Chain, ChainMistake};
pub use client_input::{ClientInput, Elicit, ElicitError, InputRound};
pub use context::{CallId, ClientInfo, Context, Extensions, Session};
pub use control::{AllowedTools, Control};
pub use failure::{Executed, Failure, RpcError};
pub use fingerprint::{DuplicateKey, Fingerprint};
pub use from_fn::{CallFn, CallFnWith, FromFn, FromFnWith, from_fn, from_fn_with};
pub use gate::{GateLayer, gate};
pub use identity::{Principal, ToolId};
pub use layer::{
    Adapted, DynMiddleware, Endpoint, Explanation, Hooks, Info, Middleware, Next,
    NotificationDecision, Order, Replay,
};
pub use layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec};
pub use outcome::{Handled, Outcome, Reply, ToolResult};
pub use peer::{LogLevel, Peer};
pub use registry::{Class, Code, Delivery, Entry, RetrySafety};
pub use requests::{
    AnswerFn, Complete, CompletionArgument, CompletionReference, GetPrompt, Implementation,
    Initialize, ListPrompts, ListResources, OnNotification, OnRequest, Params, ReadResource,
    Subscribe, on_notification, on_request,
};
pub use selection::{Facts, Selection};
pub use selector::{BadSelector, Selector, Steps};
pub use settings::ToolSettings;
pub use tier::{Tier, ToolHints, UnknownTier};
pub use tool::{TierRules, Tool};
pub use toolgate_wire::{Json, Object};
pub use trace::{Ingress, Trace, Transport};
pub use transform::{
    AsyncListFn, AsyncRequestFn, AsyncResponseFn, IsAsync, IsSync, ListFn, RequestFn, ResponseFn,
    TransformList, TransformRequest, TransformResponse, transform_list, transform_request,
    transform_response,
};

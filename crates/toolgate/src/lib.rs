#![doc = include_str!("../README.md")]

pub mod admission;
mod asking;
pub mod attribution;
pub mod background;
mod boxed;
mod call;
mod chain;
mod context;
mod control;
pub mod duration;
mod failure;
mod fingerprint;
mod identity;
mod layer;
pub mod middleware;
mod outcome;
pub mod presets;
pub mod printable;
mod registry;
#[cfg(feature = "schema")]
mod schema;
mod selection;
mod selector;
pub mod settings;
pub mod stack;
pub mod task;
#[cfg(test)]
mod testbed;
mod tier;
mod tool;
mod trace;
mod transform;

pub use asking::{Asking, Elicit, NoAnswer, Round};
pub use boxed::Boxed;
pub use call::{Answer, Call, Listing, Request, ToolList};
pub use chain::{BadChain, Builder, Chain};
pub use context::{Bag, CallId, ClientInfo, Context, Session};
pub use control::{AllowedTools, Control};
pub use failure::{Failure, Ran, RpcError};
pub use fingerprint::{DuplicateKey, Fingerprint};
pub use identity::{Principal, ToolId};
pub use layer::{Endpoint, Explained, Hooks, Info, Middleware, Next, Notice, Order, Replay};
pub use outcome::{Outcome, Reply, ToolResult};
pub use registry::{Class, Code, Delivery, Entry, Retry};
pub use selection::{Facts, Selection};
pub use selector::{BadSelector, Selector, Steps};
pub use settings::ToolSettings;
pub use tier::{Hints, Tier, UnknownTier};
pub use tool::{TierRules, Tool};
pub use trace::{Ingress, Trace, Transport};
pub use transform::{
    TransformList, TransformRequest, TransformResponse, transform_list, transform_request,
    transform_response,
};

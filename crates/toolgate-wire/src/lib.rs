#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod compose;
mod direction;
mod envelope;
mod error;
#[cfg(feature = "http")]
pub mod headers;
mod id;
mod json;
mod keys;
mod limits;
pub mod lines;
pub mod mcp;
mod message;
mod number;
#[doc(hidden)]
pub mod properties;
mod refused_message;
mod salvage;
mod scan;
mod sender;
mod shape;
mod single_line;
mod splice;
#[cfg(feature = "http")]
pub mod sse;
mod text;

pub use batch::{MAX_BATCH, is_batch, split_batch};
pub use compose::{error_response, notification, request, response};
pub use error::{WireError, WireErrorKind};
pub use id::Id;
pub use json::{Json, Kind, Object};
pub use limits::Limits;
pub use message::Message;
pub use refused_message::RefusedMessage;
pub use salvage::{salvage_id, salvage_shape};
pub use sender::Sender;
pub use shape::Shape;
pub use single_line::single_line;

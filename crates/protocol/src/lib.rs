//! Bytes and JSON-RPC: the envelope over raw JSON, splices, revisions and eras, `_meta`, names, SSE framing.
//!
//! Everything here is a pure function of its input. This crate knows no sockets, no processes, no clock and
//! no runtime.

pub mod error;
pub mod header;
pub mod id;
pub mod item;
pub mod json;
pub mod level;
mod links;
pub mod message;
pub mod meta;
pub mod method;
pub mod names;
pub mod noise;
pub mod params;
pub mod raw;
pub mod result;
pub mod splice;
pub mod sse;
pub mod uri;
pub mod version;
pub mod wire;

pub use error::{RpcError, code};
pub use id::{IdField, LinkRequestId, RequestId};
pub use item::{Item, Kind};
pub use level::LogLevel;
pub use message::{
    EnvelopeError, EnvelopeFault, Message, Notification, Outcome, Request, Response,
};
pub use meta::MetaEdit;
pub use method::Method;
pub use names::{ExposedName, Naming, OriginalName, ServerName};
pub use params::{Params, ParamsEdit, Reference};
pub use raw::Raw;
pub use result::{ErrorObject, ResultObject, ResultType};
pub use version::{Era, ProtocolVersion};

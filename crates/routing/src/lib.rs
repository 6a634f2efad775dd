//! From an exposed name to a server, and from a caller to a link: names, the merged catalog, leases, client
//! sessions, and how servers are kept up.
//!
//! This crate knows no HTTP and starts no process; it hands calls to links and counts nothing itself
//! ([`events`] says what happens, for whoever counts).

mod caller;
mod catalog;
mod error;
pub mod events;
mod gate;
mod health;
mod inspect;
mod keeper;
mod lease;
mod lister;
mod listing;
mod lists;
mod nearest;
mod own;
mod replay;
mod request;
mod router;
mod running;
mod seats;
mod server;
mod session;
mod settings;
mod spares;
mod store;
mod sweep;

pub use caller::{Caller, Callers, Changes, Forwarded};
pub use catalog::{
    Capabilities, Catalog, Fingerprints, Outcome, ResourceTarget, Scope, ServerIndex, Surface,
    Target, UnknownCursor, View, ViewIndex, server_info,
};
pub use error::RouteError;
pub use health::{Failure, Health, Report};
pub use inspect::Inspection;
pub use lists::{CacheHint, Hello, List, Lists};
pub use request::Request;
pub use router::{Router, RouterSettings};
pub use running::{CallEvent, RunningCall};
pub use server::{HeldLink, Known, Server, Use};
pub use session::{Activity, ClientHello, Full, Principal, Session, SessionId, Sessions};
pub use settings::{Isolation, ServerSettings, ToolFilter};
pub use spares::Spares;

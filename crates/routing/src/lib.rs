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
mod keeper;
mod lease;
mod listing;
mod nearest;
mod router;
mod running;
mod server;
mod session;

pub use caller::Caller;
pub use catalog::{Catalog, Outcome, Scope, ServerIndex, Target, View, server_info};
pub use error::RouteError;
pub use health::{Failure, Health, Report};
pub use listing::Item;
pub use router::{Router, RouterLimits, ToolCall};
pub use running::{CallEvent, RunningCall};
pub use server::{HeldLink, Isolation, Server, ServerSettings, ToolFilter, Use};
pub use session::{Activity, ClientHello, Full, Principal, Session, SessionId, Sessions};

//! One live connection to one server, over a child's pipes or Streamable HTTP, in the server's era: the probe
//! and the handshake, request ids, calls in flight, their deadlines.
//!
//! A neutral [`Call`] goes in; an [`Exchange`] comes back and yields [`Event`]s. This crate knows no client, no
//! exposed name and no HTTP serving.

mod call;
mod connect;
mod error;
mod exchange;
mod handshake;
mod http;
mod link;
mod listen;
mod mailbox;
mod notices;
mod peer;
mod probe;
mod spare;
mod stdio;

pub use call::{Call, Origin, Patience, Subject};
pub use connect::{ConnectOptions, Connector, HttpTarget, Limits, Target};
pub use error::{Break, LinkError};
pub use exchange::{Ask, Event, Exchange, Note};
pub use http::{ForwardedHeaders, HttpClient};
pub use link::{Link, LinkId};
pub use notices::Notices;
pub use peer::{Peer, Serves};
pub use spare::Spare;

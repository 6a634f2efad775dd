//! Scripted servers and clients, and the gateway as a process, for tests only.
//!
//! Waiting is always for a condition, up to a generous deadline; nothing here sleeps and hopes.

mod client;
mod events;
mod gateway;
mod http_stub;
mod processes;
mod raw;
mod wait;

pub use client::{Client, Reply, Session};
pub use events::Events;
pub use gateway::Gateway;
pub use http_stub::{HttpStub, LegacyServer, Reaction, Seen, answer};
pub use processes::{is_alive, tagged};
pub use raw::exchange;
pub use wait::{DEADLINE, eventually};

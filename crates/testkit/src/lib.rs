//! Scripted servers and clients, and the gateway as a process, for tests only.
//!
//! Waiting is always for a condition, up to a generous deadline; nothing here sleeps and hopes.

mod client;
mod gateway;
mod processes;
mod wait;

pub use client::{Client, Reply, Session};
pub use gateway::Gateway;
pub use processes::{is_alive, tagged};
pub use wait::{DEADLINE, eventually};

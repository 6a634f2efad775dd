//! Terminates HTTP: the listener, the tower stack, client sessions' requests, the two faces, event streams, and
//! the one place where an error becomes HTTP and JSON-RPC.
//!
//! This crate knows no processes.

mod accept;
mod announce;
mod batch;
mod body;
mod call;
mod endpoint;
mod error;
mod guard;
mod headers;
mod legacy;
mod listen;
mod lists;
mod metrics;
mod modern;
mod pages;
mod policy;
mod server;
mod shared;
mod stack;
mod upload;

pub use body::Body;
pub use metrics::{HttpEvent, HttpObserver};
pub use policy::Policy;
pub use server::serve;
pub use shared::FrontSettings;
pub use stack::{Front, stack};

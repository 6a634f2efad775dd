//! Black-box tests: the binary against real servers, real clients and scripted ones.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that does not find what it looks for has failed"
)]

mod announcements;
mod answers;
mod batches;
mod bodies;
mod config_check;
mod control;
mod crashes;
mod environment;
mod fidelity;
mod first_call;
mod framing;
mod guard;
mod hello;
mod http_servers;
mod ids;
mod lazy;
mod links;
mod lists;
mod modern;
mod names;
mod naming;
mod outages;
mod own_lists;
mod pages;
mod paths;
mod pipes;
mod real_peers;
mod shelf;
mod shutdown;
mod sizes;
mod stub;
mod surface;
mod uris;
mod views;
mod wire;

/// The binary under test.
const MANIFOLD: &str = env!("CARGO_BIN_EXE_manifold");

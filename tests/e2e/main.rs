//! Black-box tests: the binary against real servers, real clients and scripted ones.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that does not find what it looks for has failed"
)]

mod control;
mod crashes;
mod environment;
mod fidelity;
mod first_call;
mod framing;
mod guard;
mod http_servers;
mod ids;
mod modern;
mod names;
mod outages;
mod real_peers;
mod shutdown;
mod sizes;
mod stub;
mod surface;

/// The binary under test.
const MANIFOLD: &str = env!("CARGO_BIN_EXE_manifold");

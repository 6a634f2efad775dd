//! Black-box tests: the binary against real servers, real clients and scripted ones.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that does not find what it looks for has failed"
)]

mod crashes;
mod first_call;
mod framing;
mod guard;
mod ids;
mod real_peers;
mod shutdown;
mod stub;

/// The binary under test.
const MANIFOLD: &str = env!("CARGO_BIN_EXE_manifold");

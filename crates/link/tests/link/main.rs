//! Links to real processes and over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that does not find what it looks for has failed"
)]

mod answers;
mod forwarded;
mod session_stream;
mod spares;
mod subscriptions;
mod support;

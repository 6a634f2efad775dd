//! Streamable HTTP over real loopback sockets with a client that knows nothing but HTTP, in both eras.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly, as the tests themselves do"
)]

mod client;
mod legacy;
mod modern;
mod transport;

//! What can end a server early.

use std::io;
use std::net::SocketAddr;

/// Why the example server could not start, or stopped by itself.
///
/// None of these is about a client's message: those are answered on the wire.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExampleError {
    /// The address could not be bound: it is taken, not ours, or needs more rights.
    #[error("cannot listen on {address}: choose a free address of this machine")]
    Bind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Reading a message failed; the client's end of the pipe broke.
    #[error("cannot read from the client")]
    Read(#[source] io::Error),
    /// Writing a message failed: the client closed its end while it still had calls open.
    #[error("cannot write to the client")]
    Write(#[source] io::Error),
}

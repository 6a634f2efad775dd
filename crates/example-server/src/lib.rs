//! A tiny, real MCP server: something to try the gateway with, and the healthy peer of the project's tests.
//!
//! It speaks both protocol eras over both transports and keeps nothing but counters and open questions, so that
//! whatever a client gets wrong between itself and this server is the client's doing, or that of what stands between.
//!
//! Reading order: [`Eras`], then `message` (what comes in) and `reply` (what goes out), `handle` (the decisions, without
//! I/O), `surface`, `content` and `tools` (what the server offers), `jobs` (the calls that take time), and last the two
//! transports, `stdio` and `http`. The transports know nothing of tools; the decisions know nothing of sockets.

mod content;
mod eras;
mod error;
mod handle;
mod http;
mod jobs;
mod message;
mod process;
mod reply;
mod stdio;
mod surface;
mod tools;

pub use eras::Eras;
pub use error::ExampleError;
pub use http::{ENDPOINT, HttpServer, serve_http};
pub use stdio::{serve_lines, serve_stdio};

/// The largest message taken in, on both transports, in bytes: 16 MiB.
///
/// Over HTTP a larger body gets a 413; on stdio a longer line is skipped and answered with -32600.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;

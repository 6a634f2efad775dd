//! A link over Streamable HTTP: every request is a POST of its own, driven by the task that waits for it.

mod channel;
mod client;
mod exchange;
mod headers;
mod response;

pub(crate) use channel::Http;
pub use client::HttpClient;
pub(crate) use exchange::HttpExchange;

//! A link over Streamable HTTP: every request is a POST of its own, driven by the task that waits for it.

mod channel;
mod client;
mod exchange;
mod forwarded;
mod headers;
mod response;
mod stream;

pub(crate) use channel::{Http, Relation};
pub use client::HttpClient;
pub(crate) use exchange::HttpExchange;
pub use forwarded::ForwardedHeaders;
pub(crate) use stream::SessionStream;

//! Server-Sent Events (WHATWG HTML, "Server-sent events"), as Streamable HTTP uses them.

mod encode;
mod parse;

pub use encode::{comment, message};
pub use parse::{SseError, SseEvent, SseParser};

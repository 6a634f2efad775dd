//! JSON-RPC errors, and the codes that Manifold answers with.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

use crate::raw::Raw;

/// The codes of JSON-RPC, of the protocol, and ours.
pub mod code {
    /// The body is no JSON.
    pub const PARSE: i64 = -32700;
    /// The body is no JSON-RPC.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Nobody knows the method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params don't fit the method: also an unknown tool or prompt.
    pub const INVALID_PARAMS: i64 = -32602;
    /// A fault of ours.
    pub const INTERNAL: i64 = -32603;
    /// Unknown resource, up to 2025-11-25.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Headers and body disagree (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client lacks a capability that the request needs (2026-07-28).
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// A protocol version we don't speak (2026-07-28).
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// The server is down.
    pub const SERVER_DOWN: i64 = 51010;
    /// The server is still starting.
    pub const SERVER_STARTING: i64 = 51011;
    /// The call was lost in flight.
    pub const LOST: i64 = 51012;
    /// The call timed out.
    pub const TIMEOUT: i64 = 51013;
    /// The server refused us.
    pub const UNAUTHORIZED: i64 = 51014;
    /// What the server answered is not MCP.
    pub const NOT_MCP: i64 = 51015;
    /// A message over the limit.
    pub const TOO_LARGE: i64 = 51016;
    /// A cap is reached.
    pub const BUSY: i64 = 51017;
}

/// The error member of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// One of [`code`], or a server's own.
    pub code: i64,
    /// For people: whose fault, and what to do.
    pub message: String,
    /// For programs.
    pub data: Option<Raw>,
}

impl RpcError {
    /// An error without data.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The same with data.
    #[must_use]
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> Self {
        self.data = Some(Raw::of(data));
        self
    }

    /// The error object as JSON.
    #[must_use]
    pub fn to_raw(&self) -> Raw {
        let mut out = BytesMut::with_capacity(64 + self.message.len());
        out.put_slice(format!("{{\"code\":{},\"message\":", self.code).as_bytes());
        out.put_slice(Raw::of(self.message.as_str()).as_bytes());
        if let Some(data) = &self.data {
            out.put_slice(b",\"data\":");
            out.put_slice(data.as_bytes());
        }
        out.put_slice(b"}");
        let length = out.len();
        let text: Bytes = out.freeze();
        Raw::scanned(&text, 0..length)
    }
}

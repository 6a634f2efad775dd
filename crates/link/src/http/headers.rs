//! The headers of a request to a server.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use manifold_protocol::{Era, Method, ProtocolVersion, header::encode};

/// `Mcp-Session-Id`.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// `MCP-Protocol-Version`.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Puts in what every POST carries: both content types in full, since real servers refuse less.
pub(crate) fn post(headers: &mut HeaderMap) {
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(
        header::ACCEPT,
        HeaderValue::from_static("application/json, text/event-stream"),
    );
    headers.insert(
        header::USER_AGENT,
        HeaderValue::from_static(concat!("manifold/", env!("CARGO_PKG_VERSION"))),
    );
}

/// Makes it a GET for a stream (2025-11-25 transports, "Listening for Messages from the Server").
pub(crate) fn listen(headers: &mut HeaderMap, after: Option<&HeaderValue>) {
    headers.remove(header::CONTENT_TYPE);
    headers.insert(
        header::ACCEPT,
        HeaderValue::from_static("text/event-stream"),
    );
    if let Some(id) = after {
        headers.insert(LAST_EVENT_ID, id.clone());
    }
}

/// Puts in what a link of `version` adds (2026-07-28 streamable-http, "Request Metadata").
pub(crate) fn protocol(
    headers: &mut HeaderMap,
    version: ProtocolVersion,
    method: Option<&Method>,
    name: Option<&str>,
) {
    headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
    if version.era() == Era::Legacy {
        return;
    }
    // A client's method may hold anything; what no header can carry is left to the server to refuse.
    let method = method.and_then(|method| HeaderValue::from_str(method.as_str()).ok());
    if let Some(value) = method {
        headers.insert(METHOD, value);
    }
    if let Some(value) = name.and_then(|name| HeaderValue::from_str(&encode(name)).ok()) {
        headers.insert(NAME, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modern_request_mirrors_method_and_name() {
        let mut headers = HeaderMap::new();
        protocol(
            &mut headers,
            ProtocolVersion::V2026_07_28,
            Some(&Method::ToolsCall),
            Some("café"),
        );
        assert_eq!(headers[METHOD], "tools/call");
        assert_eq!(headers[NAME], "=?base64?Y2Fmw6k=?=");
        let mut headers = HeaderMap::new();
        protocol(
            &mut headers,
            ProtocolVersion::V2025_06_18,
            Some(&Method::ToolsCall),
            Some("x"),
        );
        assert_eq!(headers.len(), 1);
        assert_eq!(headers[PROTOCOL_VERSION], "2025-06-18");
    }
}

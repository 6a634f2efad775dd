//! What a request's headers must say. Pure.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Uri, header};
use serde::Deserialize;

use crate::eras::MODERN;
use crate::handle::body_version;
use crate::message::Request;
use crate::reply::Fault;

pub(super) const VERSION: &str = "mcp-protocol-version";
pub(super) const SESSION: &str = "mcp-session-id";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Whether the request comes from no web page, or from one of this machine: everything else could be a page that had its
/// name rebound to a loopback address.
pub(super) fn origin_is_local(headers: &HeaderMap) -> bool {
    headers.get_all(header::ORIGIN).iter().all(|origin| {
        let origin = origin
            .to_str()
            .ok()
            .and_then(|text| text.parse::<Uri>().ok());
        let Some(host) = origin.as_ref().and_then(Uri::host) else {
            return false;
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || bare
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    })
}

/// Whether the body is declared to be JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    text(headers, header::CONTENT_TYPE.as_str()).is_some_and(|value| {
        let media = value.split(';').next().unwrap_or_default().trim();
        media.eq_ignore_ascii_case("application/json")
    })
}

/// Whether the client takes that media type. One that does not say takes all.
pub(super) fn accepts(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    let mut all = headers.get_all(header::ACCEPT).iter().peekable();
    if all.peek().is_none() {
        return true;
    }
    all.filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next()?.trim().split_once('/'))
        .any(|(a, b)| {
            (a == "*" && b == "*")
                || (a.eq_ignore_ascii_case(kind) && (b == "*" || b.eq_ignore_ascii_case(subtype)))
        })
}

/// The only value of a header, when it is text.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok()
}

/// Checks that the headers of a modern request repeat its body (2026-07-28, Streamable HTTP, "Server Validation").
///
/// A body without a version, or with one that we do not speak, passes: what is wrong with it is not the headers.
pub(super) fn mirror(headers: &HeaderMap, request: &Request) -> Result<(), Fault> {
    let Some(version) = body_version(&request.params) else {
        return Ok(());
    };
    same(headers, VERSION, &version, ToOwned::to_owned)?;
    if version != MODERN {
        return Ok(());
    }
    same(headers, METHOD, &request.method, ToOwned::to_owned)?;
    match mirrored_name(request) {
        Some(name) => same(headers, NAME, &name, decode),
        None => Ok(()),
    }
}

/// The body member that `Mcp-Name` mirrors, for the methods that have one. A member that is missing or no string is left
/// to the method itself.
fn mirrored_name(request: &Request) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        name: Option<String>,
        uri: Option<String>,
    }
    let named = || request.params.read::<Named>().ok();
    match request.method.as_str() {
        "tools/call" | "prompts/get" => named()?.name,
        "resources/read" => named()?.uri,
        _ => None,
    }
}

fn same(
    headers: &HeaderMap,
    name: &str,
    body: &str,
    read: impl Fn(&str) -> String,
) -> Result<(), Fault> {
    match text(headers, name) {
        Some(value) if read(value) == body => Ok(()),
        Some(value) => Err(Fault::HeaderMismatch(format!(
            "header {name} is {value:?} but the body says {body:?}"
        ))),
        None => Err(Fault::HeaderMismatch(format!(
            "header {name} is missing, repeated or not plain text; the body says {body:?}"
        ))),
    }
}

/// A header value, out of its Base64 wrapping if it has one ("Value Encoding"). A broken wrapping stays as it is and then
/// matches nothing that a client may send.
fn decode(value: &str) -> String {
    value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="))
        .and_then(|inner| STANDARD.decode(inner).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_else(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;
    use crate::message::{Message, parse};

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn only_local_origins_pass() {
        assert!(origin_is_local(&headers(&[])));
        for (origin, local) in [
            ("http://localhost", true),
            ("http://localhost:5173", true),
            ("https://LOCALHOST", true),
            ("http://127.0.0.1:8080", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:3000", true),
            ("http://example.com", false),
            ("http://localhost.example.com", false),
            ("http://127.0.0.1.example.com", false),
            ("http://10.0.0.1", false),
            ("http://[::2]", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(
                origin_is_local(&headers(&[("origin", origin)])),
                local,
                "{origin:?}"
            );
        }
        let both = headers(&[
            ("origin", "http://localhost"),
            ("origin", "http://example.com"),
        ]);
        assert!(!origin_is_local(&both));
    }

    #[test]
    fn media_types() {
        for (value, json) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("text/plain", false),
            ("application/jsonp", false),
        ] {
            assert_eq!(
                is_json(&headers(&[("content-type", value)])),
                json,
                "{value}"
            );
        }
        assert!(!is_json(&headers(&[])));
        for (value, json, events) in [
            ("application/json, text/event-stream", true, true),
            ("text/event-stream;q=0.9,application/json", true, true),
            ("*/*", true, true),
            ("application/*", true, false),
            ("application/json", true, false),
            ("text/html", false, false),
        ] {
            let headers = headers(&[("accept", value)]);
            assert_eq!(accepts(&headers, "application", "json"), json, "{value}");
            assert_eq!(accepts(&headers, "text", "event-stream"), events, "{value}");
        }
        assert!(accepts(&headers(&[]), "text", "event-stream"));
    }

    #[test]
    fn modern_headers_repeat_the_body() {
        let call = |method: &str, params: serde_json::Value| {
            let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            match parse(text.to_string().as_bytes()) {
                Ok(Message::Request(request)) => request,
                other => panic!("{other:?}"),
            }
        };
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
        let echo = || call("tools/call", json!({ "_meta": meta, "name": "echo" }));
        let odd = || call("tools/call", json!({ "_meta": meta, "name": "écho" }));
        let read = || {
            call(
                "resources/read",
                json!({ "_meta": meta, "uri": "example://greeting" }),
            )
        };
        let list = || call("tools/list", json!({ "_meta": meta }));
        let bare = || call("tools/list", json!({}));
        let future = || {
            let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2030-01-01" });
            call("tools/list", json!({ "_meta": meta }))
        };
        const V: (&str, &str) = (VERSION, "2026-07-28");
        const CALL: (&str, &str) = (METHOD, "tools/call");
        for (what, request, sent, good) in [
            ("all", echo(), vec![V, CALL, (NAME, "echo")], true),
            (
                "encoded for no reason",
                echo(),
                vec![V, CALL, (NAME, "=?base64?ZWNobw==?=")],
                true,
            ),
            (
                "encoded",
                odd(),
                vec![V, CALL, (NAME, "=?base64?w6ljaG8=?=")],
                true,
            ),
            (
                "uri",
                read(),
                vec![V, (METHOD, "resources/read"), (NAME, "example://greeting")],
                true,
            ),
            ("list", list(), vec![V, (METHOD, "tools/list")], true),
            ("no version in the body", bare(), vec![V], true),
            (
                "unknown version, agreed on",
                future(),
                vec![(VERSION, "2030-01-01")],
                true,
            ),
            ("unknown version, not agreed on", future(), vec![V], false),
            ("no version", echo(), vec![CALL, (NAME, "echo")], false),
            (
                "other version",
                echo(),
                vec![(VERSION, "2025-11-25"), CALL, (NAME, "echo")],
                false,
            ),
            (
                "two versions",
                echo(),
                vec![V, V, CALL, (NAME, "echo")],
                false,
            ),
            ("no method", echo(), vec![V, (NAME, "echo")], false),
            (
                "other method",
                echo(),
                vec![V, (METHOD, "Tools/Call"), (NAME, "echo")],
                false,
            ),
            ("no name", echo(), vec![V, CALL], false),
            ("other name", echo(), vec![V, CALL, (NAME, "add")], false),
            (
                "broken encoding",
                echo(),
                vec![V, CALL, (NAME, "=?base64?!?=")],
                false,
            ),
            (
                "uppercase marker",
                echo(),
                vec![V, CALL, (NAME, "=?BASE64?ZWNobw==?=")],
                false,
            ),
        ] {
            let outcome = mirror(&headers(&sent), &request);
            assert_eq!(outcome.is_ok(), good, "{what}: {outcome:?}");
            assert!(
                !matches!(outcome, Err(ref fault) if !matches!(fault, Fault::HeaderMismatch(_)))
            );
        }
    }
}

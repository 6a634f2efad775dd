//! The face for clients of 2026-07-28 and later: every request stands alone.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, Response, StatusCode};
use manifold_link::Origin;
use manifold_protocol::{
    Era, Message, Method, Params, ProtocolVersion, Raw, Request, RpcError, code, header, meta,
};
use manifold_routing::{Scope, ToolCall};

use crate::{
    accept::Accepted,
    body::{self, Body},
    call::{Answering, Life, Writer},
    error::{Refusal, respond, too_many_requests},
    headers,
    legacy::{message as json_message, refuse, unknown_cursor},
    shared::{Shared, client_info},
};

/// What a valid request says of its client.
#[derive(Debug)]
struct Caller {
    origin: Origin,
    token: Option<Raw>,
}

/// Answers a POST.
pub(crate) async fn post(
    shared: &Arc<Shared>,
    scope: Scope,
    head: &HeaderMap,
    accepted: Accepted,
    message: Message,
) -> Response<Body> {
    let request = match message {
        Message::Request(request) => request,
        // No notification is defined for this direction; it is taken and has no effect.
        Message::Notification(_) => return body::status(StatusCode::ACCEPTED),
        Message::Response(_) => {
            return Refusal::Envelope(
                manifold_protocol::EnvelopeFault::Shape("responses are not sent in this revision")
                    .into(),
            )
            .respond(None);
        }
    };
    if shared.draining.is_cancelled() {
        return Refusal::Draining.respond(Some(&request.id));
    }
    let caller = match validate(head, &request) {
        Ok(caller) => caller,
        Err(error) => return respond(StatusCode::BAD_REQUEST, &request.id, &error),
    };
    answer(shared, scope, accepted, request, caller).await
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "methods are an open set: all others are unknown here"
)]
async fn answer(
    shared: &Arc<Shared>,
    scope: Scope,
    accepted: Accepted,
    request: Request,
    caller: Caller,
) -> Response<Body> {
    let Request { id, method, params } = request;
    match method {
        Method::ServerDiscover => json_message(accepted, &id, &discover(shared)),
        Method::ToolsList => {
            if params.cursor().is_some_and(|cursor| !cursor.is_null()) {
                return refuse(accepted, &id, &unknown_cursor());
            }
            let catalog = shared.router.catalog(scope).await;
            json_message(accepted, &id, catalog.view(scope).tools_list(Era::Modern))
        }
        Method::ToolsCall => {
            let limit = shared.settings.concurrent_requests;
            let Ok(permit) = shared.anonymous.clone().try_acquire_owned() else {
                shared.router.refuse_busy(&Method::ToolsCall);
                return refuse(accepted, &id, &too_many_requests(limit));
            };
            let logs = caller.origin.log_level.is_some();
            let call = ToolCall {
                params,
                origin: caller.origin,
                progress: caller.token.is_some(),
            };
            let router = &shared.router;
            let running = router.call_tool(router.anonymous().clone(), scope, call);
            let writer = Writer {
                id,
                era: Era::Modern,
                token: caller.token,
                logs,
                shared: shared.clone(),
            };
            Answering::new(running, writer, Life::Request { _permit: permit })
                .respond(accepted)
                .await
        }
        other => {
            let error = RpcError::new(code::METHOD_NOT_FOUND, format!("Method not found: {other}"));
            respond(StatusCode::NOT_FOUND, &id, &error)
        }
    }
}

/// `DiscoverResult` (2026-07-28 discover).
fn discover(shared: &Shared) -> Raw {
    let versions: Vec<&str> = ProtocolVersion::ALL
        .iter()
        .rev()
        .map(|version| version.as_str())
        .collect();
    Raw::of(&serde_json::json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": { "tools": {} },
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": { (meta::SERVER_INFO): &shared.server_info },
    }))
}

/// Checks headers and `_meta` against each other (2026-07-28 streamable-http, "Server Validation"; basic,
/// "Per-request protocol fields").
fn validate(head: &HeaderMap, request: &Request) -> Result<Caller, RpcError> {
    let version_header = single(head, &headers::PROTOCOL_VERSION)?;
    let fields = request.params.meta();
    let field = |key| fields.as_ref().and_then(|meta| meta.get(key));
    let named = field(meta::PROTOCOL_VERSION)
        .and_then(|raw| raw.to_text())
        .ok_or_else(|| missing(meta::PROTOCOL_VERSION))?;
    let header = version_header.ok_or_else(|| absent(&headers::PROTOCOL_VERSION))?;
    if header != named {
        return Err(mismatch(&headers::PROTOCOL_VERSION, header, &named));
    }
    if ProtocolVersion::parse(&named).is_none_or(|version| version.era() != Era::Modern) {
        return Err(unsupported(&named));
    }
    let capabilities = field(meta::CLIENT_CAPABILITIES)
        .filter(Raw::is_object)
        .ok_or_else(|| missing(meta::CLIENT_CAPABILITIES))?;
    check_method(head, &request.method)?;
    check_name(head, &request.method, &request.params)?;
    Ok(Caller {
        origin: Origin {
            client_info: client_info(field(meta::CLIENT_INFO)),
            capabilities,
            log_level: field(meta::LOG_LEVEL),
        },
        token: field(meta::PROGRESS_TOKEN),
    })
}

fn check_method(head: &HeaderMap, method: &Method) -> Result<(), RpcError> {
    let header = single(head, &headers::METHOD)?.ok_or_else(|| absent(&headers::METHOD))?;
    if header == method.as_str() {
        return Ok(());
    }
    Err(mismatch(&headers::METHOD, header, method.as_str()))
}

fn check_name(head: &HeaderMap, method: &Method, params: &Params) -> Result<(), RpcError> {
    let body = if matches!(method, Method::ToolsCall | Method::PromptsGet) {
        params.name()
    } else if *method == Method::ResourcesRead {
        params.uri()
    } else {
        return Ok(());
    };
    // Without a name in the body the params are at fault, not the headers.
    let Some(body) = body else { return Ok(()) };
    let header = single(head, &headers::NAME)?.ok_or_else(|| absent(&headers::NAME))?;
    let decoded = header::decode(header).ok_or_else(|| {
        RpcError::new(
            code::HEADER_MISMATCH,
            format!(
                "Header mismatch: {} is not valid base64 of UTF-8",
                headers::NAME
            ),
        )
    })?;
    if decoded == body {
        return Ok(());
    }
    Err(mismatch(&headers::NAME, &decoded, &body))
}

/// A header's value, if it stands there once; none if it is not there.
fn single<'a>(head: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, RpcError> {
    let mut values = head.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value)),
        _ => Err(RpcError::new(
            code::HEADER_MISMATCH,
            format!("Header mismatch: {name} must stand once and be visible ASCII"),
        )),
    }
}

fn absent(name: &HeaderName) -> RpcError {
    RpcError::new(
        code::HEADER_MISMATCH,
        format!("Header mismatch: {name} is missing"),
    )
}

fn mismatch(name: &HeaderName, header: &str, body: &str) -> RpcError {
    RpcError::new(
        code::HEADER_MISMATCH,
        format!("Header mismatch: {name} is {header:?}, the body says {body:?}"),
    )
}

fn missing(key: &str) -> RpcError {
    RpcError::new(
        code::INVALID_PARAMS,
        format!("Invalid params: _meta lacks a valid {key}"),
    )
}

fn unsupported(requested: &str) -> RpcError {
    let supported: Vec<&str> = ProtocolVersion::ALL
        .iter()
        .rev()
        .map(|version| version.as_str())
        .collect();
    RpcError::new(code::UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(&serde_json::json!({ "supported": supported, "requested": requested }))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderValue;

    use super::*;

    fn check(header_lines: &[(&'static str, &'static str)], body: &'static str) -> Result<(), i64> {
        let mut head = HeaderMap::new();
        for (name, value) in header_lines {
            head.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let Message::Request(request) =
            Message::parse(Bytes::from_static(body.as_bytes())).unwrap()
        else {
            panic!("no request");
        };
        validate(&head, &request)
            .map(|_| ())
            .map_err(|error| error.code)
    }

    const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");
    const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"café","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    const NAME: (&str, &str) = ("mcp-name", "=?base64?Y2Fmw6k=?=");
    const METHOD: (&str, &str) = ("mcp-method", "tools/call");

    #[test]
    fn headers_must_say_what_the_body_says() {
        assert_eq!(check(&[VERSION, METHOD, NAME], CALL), Ok(()));
        let mismatch = Err(code::HEADER_MISMATCH);
        assert_eq!(check(&[METHOD, NAME], CALL), mismatch);
        assert_eq!(check(&[VERSION, NAME], CALL), mismatch);
        assert_eq!(check(&[VERSION, METHOD], CALL), mismatch);
        assert_eq!(
            check(&[VERSION, METHOD, ("mcp-name", "other")], CALL),
            mismatch
        );
        assert_eq!(
            check(&[VERSION, METHOD, ("mcp-name", "=?base64?!?=")], CALL),
            mismatch
        );
        assert_eq!(
            check(&[VERSION, ("mcp-method", "tools/list"), NAME], CALL),
            mismatch
        );
        assert_eq!(
            check(&[VERSION, ("mcp-method", "Tools/Call"), NAME], CALL),
            mismatch
        );
        assert_eq!(check(&[VERSION, VERSION, METHOD, NAME], CALL), mismatch);
        assert_eq!(
            check(
                &[("mcp-protocol-version", "2099-01-01"), METHOD, NAME],
                CALL
            ),
            mismatch
        );
    }

    #[test]
    fn the_fields_of_meta_are_required() {
        let invalid = Err(code::INVALID_PARAMS);
        for body in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}}}"#,
        ] {
            assert_eq!(
                check(&[VERSION, ("mcp-method", "tools/list")], body),
                invalid,
                "{body}"
            );
        }
    }

    #[test]
    fn an_unknown_version_is_told_the_known_ones() {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let header = ("mcp-protocol-version", "2099-01-01");
        assert_eq!(
            check(&[header, ("mcp-method", "tools/list")], body),
            Err(code::UNSUPPORTED_VERSION)
        );
        let error = unsupported("2099-01-01");
        let data = error.data.unwrap();
        assert!(data.as_str().contains("\"requested\":\"2099-01-01\""));
        assert!(data.as_str().contains("\"2026-07-28\""));
    }
}

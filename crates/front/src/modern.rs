//! The face for clients of 2026-07-28 and later: every request stands alone.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, Response, StatusCode};
use manifold_link::Origin;
use manifold_protocol::{
    Era, Message, Method, Params, ProtocolVersion, Raw, Request, RequestId, RpcError, code, header,
    meta,
};
use manifold_routing::{Caller, Forwarded, Scope, Surface};
use serde::Serialize;

use crate::{
    accept::Accepted,
    body::{self, Body},
    call::{Answering, Life, Writer, resource},
    error::{Refusal, respond, too_many_callers, too_many_requests},
    headers,
    legacy::{message as json_message, refuse},
    listen, lists,
    shared::{Shared, client_info},
};

/// What a valid request says of its client.
#[derive(Debug)]
struct Client {
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
    let client = match validate(head, &request) {
        Ok(client) => client,
        Err(error) => return respond(StatusCode::BAD_REQUEST, &request.id, &error),
    };
    let forwarded = shared.forwarded(head);
    answer(shared, scope, &forwarded, accepted, request, client).await
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "methods are an open set: all others are unknown here"
)]
async fn answer(
    shared: &Arc<Shared>,
    scope: Scope,
    forwarded: &Forwarded,
    accepted: Accepted,
    request: Request,
    client: Client,
) -> Response<Body> {
    let Some(caller) = shared.router.anonymous().with(forwarded) else {
        return refuse(accepted, &request.id, &too_many_callers());
    };
    let Request { id, method, params } = request;
    if let Some(kind) = lists::kind(&method) {
        let surface = shared.router.lists(&caller, scope).await;
        if !surface.capabilities().lists(kind) {
            return not_found(&id, &method);
        }
        let size = shared.settings.page_size;
        return match lists::page(&surface, kind, Era::Modern, &params, size) {
            Ok(page) => json_message(accepted, &id, &page),
            Err(error) => refuse(accepted, &id, &error),
        };
    }
    if manifold_routing::Request::is_routed(&method) {
        let call = Call {
            id,
            method,
            params,
            client,
        };
        return call.respond(shared, caller, scope, accepted).await;
    }
    match method {
        Method::ServerDiscover => {
            let surface = shared.router.hello(&caller, scope).await;
            json_message(accepted, &id, &discover(shared, &surface))
        }
        Method::SubscriptionsListen if !accepted.events => Refusal::Accept.respond(Some(&id)),
        Method::SubscriptionsListen => {
            let Ok(permit) = shared.listeners.clone().try_acquire_owned() else {
                return Refusal::StreamsFull.respond(Some(&id));
            };
            let opened = listen::open(shared, caller, scope, id.clone(), &params, permit);
            opened.unwrap_or_else(|error| refuse(accepted, &id, &error))
        }
        other => not_found(&id, &other),
    }
}

/// A request that a server answers.
struct Call {
    id: RequestId,
    method: Method,
    params: Params,
    client: Client,
}

impl Call {
    async fn respond(
        self,
        shared: &Arc<Shared>,
        caller: Arc<Caller>,
        scope: Scope,
        accepted: Accepted,
    ) -> Response<Body> {
        let limit = shared.settings.concurrent_requests;
        let Ok(permit) = shared.anonymous.clone().try_acquire_owned() else {
            shared.router.refuse_busy(&self.method);
            return refuse(accepted, &self.id, &too_many_requests(limit));
        };
        let writer = Writer {
            id: self.id,
            era: Era::Modern,
            logs: self.client.origin.log_level.is_some(),
            resource: resource(&self.method, &self.params),
            token: self.client.token.clone(),
            shared: shared.clone(),
        };
        let request = manifold_routing::Request {
            method: self.method,
            params: self.params,
            origin: self.client.origin,
            progress: self.client.token.is_some(),
        };
        let running = shared.router.call(caller, scope, request);
        Answering::new(running, writer, Life::Request { _permit: permit })
            .respond(accepted)
            .await
    }
}

/// Unknown and removed methods have a status of their own (2026-07-28 streamable-http, "Server Validation").
fn not_found(id: &RequestId, method: &Method) -> Response<Body> {
    respond(StatusCode::NOT_FOUND, id, &lists::unknown_method(method))
}

/// What `server/discover` is answered with (2026-07-28 discover).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult<'a> {
    result_type: &'static str,
    supported_versions: Vec<&'static str>,
    capabilities: Raw,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    ttl_ms: u64,
    cache_scope: &'static str,
    #[serde(rename = "_meta")]
    meta: serde_json::Value,
}

fn discover(shared: &Shared, surface: &Surface) -> Raw {
    let versions = ProtocolVersion::ALL
        .iter()
        .rev()
        .map(|version| version.as_str())
        .collect();
    Raw::of(&DiscoverResult {
        result_type: "complete",
        supported_versions: versions,
        capabilities: surface.capabilities().to_raw(),
        instructions: surface.instructions(),
        // What is behind us may change at any time.
        ttl_ms: 0,
        cache_scope: "private",
        meta: serde_json::json!({ (meta::SERVER_INFO): &shared.server_info }),
    })
}

/// Checks headers and `_meta` against each other (2026-07-28 streamable-http, "Server Validation"; basic,
/// "Per-request protocol fields").
fn validate(head: &HeaderMap, request: &Request) -> Result<Client, RpcError> {
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
    Ok(Client {
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

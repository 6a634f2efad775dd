//! The one place where a fault becomes JSON-RPC and HTTP.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use manifold_link::LinkError;
use manifold_protocol::{
    EnvelopeError, EnvelopeFault, Era, RequestId, RpcError, ServerName, code, wire,
};
use manifold_routing::RouteError;
use serde::Serialize;
use thiserror::Error;

use crate::{
    body::{self, Body},
    lists,
};

/// Why a request is refused before it is anybody's.
#[derive(Debug, Error)]
pub(crate) enum Refusal {
    #[error(
        "Forbidden: the host {host:?} is not served here. Served are {served}; add others to listen.allowed_hosts"
    )]
    Host { host: String, served: String },
    #[error(
        "Forbidden: pages of the origin {0:?} may not use this gateway; listen.allowed_origins can allow them"
    )]
    Origin(String),
    #[error("Payload too large: the body is over limits.request_body ({0} bytes)")]
    BodyTooLarge(usize),
    #[error("The body did not arrive within {0} s")]
    BodyLate(u64),
    #[error("Bad request: the body is broken: {0}")]
    BodyBroken(String),
    #[error("Unsupported media type: Content-Type must be application/json")]
    ContentType,
    #[error("Not acceptable: accept application/json and text/event-stream")]
    Accept,
    #[error("{0}")]
    Envelope(EnvelopeError),
    #[error(
        "Bad request: Mcp-Session-Id is missing; send initialize first, or a protocol version of 2026-07-28 in _meta"
    )]
    SessionMissing,
    #[error("Session not found: send initialize to open a new one")]
    SessionUnknown,
    #[error(
        "Bad request: the MCP-Protocol-Version header is not usable; legacy versions up to 2025-11-25 belong to sessions"
    )]
    VersionHeader,
    #[error("Too many sessions are busy; try again later")]
    SessionsFull,
    #[error("Too many streams are open in this session")]
    StreamsFull,
    #[error("Invalid request: a batch may hold {0} messages")]
    BatchTooLong(usize),
    #[error("Invalid request: initialize can't be part of a batch")]
    BatchInitialize,
    #[error("The gateway is shutting down; try again later")]
    Draining,
    #[error("Not found")]
    Path,
    #[error("Method not allowed")]
    Verb(&'static str),
}

/// `data` of the errors 51010 to 51017.
#[derive(Debug, Serialize)]
struct ServerData<'a> {
    server: &'a str,
    state: &'a str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Host { .. } | Self::Origin(_) => StatusCode::FORBIDDEN,
            Self::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyLate(_) => StatusCode::REQUEST_TIMEOUT,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Accept => StatusCode::NOT_ACCEPTABLE,
            Self::BodyBroken(_)
            | Self::Envelope(_)
            | Self::SessionMissing
            | Self::VersionHeader
            | Self::BatchTooLong(_)
            | Self::BatchInitialize => StatusCode::BAD_REQUEST,
            Self::SessionUnknown | Self::Path => StatusCode::NOT_FOUND,
            Self::SessionsFull | Self::Draining => StatusCode::SERVICE_UNAVAILABLE,
            Self::StreamsFull => StatusCode::CONFLICT,
            Self::Verb(_) => StatusCode::METHOD_NOT_ALLOWED,
        }
    }

    fn code(&self) -> i64 {
        let Self::Envelope(error) = self else {
            return code::INVALID_REQUEST;
        };
        match error.fault {
            EnvelopeFault::Json(_) => code::PARSE,
            EnvelopeFault::Batch | EnvelopeFault::Shape(_) => code::INVALID_REQUEST,
            EnvelopeFault::Params => code::INVALID_PARAMS,
        }
    }

    /// A header that goes with the refusal.
    fn header(&self) -> Option<(HeaderName, &'static str)> {
        if let Self::Verb(allowed) = self {
            return Some((header::ALLOW, allowed));
        }
        let later = matches!(self, Self::SessionsFull | Self::Draining);
        later.then_some((header::RETRY_AFTER, "5"))
    }

    /// The response, with the request's id where it is known.
    pub(crate) fn respond(&self, id: Option<&RequestId>) -> Response<Body> {
        let read = if let Self::Envelope(error) = self {
            error.id.known()
        } else {
            None
        };
        let error = RpcError::new(self.code(), self.to_string());
        let message = wire::error(read.or(id), &error.to_raw());
        let mut response = body::json(self.status(), message);
        if let Some((name, value)) = self.header() {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// The JSON-RPC error of a request that has no answer from a server. `expose_stderr` says whether the
/// server's configuration lets clients see its last words.
pub(crate) fn rpc_error(error: &RouteError, era: Era, expose_stderr: bool) -> RpcError {
    match error {
        RouteError::UnknownName {
            kind,
            name,
            nearest,
        } => {
            let hint = match nearest.first() {
                Some(near) => format!("; did you mean {near:?}?"),
                None => String::new(),
            };
            let kind = kind.word();
            RpcError::new(
                code::INVALID_PARAMS,
                format!("Unknown {kind} {name:?}{hint}"),
            )
            .with_data(&serde_json::json!({ "nearest": nearest }))
        }
        RouteError::UnknownMethod(method) => lists::unknown_method(method),
        RouteError::UnknownResource { uri } => RpcError::new(
            unknown_resource_code(era),
            format!("Resource not found: {uri}"),
        )
        .with_data(&serde_json::json!({ "uri": uri })),
        RouteError::InvalidParams(why) => {
            RpcError::new(code::INVALID_PARAMS, format!("Invalid params: {why}"))
        }
        RouteError::Down {
            server,
            state,
            reason: error,
            retry_after,
        } => {
            let reason = error.as_ref().map_or_else(
                || format!("it is {state}"),
                |error| public(error, expose_stderr),
            );
            // Whose turn it is: nobody's, or the operator's.
            let (code, remedy) = match error {
                Some(LinkError::Unauthorized(_)) => (
                    code::UNAUTHORIZED,
                    "the gateway's operator must give it valid credentials",
                ),
                Some(_) | None => (code::SERVER_DOWN, "it is tried again by itself"),
            };
            server_error(
                code,
                format!("Server {server} is down: {reason}; {remedy}"),
                ServerData {
                    server: server.as_str(),
                    state,
                    reason,
                    retry_after_ms: retry_after
                        .map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
                },
            )
        }
        RouteError::Starting { server } => server_error(
            code::SERVER_STARTING,
            format!("Server {server} is still starting; try again in a moment"),
            plain(server, "starting", "it is still starting".to_owned()),
        ),
        RouteError::Busy { server } => server_error(
            code::BUSY,
            format!("Server {server} is busy: servers.{server}.max_links links are in use"),
            plain(server, "ready", "the cap of links is reached".to_owned()),
        ),
        RouteError::Link {
            server,
            error,
            state,
        } => link_error(server, error, state, expose_stderr),
    }
}

/// The code for a resource that is not there (2025-11-25 resources and 2026-07-28 resources, "Error Handling").
pub(crate) fn unknown_resource_code(era: Era) -> i64 {
    match era {
        Era::Legacy => code::RESOURCE_NOT_FOUND,
        Era::Modern => code::INVALID_PARAMS,
    }
}

fn link_error(
    server: &ServerName,
    error: &LinkError,
    state: &str,
    expose_stderr: bool,
) -> RpcError {
    let reason = public(error, expose_stderr);
    let (code, remedy) = match error {
        LinkError::Spawn(_) | LinkError::Unreachable(_) | LinkError::Refused(_) => {
            (code::SERVER_DOWN, "ask the gateway's operator")
        }
        LinkError::Incompatible(_) => (code::SERVER_DOWN, "it needs another version"),
        LinkError::StartTimeout(_) => (code::SERVER_STARTING, "try again in a moment"),
        LinkError::Exited { .. }
        | LinkError::Broken(_)
        | LinkError::SessionLost
        | LinkError::Closed => (
            code::LOST,
            "the call may or may not have been carried out: check before trying again",
        ),
        LinkError::Silence(_) | LinkError::Deadline(_) => (code::TIMEOUT, "the call was cancelled"),
        LinkError::Unauthorized(_) => (
            code::UNAUTHORIZED,
            "the gateway's operator must give it valid credentials",
        ),
        LinkError::Status(_) | LinkError::NotMcp(_) => {
            (code::NOT_MCP, "ask the gateway's operator")
        }
        LinkError::TooLarge { .. } => (code::TOO_LARGE, "ask for less, or raise limits.message"),
    };
    server_error(
        code,
        format!("Server {server} {reason}; {remedy}"),
        plain(server, state, reason),
    )
}

/// A fault of ours that has nothing to do with a server.
pub(crate) fn too_many_requests(limit: usize) -> RpcError {
    RpcError::new(
        code::BUSY,
        format!("Too many requests at a time: limits.concurrent_requests is {limit}"),
    )
    .with_data(&serde_json::json!({
        "server": null, "state": "ready", "reason": "the cap of requests is reached",
    }))
}

/// The same for sets of forwarded headers.
pub(crate) fn too_many_callers() -> RpcError {
    RpcError::new(
        code::BUSY,
        "Too many different sets of forwarded headers are in use at a time",
    )
    .with_data(&serde_json::json!({
        "server": null, "state": "ready", "reason": "the cap of forwarded headers is reached",
    }))
}

fn public(error: &LinkError, expose_stderr: bool) -> String {
    match error.last_stderr().filter(|_| expose_stderr) {
        Some(line) => format!("{} (stderr: {line})", error.public()),
        None => error.public(),
    }
}

fn plain<'a>(server: &'a ServerName, state: &'a str, reason: String) -> ServerData<'a> {
    ServerData {
        server: server.as_str(),
        state,
        reason,
        retry_after_ms: None,
    }
}

fn server_error(code: i64, message: String, data: ServerData<'_>) -> RpcError {
    RpcError::new(code, message).with_data(&data)
}

/// An error as a whole JSON response.
pub(crate) fn respond(status: StatusCode, id: &RequestId, error: &RpcError) -> Response<Body> {
    body::json(status, error_message(id, error))
}

/// An error as a message.
pub(crate) fn error_message(id: &RequestId, error: &RpcError) -> Bytes {
    wire::error(Some(id), &error.to_raw())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_client_sees_the_servers_name_and_no_path() {
        let server = ServerName::new("files");
        let spawn = LinkError::Spawn("/opt/secret/bin: not found".to_owned());
        let error = RouteError::Link {
            server: server.clone(),
            error: spawn,
            state: "ready",
        };
        let error = rpc_error(&error, Era::Legacy, true);
        assert_eq!(error.code, code::SERVER_DOWN);
        assert!(error.message.contains("files"));
        assert!(!error.to_raw().as_str().contains("/opt"));
        let down = RouteError::Down {
            server,
            state: "backoff",
            reason: Some(LinkError::Exited {
                exit: None,
                last_stderr: Some("secret".to_owned()),
            }),
            retry_after: Some(Duration::from_millis(1500)),
        };
        assert!(
            !rpc_error(&down, Era::Legacy, false)
                .to_raw()
                .as_str()
                .contains("secret")
        );
        let text = rpc_error(&down, Era::Legacy, true);
        assert!(text.to_raw().as_str().contains("secret"));
        assert!(
            text.data
                .unwrap()
                .as_str()
                .contains(r#""retry_after_ms":1500"#)
        );
    }
}

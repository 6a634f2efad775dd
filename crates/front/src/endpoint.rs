//! The endpoint: the order of checks, and which face a request is for.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method as Verb, Request, Response, StatusCode, header};
use http_body::Body as HttpBody;
use manifold_protocol::{EnvelopeFault, Message, Method, ProtocolVersion, meta};
use manifold_routing::Scope;
use tower::Service;

use crate::{
    accept::{self, Accepted},
    batch,
    body::{self, Body},
    call::Reply,
    error::Refusal,
    headers, legacy, modern,
    shared::Shared,
    upload,
};

const VERBS: &str = "GET, POST, DELETE, OPTIONS";

/// Serves `/mcp` and `/mcp/NAME`. Everything else is not found.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint(pub(crate) Arc<Shared>);

impl<B> Service<Request<B>> for Endpoint
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Reply> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move { Ok(serve(&shared, request).await) })
    }
}

async fn serve<B>(shared: &Arc<Shared>, request: Request<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let Some(scope) = shared.scope(request.uri().path()) else {
        return Refusal::Path.respond(None);
    };
    match *request.method() {
        Verb::POST => {
            let (head, body) = request.into_parts();
            match upload::read(body, &head.headers, shared.settings.request_body).await {
                Ok(text) => post(shared, scope, &head.headers, text).await,
                Err(refusal) => refusal.respond(None),
            }
        }
        // A modern client has no business with either (2026-07-28 streamable-http, "Earlier Streamable
        // HTTP Revisions").
        Verb::GET | Verb::DELETE if is_modern(request.headers()) => {
            Refusal::Verb("POST, OPTIONS").respond(None)
        }
        Verb::GET => legacy::get(shared, scope, request.headers()),
        Verb::DELETE => legacy::delete(shared, scope, request.headers()),
        // That of a page is answered before it comes here.
        Verb::OPTIONS => verbs(),
        _ => Refusal::Verb(VERBS).respond(None),
    }
}

/// What may be asked for here (RFC 9110, section 9.3.7).
fn verbs() -> Response<Body> {
    let mut response = body::status(StatusCode::NO_CONTENT);
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(VERBS));
    response
}

async fn post(shared: &Arc<Shared>, scope: Scope, head: &HeaderMap, text: Bytes) -> Response<Body> {
    if !accept::is_json(head) {
        return Refusal::ContentType.respond(None);
    }
    let accepted = Accepted::of(head);
    if accepted.is_none() {
        return Refusal::Accept.respond(None);
    }
    let message = match Message::parse(text.clone()) {
        Ok(message) => message,
        Err(error) if matches!(error.fault, EnvelopeFault::Batch) => {
            return batch::post(shared, scope, head, accepted, &text, error).await;
        }
        Err(error) => return Refusal::Envelope(error).respond(None),
    };
    if is_modern_message(head, &message) {
        modern::post(shared, scope, head, accepted, message).await
    } else {
        legacy::post(shared, scope, head, accepted, message).await
    }
}

/// Which face: `initialize` is legacy; a protocol version in `_meta`, or a modern one in the header, is
/// modern; everything else is legacy. An `initialize` that asks for no version is none of any revision, so
/// it is what the rest of it says.
fn is_modern_message(head: &HeaderMap, message: &Message) -> bool {
    let params = match message {
        Message::Request(request)
            if request.method == Method::Initialize
                && request.params.protocol_version().is_some() =>
        {
            return false;
        }
        Message::Request(request) => Some(&request.params),
        Message::Notification(notification) => Some(&notification.params),
        Message::Response(_) => None,
    };
    let named = params
        .and_then(|params| params.meta())
        .is_some_and(|meta| meta.get(meta::PROTOCOL_VERSION).is_some());
    named || is_modern(head)
}

fn is_modern(head: &HeaderMap) -> bool {
    head.get(headers::PROTOCOL_VERSION)
        .and_then(|value| value.to_str().ok())
        .is_some_and(ProtocolVersion::is_modern_date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_face_is_chosen_by_method_meta_and_header() {
        let meta = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        for (method, params, version, modern) in [
            (
                "initialize",
                r#""protocolVersion":"2026-07-28""#.to_owned(),
                Some("2026-07-28"),
                false,
            ),
            (
                "initialize",
                format!(r#""protocolVersion":"2025-11-25"{meta}"#),
                None,
                false,
            ),
            ("initialize", format!(r#""x":1{meta}"#), None, true),
            ("initialize", r#""x":1"#.to_owned(), None, false),
            ("tools/list", format!(r#""x":1{meta}"#), None, true),
            (
                "tools/list",
                r#""x":1"#.to_owned(),
                Some("2026-07-28"),
                true,
            ),
            (
                "tools/list",
                r#""x":1"#.to_owned(),
                Some("2099-01-01"),
                true,
            ),
            (
                "tools/list",
                r#""x":1"#.to_owned(),
                Some("2025-11-25"),
                false,
            ),
            ("tools/list", r#""x":1"#.to_owned(), Some("foobar"), false),
            ("tools/list", r#""x":1"#.to_owned(), None, false),
        ] {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#);
            let message = Message::parse(text.clone().into()).unwrap();
            let mut head = HeaderMap::new();
            if let Some(version) = version {
                head.insert(headers::PROTOCOL_VERSION, HeaderValue::from_static(version));
            }
            assert_eq!(
                is_modern_message(&head, &message),
                modern,
                "{text} {version:?}"
            );
        }
    }
}

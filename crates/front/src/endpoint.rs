//! The endpoint: the order of checks, and which face a request is for.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method as Verb, Request, Response, header};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use manifold_protocol::{EnvelopeFault, Message, Method, ProtocolVersion, meta};
use manifold_routing::Scope;
use tower::Service;

use crate::{
    accept::{self, Accepted},
    batch,
    body::Body,
    call::Reply,
    error::Refusal,
    headers, legacy, modern,
    shared::Shared,
};

/// How long a request's body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(60);
/// How long a body over the limit is read on, and thrown away.
const DISCARD_TIME: Duration = Duration::from_secs(5);

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
            match read(body, &head.headers, shared.settings.request_body).await {
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
        _ => Refusal::Verb(VERBS).respond(None),
    }
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

/// Reads the body up to `limit` bytes.
async fn read<B>(mut body: B, head: &HeaderMap, limit: usize) -> Result<Bytes, Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let announced = head
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<usize>().ok());
    let reading = async {
        if announced.is_some_and(|length| length > limit) {
            return Err(Refusal::BodyTooLarge(limit));
        }
        gather(&mut body, announced.unwrap_or(0), limit).await
    };
    let read = tokio::time::timeout(BODY_TIME, reading)
        .await
        .map_err(|_| Refusal::Body(format!("not within {} s", BODY_TIME.as_secs())))?;
    let near = announced.is_none_or(|length| length <= limit.saturating_mul(2));
    if matches!(read, Err(Refusal::BodyTooLarge(_))) && near {
        discard(&mut body, limit).await;
    }
    read
}

async fn gather<B>(body: &mut B, announced: usize, limit: usize) -> Result<Bytes, Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    // Most bodies come in one piece, which is taken as it is.
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::Body(error.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let have = first.as_ref().map_or(0, Bytes::len) + rest.len();
        if have + data.len() > limit {
            return Err(Refusal::BodyTooLarge(limit));
        }
        match &first {
            None => first = Some(data),
            Some(head) => {
                if rest.is_empty() {
                    rest.reserve(announced.saturating_sub(head.len()));
                }
                rest.extend_from_slice(&data);
            }
        }
    }
    let first = first.unwrap_or_default();
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}

/// Reads on for a while what is not wanted: a client that is still sending when the connection closes sees
/// that, and not its answer.
async fn discard<B>(body: &mut B, most: usize)
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let reading = async {
        let mut left = most;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            left = left.saturating_sub(length);
            if left == 0 {
                return;
            }
        }
    };
    // Whoever is slower than that has to do without.
    drop(tokio::time::timeout(DISCARD_TIME, reading).await);
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

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

//! What a server's HTTP response means, by its head, and by its body where it is an error.
//!
//! Errors are mapped by the exchange they belong to, never by the id inside: servers answer with null,
//! with foreign ids and in plain text.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use manifold_protocol::{Message, Outcome};

use crate::LinkError;

/// How much of an error's body is read.
const ERROR_BODY: usize = 64 * 1024;

/// What follows the head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// One JSON message.
    Json,
    /// A stream of events.
    Events,
    /// An error, to be judged by its body.
    Error(StatusCode),
    /// Nothing that a request is answered with.
    Wrong(StatusCode),
}

/// Judges the head of the answer to a request.
pub(crate) fn head(status: StatusCode, headers: &HeaderMap) -> Head {
    if !status.is_success() {
        return Head::Error(status);
    }
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(|value| value.split(';').next().unwrap_or_default().trim());
    match kind {
        Some(kind) if kind.eq_ignore_ascii_case("application/json") => Head::Json,
        Some(kind) if kind.eq_ignore_ascii_case("text/event-stream") => Head::Events,
        _ => Head::Wrong(status),
    }
}

/// Judges an error response. `in_session` says whether the request carried a session id.
pub(crate) fn error(
    status: StatusCode,
    body: &Bytes,
    in_session: bool,
) -> Result<Outcome, LinkError> {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(LinkError::Unauthorized(status.as_u16()));
        }
        StatusCode::NOT_FOUND if in_session => return Err(LinkError::SessionLost),
        _ if status.is_server_error() || status.is_redirection() => {
            return Err(LinkError::Status(status.as_u16()));
        }
        _ => {}
    }
    let outcome = match Message::parse(body.clone()) {
        Ok(Message::Response(response)) => response.outcome,
        Ok(Message::Request(_) | Message::Notification(_)) | Err(_) => {
            return Err(LinkError::Status(status.as_u16()));
        }
    };
    match &outcome {
        // Some servers say so with 400: the ones that follow server-everything.
        Outcome::Error(error)
            if in_session
                && status == StatusCode::BAD_REQUEST
                && error.message().to_ascii_lowercase().contains("session") =>
        {
            Err(LinkError::SessionLost)
        }
        Outcome::Error(_) => Ok(outcome),
        Outcome::Result(_) => Err(LinkError::NotMcp(format!("a result with HTTP {status}"))),
    }
}

/// Reads a whole body up to `limit` bytes; `None` when it is larger.
pub(crate) async fn read(
    body: &mut Incoming,
    into: &mut BytesMut,
    limit: usize,
) -> Result<Option<()>, hyper::Error> {
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        if into.len() + data.len() > limit {
            return Ok(None);
        }
        into.extend_from_slice(&data);
    }
    Ok(Some(()))
}

/// Reads an error's body, as much as is useful. Faults of the transfer leave it short.
pub(crate) async fn read_error(body: &mut Incoming, into: &mut BytesMut) {
    drop(read(body, into, ERROR_BODY).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(status: u16, body: &'static str, in_session: bool) -> Result<i64, LinkError> {
        let status = StatusCode::from_u16(status).unwrap();
        error(status, &Bytes::from_static(body.as_bytes()), in_session).map(|outcome| match outcome
        {
            Outcome::Error(error) => error.code(),
            Outcome::Result(_) => panic!("a result"),
        })
    }

    /// Error responses of real servers.
    #[test]
    fn errors_are_mapped_by_status_first() {
        let lost = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
        assert!(matches!(
            judge(400, lost, true),
            Err(LinkError::SessionLost)
        ));
        assert_eq!(judge(400, lost, false).unwrap(), -32000);
        let odd_id =
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"x"}}"#;
        assert_eq!(judge(400, odd_id, true).unwrap(), -32600);
        assert!(matches!(
            judge(404, "Not Found", true),
            Err(LinkError::SessionLost)
        ));
        assert!(matches!(
            judge(404, "Not Found", false),
            Err(LinkError::Status(_))
        ));
        assert!(matches!(
            judge(401, odd_id, false),
            Err(LinkError::Unauthorized(401))
        ));
        assert!(matches!(
            judge(403, "", false),
            Err(LinkError::Unauthorized(403))
        ));
        assert!(matches!(
            judge(500, odd_id, false),
            Err(LinkError::Status(_))
        ));
        assert!(matches!(judge(302, "", false), Err(LinkError::Status(_))));
        assert!(matches!(
            judge(400, "<html>", false),
            Err(LinkError::Status(_))
        ));
    }

    #[test]
    fn content_types_are_compared_as_media_types() {
        for (kind, expected) in [
            ("application/json", Head::Json),
            ("Application/JSON; charset=utf-8", Head::Json),
            ("text/event-stream", Head::Events),
            ("text/html", Head::Wrong(StatusCode::OK)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
            assert_eq!(head(StatusCode::OK, &headers), expected);
        }
        assert_eq!(
            head(StatusCode::ACCEPTED, &HeaderMap::new()),
            Head::Wrong(StatusCode::ACCEPTED)
        );
        assert_eq!(
            head(StatusCode::NOT_FOUND, &HeaderMap::new()),
            Head::Error(StatusCode::NOT_FOUND)
        );
    }
}

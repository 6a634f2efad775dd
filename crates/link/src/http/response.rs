//! What a server's HTTP response means, by its head, and by its body where it is an error.
//!
//! Errors are mapped by the exchange they belong to, never by the id inside: servers answer with null,
//! with foreign ids and in plain text.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use manifold_protocol::{Message, Outcome, code};

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

/// What is known of an error before its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorHead {
    pub(crate) status: StatusCode,
    /// Whether it asks for credentials (`WWW-Authenticate`).
    pub(crate) challenged: bool,
    /// Whether the request carried a session id.
    pub(crate) in_session: bool,
}

/// Judges an error response.
pub(crate) fn error(head: ErrorHead, body: &Bytes) -> Result<Outcome, LinkError> {
    let status = head.status;
    let outcome = match Message::parse(body.clone()) {
        Ok(Message::Response(response)) => Some(response.outcome),
        Ok(Message::Request(_) | Message::Notification(_)) | Err(_) => None,
    };
    if is_session_loss(head, outcome.as_ref(), body) {
        return Err(LinkError::SessionLost);
    }
    match (status, outcome) {
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
            Err(LinkError::Unauthorized(status.as_u16()))
        }
        (_, Some(outcome @ Outcome::Error(_))) if status.is_client_error() => Ok(outcome),
        _ => Err(LinkError::Status(status.as_u16())),
    }
}

/// Whether the server has lost the session, and so has not worked on the request: 404 to a session id; and
/// what servers send that know no better, 400 or 401 with text about the session and no question for
/// credentials. An error about the params is about the params, whatever words it has.
fn is_session_loss(head: ErrorHead, outcome: Option<&Outcome>, body: &[u8]) -> bool {
    if !head.in_session {
        return false;
    }
    match head.status {
        StatusCode::NOT_FOUND => true,
        StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED if !head.challenged => match outcome {
            Some(Outcome::Error(error)) => {
                error.code() != code::INVALID_PARAMS && mentions_session(error.message().as_bytes())
            }
            Some(Outcome::Result(_)) => false,
            None => mentions_session(body),
        },
        _ => false,
    }
}

fn mentions_session(text: &[u8]) -> bool {
    text.to_ascii_lowercase()
        .windows(b"session".len())
        .any(|window| window == b"session")
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
        judge_head(
            ErrorHead {
                status,
                challenged: false,
                in_session,
            },
            body,
        )
    }

    fn judge_head(head: ErrorHead, body: &'static str) -> Result<i64, LinkError> {
        error(head, &Bytes::from_static(body.as_bytes())).map(|outcome| match outcome {
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
    fn a_lost_session_is_told_from_other_refusals() {
        let head = |status, challenged| ErrorHead {
            status: StatusCode::from_u16(status).unwrap(),
            challenged,
            in_session: true,
        };
        let session =
            r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session expired"},"id":null}"#;
        let lost = |head| matches!(judge_head(head, session), Err(LinkError::SessionLost));
        assert!(lost(head(400, false)));
        assert!(lost(head(401, false)));
        assert!(!lost(head(401, true)));
        assert!(!lost(head(403, false)));
        let params =
            r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"session_name required"},"id":1}"#;
        assert_eq!(judge_head(head(400, false), params).unwrap(), -32602);
        assert!(matches!(
            judge_head(head(400, false), "unknown session"),
            Err(LinkError::SessionLost)
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

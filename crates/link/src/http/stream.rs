//! A legacy server's announcements: the stream that a GET opens (2025-11-25 transports, "Listening for Messages from
//! the Server").

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use manifold_protocol::{
    Message, ProtocolVersion, Request,
    sse::{SseEvent, SseParser},
};
use tracing::debug;

use super::{
    channel::Relation,
    client::Answer,
    response::{self, ErrorHead, Head},
};
use crate::{
    LinkError,
    exchange::{GOODBYE, answer_ourselves, reply},
    listen::{Ear, End, Mark, Resume},
};

/// Opens the stream of a session, and reads it. Dropping it closes the stream.
#[derive(Debug)]
pub(crate) struct SessionStream {
    relation: Arc<Relation>,
    version: ProtocolVersion,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    body: Incoming,
    parser: SseParser,
}

/// What the head of an answer to GET means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    /// A stream.
    Stream,
    /// The session may be lost: the body tells.
    Doubt(StatusCode),
    /// Nothing, now or for ever.
    No(End),
}

impl SessionStream {
    pub(crate) fn new(relation: Arc<Relation>, version: ProtocolVersion) -> Self {
        Self {
            relation,
            version,
            open: None,
        }
    }

    /// Judges a refusal of a stream that there was before. A session that is lost ends the link.
    async fn doubt(&self, status: StatusCode, answer: Answer) -> End {
        let head = ErrorHead {
            status,
            challenged: answer.headers().contains_key(header::WWW_AUTHENTICATE),
            in_session: self.relation.in_session(),
        };
        let mut text = BytesMut::new();
        let mut body = answer.into_body();
        // What has come until then has to do.
        drop(tokio::time::timeout(GOODBYE, response::read_error(&mut body, &mut text)).await);
        if let Err(reason @ LinkError::SessionLost) = response::error(head, &text.freeze()) {
            self.relation.end(reason);
        }
        End::Refused
    }

    async fn message(&self, data: Bytes) {
        match Message::parse(data) {
            Ok(Message::Notification(notification)) => {
                let notices = &self.relation.notices;
                notices.send_if_modified(|notices| notices.record(&notification.method));
            }
            Ok(Message::Request(request)) => self.answer(request).await,
            Ok(Message::Response(_)) => debug!("an answer on a stream that no request opened"),
            Err(error) => debug!(%error, "an event that is no message"),
        }
    }

    /// Answers one request at a time, so that a server that asks in a flood waits for itself.
    async fn answer(&self, request: Request) {
        let Request { id, method, .. } = request;
        let body = reply(&id, answer_ourselves(&method));
        let sent = self.relation.post_and_forget(self.version, &method, body);
        if !matches!(tokio::time::timeout(GOODBYE, sent).await, Ok(Ok(()))) {
            debug!(%method, "a server did not take an answer");
        }
    }
}

impl Ear for SessionStream {
    async fn open(&mut self, resume: Resume) -> Result<(), End> {
        self.open = None;
        let sent = self.relation.get(self.version, resume.after.as_ref());
        let answer = match sent.ok_or(End::Refused)?.await {
            Ok(answer) => answer,
            Err(error) => {
                debug!(%error, "no stream for now");
                return Err(End::Over);
            }
        };
        let head = response::head(answer.status(), answer.headers());
        match offer(head, resume.again) {
            Offer::Stream => {
                self.open = Some(Open {
                    body: answer.into_body(),
                    parser: SseParser::new(self.relation.limit),
                });
                Ok(())
            }
            Offer::Doubt(status) => Err(self.doubt(status, answer).await),
            Offer::No(end) => {
                debug!(status = %answer.status(), ?end, "no stream");
                Err(end)
            }
        }
    }

    async fn hear(&mut self) -> Result<Mark, End> {
        loop {
            let Some(open) = &mut self.open else {
                return Err(End::Over);
            };
            let event = open.parser.next_event().map_err(|error| {
                debug!(%error, "a stream that can't be read on");
                End::Over
            })?;
            if let Some(event) = event {
                let (mark, data) = taken_apart(event);
                if let Some(data) = data {
                    self.message(data).await;
                }
                return Ok(mark);
            }
            match open.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        open.parser.push(&data);
                    }
                }
                Some(Err(_)) | None => return Err(End::Over),
            }
        }
    }
}

/// Judges the head of an answer to GET. `again`: there was a stream before.
fn offer(head: Head, again: bool) -> Offer {
    match head {
        Head::Events => Offer::Stream,
        Head::Error(status) if status.is_server_error() => Offer::No(End::Over),
        Head::Error(status) if again && status.is_client_error() => Offer::Doubt(status),
        Head::Error(_) | Head::Json | Head::Wrong(_) => Offer::No(End::Refused),
    }
}

/// What an event says of its stream, and its message.
fn taken_apart(event: SseEvent) -> (Mark, Option<Bytes>) {
    let mark = Mark {
        id: event.id,
        retry: event.retry.map(Duration::from_millis),
    };
    // Priming events, and fields without data, carry no message.
    let is_message = matches!(event.event.as_str(), "" | "message");
    let data = event.data.filter(|data| is_message && !data.is_empty());
    (mark, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_stream_is_not_asked_again() {
        let status = |code: u16| StatusCode::from_u16(code).unwrap();
        for (head, first, again) in [
            (Head::Events, Offer::Stream, Offer::Stream),
            (
                Head::Error(status(405)),
                Offer::No(End::Refused),
                Offer::Doubt(status(405)),
            ),
            (
                Head::Error(status(404)),
                Offer::No(End::Refused),
                Offer::Doubt(status(404)),
            ),
            (
                Head::Error(status(429)),
                Offer::No(End::Refused),
                Offer::Doubt(status(429)),
            ),
            (
                Head::Error(status(503)),
                Offer::No(End::Over),
                Offer::No(End::Over),
            ),
            (
                Head::Error(status(302)),
                Offer::No(End::Refused),
                Offer::No(End::Refused),
            ),
            (
                Head::Wrong(status(200)),
                Offer::No(End::Refused),
                Offer::No(End::Refused),
            ),
            (Head::Json, Offer::No(End::Refused), Offer::No(End::Refused)),
        ] {
            assert_eq!(offer(head, false), first, "{head:?}");
            assert_eq!(offer(head, true), again, "{head:?}");
        }
    }

    #[test]
    fn events_are_marks_and_messages() {
        let event = |kind: &str, data: Option<&'static str>| SseEvent {
            event: kind.to_owned(),
            data: data.map(|data| Bytes::from_static(data.as_bytes())),
            id: Some("1".to_owned()),
            retry: Some(3000),
        };
        for (kind, data, message) in [
            ("", Some("{}"), Some("{}")),
            ("message", Some("{}"), Some("{}")),
            ("", Some(""), None),
            ("", None, None),
            ("endpoint", Some("/messages"), None),
        ] {
            let (mark, found) = taken_apart(event(kind, data));
            assert_eq!(mark.id.as_deref(), Some("1"));
            assert_eq!(mark.retry, Some(Duration::from_secs(3)));
            assert_eq!(
                found,
                message.map(|text| Bytes::from_static(text.as_bytes()))
            );
        }
    }
}

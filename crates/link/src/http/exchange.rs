//! One POST and its answer, JSON or a stream of events. No task of its own: whoever asks for the next event
//! moves it on.

use std::sync::{Arc, atomic::Ordering};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::client::legacy::ResponseFuture;
use manifold_protocol::{
    Era, IdField, LinkRequestId, Message, Method, Notification, Outcome, ProtocolVersion, Raw,
    Request, Response, sse::SseParser, wire,
};
use tracing::debug;

use super::{
    channel::{Relation, describe},
    headers,
    response::{self, ErrorHead, Head},
};
use crate::{
    LinkError,
    exchange::{Ask, Event, Note, answer_ourselves, reply},
};

/// One request in flight to an HTTP server.
#[derive(Debug)]
pub(crate) struct HttpExchange {
    relation: Arc<Relation>,
    id: LinkRequestId,
    version: ProtocolVersion,
    method: Method,
    state: State,
    session: Option<HeaderValue>,
}

#[derive(Debug)]
enum State {
    Unsent {
        name: Option<Box<str>>,
        body: Bytes,
    },
    Sent(ResponseFuture),
    Json {
        body: Incoming,
        text: BytesMut,
    },
    Events {
        body: Incoming,
        parser: SseParser,
    },
    Error {
        head: ErrorHead,
        body: Incoming,
        text: BytesMut,
    },
    Ended,
}

impl HttpExchange {
    pub(super) fn new(
        relation: Arc<Relation>,
        id: LinkRequestId,
        version: ProtocolVersion,
        method: Method,
        name: Option<&str>,
        body: Bytes,
    ) -> Self {
        if method.is_work() {
            relation.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        Self {
            relation,
            id,
            version,
            method,
            state: State::Unsent {
                name: name.map(Box::from),
                body,
            },
            session: None,
        }
    }

    /// The session id that the answer carried.
    pub(crate) fn session(&self) -> Option<&HeaderValue> {
        self.session.as_ref()
    }

    /// The next event. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Event {
        let relation = self.relation.clone();
        loop {
            let step = tokio::select! {
                biased;
                step = self.step() => step,
                reason = relation.cut() => Err(reason),
            };
            match step {
                Ok(None) => {}
                Ok(Some(Event::Done(outcome))) => return self.done(outcome),
                Ok(Some(event)) => return event,
                Err(error) => return self.done(Err(error)),
            }
        }
    }

    /// Gives the call up. A modern server sees the stream close; a legacy one is told.
    pub(crate) fn cancel(&mut self, reason: &'static str) {
        let sent = !matches!(self.state, State::Unsent { .. } | State::Ended);
        self.state = State::Ended;
        let told = self.version.era() == Era::Legacy && self.method != Method::Initialize;
        if !sent || !told {
            return;
        }
        let params = Raw::of(&serde_json::json!({ "requestId": self.id.0, "reason": reason }));
        let body = wire::notification(Method::Cancelled.as_str(), params.as_bytes());
        self.post_later(Method::Cancelled, body);
    }

    fn done(&mut self, outcome: Result<Outcome, LinkError>) -> Event {
        self.state = State::Ended;
        if let Err(reason @ LinkError::SessionLost) = &outcome {
            self.relation.end(reason.clone());
        }
        Event::Done(outcome)
    }

    /// Moves on by one wait. Keeps its place in `self.state` across every await.
    async fn step(&mut self) -> Result<Option<Event>, LinkError> {
        match &mut self.state {
            State::Unsent { name, body } => {
                if let Some(reason) = self.relation.end_reason() {
                    return Err(reason);
                }
                let sent = self.relation.post(
                    self.version,
                    &self.method,
                    name.as_deref(),
                    std::mem::take(body),
                );
                self.state =
                    State::Sent(sent.ok_or_else(|| {
                        LinkError::Unreachable("the URL is not usable".to_owned())
                    })?);
                Ok(None)
            }
            State::Sent(response) => {
                let answer = response.await.map_err(|error| describe(&error))?;
                self.session = answer.headers().get(headers::SESSION_ID).cloned();
                let head = response::head(answer.status(), answer.headers());
                let challenged = answer.headers().contains_key(header::WWW_AUTHENTICATE);
                let body = answer.into_body();
                self.state = match head {
                    Head::Json => State::Json {
                        body,
                        text: BytesMut::new(),
                    },
                    Head::Events => State::Events {
                        body,
                        parser: SseParser::new(self.relation.limit),
                    },
                    Head::Error(status) => State::Error {
                        head: ErrorHead {
                            status,
                            challenged,
                            in_session: self.relation.in_session(),
                        },
                        body,
                        text: BytesMut::new(),
                    },
                    Head::Wrong(status) => {
                        return Err(LinkError::NotMcp(format!(
                            "HTTP {status} without JSON or an event stream"
                        )));
                    }
                };
                Ok(None)
            }
            State::Json { body, text } => {
                let limit = self.relation.limit;
                match response::read(body, text, limit).await {
                    Ok(Some(())) => {}
                    Ok(None) => return Err(LinkError::TooLarge { limit }),
                    Err(error) => return Err(LinkError::broken_within(error.to_string())),
                }
                let text = std::mem::take(text).freeze();
                match Message::parse(text) {
                    Ok(message) => self.last_message(message).map(Some),
                    Err(error) => Err(LinkError::NotMcp(error.to_string())),
                }
            }
            State::Events { body, parser } => {
                if let Some(event) = parser.next_event().map_err(|_| LinkError::TooLarge {
                    limit: self.relation.limit,
                })? {
                    let data = event.data.unwrap_or_default();
                    // Priming events, and fields without data, carry no message.
                    if data.is_empty() || !matches!(event.event.as_str(), "" | "message") {
                        return Ok(None);
                    }
                    return Ok(self.message(data));
                }
                match body.frame().await {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            parser.push(&data);
                        }
                        Ok(None)
                    }
                    Some(Err(error)) => Err(LinkError::broken_within(error.to_string())),
                    None => Err(LinkError::broken_within("the event stream ended")),
                }
            }
            State::Error { head, body, text } => {
                response::read_error(body, text).await;
                let text = std::mem::take(text).freeze();
                response::error(*head, &text).map(|outcome| Some(Event::Done(Ok(outcome))))
            }
            State::Ended => std::future::pending().await,
        }
    }

    /// The message of a JSON answer: it is the last one.
    fn last_message(&self, message: Message) -> Result<Event, LinkError> {
        match message {
            Message::Response(response) if self.is_answer(&response) => {
                Ok(Event::Done(Ok(response.outcome)))
            }
            Message::Response(_) => Err(LinkError::NotMcp(
                "a result with another request's id".to_owned(),
            )),
            Message::Request(_) | Message::Notification(_) => Err(LinkError::NotMcp(
                "a JSON body that is no response".to_owned(),
            )),
        }
    }

    /// A message on the call's own stream.
    fn message(&mut self, data: Bytes) -> Option<Event> {
        match Message::parse(data) {
            Ok(Message::Response(response)) if self.is_answer(&response) => {
                Some(Event::Done(Ok(response.outcome)))
            }
            Ok(Message::Response(_)) => {
                debug!("an answer to another request on this request's stream");
                None
            }
            Ok(Message::Notification(notification)) => self.notification(notification),
            Ok(Message::Request(request)) => self.request(request),
            Err(error) => {
                debug!(%error, "an event that is no message");
                None
            }
        }
    }

    /// Results must carry our id; errors on our exchange are ours whatever they carry.
    fn is_answer(&self, response: &Response) -> bool {
        match (&response.outcome, &response.id) {
            (Outcome::Error(_), _) => true,
            (Outcome::Result(_), IdField::Id(id)) => {
                LinkRequestId::from_raw(id.as_raw()) == Some(self.id)
            }
            (Outcome::Result(_), IdField::Absent | IdField::Null | IdField::Invalid) => false,
        }
    }

    fn notification(&self, notification: Notification) -> Option<Event> {
        let Notification { method, params } = notification;
        if method == Method::Progress {
            let token = params.progress_token();
            let call = token.and_then(|token| LinkRequestId::from_raw(&token));
            return (call == Some(self.id)).then_some(Event::Note(Note { method, params }));
        }
        if method == Method::LogMessage {
            return Some(Event::Note(Note { method, params }));
        }
        if self.method == Method::SubscriptionsListen {
            if method == Method::SubscriptionsAcknowledged {
                return Some(Event::Note(Note { method, params }));
            }
            let cancelled = params.request_id();
            let cancelled = cancelled.and_then(|id| LinkRequestId::from_raw(&id));
            if method == Method::Cancelled && cancelled == Some(self.id) {
                return Some(Event::Done(Err(LinkError::cancelled())));
            }
        }
        self.relation
            .notices
            .send_if_modified(|notices| notices.record(&method));
        None
    }

    fn request(&self, request: Request) -> Option<Event> {
        let Request { id, method, params } = request;
        if method.is_ask() {
            let (relation, version) = (self.relation.clone(), self.version);
            let asked = method.clone();
            let answer = move |answer| {
                let body = reply(&id, answer);
                post_later(relation, version, asked, body);
            };
            return Some(Event::Ask(Ask::new(method, params, Box::new(answer))));
        }
        let body = reply(&id, answer_ourselves(&method));
        self.post_later(method, body);
        None
    }

    fn post_later(&self, method: Method, body: Bytes) {
        post_later(self.relation.clone(), self.version, method, body);
    }
}

impl Drop for HttpExchange {
    fn drop(&mut self) {
        if self.method.is_work() {
            self.relation.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// POSTs an answer or a cancel from a task of the relation's owner, within a deadline.
fn post_later(relation: Arc<Relation>, version: ProtocolVersion, method: Method, body: Bytes) {
    let tasks = relation.tasks.clone();
    tasks.spawn(async move {
        let sent = relation.post_and_forget(version, &method, body);
        match tokio::time::timeout(crate::exchange::GOODBYE, sent).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%method, %error, "a server did not take a message"),
            Err(_) => debug!(%method, "a server did not take a message in time"),
        }
    });
}

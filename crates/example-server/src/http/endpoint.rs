//! The endpoint: from an HTTP request to its response.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body as _, Incoming};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::exchange::{EventStream, Exchange, Step};
use super::headers::{self, SESSION, VERSION};
use super::sessions::{Session, SessionId, Sessions};
use crate::MAX_MESSAGE;
use crate::eras::{self, Era};
use crate::handle::{Action, Peer, era_of, handle};
use crate::jobs::{Job, Outlet};
use crate::message::{Id, Message, parse};
use crate::process::{Process, Questions, lock};
use crate::reply::{Fault, Reply};

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Messages of one call that wait for a slow client.
const QUEUE: usize = 16;

/// A whole body, or an event stream.
pub(super) type Body = Either<Full<Bytes>, EventStream>;

/// What all connections share.
pub(super) struct Endpoint {
    process: Arc<Process>,
    sessions: Sessions,
    closing: CancellationToken,
}

/// A request turned away, with what it is told.
struct Refusal {
    status: StatusCode,
    id: Option<Id>,
    era: Era,
    fault: Fault,
}

impl Endpoint {
    pub(super) fn new(process: Arc<Process>, closing: CancellationToken) -> Self {
        Self {
            process,
            sessions: Sessions::default(),
            closing,
        }
    }

    /// Answers one request. Dropping the future, as happens when the client goes away, cancels the call in it.
    pub(super) async fn serve(&self, request: Request<Incoming>) -> Response<Body> {
        if !headers::origin_is_local(request.headers()) {
            let fault = Fault::BadHeader("Origin must be a page of this machine".to_owned());
            return Refusal::new(StatusCode::FORBIDDEN, fault).into_response();
        }
        if request.uri().path() != super::ENDPOINT {
            return empty(StatusCode::NOT_FOUND);
        }
        let answer = match *request.method() {
            Method::POST => self.post(request).await,
            Method::GET if self.has_streams(request.headers()) => self.get(request.headers()),
            Method::DELETE if self.has_streams(request.headers()) => self.delete(request.headers()),
            _ => Ok(self.not_allowed()),
        };
        answer.unwrap_or_else(Refusal::into_response)
    }

    /// Whether GET and DELETE mean something to this client: the modern era has neither.
    fn has_streams(&self, headers: &HeaderMap) -> bool {
        self.process.eras.legacy()
            && !(self.process.eras.modern()
                && headers::text(headers, VERSION).is_some_and(eras::is_modern))
    }

    fn not_allowed(&self) -> Response<Body> {
        let allowed = if self.process.eras.legacy() {
            "POST, GET, DELETE"
        } else {
            "POST"
        };
        let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static(allowed));
        response
    }

    async fn post(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let (head, body) = request.into_parts();
        check_media(&head.headers)?;
        let body = read_body(body).await?;
        let message = parse(&body).map_err(|malformed| Refusal {
            id: malformed.id,
            ..Refusal::new(StatusCode::BAD_REQUEST, malformed.fault)
        })?;
        let version = headers::text(&head.headers, VERSION);
        match era_of(self.process.eras, &message, version) {
            Era::Modern => self.post_modern(&head.headers, message).await,
            Era::Legacy if is_request(&message, "initialize") => Ok(self.initialize(message)),
            Era::Legacy => self.post_legacy(&head.headers, message).await,
        }
    }

    async fn post_modern(
        &self,
        headers: &HeaderMap,
        message: Message,
    ) -> Result<Response<Body>, Refusal> {
        if let Message::Request(request) = &message
            && request.method != "initialize"
            && let Err(fault) = headers::mirror(headers, request)
        {
            return Err(Refusal::of(Era::Modern, Some(request.id.clone()), fault));
        }
        match handle(&self.process, &mut Peer::default(), Era::Modern, message) {
            Action::Reply(reply) => Ok(whole(&reply)),
            Action::Run(job) => {
                let (outlet, messages) = self.outlet(Arc::default());
                self.run(job, outlet, messages, CancellationToken::new(), ())
                    .await
            }
            // Over HTTP a modern client cancels by closing the stream, and it is never asked anything.
            Action::Cancel(_) | Action::Deliver { .. } | Action::Ignore => {
                Ok(empty(StatusCode::ACCEPTED))
            }
        }
    }

    /// Opens a session, if the handshake is in order.
    fn initialize(&self, message: Message) -> Response<Body> {
        let mut peer = Peer::default();
        let Action::Reply(reply) = handle(&self.process, &mut peer, Era::Legacy, message) else {
            return empty(StatusCode::ACCEPTED);
        };
        let mut response = whole(&reply);
        if reply.outcome.is_ok() {
            let id = self.sessions.open(peer);
            response.headers_mut().extend(session_header(&id));
        }
        response
    }

    async fn post_legacy(
        &self,
        headers: &HeaderMap,
        message: Message,
    ) -> Result<Response<Body>, Refusal> {
        let id = match &message {
            Message::Request(request) => Some(request.id.clone()),
            Message::Notification(_) | Message::Response(_) => None,
        };
        if is_request(&message, "server/discover") {
            let fault = Fault::UnknownMethod("server/discover".to_owned());
            return Err(Refusal {
                id,
                ..Refusal::new(StatusCode::BAD_REQUEST, fault)
            });
        }
        let session = self.session(headers).map_err(|refusal| Refusal {
            id: id.clone(),
            ..refusal
        })?;
        let action = handle(
            &self.process,
            &mut lock(&session.peer),
            Era::Legacy,
            message,
        );
        match action {
            Action::Reply(reply) => return Ok(whole(&reply)),
            Action::Run(job) => return self.run_in(session, job).await,
            Action::Cancel(request) => session.cancel(&request),
            Action::Deliver { question, answer } => {
                session.questions.deliver(question, answer);
            }
            Action::Ignore => {}
        }
        Ok(empty(StatusCode::ACCEPTED))
    }

    /// A legacy session's standing stream. Nothing ever happens here that is not part of a call, so it only stays open.
    fn get(&self, headers: &HeaderMap) -> Result<Response<Body>, Refusal> {
        if !headers::accepts(headers, "text", "event-stream") {
            let fault = Fault::BadHeader("Accept must allow text/event-stream".to_owned());
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, fault));
        }
        let session = self.session(headers)?;
        let (open, messages) = mpsc::channel::<String>(1);
        let closing = self.closing.clone();
        let work = async move {
            tokio::select! {
                () = session.ended.cancelled() => {}
                () = closing.cancelled() => {}
            }
            drop(open);
            None
        };
        Ok(stream(None, Exchange::new(work, messages)))
    }

    fn delete(&self, headers: &HeaderMap) -> Result<Response<Body>, Refusal> {
        // Found first, so that a missing header and an unknown session are told apart here as everywhere.
        self.session(headers)?;
        headers::text(headers, SESSION).map(|id| self.sessions.end(id));
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// The session that a legacy request is of.
    fn session(&self, headers: &HeaderMap) -> Result<Arc<Session>, Refusal> {
        // Clients that never send a version are common; an unknown one is refused (2025-11-25, "Protocol Version Header").
        if headers.contains_key(VERSION)
            && headers::text(headers, VERSION)
                .and_then(eras::legacy_version)
                .is_none()
        {
            let fault = Fault::BadHeader(
                "MCP-Protocol-Version is none that this session can speak".to_owned(),
            );
            return Err(Refusal::new(StatusCode::BAD_REQUEST, fault));
        }
        let Some(id) = headers::text(headers, SESSION) else {
            return Err(Refusal::new(StatusCode::BAD_REQUEST, Fault::NoSession));
        };
        self.sessions
            .find(id)
            .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, Fault::UnknownSession))
    }

    fn outlet(&self, questions: Arc<Questions>) -> (Outlet, mpsc::Receiver<String>) {
        let (messages, queue) = mpsc::channel(QUEUE);
        let closing = self.closing.clone();
        (
            Outlet {
                messages,
                questions,
                closing,
            },
            queue,
        )
    }

    /// Runs a legacy call, which its session can cancel.
    ///
    /// Its stream cannot be resumed, so when the client goes away the call ends, too: nobody could ever get its answer.
    async fn run_in(&self, session: Arc<Session>, job: Job) -> Result<Response<Body>, Refusal> {
        let Some(entry) = session.enter(job.id.clone()) else {
            let fault = Fault::IdInUse(job.id.clone());
            return Err(Refusal::of(Era::Legacy, Some(job.id), fault));
        };
        let (outlet, messages) = self.outlet(Arc::clone(&session.questions));
        let cancelled = entry.cancelled.clone();
        self.run(job, outlet, messages, cancelled, entry).await
    }

    /// Runs a job: JSON if its answer is all it says, otherwise an event stream. `held` is dropped when it ends.
    async fn run(
        &self,
        job: Job,
        outlet: Outlet,
        messages: mpsc::Receiver<String>,
        cancelled: CancellationToken,
        held: impl Send + 'static,
    ) -> Result<Response<Body>, Refusal> {
        let Some(running) = self.process.begin(&job) else {
            return Err(Refusal::of(job.caller.era, Some(job.id), Fault::Busy));
        };
        let work = async move {
            let _held = held;
            let reply = cancelled.run_until_cancelled(job.run(&outlet)).await?;
            running.finish();
            Some(reply)
        };
        let mut exchange = Exchange::new(work, messages);
        Ok(match exchange.next().await {
            Step::Reply(reply) => whole(&reply),
            // A cancelled call gets no answer, and HTTP's way of not giving one is a stream that just ends.
            first @ (Step::Message(_) | Step::Ended) => stream(Some(first), exchange),
        })
    }
}

// === impl Refusal ===

impl Refusal {
    fn new(status: StatusCode, fault: Fault) -> Self {
        Self {
            status,
            id: None,
            era: Era::Legacy,
            fault,
        }
    }

    fn of(era: Era, id: Option<Id>, fault: Fault) -> Self {
        Self {
            status: status(era, &fault),
            id,
            era,
            fault,
        }
    }

    fn into_response(self) -> Response<Body> {
        let Self {
            status,
            id,
            era,
            fault,
        } = self;
        let outcome = Err(fault);
        json(status, &Reply { id, era, outcome })
    }
}

/// The status of an error answer. A legacy client reads the body; a modern one is owed the status as well (2026-07-28,
/// Streamable HTTP, "Protocol Version Header" and "Server Validation").
const fn status(era: Era, fault: &Fault) -> StatusCode {
    match (fault, era) {
        (
            Fault::NotJson
            | Fault::NotJsonRpc(_)
            | Fault::BadHeader(_)
            | Fault::NoSession
            | Fault::IncompleteMeta(_)
            | Fault::HeaderMismatch(_)
            | Fault::NeedsElicitation
            | Fault::UnsupportedVersion { .. },
            _,
        ) => StatusCode::BAD_REQUEST,
        (Fault::UnknownMethod(_), Era::Modern) | (Fault::UnknownSession, _) => {
            StatusCode::NOT_FOUND
        }
        (Fault::TooLarge { .. }, _) => StatusCode::PAYLOAD_TOO_LARGE,
        (Fault::Busy, _) => StatusCode::SERVICE_UNAVAILABLE,
        (
            Fault::UnknownMethod(_)
            | Fault::InvalidParams(_)
            | Fault::UnknownResource { .. }
            | Fault::NotInitialized
            | Fault::AlreadyInitialized
            | Fault::IdInUse(_),
            _,
        ) => StatusCode::OK,
    }
}

fn is_request(message: &Message, method: &str) -> bool {
    matches!(message, Message::Request(request) if request.method == method)
}

fn check_media(headers: &HeaderMap) -> Result<(), Refusal> {
    if !headers::is_json(headers) {
        let fault = Fault::BadHeader("Content-Type must be application/json".to_owned());
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, fault));
    }
    if !(headers::accepts(headers, "application", "json")
        && headers::accepts(headers, "text", "event-stream"))
    {
        let fault =
            Fault::BadHeader("Accept must allow application/json and text/event-stream".to_owned());
        return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, fault));
    }
    Ok(())
}

/// Reads a body up to the limit, in the time there is for it.
async fn read_body(mut body: Incoming) -> Result<Bytes, Refusal> {
    let too_large = || {
        Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Fault::TooLarge { limit: MAX_MESSAGE },
        )
    };
    let broken = |status, why: &str| Refusal::new(status, Fault::NotJsonRpc(why.to_owned()));
    let limit = u64::try_from(MAX_MESSAGE).unwrap_or(u64::MAX);
    if body.size_hint().lower() > limit {
        return Err(too_large());
    }
    let reading = async {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| broken(StatusCode::BAD_REQUEST, "the body broke off"))?;
            if let Ok(data) = frame.into_data() {
                if bytes.len() + data.len() > MAX_MESSAGE {
                    return Err(too_large());
                }
                bytes.extend_from_slice(&data);
            }
        }
        Ok(bytes.freeze())
    };
    match tokio::time::timeout(BODY_TIMEOUT, reading).await {
        Ok(outcome) => outcome,
        Err(_) => Err(broken(
            StatusCode::REQUEST_TIMEOUT,
            "the body took too long",
        )),
    }
}

fn whole(reply: &Reply) -> Response<Body> {
    let status = match &reply.outcome {
        Ok(_) => StatusCode::OK,
        Err(fault) => status(reply.era, fault),
    };
    json(status, reply)
}

fn json(status: StatusCode, reply: &Reply) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::from(reply.to_json())));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn stream(first: Option<Step>, exchange: Exchange) -> Response<Body> {
    let mut response = Response::new(Either::Right(EventStream::new(first, exchange)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = status;
    response
}

fn session_header(id: &SessionId) -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::from_str(id.as_str()).ok()?;
    Some((HeaderName::from_static(SESSION), value))
}

//! The face for clients of 2024-11-05 to 2025-11-25: sessions, opened by `initialize`.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use manifold_protocol::{
    Era, Kind, LogLevel, Message, Method, Notification, Params, ProtocolVersion, Raw, Request,
    RequestId, RpcError, code, meta, sse, wire,
};
use manifold_routing::{
    Activity, Caller, ClientHello, Forwarded, Principal, Scope, Session, SessionId,
};
use serde::Serialize;

use crate::{
    accept::Accepted,
    announce::{Announcing, Audience},
    body::{self, Body},
    call::{Answering, Life, Writer, resource},
    error::{Refusal, too_many_callers, too_many_requests},
    headers, lists,
    shared::{Shared, client_info},
};

/// The most GET streams of one session.
const STREAMS: usize = 16;

/// What `initialize` is answered with (2025-11-25 lifecycle, "Initialization").
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult<'a> {
    protocol_version: &'a str,
    capabilities: Raw,
    server_info: &'a Raw,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
}

/// Answers a POST.
pub(crate) async fn post(
    shared: &Arc<Shared>,
    scope: Scope,
    head: &HeaderMap,
    accepted: Accepted,
    message: Message,
) -> Response<Body> {
    if let Message::Request(request) = &message
        && request.method == Method::Initialize
    {
        return initialize(shared, scope, request, accepted).await;
    }
    let id = match &message {
        Message::Request(request) => Some(&request.id),
        Message::Notification(_) | Message::Response(_) => None,
    };
    let session = match session(shared, scope, head) {
        Ok(session) => session,
        Err(refusal) => return refusal.respond(id),
    };
    session.touch();
    if id.is_some() && shared.draining.is_cancelled() {
        return Refusal::Draining.respond(id);
    }
    match message {
        Message::Request(request) => {
            let forwarded = shared.forwarded(head);
            let answer = answer(shared, &session, &forwarded, request).await;
            answer.respond(accepted).await
        }
        Message::Notification(notification) => {
            notified(&session, &notification);
            body::status(StatusCode::ACCEPTED)
        }
        // Servers are offered nothing to ask for: an answer is to no question of ours.
        Message::Response(_) => body::status(StatusCode::ACCEPTED),
    }
}

/// Opens the stream that what belongs to no call goes out on.
pub(crate) fn get(shared: &Arc<Shared>, scope: Scope, head: &HeaderMap) -> Response<Body> {
    let session = match session(shared, scope, head) {
        Ok(session) => session,
        Err(refusal) => return refusal.respond(None),
    };
    if !Accepted::of(head).events {
        return Refusal::Accept.respond(None);
    }
    let Some(activity) = session.stream(STREAMS) else {
        return Refusal::StreamsFull.respond(None);
    };
    let Some(caller) = session.callers().with(&shared.forwarded(head)) else {
        return Refusal::StreamsFull.respond(None);
    };
    let stream = Announcing::new(
        Listener {
            shared: shared.clone(),
            session: session.clone(),
            caller: caller.clone(),
            _activity: activity,
        },
        shared.router.changes(&caller),
        session.ended().clone(),
        shared.draining.clone(),
        shared.settings.keepalive,
        // The first bytes at once: some clients and proxies wait for them.
        sse::comment(),
    );
    body::events(stream::unfold(stream, Announcing::next))
}

/// Ends a session.
pub(crate) fn delete(shared: &Arc<Shared>, scope: Scope, head: &HeaderMap) -> Response<Body> {
    match session(shared, scope, head) {
        Ok(session) => {
            shared.router.end_session(session.id());
            body::status(StatusCode::NO_CONTENT)
        }
        Err(refusal) => refusal.respond(None),
    }
}

/// The session that the headers name, if it is this path's and this client's.
pub(crate) fn session(
    shared: &Shared,
    scope: Scope,
    head: &HeaderMap,
) -> Result<Arc<Session>, Refusal> {
    check_version(head)?;
    let mut ids = head.get_all(headers::SESSION_ID).iter();
    let id = match (ids.next(), ids.next()) {
        (None, _) => return Err(Refusal::SessionMissing),
        (Some(id), None) => id,
        (Some(_), Some(_)) => return Err(Refusal::SessionUnknown),
    };
    id.to_str()
        .ok()
        .and_then(SessionId::parse)
        .and_then(|id| shared.router.sessions().get(id))
        .filter(|session| session.scope() == scope && *session.principal() == Principal::Anonymous)
        .ok_or(Refusal::SessionUnknown)
}

/// A version header need not be there, and need not be the one agreed on, but it must be one that belongs
/// to sessions (2025-11-25 transports, "Protocol Version Header").
fn check_version(head: &HeaderMap) -> Result<(), Refusal> {
    let mut values = head.get_all(headers::PROTOCOL_VERSION).iter();
    let Some(value) = values.next() else {
        return Ok(());
    };
    let known = value
        .to_str()
        .ok()
        .and_then(ProtocolVersion::parse)
        .is_some_and(|version| version.era() == Era::Legacy);
    if known && values.next().is_none() {
        return Ok(());
    }
    Err(Refusal::VersionHeader)
}

async fn initialize(
    shared: &Shared,
    scope: Scope,
    request: &Request,
    accepted: Accepted,
) -> Response<Body> {
    if shared.draining.is_cancelled() {
        return Refusal::Draining.respond(Some(&request.id));
    }
    let Some(asked) = request.params.protocol_version() else {
        let error = RpcError::new(
            code::INVALID_PARAMS,
            "Invalid params: protocolVersion must be a string",
        );
        return refuse(accepted, &request.id, &error);
    };
    let version = ProtocolVersion::negotiate(&asked);
    let router = &shared.router;
    let surface = router.hello(router.nobody(), scope).await;
    let hello = ClientHello {
        principal: Principal::Anonymous,
        version,
        scope,
        client_info: client_info(request.params.client_info()),
        known: surface.fingerprints(),
    };
    let Ok(session) = router.open_session(hello) else {
        return Refusal::SessionsFull.respond(Some(&request.id));
    };
    let result = InitializeResult {
        protocol_version: version.as_str(),
        capabilities: surface.capabilities().to_raw(),
        server_info: &shared.server_info,
        instructions: surface.instructions(),
    };
    let mut response = message(accepted, &request.id, &Raw::of(&result));
    if let Ok(id) = HeaderValue::from_str(&session.id().to_string()) {
        response.headers_mut().insert(headers::SESSION_ID, id);
    }
    response
}

/// What a request comes to: an answer that is known at once, or a call.
pub(crate) enum Answer {
    /// The whole message.
    Ready(Bytes),
    /// A call that a server answers.
    Call(Box<Answering>),
}

impl Answer {
    /// The response to a request that came alone.
    async fn respond(self, accepted: Accepted) -> Response<Body> {
        match self {
            Self::Ready(message) => answer_with(accepted, message),
            Self::Call(call) => call.respond(accepted).await,
        }
    }
}

/// Works on a request of a session.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "methods are an open set: all others are unknown here"
)]
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    forwarded: &Forwarded,
    request: Request,
) -> Answer {
    let Some(caller) = session.callers().with(forwarded) else {
        return Answer::error(&request.id, &too_many_callers());
    };
    let Request { id, method, params } = request;
    if let Some(kind) = lists::kind(&method) {
        return list(shared, session, &caller, kind, &id, &params).await;
    }
    if manifold_routing::Request::is_routed(&method) {
        return call(shared, session, caller, id, method, params);
    }
    match method {
        Method::Ping => Answer::result(&id, &Raw::of(&serde_json::Map::new())),
        Method::LoggingSetLevel => set_level(shared, session, &caller, &id, &params),
        other => Answer::error(&id, &lists::unknown_method(&other)),
    }
}

async fn list(
    shared: &Shared,
    session: &Session,
    caller: &Caller,
    kind: Kind,
    id: &RequestId,
    params: &Params,
) -> Answer {
    let surface = shared.router.lists(caller, session.scope()).await;
    if !surface.capabilities().lists(kind) {
        return Answer::error(id, &lists::unknown_method(&kind.method()));
    }
    match lists::page(
        &surface,
        kind,
        Era::Legacy,
        params,
        shared.settings.page_size,
    ) {
        Ok(page) => {
            if lists::is_first(params) {
                session.shown(kind, surface.fingerprints());
            }
            Answer::result(id, &page)
        }
        Err(error) => Answer::error(id, &error),
    }
}

/// The level is remembered for the session's links, and told to those that are up
/// (2025-11-25 logging, "Setting Log Level").
fn set_level(
    shared: &Shared,
    session: &Arc<Session>,
    caller: &Caller,
    id: &RequestId,
    params: &Params,
) -> Answer {
    let surface = shared.router.surface(caller, session.scope());
    if !surface.capabilities().logging() {
        return Answer::error(id, &lists::unknown_method(&Method::LoggingSetLevel));
    }
    let Some(level) = params.level().and_then(|level| LogLevel::parse(&level)) else {
        let error = RpcError::new(
            code::INVALID_PARAMS,
            format!(
                "Invalid params: level must be one of {}",
                LogLevel::NAMES.join(", ")
            ),
        );
        return Answer::error(id, &error);
    };
    shared.router.set_log_level(session, level);
    Answer::result(id, &Raw::of(&serde_json::Map::new()))
}

fn call(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    caller: Arc<Caller>,
    id: RequestId,
    method: Method,
    params: Params,
) -> Answer {
    let limit = shared.settings.concurrent_requests;
    let Some((activity, cancelled)) = session.call(&id, limit) else {
        shared.router.refuse_busy(&method);
        return Answer::error(&id, &too_many_requests(limit));
    };
    let token = params
        .meta()
        .and_then(|meta| meta.get(meta::PROGRESS_TOKEN));
    let writer = Writer {
        id,
        era: Era::Legacy,
        token: token.clone(),
        logs: true,
        resource: resource(&method, &params),
        shared: shared.clone(),
    };
    let request = manifold_routing::Request {
        method,
        params,
        origin: session.origin(),
        progress: token.is_some(),
    };
    let running = shared.router.call(caller, session.scope(), request);
    let life = Life::Session {
        activity: Some(activity),
        cancelled,
    };
    Answer::Call(Box::new(Answering::new(running, writer, life)))
}

impl Answer {
    fn result(id: &RequestId, result: &Raw) -> Self {
        Self::Ready(wire::result(id, result))
    }

    fn error(id: &RequestId, error: &RpcError) -> Self {
        Self::Ready(wire::error(Some(id), &error.to_raw()))
    }
}

/// Works on a notification of a session. None of those for servers have a meaning here yet.
pub(crate) fn notified(session: &Session, notification: &Notification) {
    if notification.method != Method::Cancelled {
        return;
    }
    let id = notification.params.request_id();
    if let Some(id) = id.and_then(RequestId::from_raw) {
        session.cancel(&id);
    }
}

/// A result in the form that the client takes.
pub(crate) fn message(accepted: Accepted, id: &RequestId, result: &Raw) -> Response<Body> {
    answer_with(accepted, wire::result(id, result))
}

/// An error in the form that the client takes.
pub(crate) fn refuse(accepted: Accepted, id: &RequestId, error: &RpcError) -> Response<Body> {
    answer_with(accepted, wire::error(Some(id), &error.to_raw()))
}

fn answer_with(accepted: Accepted, text: Bytes) -> Response<Body> {
    if accepted.json {
        return body::json(StatusCode::OK, text);
    }
    body::events(stream::iter([sse::message(&text)]))
}

/// A session on its GET stream.
struct Listener {
    shared: Arc<Shared>,
    session: Arc<Session>,
    caller: Arc<Caller>,
    _activity: Activity,
}

impl Audience for Listener {
    fn tell(&mut self) -> Vec<Bytes> {
        let surface = self
            .shared
            .router
            .surface(&self.caller, self.session.scope());
        self.session
            .tell(surface.fingerprints())
            .iter()
            .map(|method| wire::notification(method.as_str(), b""))
            .collect()
    }

    fn farewell(&self) -> Option<Bytes> {
        None
    }
}

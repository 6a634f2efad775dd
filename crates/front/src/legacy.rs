//! The face for clients of 2024-11-05 to 2025-11-25: sessions, opened by `initialize`.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use manifold_protocol::{
    Era, Message, Method, Params, ProtocolVersion, Raw, Request, RequestId, RpcError, code, meta,
    sse, wire,
};
use manifold_routing::{Activity, ClientHello, Principal, Scope, Session, SessionId, ToolCall};
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;

use crate::{
    accept::Accepted,
    body::{self, Body},
    call::{Answering, Life, Writer, heartbeat},
    error::{Refusal, too_many_requests},
    headers,
    shared::{Shared, client_info},
};

/// The most GET streams of one session.
const STREAMS: usize = 16;

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
        return initialize(shared, scope, request, accepted);
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
        Message::Request(request) => answer(shared, &session, accepted, request).await,
        Message::Notification(notification) => {
            if notification.method == Method::Cancelled {
                cancel(&session, &notification.params);
            }
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
    let state = Listening {
        ended: session.ended().clone(),
        draining: shared.draining.clone(),
        _activity: activity,
        beat: heartbeat(shared.settings.keepalive),
        // The first bytes at once: some clients and proxies wait for them.
        begun: false,
    };
    body::events(stream::unfold(state, Listening::next))
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
fn session(shared: &Shared, scope: Scope, head: &HeaderMap) -> Result<Arc<Session>, Refusal> {
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

fn initialize(
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
    let hello = ClientHello {
        principal: Principal::Anonymous,
        version,
        scope,
        client_info: client_info(request.params.client_info()),
    };
    let Ok(session) = shared.router.open_session(hello) else {
        return Refusal::SessionsFull.respond(Some(&request.id));
    };
    let result = Raw::of(&serde_json::json!({
        "protocolVersion": version.as_str(),
        "capabilities": { "tools": {} },
        "serverInfo": &shared.server_info,
    }));
    let mut response = message(accepted, &request.id, &result);
    if let Ok(id) = HeaderValue::from_str(&session.id().to_string()) {
        response.headers_mut().insert(headers::SESSION_ID, id);
    }
    response
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "methods are an open set: all others are unknown here"
)]
async fn answer(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    accepted: Accepted,
    request: Request,
) -> Response<Body> {
    let Request { id, method, params } = request;
    match method {
        Method::Ping => message(accepted, &id, &Raw::of(&serde_json::Map::new())),
        Method::ToolsList => {
            if params.cursor().is_some_and(|cursor| !cursor.is_null()) {
                return refuse(accepted, &id, &unknown_cursor());
            }
            let catalog = shared.router.catalog(session.scope()).await;
            message(
                accepted,
                &id,
                catalog.view(session.scope()).tools_list(Era::Legacy),
            )
        }
        Method::ToolsCall => call(shared, session, accepted, id, params).await,
        other => {
            let error = RpcError::new(code::METHOD_NOT_FOUND, format!("Method not found: {other}"));
            refuse(accepted, &id, &error)
        }
    }
}

async fn call(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    accepted: Accepted,
    id: RequestId,
    params: Params,
) -> Response<Body> {
    let limit = shared.settings.concurrent_requests;
    let Some((activity, cancelled)) = session.call(&id, limit) else {
        shared.router.refuse_busy(&Method::ToolsCall);
        return refuse(accepted, &id, &too_many_requests(limit));
    };
    let token = params
        .meta()
        .and_then(|meta| meta.get(meta::PROGRESS_TOKEN));
    let call = ToolCall {
        params,
        origin: session.origin(),
        progress: token.is_some(),
    };
    let running = shared
        .router
        .call_tool(session.caller().clone(), session.scope(), call);
    let writer = Writer {
        id,
        era: Era::Legacy,
        token,
        logs: true,
        shared: shared.clone(),
    };
    let life = Life::Session {
        activity: Some(activity),
        cancelled,
    };
    Answering::new(running, writer, life)
        .respond(accepted)
        .await
}

fn cancel(session: &Session, params: &Params) {
    let id = params.request_id().and_then(RequestId::from_raw);
    if let Some(id) = id {
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

/// Lists are one page: no cursor was ever given out (2025-11-25 pagination, "Error Handling").
pub(crate) fn unknown_cursor() -> RpcError {
    RpcError::new(code::INVALID_PARAMS, "Invalid params: unknown cursor")
}

/// An open GET stream.
struct Listening {
    ended: CancellationToken,
    draining: CancellationToken,
    _activity: Activity,
    beat: Interval,
    begun: bool,
}

impl Listening {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if !self.begun {
            self.begun = true;
            return Some((sse::comment(), self));
        }
        tokio::select! {
            _ = self.beat.tick() => Some((sse::comment(), self)),
            () = self.ended.cancelled() => None,
            () = self.draining.cancelled() => None,
        }
    }
}

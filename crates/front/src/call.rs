//! From the events of a call to the bytes of its response: JSON if the first event is the answer, else a stream.

use std::{convert::Infallible, future::pending, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{Response, StatusCode};
use manifold_link::Note;
use manifold_protocol::{
    Era, ErrorObject, Method, Outcome, Params, ParamsEdit, Raw, RequestId, ResultType, RpcError,
    code, sse, wire,
};
use manifold_routing::{Activity, CallEvent, RouteError, RunningCall};
use serde::Deserialize;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::{
    accept::Accepted,
    body::{self, Body},
    error::{error_message, rpc_error, unknown_resource_code},
    shared::Shared,
};

/// Without an event for so long a stream is opened anyway, so that comments keep proxies from cutting it.
const OPEN_ANYWAY: Duration = Duration::from_secs(5);

/// How a call's events are written for one client.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) id: RequestId,
    pub(crate) era: Era,
    /// The client's progress token.
    pub(crate) token: Option<Raw>,
    /// Whether log messages of the call are wanted.
    pub(crate) logs: bool,
    /// The resource that is asked for, as the client knows it.
    pub(crate) resource: Option<String>,
    pub(crate) shared: Arc<Shared>,
}

/// A call and its client.
#[derive(Debug)]
pub(crate) struct Answering {
    running: Option<RunningCall>,
    writer: Writer,
    life: Life,
}

/// What the client's going means for the call.
#[derive(Debug)]
pub(crate) enum Life {
    /// Legacy: nothing; the call goes on until its end, the client's cancel or the session's end
    /// (2025-11-25 transports, "Sending Messages").
    Session {
        activity: Option<Activity>,
        cancelled: CancellationToken,
    },
    /// Modern: it is the cancel (2026-07-28 streamable-http, "Cancellation"). The permit counts the call
    /// among its caller's.
    Request {
        _permit: tokio::sync::OwnedSemaphorePermit,
    },
}

/// `data` of the error for a resource that is not there.
#[derive(Debug, Deserialize)]
struct UnknownResource {
    uri: String,
}

/// What happened to a call.
#[derive(Debug)]
enum Step {
    /// A message for its stream.
    Message(Bytes),
    /// The last message, and the status a JSON answer has.
    Last(Bytes, StatusCode),
    /// The client has cancelled it.
    Cancelled,
}

/// The resource that a request asks for.
pub(crate) fn resource(method: &Method, params: &Params) -> Option<String> {
    (*method == Method::ResourcesRead)
        .then(|| params.uri())
        .flatten()
}

// === impl Writer ===

impl Writer {
    fn note(&self, note: Note) -> Option<Bytes> {
        let Note { method, params } = note;
        let edit = match (&method, &self.token) {
            (Method::Progress, Some(token)) => ParamsEdit {
                progress_token: Some(token),
                ..ParamsEdit::default()
            },
            (Method::LogMessage, _) if self.logs => ParamsEdit::default(),
            _ => return None,
        };
        Some(wire::notification(method.as_str(), &params.edited(&edit)))
    }

    fn done(&self, outcome: Result<Outcome, RouteError>) -> (Bytes, StatusCode) {
        let error = match outcome {
            Ok(Outcome::Result(result)) => {
                let raw = match (self.era, result.result_type()) {
                    (Era::Modern, ResultType::Complete) if self.resource.is_some() => {
                        result.with_result_type_and_hint()
                    }
                    (Era::Modern, _) => result.with_result_type(),
                    (Era::Legacy, ResultType::InputRequired) => {
                        let error = RpcError::new(
                            code::INTERNAL,
                            "The server needs input that this client was not said to give",
                        );
                        return (error_message(&self.id, &error), StatusCode::OK);
                    }
                    (Era::Legacy, ResultType::Complete | ResultType::Other(_)) => result.raw(),
                };
                return (wire::result(&self.id, &raw), StatusCode::OK);
            }
            Ok(Outcome::Error(error)) => {
                if let Some(error) = self.unknown_resource(&error) {
                    return (error_message(&self.id, &error), StatusCode::OK);
                }
                let status = match (self.era, error.code()) {
                    (Era::Modern, code::MISSING_CAPABILITY) => StatusCode::BAD_REQUEST,
                    _ => StatusCode::OK,
                };
                return (wire::error(Some(&self.id), &error.raw()), status);
            }
            Err(error) => error,
        };
        // Unknown methods have a status of their own (2026-07-28 streamable-http, "Server Validation").
        let status = match (self.era, &error) {
            (Era::Modern, RouteError::UnknownMethod(_)) => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        };
        let error = rpc_error(&error, self.era, self.shared.expose_stderr(&error));
        (error_message(&self.id, &error), status)
    }

    /// A server's word that it has no such resource, in the client's era and with the client's URI. `None` where the
    /// server's own words are those already.
    fn unknown_resource(&self, error: &ErrorObject) -> Option<RpcError> {
        let uri = self.resource.as_deref()?;
        let named = error.data().and_then(|data| data.read::<UnknownResource>());
        let is_unknown = error.code() == code::RESOURCE_NOT_FOUND
            || (error.code() == code::INVALID_PARAMS && named.is_some());
        if !is_unknown {
            return None;
        }
        let code = unknown_resource_code(self.era);
        let is_said = named.is_none_or(|named| named.uri == uri);
        if error.code() == code && is_said {
            return None;
        }
        Some(RpcError::new(code, error.message()).with_data(&serde_json::json!({ "uri": uri })))
    }

    /// A client that has cancelled waits for no answer; one whose session was ended under the call does.
    fn cancelled(&self, by_session_end: bool) -> Step {
        if !by_session_end {
            return Step::Cancelled;
        }
        let error = RpcError::new(
            code::LOST,
            "The session has ended; the call may or may not have been carried out",
        );
        Step::Last(error_message(&self.id, &error), StatusCode::OK)
    }
}

// === impl Answering ===

impl Answering {
    pub(crate) fn new(running: RunningCall, writer: Writer, life: Life) -> Self {
        Self {
            running: Some(running),
            writer,
            life,
        }
    }

    /// Waits for the first event and answers accordingly.
    pub(crate) async fn respond(mut self, accepted: Accepted) -> Response<Body> {
        let keepalive = self.writer.shared.settings.keepalive;
        let open_at = Instant::now() + OPEN_ANYWAY;
        loop {
            let patience = async {
                if accepted.events {
                    tokio::time::sleep_until(open_at).await;
                } else {
                    pending::<()>().await;
                }
            };
            let step = tokio::select! {
                biased;
                step = self.step() => step,
                () = patience => return self.stream(sse::comment(), keepalive),
            };
            match step {
                Step::Last(message, status) if accepted.json => return body::json(status, message),
                Step::Last(message, _) => {
                    let event = sse::message(&message);
                    return body::events(stream::iter([event]));
                }
                Step::Message(message) if accepted.events => {
                    return self.stream(sse::message(&message), keepalive);
                }
                // A client that takes only JSON gets the answer and nothing before it.
                Step::Message(_) => {}
                // Nobody waits for an answer any more; the stream of the call just ends.
                Step::Cancelled if accepted.events => return body::events(stream::empty()),
                Step::Cancelled => return body::status(StatusCode::ACCEPTED),
            }
        }
    }

    /// Waits for the answer alone; none when the client has cancelled.
    pub(crate) async fn last(mut self) -> Option<Bytes> {
        loop {
            match self.step().await {
                Step::Last(message, _) => return Some(message),
                Step::Message(_) => {}
                Step::Cancelled => return None,
            }
        }
    }

    /// The call as a stream of events.
    pub(crate) fn events(self, keepalive: Duration) -> impl Stream<Item = Bytes> + Send {
        let state = Streaming {
            first: None,
            call: Some(self),
            beat: heartbeat(keepalive),
        };
        stream::unfold(state, Streaming::next)
    }

    /// The rest of the call as a stream of events, after `first`.
    fn stream(self, first: Bytes, keepalive: Duration) -> Response<Body> {
        let state = Streaming {
            first: Some(first),
            call: Some(self),
            beat: heartbeat(keepalive),
        };
        body::events(stream::unfold(state, Streaming::next))
    }

    /// The next thing to write. Dropping the future loses nothing.
    async fn step(&mut self) -> Step {
        let Some(running) = &mut self.running else {
            return pending::<Step>().await;
        };
        loop {
            let event = match &self.life {
                // The cancel first: a server that floods the call with notes must not outrun it.
                Life::Session {
                    cancelled,
                    activity,
                } => tokio::select! {
                    biased;
                    () = cancelled.cancelled() => {
                        self.running = None;
                        let by_end = activity
                            .as_ref()
                            .is_some_and(|activity| activity.session().ended().is_cancelled());
                        return self.writer.cancelled(by_end);
                    }
                    event = running.next() => event,
                },
                Life::Request { .. } => running.next().await,
            };
            match event {
                CallEvent::Note(note) => {
                    if let Some(message) = self.writer.note(note) {
                        return Step::Message(message);
                    }
                }
                CallEvent::Ask(ask) => ask.decline(),
                CallEvent::Done(outcome) => {
                    self.running = None;
                    let (message, status) = self.writer.done(outcome);
                    return Step::Last(message, status);
                }
            }
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        let Life::Session {
            activity,
            cancelled,
        } = &mut self.life
        else {
            // Dropping the running call cancels it.
            return;
        };
        let (cancelled, activity) = (cancelled.clone(), activity.take());
        self.writer.shared.tasks.spawn(async move {
            let _activity = activity;
            tokio::select! {
                () = run_out(&mut running) => {}
                () = cancelled.cancelled() => {}
            }
        });
    }
}

/// Sees a call to its end for a client that has gone.
async fn run_out(running: &mut RunningCall) {
    loop {
        match running.next().await {
            CallEvent::Done(_) => return,
            CallEvent::Note(_) => {}
            CallEvent::Ask(ask) => ask.decline(),
        }
    }
}

/// A call's stream in the middle.
struct Streaming {
    first: Option<Bytes>,
    call: Option<Answering>,
    beat: Interval,
}

impl Streaming {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if let Some(first) = self.first.take() {
            return Some((first, self));
        }
        let call = self.call.as_mut()?;
        let bytes = tokio::select! {
            biased;
            step = call.step() => match step {
                Step::Message(message) => {
                    self.beat.reset();
                    sse::message(&message)
                }
                Step::Last(message, _) => {
                    self.call = None;
                    sse::message(&message)
                }
                Step::Cancelled => return None,
            },
            _ = self.beat.tick() => sse::comment(),
        };
        Some((bytes, self))
    }
}

/// Ticks once every `keepalive`, beginning one from now.
pub(crate) fn heartbeat(keepalive: Duration) -> Interval {
    let mut beat = tokio::time::interval_at(Instant::now() + keepalive, keepalive);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

/// A response that can't fail.
pub(crate) type Reply = Result<Response<Body>, Infallible>;

//! Batches, which only sessions of 2025-03-26 may send (2025-03-26 basic, "Batching").

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{StreamExt, future::join_all, stream};
use http::{HeaderMap, Response, StatusCode};
use manifold_protocol::{
    EnvelopeError, EnvelopeFault, Message, Method, ProtocolVersion, Request, RpcError, code,
    message::elements, sse, wire,
};
use manifold_routing::{Forwarded, Scope, Session};

use crate::{
    accept::Accepted,
    body::{self, Body},
    call::Answering,
    error::Refusal,
    legacy::{self, Answer, notified},
    shared::Shared,
};

/// The most messages of one batch.
const LONGEST: usize = 256;

/// A batch, sorted by what each message needs.
#[derive(Debug, Default)]
struct Batch {
    requests: Vec<Request>,
    others: Vec<Message>,
    /// Answers to elements that are no messages.
    faults: Vec<Bytes>,
}

/// Answers a body that is an array. `fault` is what every other revision says to it.
pub(crate) async fn post(
    shared: &Arc<Shared>,
    scope: Scope,
    head: &HeaderMap,
    accepted: Accepted,
    text: &Bytes,
    fault: EnvelopeError,
) -> Response<Body> {
    let session = match legacy::session(shared, scope, head) {
        Ok(session) if session.version() == ProtocolVersion::V2025_03_26 => session,
        // It may have been one of them: its client must learn that it is gone, or it never opens another.
        Err(unknown @ Refusal::SessionUnknown) => return unknown.respond(None),
        Ok(_) | Err(_) => return Refusal::Envelope(fault).respond(None),
    };
    let batch = match Batch::read(text) {
        Ok(batch) => batch,
        Err(refusal) => return refusal.respond(None),
    };
    session.touch();
    if shared.draining.is_cancelled() && !batch.requests.is_empty() {
        return Refusal::Draining.respond(None);
    }
    batch
        .answer(shared, &session, &shared.forwarded(head), accepted)
        .await
}

impl Batch {
    fn read(text: &Bytes) -> Result<Self, Refusal> {
        let elements =
            elements(text).map_err(|error| Refusal::Envelope(EnvelopeFault::Json(error).into()))?;
        if elements.is_empty() {
            return Err(Refusal::Envelope(
                EnvelopeFault::Shape("an empty batch is no message").into(),
            ));
        }
        if elements.len() > LONGEST {
            return Err(Refusal::BatchTooLong(LONGEST));
        }
        let mut batch = Self::default();
        for element in elements {
            match Message::parse(element) {
                Ok(Message::Request(request)) if request.method == Method::Initialize => {
                    return Err(Refusal::BatchInitialize);
                }
                Ok(Message::Request(request)) => batch.requests.push(request),
                Ok(other) => batch.others.push(other),
                Err(error) => batch.faults.push(fault(&error)),
            }
        }
        Ok(batch)
    }

    async fn answer(
        self,
        shared: &Arc<Shared>,
        session: &Arc<Session>,
        forwarded: &Forwarded,
        accepted: Accepted,
    ) -> Response<Body> {
        for message in &self.others {
            if let Message::Notification(notification) = message {
                notified(session, notification);
            }
        }
        if self.requests.is_empty() && self.faults.is_empty() {
            return body::status(StatusCode::ACCEPTED);
        }
        let mut ready = self.faults;
        let mut calls = Vec::new();
        let requests = self.requests.into_iter();
        let answers = requests.map(|request| legacy::answer(shared, session, forwarded, request));
        for answer in join_all(answers).await {
            match answer {
                Answer::Ready(message) => ready.push(message),
                Answer::Call(call) => calls.push(*call),
            }
        }
        if accepted.events && (!calls.is_empty() || !accepted.json) {
            return events(shared, &ready, calls);
        }
        ready.extend(
            join_all(calls.into_iter().map(Answering::last))
                .await
                .into_iter()
                .flatten(),
        );
        if ready.is_empty() {
            return body::status(StatusCode::ACCEPTED);
        }
        body::json(StatusCode::OK, array(&ready))
    }
}

/// The answers as events, each when it comes.
fn events(shared: &Shared, ready: &[Bytes], calls: Vec<Answering>) -> Response<Body> {
    let keepalive = shared.settings.keepalive;
    let first: Vec<Bytes> = ready.iter().map(|message| sse::message(message)).collect();
    let calls = calls.into_iter().map(|call| call.events(keepalive).boxed());
    body::events(stream::iter(first).chain(stream::select_all(calls)))
}

fn fault(error: &EnvelopeError) -> Bytes {
    let code = match error.fault {
        EnvelopeFault::Params => code::INVALID_PARAMS,
        EnvelopeFault::Json(_) | EnvelopeFault::Batch | EnvelopeFault::Shape(_) => {
            code::INVALID_REQUEST
        }
    };
    let told = RpcError::new(code, error.to_string());
    wire::error(error.id.known(), &told.to_raw())
}

fn array(messages: &[Bytes]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(b"[");
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            out.put_slice(b",");
        }
        out.put_slice(message);
    }
    out.put_slice(b"]");
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Result<Batch, Refusal> {
        Batch::read(&Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn elements_are_sorted_by_what_they_need() {
        let batch = read(
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},1,[],
                {"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        )
        .unwrap();
        assert_eq!(batch.requests.len(), 2);
        assert_eq!(batch.others.len(), 1);
        assert_eq!(batch.faults.len(), 2);
    }

    #[test]
    fn a_batch_that_can_not_be_is_refused_as_a_whole() {
        assert!(matches!(read("[]"), Err(Refusal::Envelope(_))));
        assert!(matches!(read("[1"), Err(Refusal::Envelope(_))));
        let initialize = r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}]"#;
        assert!(matches!(read(initialize), Err(Refusal::BatchInitialize)));
        let long = format!("[{}1]", "1,".repeat(LONGEST));
        let refusal = Batch::read(&long.into());
        assert!(matches!(refusal, Err(Refusal::BatchTooLong(LONGEST))));
    }
}

//! One call in flight, seen from the face that waits for it.

use std::{fmt, time::Duration};

use bytes::Bytes;
use manifold_protocol::{Method, Outcome, Params, Raw, RequestId, RpcError, code, wire};
use tokio::time::Instant;

use crate::{LinkError, call::Patience, http::HttpExchange, stdio::StdioExchange};

/// A call in flight.
///
/// Dropping it before [`Event::Done`] cancels the call at the server: by `notifications/cancelled`, or by
/// closing the stream of a modern HTTP server.
#[derive(Debug)]
pub struct Exchange {
    wire: Wire,
    clock: Clock,
    done: bool,
}

#[derive(Debug)]
pub(crate) enum Wire {
    Stdio(StdioExchange),
    Http(Box<HttpExchange>),
}

/// What an exchange yields: any number of notes and asks, then the answer.
#[derive(Debug)]
pub enum Event {
    /// Progress or a log message, for this call's stream.
    Note(Note),
    /// The server asks the client something.
    Ask(Ask),
    /// The end.
    Done(Result<Outcome, LinkError>),
}

/// A notification that belongs to a call.
#[derive(Debug, Clone)]
pub struct Note {
    /// `notifications/progress` or `notifications/message`.
    pub method: Method,
    /// Its params. A progress token in them is ours.
    pub params: Params,
}

/// A request from the server to the client: elicitation, sampling or roots.
///
/// Dropping it unanswered declines it, so a server never waits for nobody.
pub struct Ask {
    /// What is asked.
    pub method: Method,
    /// Its params.
    pub params: Params,
    reply: Option<Reply>,
}

/// Carries an answer back to the server that asked.
type Reply = Box<dyn FnOnce(Result<Raw, RpcError>) + Send + Sync>;

/// The two deadlines of a call. Without I/O, so that it can be tested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    patience: Patience,
    started: Instant,
    heard: Instant,
}

// === impl Exchange ===

impl Exchange {
    pub(crate) fn new(wire: Wire, patience: Patience) -> Self {
        Self {
            wire,
            clock: Clock::start(patience, Instant::now()),
            done: false,
        }
    }

    /// The next event. Waits for ever after [`Event::Done`].
    ///
    /// Dropping the future loses nothing; the deadlines go on running.
    pub async fn next(&mut self) -> Event {
        if self.done {
            std::future::pending::<()>().await;
        }
        let until = self.clock.until();
        let event = tokio::time::timeout_at(until, self.wire.next()).await;
        let event = event.unwrap_or_else(|_| {
            self.wire.cancel("the call timed out");
            Event::Done(Err(self.clock.overdue()))
        });
        match &event {
            Event::Done(_) => self.done = true,
            Event::Note(_) | Event::Ask(_) => self.clock.heard(Instant::now()),
        }
        event
    }

    /// Waits for the end, declining what the server asks and dropping its notes.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn finish(mut self) -> Result<Outcome, LinkError> {
        loop {
            if let Event::Done(outcome) = self.next().await {
                return outcome;
            }
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.done {
            self.wire.cancel("the caller went away");
        }
    }
}

// === impl Wire ===

impl Wire {
    /// The next event, without a deadline. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Event {
        match self {
            Self::Stdio(exchange) => exchange.next().await,
            Self::Http(exchange) => exchange.next().await,
        }
    }

    fn cancel(&mut self, reason: &'static str) {
        match self {
            Self::Stdio(exchange) => exchange.cancel(reason),
            Self::Http(exchange) => exchange.cancel(reason),
        }
    }
}

// === impl Ask ===

impl Ask {
    pub(crate) fn new(method: Method, params: Params, reply: Reply) -> Self {
        Self {
            method,
            params,
            reply: Some(reply),
        }
    }

    /// Answers the server.
    pub fn answer(mut self, answer: Result<Raw, RpcError>) {
        if let Some(reply) = self.reply.take() {
            reply(answer);
        }
    }

    /// Tells the server that nobody will answer.
    pub fn decline(self) {
        drop(self);
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply(Err(declined(&self.method)));
        }
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

/// The answer to a server's request, as a message.
pub(crate) fn reply(id: &RequestId, answer: Result<Raw, RpcError>) -> Bytes {
    match answer {
        Ok(result) => wire::result(id, &result),
        Err(error) => wire::error(Some(id), &error.to_raw()),
    }
}

/// The answer to a server's request that no client need be asked for.
pub(crate) fn answer_ourselves(method: &Method) -> Result<Raw, RpcError> {
    if *method == Method::Ping {
        return Ok(Raw::of(&serde_json::Map::new()));
    }
    Err(declined(method))
}

/// What a server hears that asks for something the client did not offer.
fn declined(method: &Method) -> RpcError {
    RpcError::new(
        code::METHOD_NOT_FOUND,
        format!("{method} is not offered by this client"),
    )
}

// === impl Clock ===

impl Clock {
    fn start(patience: Patience, now: Instant) -> Self {
        Self {
            patience,
            started: now,
            heard: now,
        }
    }

    /// When the call is overdue, if nothing is heard until then.
    fn until(&self) -> Instant {
        let silence = self.heard + self.patience.silence;
        silence.min(self.started + self.patience.max)
    }

    fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Which deadline is the one that [`Clock::until`] names.
    fn overdue(&self) -> LinkError {
        let Patience { silence, max } = self.patience;
        if self.heard + silence < self.started + max {
            LinkError::Silence(silence)
        } else {
            LinkError::Deadline(max)
        }
    }
}

/// The longest a link waits for an orderly goodbye to an HTTP server.
pub(crate) const GOODBYE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_resets_silence_but_not_the_end() {
        let patience = Patience {
            silence: Duration::from_secs(10),
            max: Duration::from_secs(25),
        };
        let start = Instant::now();
        let mut clock = Clock::start(patience, start);
        assert_eq!(clock.until(), start + Duration::from_secs(10));
        assert!(matches!(clock.overdue(), LinkError::Silence(_)));
        clock.heard(start + Duration::from_secs(9));
        assert_eq!(clock.until(), start + Duration::from_secs(19));
        clock.heard(start + Duration::from_secs(18));
        assert_eq!(clock.until(), start + Duration::from_secs(25));
        assert!(matches!(clock.overdue(), LinkError::Deadline(_)));
    }

    #[test]
    fn an_ask_that_is_dropped_is_declined() {
        let (tell, told) = std::sync::mpsc::channel();
        let ask = Ask::new(
            Method::ElicitationCreate,
            Params::absent(),
            Box::new(move |answer| tell.send(answer).unwrap()),
        );
        drop(ask);
        let answer = told.recv().unwrap();
        assert_eq!(answer.unwrap_err().code, code::METHOD_NOT_FOUND);
    }
}

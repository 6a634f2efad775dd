//! A call on its way: an exchange, and what is needed to make it again when the server says that it has not
//! worked on it.

use std::sync::Arc;

use manifold_link::{Call, Event as LinkEvent, Exchange, LinkError};
use manifold_protocol::{Method, Outcome, ServerName};
use tokio::time::Instant;

use crate::{
    RouteError, Router,
    events::{CallOutcome, Event, Observer},
    router::Route,
    server::{HeldLink, Server},
};

/// A call that a server is working on.
///
/// Dropping it before [`CallEvent::Done`] cancels it at the server.
#[derive(Debug)]
pub struct RunningCall {
    router: Arc<Router>,
    route: Route,
    call: Call,
    exchange: Exchange,
    /// Keeps the link's seat while the call runs.
    _held: Arc<HeldLink>,
    resent: bool,
    watch: Watch,
}

/// What a call yields.
#[derive(Debug)]
pub enum CallEvent {
    /// Progress or a log message.
    Note(manifold_link::Note),
    /// The server asks the client.
    Ask(manifold_link::Ask),
    /// The end.
    Done(Result<Outcome, RouteError>),
}

/// Sees to it that a call is counted once, however it ends.
#[derive(Debug)]
pub(crate) struct Watch {
    observer: Arc<dyn Observer>,
    server: Option<ServerName>,
    method: Method,
    began: Instant,
    ended: bool,
}

impl RunningCall {
    pub(crate) fn new(
        router: Arc<Router>,
        route: Route,
        call: Call,
        exchange: Exchange,
        held: Arc<HeldLink>,
        watch: Watch,
    ) -> Self {
        Self {
            router,
            route,
            call,
            exchange,
            _held: held,
            resent: false,
            watch,
        }
    }

    /// The server that works on it.
    #[must_use]
    pub fn server(&self) -> &Arc<Server> {
        &self.route.server
    }

    /// The next event. Dropping the future loses nothing. Waits for ever after the end.
    pub async fn next(&mut self) -> CallEvent {
        loop {
            let outcome = match self.exchange.next().await {
                LinkEvent::Note(note) => return CallEvent::Note(note),
                LinkEvent::Ask(ask) => return CallEvent::Ask(ask),
                LinkEvent::Done(outcome) => outcome,
            };
            match outcome {
                Ok(outcome) => {
                    self.watch.end(outcome_of(&outcome));
                    return CallEvent::Done(Ok(outcome));
                }
                // The server has not worked on it: once more, on a new link.
                Err(LinkError::SessionLost) if !self.resent => {
                    self.resent = true;
                    match self.router.begin(&self.route, self.call.clone()).await {
                        Ok((exchange, held)) => {
                            self.exchange = exchange;
                            self._held = held;
                        }
                        Err(error) => return self.failed(error),
                    }
                }
                Err(error) => {
                    let error = self.route.server.failed(error);
                    return self.failed(error);
                }
            }
        }
    }

    fn failed(&mut self, error: RouteError) -> CallEvent {
        self.watch.end(error.outcome());
        CallEvent::Done(Err(error))
    }
}

fn outcome_of(outcome: &Outcome) -> CallOutcome {
    match outcome {
        Outcome::Result(result) if result.is_error() => CallOutcome::ToolError,
        Outcome::Result(_) => CallOutcome::Ok,
        Outcome::Error(_) => CallOutcome::Error,
    }
}

// === impl Watch ===

impl Watch {
    pub(crate) fn begin(observer: Arc<dyn Observer>, method: Method) -> Self {
        Self {
            observer,
            server: None,
            method,
            began: Instant::now(),
            ended: false,
        }
    }

    /// The call has a server now.
    pub(crate) fn routed(&mut self, server: &ServerName) {
        self.observer.observe(&Event::CallStarted { server });
        self.server = Some(server.clone());
    }

    pub(crate) fn end(&mut self, outcome: CallOutcome) {
        if self.ended {
            return;
        }
        self.ended = true;
        self.observer.observe(&Event::CallEnded {
            server: self.server.as_ref(),
            method: &self.method,
            outcome,
            took: self.began.elapsed(),
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end(CallOutcome::Cancelled);
    }
}

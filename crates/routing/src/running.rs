//! A call on its way: first the way to a link, then the exchange on it, and once more when the server says that it
//! has not worked on it.

use std::{fmt, pin::Pin, sync::Arc};

use manifold_link::{Call, Event as LinkEvent, Exchange, LinkError};
use manifold_protocol::{Method, Outcome, ResultObject, ServerName};
use tokio::time::Instant;

use crate::{
    RouteError, Router,
    events::{CallOutcome, Event, Observer},
    request::Request,
    router::Route,
    server::HeldLink,
    settings::Isolation,
};

/// A call that is being worked on.
///
/// Dropping it before [`CallEvent::Done`] cancels it at the server.
#[derive(Debug)]
pub struct RunningCall {
    router: Arc<Router>,
    stage: Stage,
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

enum Stage {
    /// On the way to a link. Kept across waits: dropping [`RunningCall::next`] must not lose it.
    Beginning(Beginning),
    /// Answered without a server.
    Answered(Box<ResultObject>),
    /// In flight.
    InFlight(Box<Begun>),
    /// The end was told.
    Ended,
}

/// The future that brings a call to a link.
pub(crate) type Beginning =
    Pin<Box<dyn Future<Output = Result<Beginnings, RouteError>> + Send + Sync>>;

/// What came of a call's way to a link.
#[derive(Debug)]
pub(crate) enum Beginnings {
    /// It is on a link.
    Begun(Box<Begun>),
    /// The answer is known: the server declares nothing that could answer.
    Answer(Box<ResultObject>),
}

/// A call on a link.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) route: Route,
    pub(crate) call: Call,
    pub(crate) exchange: Exchange,
    /// Keeps the link while the call runs.
    pub(crate) _held: Arc<HeldLink>,
}

/// Sees to it that a call is counted once, however it ends.
#[derive(Debug)]
struct Watch {
    observer: Arc<dyn Observer>,
    server: Option<ServerName>,
    method: Method,
    began: Instant,
    ended: bool,
}

// === impl RunningCall ===

impl RunningCall {
    pub(crate) fn new(router: Arc<Router>, method: Method, beginning: Beginning) -> Self {
        Self {
            watch: Watch::begin(router.observer().clone(), method),
            router,
            stage: Stage::Beginning(beginning),
            resent: false,
        }
    }

    /// The next event. Dropping the future loses nothing. Waits for ever after the end.
    pub async fn next(&mut self) -> CallEvent {
        loop {
            match &mut self.stage {
                Stage::Beginning(beginning) => match beginning.as_mut().await {
                    Ok(Beginnings::Begun(begun)) => {
                        self.watch.routed(begun.route.server.name());
                        self.stage = Stage::InFlight(begun);
                    }
                    Ok(Beginnings::Answer(result)) => {
                        self.stage = Stage::Answered(result);
                    }
                    Err(error) => return self.failed(error),
                },
                Stage::Answered(result) => {
                    let outcome = Outcome::Result((**result).clone());
                    return self.done(outcome);
                }
                Stage::InFlight(begun) => match begun.exchange.next().await {
                    LinkEvent::Note(note) if begun.is_strangers(&note.method) => {}
                    LinkEvent::Note(note) => return CallEvent::Note(note),
                    LinkEvent::Ask(ask) => return CallEvent::Ask(ask),
                    LinkEvent::Done(Ok(outcome)) => {
                        let outcome = begun.route.exposed(&begun.call, outcome);
                        return self.done(outcome);
                    }
                    // The server has not worked on it, or it does no harm twice: once more, on a new link.
                    LinkEvent::Done(Err(error)) if !self.resent && begun.may_go_again(&error) => {
                        self.resent = true;
                        let again = self
                            .router
                            .clone()
                            .begin(begun.route.clone(), begun.call.clone());
                        self.stage = Stage::Beginning(Box::pin(again));
                    }
                    LinkEvent::Done(Err(error)) => {
                        let server = &begun.route.server;
                        if matches!(error, LinkError::Unreachable(_)) {
                            server.suspect();
                        }
                        let error = server.failed(error);
                        return self.failed(error);
                    }
                },
                Stage::Ended => std::future::pending().await,
            }
        }
    }

    fn done(&mut self, outcome: Outcome) -> CallEvent {
        self.stage = Stage::Ended;
        self.watch.end(outcome_of(&outcome));
        CallEvent::Done(Ok(outcome))
    }

    fn failed(&mut self, error: RouteError) -> CallEvent {
        self.stage = Stage::Ended;
        if let Some(server) = error.server() {
            self.watch.routed(server);
        }
        self.watch.end(error.outcome());
        CallEvent::Done(Err(error))
    }
}

impl Begun {
    /// Whether a note may belong to somebody else: on a link that all callers share, nothing says whose call
    /// a log message is about.
    fn is_strangers(&self, method: &Method) -> bool {
        *method == Method::LogMessage && self.route.server.settings().isolation == Isolation::Shared
    }
}

impl Begun {
    /// Whether the call may be sent once more after `error` (contract, "Sent once").
    fn may_go_again(&self, error: &LinkError) -> bool {
        matches!(error, LinkError::SessionLost)
            || Request::is_read(&self.call.method) && error.is_unanswered()
    }
}

impl Drop for Begun {
    /// A link is used until its last call ends, not only when it begins.
    fn drop(&mut self) {
        self.route.lease.touch();
    }
}

fn outcome_of(outcome: &Outcome) -> CallOutcome {
    match outcome {
        Outcome::Result(result) if result.is_error() => CallOutcome::ToolError,
        Outcome::Result(_) => CallOutcome::Ok,
        Outcome::Error(_) => CallOutcome::Error,
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beginning(_) => f.write_str("Beginning"),
            Self::Answered(_) => f.write_str("Answered"),
            Self::InFlight(begun) => begun.fmt(f),
            Self::Ended => f.write_str("Ended"),
        }
    }
}

// === impl Watch ===

impl Watch {
    fn begin(observer: Arc<dyn Observer>, method: Method) -> Self {
        Self {
            observer,
            server: None,
            method,
            began: Instant::now(),
            ended: false,
        }
    }

    /// The call has a server now.
    fn routed(&mut self, server: &ServerName) {
        if self.server.is_none() {
            self.observer.observe(&Event::CallStarted { server });
            self.server = Some(server.clone());
        }
    }

    fn end(&mut self, outcome: CallOutcome) {
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

#[cfg(test)]
mod tests {
    use std::{sync::Mutex, time::Duration};

    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::{RouterSettings, Sessions};

    /// Remembers how calls ended.
    #[derive(Debug, Default)]
    struct Outcomes(Mutex<Vec<CallOutcome>>);

    impl Observer for Outcomes {
        fn observe(&self, event: &Event<'_>) {
            if let Event::CallEnded { outcome, .. } = event {
                self.0.lock().unwrap().push(*outcome);
            }
        }
    }

    fn call(
        beginning: impl Future<Output = Result<Beginnings, RouteError>> + Send + Sync + 'static,
    ) -> (RunningCall, Arc<Outcomes>) {
        let outcomes = Arc::new(Outcomes::default());
        let settings = RouterSettings {
            list: Duration::ZERO,
            views: Vec::new(),
        };
        let sessions = Sessions::new(1, None);
        let router = Router::start(
            vec![],
            sessions,
            settings,
            TaskTracker::new(),
            outcomes.clone(),
        );
        let call = RunningCall::new(router, Method::ToolsCall, Box::pin(beginning));
        (call, outcomes)
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_on_its_way_to_a_link_hung_when_a_keep_alive_tick_fell_into_it() {
        let (mut call, outcomes) = call(async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Err(RouteError::InvalidParams("enough"))
        });
        // What the front does while it waits: it looks away and comes back.
        for _ in 0..9 {
            let tick = tokio::time::timeout(Duration::from_secs(1), call.next()).await;
            assert!(tick.is_err());
        }
        let event = tokio::time::timeout(Duration::from_secs(2), call.next()).await;
        assert!(matches!(
            event,
            Ok(CallEvent::Done(Err(RouteError::InvalidParams(_))))
        ));
        drop(call);
        assert_eq!(*outcomes.0.lock().unwrap(), [CallOutcome::Rejected]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_dropped_counts_as_cancelled_once() {
        let (mut call, outcomes) = call(std::future::pending());
        assert!(
            tokio::time::timeout(Duration::from_secs(1), call.next())
                .await
                .is_err()
        );
        drop(call);
        assert_eq!(*outcomes.0.lock().unwrap(), [CallOutcome::Cancelled]);
    }
}

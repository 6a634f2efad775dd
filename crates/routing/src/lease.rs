//! A caller's right to a link to one server: made on first use, kept, replaced when the link is lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manifold_link::{LinkError, Origin};
use tokio::{sync::watch, time::Instant};
use tokio_util::task::TaskTracker;

use crate::{
    RouteError,
    events::StartReason,
    server::{HeldLink, Server, Use},
};

/// One (caller, server) pair.
#[derive(Debug)]
pub(crate) struct Lease {
    state: Mutex<State>,
    used: Use,
}

#[derive(Debug)]
enum State {
    /// No link; the next call makes one.
    Empty,
    /// A link is being made. Whoever needs it waits for the same one.
    Connecting(watch::Receiver<Option<Result<Arc<HeldLink>, LinkError>>>),
    /// A link, and when it was last handed out.
    Up(Arc<HeldLink>, Instant),
    /// The caller is gone.
    Ended,
}

impl Lease {
    pub(crate) fn new(used: Use) -> Self {
        Self {
            state: Mutex::new(State::Empty),
            used,
        }
    }

    /// The link, made if there is none. The making goes on when the future is dropped: others may wait for
    /// it, and a half-done start thrown away would never get anywhere.
    ///
    /// # Errors
    /// When the server has no seat, or no link can be made.
    pub(crate) async fn link(
        self: &Arc<Self>,
        server: &Arc<Server>,
        origin: &Origin,
        tasks: &TaskTracker,
    ) -> Result<Arc<HeldLink>, RouteError> {
        let mut made = match self.held_or_making(server, origin, tasks)? {
            Ok(held) => return Ok(held),
            Err(made) => made,
        };
        let outcome = match made.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone(),
            Err(_) => None,
        };
        match outcome {
            Some(Ok(held)) => Ok(held),
            Some(Err(error)) => Err(server.failed(error)),
            None => Err(server.failed(LinkError::Closed)),
        }
    }

    /// Ends the lease and closes its link.
    pub(crate) fn end(&self) {
        let before = std::mem::replace(&mut *self.lock(), State::Ended);
        if let State::Up(held, _) = before {
            held.link().close();
        }
    }

    /// Lets go of a link that was not used since `limit`, unless a call is in flight.
    pub(crate) fn end_if_idle(&self, limit: Instant) {
        let mut state = self.lock();
        if let State::Up(held, last) = &*state
            && *last < limit
            && held.link().in_flight() == 0
        {
            held.link().close();
            *state = State::Empty;
        }
    }

    /// The link, if one is up, marked as used.
    pub(crate) fn held_now(&self) -> Option<Arc<HeldLink>> {
        match &mut *self.lock() {
            State::Up(held, last) if !held.link().is_ended() => {
                *last = Instant::now();
                Some(held.clone())
            }
            State::Up(..) | State::Empty | State::Connecting(_) | State::Ended => None,
        }
    }

    /// The link, if one is up.
    pub(crate) fn held(&self) -> Option<Arc<HeldLink>> {
        match &*self.lock() {
            State::Up(held, _) if !held.link().is_ended() => Some(held.clone()),
            State::Up(..) | State::Empty | State::Connecting(_) | State::Ended => None,
        }
    }

    #[expect(clippy::type_complexity, reason = "the two ways on, used once")]
    fn held_or_making(
        self: &Arc<Self>,
        server: &Arc<Server>,
        origin: &Origin,
        tasks: &TaskTracker,
    ) -> Result<
        Result<Arc<HeldLink>, watch::Receiver<Option<Result<Arc<HeldLink>, LinkError>>>>,
        RouteError,
    > {
        let mut state = self.lock();
        match &mut *state {
            State::Up(held, last) if !held.link().is_ended() => {
                *last = Instant::now();
                return Ok(Ok(held.clone()));
            }
            State::Connecting(made) => return Ok(Err(made.clone())),
            State::Ended => return Err(server.failed(LinkError::Closed)),
            State::Up(..) | State::Empty => {}
        }
        let seat = server.seat()?;
        let (tell, made) = watch::channel(None);
        *state = State::Connecting(made.clone());
        drop(state);
        let (lease, server, origin) = (self.clone(), server.clone(), origin.clone());
        tasks.spawn(async move {
            let outcome = server
                .connect(&origin, lease.used, StartReason::Lease, Some(seat))
                .await;
            if let Ok(held) = &outcome {
                server.watch(held.link());
            }
            lease.made(&outcome);
            drop(tell.send(Some(outcome)));
        });
        Ok(Err(made))
    }

    fn made(&self, outcome: &Result<Arc<HeldLink>, LinkError>) {
        let mut state = self.lock();
        match (&*state, outcome) {
            (State::Ended, Ok(held)) => held.link().close(),
            (State::Ended, Err(_)) => {}
            (_, Ok(held)) => *state = State::Up(held.clone(), Instant::now()),
            (_, Err(_)) => *state = State::Empty,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! A caller's right to a link to one server: made on first use, kept, replaced when the link is lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manifold_link::{ForwardedHeaders, LinkError, Origin};
use tokio::{sync::watch, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    RouteError,
    caller::ForwardedHeader,
    catalog::ServerIndex,
    events::StartReason,
    own::OwnLists,
    replay::Replay,
    server::{HeldLink, Server, Use},
};

/// One (caller, server) pair.
#[derive(Debug)]
pub(crate) struct Lease {
    state: Mutex<State>,
    used: Use,
    index: ServerIndex,
    /// Headers that the server wants of this caller's requests.
    forwarded: Vec<ForwardedHeader>,
    /// Where the lists of its links go.
    own: Arc<OwnLists>,
    /// What its links are told first.
    replay: Arc<Replay>,
    /// Cancelled when the caller is gone.
    ended: CancellationToken,
}

#[derive(Debug)]
enum State {
    /// No link; the next call makes one.
    Empty,
    /// A link is being made. Whoever needs it waits for the same one.
    Connecting(Making),
    /// A link, and when it was last used.
    Up(Arc<HeldLink>, Instant),
}

/// What the makers of a link tell those who wait for it.
type Making = watch::Receiver<Option<Result<Arc<HeldLink>, RouteError>>>;

impl Lease {
    pub(crate) fn new(
        used: Use,
        index: ServerIndex,
        forwarded: Vec<ForwardedHeader>,
        own: Arc<OwnLists>,
        replay: Arc<Replay>,
    ) -> Self {
        Self {
            state: Mutex::new(State::Empty),
            used,
            index,
            forwarded,
            own,
            replay,
            ended: CancellationToken::new(),
        }
    }

    /// The lease on the link that serves all callers.
    pub(crate) fn shared(index: ServerIndex) -> Self {
        Self::new(
            Use::Shared,
            index,
            Vec::new(),
            Arc::default(),
            Arc::default(),
        )
    }

    /// The link, if one is up.
    pub(crate) fn held(&self) -> Option<Arc<HeldLink>> {
        match &*self.lock() {
            State::Up(held, _) if !held.link().is_ended() => Some(held.clone()),
            State::Up(..) | State::Empty | State::Connecting(_) => None,
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
        let mut making = {
            let mut state = self.lock();
            match &mut *state {
                State::Up(held, last) if !held.link().is_ended() => {
                    *last = Instant::now();
                    return Ok(held.clone());
                }
                // A task that is gone without a word has made nothing.
                State::Connecting(making) if making.has_changed().is_ok() => making.clone(),
                State::Up(..) | State::Empty | State::Connecting(_) => {
                    let making = self.start_making(server, origin, tasks);
                    // A link that has ended gives its seat up here.
                    *state = State::Connecting(making.clone());
                    making
                }
            }
        };
        let made = making.wait_for(Option::is_some).await;
        match made.ok().and_then(|made| made.clone()) {
            Some(outcome) => outcome,
            None => Err(server.failed(LinkError::Closed)),
        }
    }

    /// Marks the link as used now.
    pub(crate) fn touch(&self) {
        if let State::Up(_, last) = &mut *self.lock() {
            *last = Instant::now();
        }
    }

    /// Ends the lease and closes its link.
    pub(crate) fn end(&self) {
        self.ended.cancel();
        self.let_go();
    }

    /// Closes the link; the next call makes a new one.
    pub(crate) fn let_go(&self) {
        let mut state = self.lock();
        if let State::Up(held, _) = &*state {
            held.close();
            *state = State::Empty;
        }
    }

    /// Closes the link if it was not used since `limit`, unless a call is in flight.
    pub(crate) fn let_go_if_idle(&self, limit: Instant) {
        let mut state = self.lock();
        if let State::Up(held, last) = &*state
            && *last <= limit
            && held.link().in_flight() == 0
        {
            held.close();
            *state = State::Empty;
        }
    }

    /// Since when nothing has used the link; `None` when there is none, or a call is in flight.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        match &*self.lock() {
            State::Up(held, last) if held.link().in_flight() == 0 => Some(*last),
            State::Up(..) | State::Empty | State::Connecting(_) => None,
        }
    }

    fn start_making(
        self: &Arc<Self>,
        server: &Arc<Server>,
        origin: &Origin,
        tasks: &TaskTracker,
    ) -> Making {
        let (tell, making) = watch::channel(None);
        let (lease, server, origin) = (self.clone(), server.clone(), origin.clone());
        tasks.spawn(async move {
            let outcome = tokio::select! {
                outcome = lease.make(&server, &origin) => outcome,
                () = lease.ended.cancelled() => Err(server.failed(LinkError::Closed)),
            };
            lease.made(&outcome);
            // Lists of one's own are for those who have a link of their own.
            let link = outcome.as_ref().ok().map(|held| held.link().clone());
            drop(tell.send(Some(outcome)));
            if let Some(link) = link.filter(|_| lease.used != Use::Shared) {
                lease.own.follow(lease.index, &server, &link).await;
            }
        });
        making
    }

    async fn make(
        self: &Arc<Self>,
        server: &Arc<Server>,
        origin: &Origin,
    ) -> Result<Arc<HeldLink>, RouteError> {
        server.admit()?;
        let seat = server.seat(self).await?;
        let began = Instant::now();
        let held = server
            .connect(
                origin,
                self.used,
                StartReason::Lease,
                ForwardedHeaders::new(self.forwarded.iter().map(|(name, value)| (&**name, value))),
                Some(seat),
            )
            .await
            .map_err(|error| server.not_made(began, error))?;
        self.replay.tell(server.name(), held.link()).await;
        Ok(held)
    }

    fn made(&self, outcome: &Result<Arc<HeldLink>, RouteError>) {
        let mut state = self.lock();
        *state = match outcome {
            Ok(held) if self.ended.is_cancelled() => {
                held.close();
                State::Empty
            }
            Ok(held) => State::Up(held.clone(), Instant::now()),
            Err(_) => State::Empty,
        };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Making a link: start or reach the server, and shake hands.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use http::{HeaderMap, Uri};
use manifold_protocol::Era;
use manifold_supervisor::{Child, ChildSpec, StartPermit, Supervisor};
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::{
    ForwardedHeaders, Link, LinkError, LinkId, Spare,
    call::Origin,
    handshake::{greet_child, greet_http},
    http::{Http, HttpClient},
    link::Wire,
    peer::Peer,
    stdio::{Quiet, Stdio},
};

/// How a server is reached.
#[derive(Debug)]
pub enum Target {
    /// A child process.
    Child {
        /// Who starts it.
        supervisor: Supervisor,
        /// What is started.
        spec: Box<ChildSpec>,
    },
    /// Streamable HTTP.
    Http(Box<HttpTarget>),
}

/// Where an HTTP server is.
#[derive(Debug)]
pub struct HttpTarget {
    /// The shared client.
    pub client: HttpClient,
    /// The endpoint, exactly as configured.
    pub uri: Uri,
    /// Headers that every request carries.
    pub headers: HeaderMap,
}

/// The bounds of a server's links.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From spawn, or the first byte sent, to the end of the handshake.
    pub start: Duration,
    /// The largest message taken from the server, in bytes.
    pub message: usize,
}

/// What a link is made with, beside who it speaks for.
#[derive(Debug, Default)]
pub struct ConnectOptions {
    /// A process of the same connector that waits for a handshake: none is started then. Over HTTP there is none.
    pub spare: Option<Spare>,
    /// Headers of the client's request that every request over HTTP carries, from the handshake to the DELETE. Those of
    /// [`HttpTarget::headers`] come first. A child gets none.
    pub forwarded: ForwardedHeaders,
}

/// Makes links to one server.
#[derive(Debug)]
pub struct Connector {
    target: Target,
    limits: Limits,
    tasks: TaskTracker,
    next: AtomicU64,
    /// What the last handshake has shown. A hint only: it is corrected when it proves wrong.
    era: Mutex<Option<Era>>,
}

/// A child that has just been started.
struct Started {
    quiet: Quiet,
    turn: StartPermit,
}

impl Connector {
    /// A connector whose links run their tasks on `tasks`.
    #[must_use]
    pub fn new(target: Target, limits: Limits, tasks: TaskTracker) -> Self {
        Self {
            target,
            limits,
            tasks,
            next: AtomicU64::new(1),
            era: Mutex::new(None),
        }
    }

    /// How the server is reached.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Makes a link that speaks for `origin`. Takes up to [`Limits::start`], after waiting for its turn
    /// among the children that are starting.
    ///
    /// Dropping the future stops a child that was started. `on_spawn` sees a child as soon as there is one,
    /// whatever becomes of it.
    ///
    /// # Errors
    /// When the server can't be started or reached, refuses, or is not ready in time.
    pub async fn connect(
        &self,
        origin: &Origin,
        on_spawn: impl FnOnce(&Child),
    ) -> Result<Link, LinkError> {
        self.connect_with(ConnectOptions::default(), origin, on_spawn)
            .await
    }

    /// The same with options. With a spare the handshake is written at once, [`Limits::start`] counts from there,
    /// and `on_spawn` sees nothing: whoever started the spare has seen it. A spare that has died is replaced by a
    /// fresh child, which has all the time that a fresh one has.
    ///
    /// Dropping the future stops the spare as well.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn connect_with(
        &self,
        options: ConnectOptions,
        origin: &Origin,
        on_spawn: impl FnOnce(&Child),
    ) -> Result<Link, LinkError> {
        let made = self.make(options, origin, on_spawn).await;
        // What was seen before does not hold for a server that has changed.
        self.remember(made.as_ref().ok().map(|link| link.peer().era()));
        made
    }

    /// Starts a process and writes nothing to it, so that [`Connector::connect_with`] finds one that has started.
    /// `None` over HTTP, where nothing is started. Waits for its turn among the children that are starting, and
    /// gives it up by itself, see [`Spare`].
    ///
    /// Dropping the future stops what was started. `on_spawn` sees the child as soon as there is one.
    ///
    /// # Errors
    /// When it can't be started.
    pub async fn spawn(&self, on_spawn: impl FnOnce(&Child)) -> Result<Option<Spare>, LinkError> {
        let Target::Child { supervisor, spec } = &self.target else {
            return Ok(None);
        };
        let id = self.next_id();
        let Started { quiet, turn } = self.start(supervisor, spec, on_spawn).await?;
        Ok(Some(Spare::new(id, quiet, turn, &self.tasks)))
    }

    async fn make(
        &self,
        options: ConnectOptions,
        origin: &Origin,
        on_spawn: impl FnOnce(&Child),
    ) -> Result<Link, LinkError> {
        let ConnectOptions { spare, forwarded } = options;
        let (id, wire, peer) = match &self.target {
            Target::Child { supervisor, spec } => {
                let woken = match spare {
                    Some(spare) => self.wake(spare, origin).await?,
                    None => None,
                };
                let (id, stdio, peer) = match woken {
                    Some(woken) => woken,
                    None => {
                        let id = self.next_id();
                        let Started { quiet, turn } =
                            self.start(supervisor, spec, on_spawn).await?;
                        let (stdio, peer) = self.greet(quiet, origin).await?;
                        drop(turn);
                        (id, stdio, peer)
                    }
                };
                (id, Wire::Stdio(stdio), peer)
            }
            Target::Http(target) => {
                let id = self.next_id();
                let http = Http::new(target, &forwarded, self.limits.message, self.tasks.clone());
                let greeted = greet_http(&http, self.remembered(), origin);
                let peer = self.in_time(greeted).await?;
                (id, Wire::Http(http), peer)
            }
        };
        Ok(Link::new(id, peer, wire, origin, self.tasks.clone()))
    }

    /// Shakes hands with a spare. `None` when it has died, before or over it: nothing came of that.
    async fn wake(
        &self,
        spare: Spare,
        origin: &Origin,
    ) -> Result<Option<(LinkId, Stdio, Peer)>, LinkError> {
        let id = spare.id();
        let label = spare.label().to_owned();
        let error = if spare.is_ended() {
            let reason = spare.ended().now_or_never();
            reason.unwrap_or(LinkError::Closed)
        } else {
            match self.greet(spare.into_quiet(), origin).await {
                Ok((stdio, peer)) => return Ok(Some((id, stdio, peer))),
                Err(error @ LinkError::Exited { .. }) => error,
                Err(error) => return Err(error),
            }
        };
        info!(server = label, link = %id, %error, "a spare of {label} has died: a fresh one is started");
        Ok(None)
    }

    async fn start(
        &self,
        supervisor: &Supervisor,
        spec: &ChildSpec,
        on_spawn: impl FnOnce(&Child),
    ) -> Result<Started, LinkError> {
        let spawned = supervisor
            .spawn(spec)
            .await
            .map_err(|error| LinkError::Spawn(error.to_string()))?;
        on_spawn(&spawned.child);
        let limit = self.limits.message;
        let (quiet, turn) = Quiet::of(spawned, &self.tasks, &spec.label, limit);
        Ok(Started { quiet, turn })
    }

    async fn greet(&self, quiet: Quiet, origin: &Origin) -> Result<(Stdio, Peer), LinkError> {
        let stdio = quiet.speak(&self.tasks);
        let greeted = greet_child(&stdio, self.remembered(), origin);
        let peer = self.in_time(greeted).await?;
        Ok((stdio, peer))
    }

    async fn in_time(
        &self,
        greeted: impl Future<Output = Result<Peer, LinkError>>,
    ) -> Result<Peer, LinkError> {
        let start = self.limits.start;
        tokio::time::timeout(start, greeted)
            .await
            .map_err(|_| LinkError::StartTimeout(start))?
    }

    fn next_id(&self) -> LinkId {
        LinkId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn remembered(&self) -> Option<Era> {
        *self.era.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, era: Option<Era>) {
        *self.era.lock().unwrap_or_else(PoisonError::into_inner) = era;
    }
}

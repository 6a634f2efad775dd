//! A live connection, whatever it runs over.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use futures_util::future::Either;
use manifold_protocol::{Era, Method, ProtocolVersion};
use manifold_supervisor::Child;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::{
    LinkError, Notices,
    call::{Call, Origin},
    exchange::{self, Exchange},
    http::{Http, Relation, SessionStream},
    listen::{Ear, Subscription, Watched, keep_listening},
    peer::Peer,
    stdio::{Pipes, Stdio},
};

/// The number of a link among those of its server, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// One live connection to one server. Dropping it closes it.
#[derive(Debug)]
pub struct Link {
    id: LinkId,
    peer: Peer,
    wire: Wire,
    /// Who it speaks for outside of calls.
    origin: Origin,
    opened: SystemTime,
    tasks: TaskTracker,
    listens: AtomicBool,
}

/// What a link owns.
#[derive(Debug)]
pub(crate) enum Wire {
    Stdio(Stdio),
    Http(Http),
}

/// Where requests go. It does not keep the link open.
#[derive(Debug, Clone)]
pub(crate) enum Channel {
    Stdio(Arc<Pipes>),
    Http(Arc<Relation>),
}

// === impl Link ===

impl Link {
    pub(crate) fn new(
        id: LinkId,
        peer: Peer,
        wire: Wire,
        origin: &Origin,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            id,
            peer,
            wire,
            origin: kept(origin),
            opened: SystemTime::now(),
            tasks,
            listens: AtomicBool::new(false),
        }
    }

    /// Begins a call. Over a child's pipes it is written before this returns; over HTTP it is sent when the
    /// exchange is first asked for an event.
    ///
    /// Dropping the future sends nothing.
    ///
    /// # Errors
    /// When the link has ended, or the child does not read its stdin within the call's silence.
    pub async fn begin(&self, call: Call) -> Result<Exchange, LinkError> {
        let silence = call.patience.silence;
        let channel = self.channel();
        let sent = channel.request(self.peer.version, &call);
        let wire = tokio::time::timeout(silence, sent)
            .await
            .map_err(|_| LinkError::Silence(silence))??;
        Ok(Exchange::new(wire, call.patience))
    }

    /// Begins to listen for changes of the server's lists where word of them does not come by itself: on the
    /// session's stream of a legacy HTTP server, on a subscription of a modern one. Each counts in
    /// [`Link::notices`]. Asking twice changes nothing.
    ///
    /// One task goes on until the link ends. It begins again with backoff when the stream ends, and stops for good
    /// when the server has no such thing. It never counts in [`Link::in_flight`]. The first stream is open a moment
    /// later: what changes until then is not heard. After a gap that the server can't make good, every list counts as
    /// changed.
    pub fn listen(&self) {
        if self.listens.swap(true, Ordering::Relaxed) {
            return;
        }
        let version = self.peer.version;
        match (&self.wire, version.era()) {
            // What the child has to say comes on its stdout, asked or not.
            (Wire::Stdio(_), Era::Legacy) => {}
            (Wire::Http(http), Era::Legacy) => {
                let stream = SessionStream::new(http.relation().clone(), version);
                self.hear(stream, Watched::served(self.peer.serves));
            }
            (Wire::Stdio(_) | Wire::Http(_), Era::Modern) => {
                let watched = Watched::declared(&self.peer.capabilities);
                if !watched.is_empty() {
                    let origin = self.origin.clone();
                    let channel = self.channel();
                    let subscription = Subscription::new(channel, version, origin, watched);
                    self.hear(subscription, watched);
                }
            }
        }
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// When the link has ended, or the server does not take it.
    pub async fn notify(&self, method: &Method, params: &[u8]) -> Result<(), LinkError> {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.notify(method, params).await,
            Wire::Http(http) => http.notify(self.peer.version, method, params).await,
        }
    }

    /// The number of the link.
    #[must_use]
    pub fn id(&self) -> LinkId {
        self.id
    }

    /// Who is at the other end.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// When the handshake was done.
    #[must_use]
    pub fn opened(&self) -> SystemTime {
        self.opened
    }

    /// The child behind the link, if there is one.
    #[must_use]
    pub fn child(&self) -> Option<&Child> {
        match &self.wire {
            Wire::Stdio(stdio) => Some(stdio.child()),
            Wire::Http(_) => None,
        }
    }

    /// How many calls of clients are in flight; what Manifold asks for itself is not among them.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.in_flight(),
            Wire::Http(http) => http.in_flight(),
        }
    }

    /// What the server says outside of calls.
    #[must_use]
    pub fn notices(&self) -> watch::Receiver<Notices> {
        self.said().subscribe()
    }

    /// Whether the link is no use any more.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.is_ended(),
            Wire::Http(http) => http.is_ended(),
        }
    }

    /// Waits until the link is no use any more, and says why. The future does not keep the link open; dropping
    /// it changes nothing.
    pub fn ended(&self) -> impl Future<Output = LinkError> + Send + 'static {
        match &self.wire {
            Wire::Stdio(stdio) => Either::Left(stdio.ended()),
            Wire::Http(http) => Either::Right(http.ended()),
        }
    }

    /// Begins the end: the child's stop ladder, or the DELETE of the session. Both go on by themselves, on
    /// the tasks of their owners. Calls in flight fail; only those that were sent before an HTTP session was lost
    /// have answers of their own to wait for.
    pub fn close(&self) {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.child().stop(),
            Wire::Http(http) => http.close(self.peer.version),
        }
    }
}

impl Link {
    fn hear(&self, ear: impl Ear + 'static, watched: Watched) {
        let ended = self.ended();
        let listening = keep_listening(ear, watched, self.said().clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                _ = ended => {}
                () = listening => {}
            }
        });
    }

    fn said(&self) -> &watch::Sender<Notices> {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.notices(),
            Wire::Http(http) => http.notices(),
        }
    }

    fn channel(&self) -> Channel {
        match &self.wire {
            Wire::Stdio(stdio) => Channel::Stdio(Arc::clone(stdio)),
            Wire::Http(http) => Channel::Http(Arc::clone(http.relation())),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

// === impl Channel ===

impl Channel {
    /// Begins a request, without a deadline. Over a child's pipes it is written before this returns; over HTTP it is
    /// sent when the exchange is first asked for an event. Dropping the future sends nothing.
    pub(crate) async fn request(
        &self,
        version: ProtocolVersion,
        call: &Call,
    ) -> Result<exchange::Wire, LinkError> {
        let params = |id| call.params_for(version.era(), id);
        match self {
            Self::Stdio(pipes) => {
                let exchange = pipes.request(&call.method, params).await?;
                Ok(exchange::Wire::Stdio(exchange))
            }
            Self::Http(relation) => {
                let name = call.header_name();
                let exchange = relation.exchange(version, &call.method, name.as_deref(), params);
                Ok(exchange::Wire::Http(Box::new(exchange)))
            }
        }
    }
}

/// The origin without what belongs to one request, and without the bytes around it.
fn kept(origin: &Origin) -> Origin {
    Origin {
        client_info: origin.client_info.compact(),
        capabilities: origin.capabilities.compact(),
        log_level: None,
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

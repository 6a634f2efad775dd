//! A live connection, whatever it runs over.

use std::{fmt, time::SystemTime};

use futures_util::future::Either;
use manifold_protocol::Method;
use manifold_supervisor::Child;
use tokio::sync::watch;

use crate::{
    LinkError, Notices,
    call::Call,
    exchange::{self, Exchange},
    http::Http,
    peer::Peer,
    stdio::Stdio,
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
    opened: SystemTime,
}

#[derive(Debug)]
pub(crate) enum Wire {
    Stdio(Stdio),
    Http(Http),
}

impl Link {
    pub(crate) fn new(id: LinkId, peer: Peer, wire: Wire) -> Self {
        Self {
            id,
            peer,
            wire,
            opened: SystemTime::now(),
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
        let era = self.peer.era();
        let wire = match &self.wire {
            Wire::Stdio(stdio) => {
                let silence = call.patience.silence;
                let sent = stdio.request(&call.method, |id| call.params_for(era, id));
                let exchange = tokio::time::timeout(silence, sent)
                    .await
                    .map_err(|_| LinkError::Silence(silence))??;
                exchange::Wire::Stdio(exchange)
            }
            Wire::Http(http) => {
                let name = call.header_name();
                exchange::Wire::Http(Box::new(http.request(
                    self.peer.version,
                    &call.method,
                    name.as_deref(),
                    |id| call.params_for(era, id),
                )))
            }
        };
        Ok(Exchange::new(wire, call.patience))
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

    /// How many calls are in flight.
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
        match &self.wire {
            Wire::Stdio(stdio) => stdio.notices(),
            Wire::Http(http) => http.notices(),
        }
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
    /// the tasks of their owners. Calls in flight fail.
    pub fn close(&self) {
        match &self.wire {
            Wire::Stdio(stdio) => stdio.child().stop(),
            Wire::Http(http) => http.close(self.peer.version),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

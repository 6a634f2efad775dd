//! One look at a server: what it speaks and lists, and how long it takes to say so.

use std::{sync::Arc, time::Duration};

use manifold_link::{ForwardedHeaders, LinkError, Origin};
use manifold_protocol::ProtocolVersion;
use tokio::time::Instant;

use crate::{
    events::StartReason,
    lister::Lister,
    lists::{Hello, Lists},
    server::{Server, Use},
};

/// What a look at a server showed.
#[derive(Debug)]
pub struct Inspection {
    /// The version that it speaks with us.
    pub version: ProtocolVersion,
    /// What it declares.
    pub hello: Hello,
    /// Its lists. One that is not there was not given.
    pub lists: Lists,
    /// From the decision to start it to the end of the handshake.
    pub started_in: Duration,
}

impl Server {
    /// Starts or reaches the server, asks for its lists once, and ends the link again. Takes as long as a start and a
    /// request may take. Dropping the future ends the link.
    ///
    /// # Errors
    /// When no link can be made, or none of its lists can be had.
    pub async fn inspect(self: &Arc<Self>) -> Result<Inspection, LinkError> {
        let began = Instant::now();
        let (origin, reason) = (Origin::manifold(), StartReason::First);
        let nothing = ForwardedHeaders::default();
        let held = self
            .connect(&origin, Use::Catalog, reason, nothing, None)
            .await?;
        let started_in = began.elapsed();
        let peer = held.link().peer();
        let mut lister = Lister::start(self, held.link());
        let mut lists = Lists::default();
        let mut failure = None;
        for _ in 0..lister.asked() {
            match lister.next().await {
                (kind, Ok(list)) => {
                    lists.set(kind, self.permitted(kind, list));
                }
                (_, Err(error)) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if lists.is_empty() => Err(error),
            _ => Ok(Inspection {
                version: peer.version,
                hello: Hello::of(peer),
                lists,
                started_in,
            }),
        }
    }
}

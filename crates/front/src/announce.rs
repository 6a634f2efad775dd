//! Streams that tell a client of changes in what it would list.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use manifold_protocol::sse;
use manifold_routing::Changes;
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;

use crate::call::heartbeat;

/// How long changes are gathered before they are told: servers come up and announce in bursts.
const GATHER: Duration = Duration::from_millis(200);

/// What a stream of changes is for.
pub(crate) trait Audience: Send {
    /// What must be told, now that something may have changed.
    fn tell(&mut self) -> Vec<Bytes>;

    /// The last message of a stream that we end.
    fn farewell(&self) -> Option<Bytes>;
}

/// A stream of changes with comments in between.
pub(crate) struct Announcing<A> {
    audience: A,
    changes: Changes,
    /// When the changes so far are told.
    tell_at: Option<Instant>,
    /// The client's own end: of its session.
    ended: CancellationToken,
    draining: CancellationToken,
    beat: Interval,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

impl<A: Audience> Announcing<A> {
    /// A stream that begins with `first`. What has changed already is told at once.
    pub(crate) fn new(
        audience: A,
        changes: Changes,
        ended: CancellationToken,
        draining: CancellationToken,
        keepalive: Duration,
        first: Bytes,
    ) -> Self {
        Self {
            audience,
            changes,
            tell_at: Some(Instant::now()),
            ended,
            draining,
            beat: heartbeat(keepalive),
            ready: VecDeque::from([first]),
            is_over: false,
        }
    }

    /// The next thing to write. At most what one change makes is held ready.
    pub(crate) async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some((ready, self));
            }
            if self.is_over {
                return None;
            }
            let due = self.tell_at;
            tokio::select! {
                biased;
                () = self.ended.cancelled() => return None,
                () = self.draining.cancelled() => {
                    self.is_over = true;
                    let last = self.audience.farewell();
                    self.ready.extend(last.map(|last| sse::message(&last)));
                }
                () = until(due) => {
                    self.tell_at = None;
                    let told = self.audience.tell();
                    self.ready.extend(told.iter().map(|message| sse::message(message)));
                }
                () = self.changes.next(), if due.is_none() => {
                    self.tell_at = Some(Instant::now() + GATHER);
                }
                _ = self.beat.tick() => return Some((sse::comment(), self)),
            }
        }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

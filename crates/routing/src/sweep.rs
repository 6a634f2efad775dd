//! Looks for idle sessions and links, so that what nobody uses goes.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::Router;

/// How often they are looked over.
const SWEEP: Duration = Duration::from_secs(5);

/// Runs until `stop`.
pub(crate) async fn sweep(router: Arc<Router>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        let now = Instant::now();
        for session in router.sessions().end_expired(now) {
            info!("a session was not used for sessions.idle_timeout and is ended");
            router.count_end(&session);
        }
        for session in router.sessions().all() {
            session.callers().end_idle(router.servers(), now);
        }
        router.anonymous().end_idle(router.servers(), now);
        for (server, lease) in router.shared() {
            if let Some(limit) = now.checked_sub(server.settings().link_idle) {
                lease.let_go_if_idle(limit);
            }
        }
    }
}

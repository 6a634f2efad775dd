//! Keeps a server's catalog link up: starts it, lists it, lists it again when it says so, and tries again with
//! backoff when it fails. One task per server.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use manifold_link::{LinkError, Notices, Origin};
use manifold_supervisor::Restarts;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    events::{Event, StartReason},
    health::{Failure, Health},
    listing,
    router::CatalogStore,
    server::{HeldLink, Server, Use},
};

/// How long changes are gathered before a server is listed again: servers announce in bursts.
const GATHER: Duration = Duration::from_millis(100);

/// Runs until `stop`, then sees the link closed.
pub(crate) async fn keep(server: Arc<Server>, store: Arc<CatalogStore>, stop: CancellationToken) {
    let mut restarts = Restarts::new(server.settings().restart);
    let mut reason = StartReason::First;
    loop {
        server.turn(Health::Starting);
        store.publish();
        let life = tokio::select! {
            life = live(&server, &store, reason) => life,
            () = stop.cancelled() => break,
        };
        let (error, up_for) = match life {
            Life::Failed { error, up_for } => (error, up_for),
            Life::Restart => {
                restarts.reset();
                reason = StartReason::Admin;
                server.count_restart();
                continue;
            }
        };
        let retry = restarts.failed(up_for, jitter());
        let failure = Failure {
            error,
            attempt: retry.attempt,
            until: Instant::now() + retry.after,
            until_time: SystemTime::now() + retry.after,
        };
        let until = failure.until;
        server.turn(Health::failed(failure, retry.crash_loop));
        store.publish();
        reason = tokio::select! {
            () = tokio::time::sleep_until(until) => StartReason::Crash,
            () = server.restart.notified() => {
                restarts.reset();
                StartReason::Admin
            }
            () = stop.cancelled() => break,
        };
        server.count_restart();
    }
    server.turn(Health::Stopped);
    store.publish();
}

/// How a life of the catalog link ended.
enum Life {
    /// It failed, or never began.
    Failed { error: LinkError, up_for: Duration },
    /// An operator asked for a new one.
    Restart,
}

async fn live(server: &Arc<Server>, store: &CatalogStore, reason: StartReason) -> Life {
    let began = Instant::now();
    let connected = server
        .connect(&Origin::manifold(), Use::Catalog, reason, None)
        .await;
    let held = match connected {
        Ok(held) => held,
        Err(error) => {
            return Life::Failed {
                error,
                up_for: Duration::ZERO,
            };
        }
    };
    server.watch(held.link());
    let mut notices = held.link().notices();
    let listed = notices.borrow_and_update().tools;
    if let Err(error) = list(server, store, &held).await {
        return Life::Failed {
            error,
            up_for: Duration::ZERO,
        };
    }
    server.turn(Health::Ready);
    store.publish();
    tokio::select! {
        error = stay(server, store, &held, notices, listed) => Life::Failed { error, up_for: began.elapsed() },
        () = server.restart.notified() => Life::Restart,
    }
}

/// Waits for the link's end, and lists the server again when it announces a change.
async fn stay(
    server: &Arc<Server>,
    store: &CatalogStore,
    held: &HeldLink,
    mut notices: watch::Receiver<Notices>,
    mut listed: u64,
) -> LinkError {
    loop {
        tokio::select! {
            error = held.link().ended() => return error,
            changed = notices.changed() => {
                if changed.is_err() {
                    return held.link().ended().await;
                }
            }
        }
        tokio::time::sleep(GATHER).await;
        let announced = notices.borrow_and_update().tools;
        if announced == listed {
            continue;
        }
        listed = announced;
        // The last good list stays when this fails.
        if let Err(error) = list(server, store, held).await {
            warn!(server = %server.name(), %error, "can't list a server again");
        }
    }
}

async fn list(
    server: &Arc<Server>,
    store: &CatalogStore,
    held: &HeldLink,
) -> Result<(), LinkError> {
    let settings = server.settings();
    let mut items = listing::tools(held.link(), settings.patience).await?;
    items.retain(|item| (settings.permits)(&item.name));
    server.observe(&Event::Listed {
        server: server.name(),
        tools: items.len(),
    });
    if server.set_items(items) {
        store.publish();
    }
    Ok(())
}

/// A random number from 0 to 1.
fn jitter() -> f64 {
    let bits = u32::try_from(uuid::Uuid::new_v4().as_u128() >> 96).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

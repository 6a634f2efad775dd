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
    server::{HeldLink, Server, Use, jitter},
};

/// How long changes are gathered before a server is listed again: servers announce in bursts.
const GATHER: Duration = Duration::from_millis(100);
/// The same for a server that announces changes when there are none.
const GATHER_LONGEST: Duration = Duration::from_secs(10);

/// Runs until `stop`; the link is closed then.
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
            () = server.restarted() => {
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
    let began = Instant::now();
    tokio::select! {
        error = stay(server, store, &held, notices, listed) => Life::Failed { error, up_for: began.elapsed() },
        () = server.restarted() => Life::Restart,
    }
}

/// Waits for the link's end. Lists the server again when it announces a change, and when somebody suspects that it
/// is gone.
async fn stay(
    server: &Arc<Server>,
    store: &CatalogStore,
    held: &HeldLink,
    mut notices: watch::Receiver<Notices>,
    mut listed: u64,
) -> LinkError {
    let mut gather = GATHER;
    loop {
        let suspected = tokio::select! {
            error = held.link().ended() => return error,
            () = server.suspected() => true,
            changed = notices.changed() => {
                if changed.is_err() {
                    return held.link().ended().await;
                }
                false
            }
        };
        if !suspected {
            tokio::time::sleep(gather).await;
        }
        let announced = notices.borrow_and_update().tools;
        if announced == listed && !suspected {
            continue;
        }
        listed = announced;
        match list(server, store, held).await {
            Ok(true) => gather = GATHER,
            // It announces changes and there are none: listing it may be what makes it say so.
            Ok(false) => gather = (gather * 2).min(GATHER_LONGEST),
            Err(error @ LinkError::Unreachable(_)) => return error,
            // The last good list stays.
            Err(error) => {
                warn!(server = %server.name(), %error, "can't list a server again");
            }
        }
    }
}

/// Lists a server; says whether the list has changed.
async fn list(
    server: &Arc<Server>,
    store: &CatalogStore,
    held: &HeldLink,
) -> Result<bool, LinkError> {
    let settings = server.settings();
    let mut items = listing::tools(server.name(), held.link(), settings.patience).await?;
    items.retain(|item| (settings.permits)(&item.name));
    server.observe(&Event::Listed {
        server: server.name(),
        tools: items.len(),
    });
    let changed = server.set_items(items);
    if changed {
        store.publish();
    }
    Ok(changed)
}

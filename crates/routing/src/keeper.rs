//! Keeps a server's catalog link up: starts it, lists it, lists it again when it says so, and tries again with
//! backoff when it fails. One task per server.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use manifold_link::{ForwardedHeaders, LinkError, Origin};
use manifold_protocol::Kind;
use manifold_supervisor::Restarts;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    events::{Event, StartReason},
    health::{Failure, Health},
    lister::Lister,
    lists::{Hello, List},
    server::{HeldLink, Server, Use, jitter},
    store::CatalogStore,
};

/// The least time between two looks at whether a lazy server is used.
const SLEEPY: Duration = Duration::from_secs(1);

/// Runs until `stop`; the link is closed then.
pub(crate) async fn keep(server: Arc<Server>, store: Arc<CatalogStore>, stop: CancellationToken) {
    let mut restarts = Restarts::new(server.settings().restart);
    let mut reason = StartReason::First;
    // A lazy server sleeps at first.
    let mut sleepy = server.settings().lazy;
    let mut needed = server.needed();
    loop {
        if sleepy {
            server.turn(Health::Asleep);
            store.publish();
            tokio::select! {
                _ = needed.changed() => {}
                () = server.restarted() => {}
                () = stop.cancelled() => break,
            }
            sleepy = false;
        }
        server.turn(Health::Starting);
        store.publish();
        let life = tokio::select! {
            life = live(&server, &store, reason, &mut needed) => life,
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
            Life::Idle => {
                info!(server = %server.name(), "a lazy server was not used for its link_idle: it sleeps");
                restarts.reset();
                reason = StartReason::Idle;
                sleepy = true;
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
    /// Nobody has needed a lazy server for long.
    Idle,
}

impl Life {
    fn failed(error: LinkError) -> Self {
        Self::Failed {
            error,
            up_for: Duration::ZERO,
        }
    }
}

async fn live(
    server: &Arc<Server>,
    store: &CatalogStore,
    reason: StartReason,
    needed: &mut watch::Receiver<Instant>,
) -> Life {
    let connected = server
        .connect(
            &Origin::manifold(),
            Use::Catalog,
            reason,
            ForwardedHeaders::default(),
            None,
        )
        .await;
    let held = match connected {
        Ok(held) => held,
        Err(error) => return Life::failed(error),
    };
    server.set_hello(Hello::of(held.link().peer()));
    store.publish();
    let mut lister = Lister::start(server, held.link());
    if let Err(error) = first_lists(server, store, &mut lister).await {
        return Life::failed(error);
    }
    server.turn(Health::Ready);
    store.publish();
    let began = Instant::now();
    tokio::select! {
        error = stay(server, store, &held, lister) => Life::Failed { error, up_for: began.elapsed() },
        () = server.restarted() => Life::Restart,
        () = unneeded(server, needed) => Life::Idle,
    }
}

/// Waits until nobody has needed a lazy server for its `link_idle`.
async fn unneeded(server: &Server, needed: &mut watch::Receiver<Instant>) {
    let settings = server.settings();
    if !settings.lazy {
        std::future::pending::<()>().await;
    }
    loop {
        // Whoever needs it from here on wakes it again, also if it falls asleep now.
        let last = *needed.borrow_and_update();
        let now = Instant::now();
        if now.saturating_duration_since(last) >= settings.link_idle && !server.is_used() {
            return;
        }
        let next = (last + settings.link_idle).max(now + SLEEPY);
        tokio::time::sleep_until(next).await;
    }
}

/// Waits for the first lists: until all are known, or some are and the rest is late. A server of which no list can be
/// had is no use.
async fn first_lists(
    server: &Arc<Server>,
    store: &CatalogStore,
    lister: &mut Lister,
) -> Result<(), LinkError> {
    let late = Instant::now() + server.settings().list;
    let mut left = lister.asked();
    let mut any = left == 0;
    while left > 0 {
        let (kind, fetched) = if any {
            match tokio::time::timeout_at(late, lister.next()).await {
                Ok(next) => next,
                Err(_) => return Ok(()),
            }
        } else {
            lister.next().await
        };
        left -= 1;
        match fetched {
            Ok(list) => {
                any = true;
                put(server, store, kind, list);
            }
            Err(error) if left == 0 && !any => return Err(error),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Waits for the link's end. Lists the server again when it announces a change, and when somebody suspects that it
/// is gone.
async fn stay(
    server: &Arc<Server>,
    store: &CatalogStore,
    held: &HeldLink,
    mut lister: Lister,
) -> LinkError {
    let ended = held.link().ended();
    tokio::pin!(ended);
    loop {
        let (kind, fetched) = tokio::select! {
            error = &mut ended => return error,
            () = server.suspected() => {
                lister.ask_again();
                continue;
            }
            next = lister.next() => next,
        };
        match fetched {
            Ok(list) => {
                let changed = put(server, store, kind, list);
                lister.was_change(kind, changed);
            }
            Err(error @ LinkError::Unreachable(_)) => return error,
            // The last good list stays.
            Err(_) => {}
        }
    }
}

/// Puts a list in place; says whether it has changed.
fn put(server: &Server, store: &CatalogStore, kind: Kind, list: List) -> bool {
    let list = server.permitted(kind, list);
    server.observe(&Event::Listed {
        server: server.name(),
        kind,
        items: list.items().len(),
    });
    let changed = server.set_list(kind, list);
    if changed {
        store.publish();
    }
    changed
}

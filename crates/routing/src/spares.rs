//! Started processes that wait for a first caller (`spare`): what a launcher or an import costs is paid before.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use manifold_link::{LinkId, Spare};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::server::Server;

/// How long after a spare could not be started, or has died unused, the next one is tried; twice as long after each
/// more.
const RETRY: Duration = Duration::from_secs(5);
const RETRY_LONGEST: Duration = Duration::from_secs(300);

/// The spares of one server.
#[derive(Debug)]
pub struct Spares {
    wanted: usize,
    waiting: Mutex<Vec<Spare>>,
    taken: Notify,
}

impl Spares {
    pub(crate) fn new(wanted: usize) -> Self {
        Self {
            wanted,
            waiting: Mutex::default(),
            taken: Notify::new(),
        }
    }

    /// The oldest one that is alive, if any waits; another is started then.
    pub(crate) fn take(&self) -> Option<Spare> {
        let mut waiting = self.lock();
        let place = waiting.iter().position(|spare| !spare.is_ended())?;
        let spare = waiting.remove(place);
        drop(waiting);
        self.taken.notify_one();
        Some(spare)
    }

    /// Those that wait: number of the link to be, process and time of its start.
    #[must_use]
    pub fn waiting(&self) -> Vec<(LinkId, u32, SystemTime)> {
        self.lock()
            .iter()
            .filter(|spare| !spare.is_ended())
            .map(|spare| (spare.id(), spare.child().pid().get(), spare.started()))
            .collect()
    }

    /// Keeps as many as are wanted, until `stop`; they are stopped then. None is started while the server is not
    /// ready: what can't be listed can't be called.
    pub(crate) async fn keep(server: Arc<Server>, stop: CancellationToken) {
        let spares = server.spares();
        tokio::select! {
            () = spares.fill(&server) => {}
            () = stop.cancelled() => {}
        }
        spares.lock().clear();
    }

    async fn fill(&self, server: &Arc<Server>) {
        let mut retry = RETRY;
        loop {
            server.ready().await;
            // One that can't live is not started again and again.
            let mut failure = self.bury().then(|| "one has ended unused".to_owned());
            if failure.is_none() && self.waiting().len() < self.wanted {
                match server.spawn_spare().await {
                    Ok(Some(spare)) => self.lock().push(spare),
                    // Nothing waits for an HTTP server.
                    Ok(None) => return,
                    Err(error) => failure = Some(error.to_string()),
                }
            } else if failure.is_none() {
                tokio::select! {
                    () = self.taken.notified() => retry = RETRY,
                    () = self.death() => {}
                }
            }
            if let Some(failure) = failure {
                warn!(server = %server.name(), failure, "spares can't be kept: the next is started later");
                tokio::time::sleep(retry).await;
                retry = (retry * 2).min(RETRY_LONGEST);
            }
        }
    }

    /// Takes out those that have ended; says whether there were any.
    fn bury(&self) -> bool {
        let mut waiting = self.lock();
        let before = waiting.len();
        waiting.retain(|spare| !spare.is_ended());
        waiting.len() < before
    }

    /// Waits until one of those that wait now has ended.
    async fn death(&self) {
        let ends: Vec<_> = self.lock().iter().map(Spare::ended).collect();
        if ends.is_empty() {
            std::future::pending::<()>().await;
        }
        let ends = ends.into_iter().map(Box::pin);
        futures_util::future::select_all(ends).await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Spare>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

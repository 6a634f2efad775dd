//! The places for callers' links of one server (`max_links`).

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use manifold_protocol::ServerName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::info;

use crate::lease::Lease;

/// A bounded number of seats, and who sits on them.
#[derive(Debug)]
pub(crate) struct Seats {
    free: Arc<Semaphore>,
    taken: Mutex<Vec<Weak<Lease>>>,
}

impl Seats {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(count)),
            taken: Mutex::default(),
        }
    }

    /// A seat for the link of `lease`. When all are taken the link that was not used for longest gives its seat up;
    /// when all are busy, one may become free within `patience`.
    pub(crate) async fn take(
        &self,
        server: &ServerName,
        lease: &Arc<Lease>,
        patience: Duration,
    ) -> Option<OwnedSemaphorePermit> {
        if let Ok(seat) = self.free.clone().try_acquire_owned() {
            self.is_taken_by(lease);
            return Some(seat);
        }
        self.evict(server);
        let waiting = self.free.clone().acquire_owned();
        let seat = tokio::time::timeout(patience, waiting).await.ok()?.ok()?;
        self.is_taken_by(lease);
        Some(seat)
    }

    /// The leases that have a seat, or had one last.
    pub(crate) fn taken(&self) -> Vec<Arc<Lease>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn is_taken_by(&self, lease: &Arc<Lease>) {
        let mut taken = self.lock();
        taken.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&Arc::downgrade(lease)));
        taken.push(Arc::downgrade(lease));
    }

    /// Ends the link that was not used for longest, if one is idle.
    fn evict(&self, server: &ServerName) {
        let taken = self.taken();
        let longest = taken
            .iter()
            .filter_map(|lease| Some((lease.idle_since()?, lease)))
            .min_by_key(|(since, _)| *since);
        if let Some((since, lease)) = longest {
            info!(%server, "servers.{server}.max_links is reached: an idle link is ended");
            lease.let_go_if_idle(since);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Lease>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

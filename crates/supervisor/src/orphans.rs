//! Reaps processes that we did not start.
//!
//! As PID 1 of a container, or as a subreaper, this process inherits what children leave
//! behind. Nobody else can remove those zombies.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::wait::{WaitPidFlag, waitpid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::Pid;
use crate::proc::{self, Stat};
use crate::registry::Registry;

/// Looking costs a walk through `/proc`: a burst of exits is worth one.
const PAUSE: Duration = Duration::from_millis(200);

/// Whether orphans come to this process.
pub(crate) fn come_to_us() -> bool {
    std::process::id() == 1 || prctl::get_child_subreaper().unwrap_or(false)
}

/// Reaps orphans until `end`.
pub(crate) async fn reap(registry: Arc<Registry>, end: CancellationToken) {
    let Ok(mut changes) = signal(SignalKind::child()) else {
        tracing::warn!("cannot listen for SIGCHLD: orphans stay zombies");
        return;
    };
    loop {
        let registry = Arc::clone(&registry);
        if spawn_blocking(move || reap_now(&registry)).await.is_err() {
            return;
        }
        tokio::select! {
            () = end.cancelled() => return,
            change = changes.recv() => if change.is_none() { return },
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn reap_now(registry: &Registry) {
    let starting = registry
        .starting
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    let own = std::process::id();
    let is_orphan = |pid: &Pid| {
        Stat::of(*pid).is_some_and(|stat| stat.zombie && stat.parent == own) && !registry.owns(*pid)
    };
    for pid in proc::all().filter(is_orphan) {
        if let Err(error) = waitpid(pid.raw(), Some(WaitPidFlag::WNOHANG)) {
            tracing::debug!(%pid, %error, "cannot reap an orphan");
        }
    }
    drop(starting);
}

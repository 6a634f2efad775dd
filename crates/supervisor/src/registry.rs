//! Which processes are ours at this moment.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::Pid;

/// The live children and the warden.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// Held (shared) from before a process is started until it is listed, so that whoever holds
    /// it exclusively knows: a child of this process that is not listed is not ours.
    pub(crate) starting: RwLock<()>,
    state: Mutex<State>,
    /// The groups are not what they were. One listener.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    children: BTreeMap<Pid, Entry>,
    warden: Option<Pid>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    stop: CancellationToken,
}

// === impl Registry ===

impl Registry {
    /// Lists a child. After [`Registry::close`] it is told to stop at once.
    pub(crate) fn insert(&self, pid: Pid, number: u64, stop: &CancellationToken) {
        let mut state = self.lock();
        state.children.insert(
            pid,
            Entry {
                number,
                stop: stop.clone(),
            },
        );
        if state.closed {
            stop.cancel();
        }
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn remove(&self, pid: Pid) {
        self.lock().children.remove(&pid);
        self.changed.notify_one();
    }

    pub(crate) fn set_warden(&self, pid: Option<Pid>) {
        self.lock().warden = pid;
    }

    /// Tells all children to stop, and those that still come.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for child in state.children.values() {
            child.stop.cancel();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The groups of the live children. The number tells apart two children that had the same
    /// process number one after the other.
    pub(crate) fn groups(&self) -> BTreeMap<Pid, u64> {
        self.lock()
            .children
            .iter()
            .map(|(pid, child)| (*pid, child.number))
            .collect()
    }

    /// Whether `pid` is a child or the warden.
    pub(crate) fn owns(&self, pid: Pid) -> bool {
        let state = self.lock();
        state.children.contains_key(&pid) || state.warden == Some(pid)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The handle on one child.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{ChildLog, Exit};

/// The number of a process, and of the group that it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub(crate) u32);

/// A running or ended child. Clones are the same child; when the last one is dropped, the child
/// is stopped.
#[derive(Debug, Clone)]
pub struct Child {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    pid: Pid,
    log: ChildLog,
    life: watch::Receiver<Life>,
    stop: CancellationToken,
}

/// How far a child has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Running,
    /// The leader has exited; others of its group may still be there.
    Exited(Exit),
    /// Nothing it started is left.
    Gone(Exit),
}

// === impl Pid ===

impl Pid {
    /// The number itself.
    pub fn get(self) -> u32 {
        self.0
    }

    pub(crate) fn of(process: &std::process::Child) -> Self {
        Self(process.id())
    }

    pub(crate) fn raw(self) -> nix::unistd::Pid {
        // Process numbers are positive and far below 2^31.
        nix::unistd::Pid::from_raw(i32::try_from(self.0).unwrap_or(i32::MAX))
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Child ===

impl Child {
    pub(crate) fn new(
        pid: Pid,
        log: ChildLog,
        life: watch::Receiver<Life>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            handle: Arc::new(Handle {
                pid,
                log,
                life,
                stop,
            }),
        }
    }

    /// The process that was started, and its group.
    pub fn pid(&self) -> Pid {
        self.handle.pid
    }

    /// Its stderr, and its noise on stdout.
    pub fn log(&self) -> &ChildLog {
        &self.handle.log
    }

    /// How the process that was started has ended; `None` while it runs. What it started itself
    /// may still be on its way out, see [`Child::stopped`].
    pub fn exit(&self) -> Option<Exit> {
        self.handle.life.borrow().exit()
    }

    /// Waits until the process that was started has ended, by itself or stopped. Any number may
    /// wait, and dropping the future is harmless.
    pub async fn exited(&self) -> Exit {
        self.reached(|life| life.exit().is_some()).await
    }

    /// Begins to stop the child, and returns at once. Asking again changes nothing.
    pub fn stop(&self) {
        self.handle.stop.cancel();
    }

    /// Stops the child and waits until nothing that it started is left: at most its
    /// [`crate::StopPolicy`]'s two times and a few seconds. Dropping the future does not undo
    /// the stop.
    pub async fn stopped(&self) -> Exit {
        self.stop();
        self.reached(|life| matches!(life, Life::Gone(_))).await
    }

    async fn reached(&self, there: impl Fn(&Life) -> bool) -> Exit {
        let mut life = self.handle.life.clone();
        let exit = life
            .wait_for(|life| there(life))
            .await
            .map(|life| life.exit());
        // The driver is gone only when the runtime shuts down: nobody knows more.
        exit.ok()
            .flatten()
            .or_else(|| self.exit())
            .unwrap_or_else(|| Exit::now(None, None))
    }
}

// === impl Handle ===

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

// === impl Life ===

impl Life {
    fn exit(&self) -> Option<Exit> {
        match self {
            Self::Running => None,
            Self::Exited(exit) | Self::Gone(exit) => Some(*exit),
        }
    }
}

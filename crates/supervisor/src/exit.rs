//! How a process ended, and seeing that without reaping it.

use std::time::SystemTime;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use tokio::signal::unix::{SignalKind, signal};

use crate::Pid;

/// How a process ended. Exit codes of servers mean little: many leave with 0 when they crash and
/// with another number when asked to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// What it passed to `exit`, when it left by itself.
    pub code: Option<i32>,
    /// The signal that ended it. Both are `None` when the kernel no longer told.
    pub signal: Option<i32>,
    /// When this was noticed.
    pub at: SystemTime,
}

// === impl Exit ===

impl Exit {
    /// The name of the signal that ended the process, such as `SIGKILL`.
    pub fn signal_name(&self) -> Option<&'static str> {
        self.signal
            .and_then(|number| Signal::try_from(number).ok())
            .map(Signal::as_str)
    }

    pub(crate) fn now(code: Option<i32>, signal: Option<i32>) -> Self {
        Self {
            code,
            signal,
            at: SystemTime::now(),
        }
    }
}

/// Completes when `pid`, a child of ours, has exited. It stays a zombie.
///
/// Dropping the future leaves nothing behind.
pub(crate) async fn exited(pid: Pid) -> Exit {
    let mut changes = match signal(SignalKind::child()) {
        Ok(changes) => changes,
        Err(error) => {
            // Without a signal handler nothing would ever wake us: poll instead.
            tracing::warn!(%error, "cannot listen for SIGCHLD, polling for exits");
            return exited_by_polling(pid).await;
        }
    };
    loop {
        // Looked at once before the first wait: the exit may be older than the subscription.
        if let Some(exit) = look(pid) {
            return exit;
        }
        if changes.recv().await.is_none() {
            return exited_by_polling(pid).await;
        }
    }
}

async fn exited_by_polling(pid: Pid) -> Exit {
    loop {
        if let Some(exit) = look(pid) {
            return exit;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Whether the child has exited, without reaping it.
fn look(pid: Pid) -> Option<Exit> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(Id::Pid(pid.raw()), flags) {
        Ok(WaitStatus::Exited(_, code)) => Some(Exit::now(Some(code), None)),
        Ok(WaitStatus::Signaled(_, signal, _)) => Some(Exit::now(None, Some(signal as i32))),
        Ok(_) | Err(Errno::EINTR) => None,
        // EINVAL: ended by a real-time signal, which has no name. ECHILD: someone reaped it.
        Err(_) => Some(Exit::now(None, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn start(script: &str) -> (std::process::Child, Pid) {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = Pid::of(&child);
        (child, pid)
    }

    #[tokio::test]
    async fn codes_and_signals_are_told_apart_and_the_zombie_stays() {
        for (script, code, signal, name) in [
            ("exit 7", Some(7), None, None),
            ("kill -KILL $$", None, Some(9), Some("SIGKILL")),
            ("kill -TERM $$", None, Some(15), Some("SIGTERM")),
        ] {
            let (mut child, pid) = start(script);
            let exit = exited(pid).await;
            assert_eq!(
                (exit.code, exit.signal, exit.signal_name()),
                (code, signal, name)
            );
            assert_eq!(
                exited(pid).await.code,
                code,
                "seen again: it was not reaped"
            );
            assert!(child.try_wait().unwrap().is_some());
        }
    }

    #[tokio::test]
    async fn a_real_time_signal_counts_as_an_exit() {
        let (mut child, pid) = start("kill -40 $$");
        let exit = exited(pid).await;
        assert_eq!((exit.code, exit.signal), (None, None));
        child.wait().unwrap();
        assert_eq!(exited(pid).await.code, None, "reaped by another");
    }
}

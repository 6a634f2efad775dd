//! The end: signals, and how much time each step of the drain gets.

use std::{io, time::Duration};

use manifold_config::Config;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask the process to stop.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// How the time of `timeouts.shutdown` is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// For calls in flight.
    pub(crate) calls: Duration,
    /// For everything, from the signal to the exit.
    pub(crate) all: Duration,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one. Dropping the future loses none.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

impl Budget {
    /// Calls get the whole time less the slowest server's stop ladder and a second.
    pub(crate) fn of(config: &Config) -> Self {
        let all = config.timeouts.shutdown;
        let ladder = config
            .servers
            .iter()
            .map(|server| server.stop.close + server.stop.term)
            .max()
            .unwrap_or_default();
        Self {
            calls: all.saturating_sub(ladder + Duration::from_secs(1)),
            all,
        }
    }
}

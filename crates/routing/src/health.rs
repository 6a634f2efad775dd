//! How a server is: the states that `/status`, errors and lists speak of.

use std::time::{Duration, SystemTime};

use manifold_link::LinkError;
use tokio::time::Instant;

/// The state of a server, by its catalog link.
#[derive(Debug, Clone)]
pub enum Health {
    /// Switched off in the configuration.
    Disabled,
    /// Being started or reached.
    Starting,
    /// Up and listed.
    Ready,
    /// It failed and is tried again.
    Backoff(Failure),
    /// It fails again and again, and is tried again more rarely.
    CrashLoop(Failure),
    /// It refuses our credentials, and is tried again more rarely.
    Unauthorized(Failure),
    /// It is started when somebody needs it.
    Asleep,
    /// Manifold is ending it.
    Stopping,
    /// It is gone.
    Stopped,
}

/// A failure and when it is followed by another try.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What went wrong.
    pub error: LinkError,
    /// How often in a row.
    pub attempt: u32,
    /// When the next try begins.
    pub until: Instant,
    /// The same, for people.
    pub until_time: SystemTime,
}

/// A state with its beginning, and what a server has been through.
#[derive(Debug, Clone)]
pub struct Report {
    /// The state.
    pub health: Health,
    /// Since when.
    pub since: SystemTime,
    /// The last failure, also while it is up again.
    pub last_error: Option<LinkError>,
    /// How often it was started again after a failure.
    pub restarts: u64,
    /// Whether it has been up at least once.
    pub was_up: bool,
    /// The era and version it spoke last.
    pub version: Option<manifold_protocol::ProtocolVersion>,
}

impl Health {
    /// The word for it, as the contract has it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Backoff(_) => "backoff",
            Self::CrashLoop(_) => "crash_loop",
            Self::Unauthorized(_) => "unauthorized",
            Self::Stopping => "stopping",
            Self::Asleep | Self::Stopped => "stopped",
        }
    }

    /// The failure that keeps it down, if one does.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Backoff(failure) | Self::CrashLoop(failure) | Self::Unauthorized(failure) => {
                Some(failure)
            }
            Self::Disabled
            | Self::Starting
            | Self::Ready
            | Self::Asleep
            | Self::Stopping
            | Self::Stopped => None,
        }
    }

    /// Whether it is known how the start went: a merged list need not wait for this server.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Starting | Self::Asleep)
    }

    /// The state after a failure.
    #[must_use]
    pub fn failed(failure: Failure, crash_loop: bool) -> Self {
        if matches!(failure.error, LinkError::Unauthorized(_)) {
            Self::Unauthorized(failure)
        } else if crash_loop {
            Self::CrashLoop(failure)
        } else {
            Self::Backoff(failure)
        }
    }
}

impl Failure {
    /// How long until the next try.
    #[must_use]
    pub fn retry_after(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }
}

impl Report {
    pub(crate) fn new(health: Health) -> Self {
        Self {
            health,
            since: SystemTime::now(),
            last_error: None,
            restarts: 0,
            was_up: false,
            version: None,
        }
    }

    pub(crate) fn turn(&mut self, health: Health) {
        if let Some(failure) = health.failure() {
            self.last_error = Some(failure.error.clone());
        }
        self.was_up |= matches!(health, Health::Ready);
        self.health = health;
        self.since = SystemTime::now();
    }
}

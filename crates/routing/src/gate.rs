//! Whether callers may make links to a server now: the backoff of everything but the catalog's own link.
//!
//! One per server, however many callers there are: a server whose processes fail is not started again and again
//! because more clients ask.

use std::time::Duration;

use manifold_link::LinkError;
use manifold_supervisor::{RestartPolicy, Restarts};
use tokio::time::Instant;

/// Open, or closed until a moment. Knows no clock: the moment is given.
#[derive(Debug)]
pub(crate) struct Gate {
    restarts: Restarts,
    closed: Option<Closed>,
}

/// Why and for how long the gate is closed.
#[derive(Debug, Clone)]
pub(crate) struct Closed {
    pub(crate) until: Instant,
    pub(crate) error: LinkError,
}

impl Gate {
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Self {
            restarts: Restarts::new(policy),
            closed: None,
        }
    }

    /// What keeps callers out now, if anything does.
    pub(crate) fn check(&self, now: Instant) -> Option<&Closed> {
        self.closed.as_ref().filter(|closed| closed.until > now)
    }

    /// A link could not be made, or was lost after `up_for`. One failure closes nothing: a single crash
    /// should cost one call. From the second in a row on, callers wait.
    pub(crate) fn failed(&mut self, now: Instant, up_for: Duration, jitter: f64, error: LinkError) {
        let retry = self.restarts.failed(up_for, jitter);
        self.closed = (retry.attempt > 1).then(|| Closed {
            until: now + retry.after,
            error,
        });
    }

    /// An operator wants another try.
    pub(crate) fn reset(&mut self) {
        self.restarts.reset();
        self.closed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_costs_one_call_and_a_row_of_them_closes_the_gate() {
        let mut gate = Gate::new(RestartPolicy {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            stable_after: Duration::from_secs(60),
        });
        let now = Instant::now();
        let fail = |gate: &mut Gate, up_for| gate.failed(now, up_for, 1.0, LinkError::Closed);
        assert!(gate.check(now).is_none());
        fail(&mut gate, Duration::ZERO);
        assert!(gate.check(now).is_none());
        fail(&mut gate, Duration::from_secs(3));
        assert!(gate.check(now).is_some());
        assert!(gate.check(now + Duration::from_secs(2)).is_none());
        // A link that had been stable starts the row anew.
        fail(&mut gate, Duration::from_secs(100));
        assert!(gate.check(now).is_none());
        fail(&mut gate, Duration::ZERO);
        gate.reset();
        assert!(gate.check(now).is_none());
    }
}

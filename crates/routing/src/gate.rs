//! Whether callers may make links to a server now: the backoff of everything but the catalog's own link.
//!
//! One per server, however many callers there are: a server whose processes fail is not started again and again
//! because more clients ask.

use manifold_link::LinkError;
use manifold_supervisor::{RestartPolicy, Restarts};
use tokio::time::Instant;

/// Open, or closed until a moment. Knows no clock: the moment is given.
#[derive(Debug)]
pub(crate) struct Gate {
    restarts: Restarts,
    closed: Option<Closed>,
    /// When the last failure was.
    last: Option<Instant>,
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
            last: None,
        }
    }

    /// What keeps callers out now, if anything does.
    pub(crate) fn check(&self, now: Instant) -> Option<&Closed> {
        self.closed.as_ref().filter(|closed| closed.until > now)
    }

    /// What was begun at `began`, a link or the making of one, has failed. One failure closes nothing: a single crash
    /// should cost one call. From the second in a row on, callers wait. What was begun before the last failure says
    /// nothing new: links that are lost together are one failure.
    pub(crate) fn failed(&mut self, now: Instant, began: Instant, jitter: f64, error: LinkError) {
        if self.last.is_some_and(|last| began <= last) {
            return;
        }
        self.last = Some(now);
        let retry = self
            .restarts
            .failed(now.saturating_duration_since(began), jitter);
        self.closed = (retry.attempt > 1).then(|| Closed {
            until: now + retry.after,
            error,
        });
    }

    /// An operator wants another try.
    pub(crate) fn reset(&mut self) {
        self.restarts.reset();
        self.closed = None;
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_failure_costs_one_call_and_a_row_of_them_closes_the_gate() {
        let mut gate = Gate::new(RestartPolicy {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            stable_after: Duration::from_secs(60),
        });
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let fail = |gate: &mut Gate, began, now| {
            gate.failed(after(now), after(began), 1.0, LinkError::Closed);
        };
        assert!(gate.check(start).is_none());
        fail(&mut gate, 0, 1);
        assert!(gate.check(after(1)).is_none());
        fail(&mut gate, 2, 5);
        assert!(gate.check(after(5)).is_some());
        assert!(gate.check(after(7)).is_none());
        // A link that had been stable starts the row anew.
        fail(&mut gate, 6, 106);
        assert!(gate.check(after(106)).is_none());
        fail(&mut gate, 107, 108);
        assert!(gate.check(after(108)).is_some());
        gate.reset();
        assert!(gate.check(after(108)).is_none());
    }

    #[test]
    fn links_that_were_lost_together_closed_the_gate_for_everybody() {
        let mut gate = Gate::new(RestartPolicy {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            stable_after: Duration::from_secs(60),
        });
        let start = Instant::now();
        let lost = start + Duration::from_secs(5);
        for late in 0..8 {
            let now = lost + Duration::from_millis(late);
            gate.failed(now, start, 1.0, LinkError::Closed);
        }
        assert!(gate.check(lost).is_none());
    }
}

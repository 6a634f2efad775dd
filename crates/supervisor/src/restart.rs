//! When to start a child again: pure arithmetic, no clock and no dice of its own.

use std::time::Duration;

/// From this failure in a row on it is a crash loop.
const CRASH_LOOP: u32 = 5;
/// Four starts a minute at most in a crash loop.
const CRASH_LOOP_DELAY: Duration = Duration::from_secs(15);

/// How restarts are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// The delay after the first failure; it doubles with each further one.
    pub initial: Duration,
    /// No delay is longer.
    pub max: Duration,
    /// Up for this long, a child has proved itself: its next failure counts as the first.
    pub stable_after: Duration,
}

/// The failures of one server. One per server, however many clients ask for it.
#[derive(Debug, Clone)]
pub struct Restarts {
    policy: RestartPolicy,
    failures: u32,
}

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How long to wait before the next start.
    pub after: Duration,
    /// The number of failures in a row, this one included.
    pub attempt: u32,
    /// It fails again and again: worth telling the operator.
    pub crash_loop: bool,
}

// === impl Restarts ===

impl Restarts {
    /// No failures yet.
    pub fn new(policy: RestartPolicy) -> Self {
        Self {
            policy,
            failures: 0,
        }
    }

    /// The child failed after it had been up for `up_for`. `jitter` is a random number from 0 to
    /// 1; the delay is between half of the step and all of it, so that many servers that failed
    /// together do not start together.
    pub fn failed(&mut self, up_for: Duration, jitter: f64) -> Retry {
        if up_for >= self.policy.stable_after {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let crash_loop = self.failures >= CRASH_LOOP;
        let share = if jitter.is_finite() {
            jitter.clamp(0.0, 1.0)
        } else {
            0.0
        };
        let seconds = self.step().as_secs_f64() * (0.5 + share / 2.0);
        let after = Duration::try_from_secs_f64(seconds).unwrap_or(self.policy.max);
        let floor = if crash_loop {
            CRASH_LOOP_DELAY
        } else {
            Duration::ZERO
        };
        Retry {
            after: after.max(floor).min(self.policy.max),
            attempt: self.failures,
            crash_loop,
        }
    }

    /// Forgets the failures, such as when an operator asks for a restart.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The delay before jitter.
    fn step(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(31);
        self.policy
            .initial
            .saturating_mul(1 << doublings)
            .min(self.policy.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn policy(initial: f64, max: f64) -> RestartPolicy {
        RestartPolicy {
            initial: secs(initial),
            max: secs(max),
            stable_after: secs(60.0),
        }
    }

    #[test]
    fn the_default_steps() {
        let mut restarts = Restarts::new(policy(0.5, 60.0));
        let retries: Vec<Retry> = (0..9)
            .map(|_| restarts.failed(Duration::ZERO, 1.0))
            .collect();
        let after: Vec<f64> = retries
            .iter()
            .map(|retry| retry.after.as_secs_f64())
            .collect();
        assert_eq!(after, [0.5, 1.0, 2.0, 4.0, 15.0, 16.0, 32.0, 60.0, 60.0]);
        let loops: Vec<bool> = retries.iter().map(|retry| retry.crash_loop).collect();
        assert_eq!(
            loops,
            [false, false, false, false, true, true, true, true, true]
        );
        assert_eq!(retries[8].attempt, 9);
    }

    #[test]
    fn a_stable_while_starts_the_count_again() {
        let mut restarts = Restarts::new(policy(0.5, 60.0));
        for _ in 0..20 {
            restarts.failed(secs(59.9), 0.3);
        }
        let retry = restarts.failed(secs(60.0), 1.0);
        assert_eq!(
            retry,
            Retry {
                after: secs(0.5),
                attempt: 1,
                crash_loop: false
            }
        );
    }

    #[test]
    fn extreme_policies_neither_panic_nor_exceed_their_cap() {
        for (initial, max) in [
            (Duration::MAX, Duration::MAX),
            (Duration::ZERO, Duration::ZERO),
        ] {
            let policy = RestartPolicy {
                initial,
                max,
                stable_after: Duration::MAX,
            };
            let mut restarts = Restarts {
                policy,
                failures: u32::MAX,
            };
            assert!(restarts.failed(Duration::ZERO, 0.9).after <= max);
        }
        let mut restarts = Restarts::new(policy(1.0, 60.0));
        assert_eq!(restarts.failed(Duration::ZERO, f64::NAN).after, secs(0.5));
    }

    proptest! {
        #[test]
        fn delays_grow_to_the_cap_and_never_pass_it(
            initial in 0.001f64..10.0, max in 0.001f64..120.0, jitter in 0.0f64..=1.0, n in 1usize..80,
        ) {
            let mut restarts = Restarts::new(policy(initial, max));
            let mut before = Duration::ZERO;
            for attempt in 1..=n {
                let retry = restarts.failed(Duration::ZERO, jitter);
                prop_assert!(retry.after >= before);
                prop_assert!(retry.after <= secs(max));
                prop_assert_eq!(retry.attempt as usize, attempt);
                if retry.crash_loop {
                    prop_assert!(retry.after >= secs(max).min(secs(15.0)));
                }
                before = retry.after;
            }
            restarts.reset();
            prop_assert_eq!(restarts.failed(Duration::ZERO, jitter).attempt, 1);
        }
    }
}

//! How long to wait before a stream is asked for again: pure arithmetic, no clock and no dice of its own.

use std::time::Duration;

/// The first wait, where the server says nothing of it.
const FIRST: Duration = Duration::from_secs(1);
/// Doubling ends here.
const LONGEST: Duration = Duration::from_secs(60);
/// A stream that has lived for so long has proved itself.
const STABLE: Duration = Duration::from_secs(60);
/// The least and the most that a server's `retry:` can make of the first wait.
const TOLD: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(600));

/// The waits between the streams of one link.
#[derive(Debug)]
pub(crate) struct Pace {
    first: Duration,
    /// How many ends have come in a row, none after a stable while.
    ends: u32,
}

impl Pace {
    /// The server has said how long to wait at least (WHATWG HTML, server-sent events, `retry`).
    pub(crate) fn told(&mut self, retry: Duration) {
        self.first = retry.clamp(TOLD.0, TOLD.1);
    }

    /// A stream has ended that had lived for `lived`, or has not begun. Says how long to wait: the first wait,
    /// doubled with each end in a row, and up to a quarter more. `jitter` is a random number from 0 to 1.
    pub(crate) fn ended(&mut self, lived: Duration, jitter: f64) -> Duration {
        if lived >= STABLE {
            self.ends = 0;
        }
        let doublings = self.ends.min(16);
        self.ends = self.ends.saturating_add(1);
        let step = self.first.saturating_mul(1 << doublings);
        let step = step.min(LONGEST.max(self.first));
        let share = if jitter.is_finite() {
            jitter.clamp(0.0, 1.0)
        } else {
            0.0
        };
        // Never less than what the server wants.
        step + (step / 4).mul_f64(share)
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first: FIRST,
            ends: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(pace: &mut Pace, lived: &[u64]) -> Vec<f64> {
        let wait = |lived: &u64| pace.ended(Duration::from_secs(*lived), 0.0).as_secs_f64();
        lived.iter().map(wait).collect()
    }

    #[test]
    fn waits_double_up_to_a_minute_and_begin_anew_after_a_stable_one() {
        let mut pace = Pace::default();
        let lived = [0, 0, 59, 0, 0, 0, 0, 60, 0, 3600];
        let waits = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 1.0, 2.0, 1.0];
        assert_eq!(seconds(&mut pace, &lived), waits);
    }

    #[test]
    fn a_server_has_a_say_within_bounds() {
        for (retry_ms, waits) in [
            (3_000, [3.0, 6.0, 12.0]),
            (0, [0.25, 0.5, 1.0]),
            (90_000, [90.0, 90.0, 90.0]),
            (u64::MAX, [600.0, 600.0, 600.0]),
        ] {
            let mut pace = Pace::default();
            pace.told(Duration::from_millis(retry_ms));
            assert_eq!(seconds(&mut pace, &[0, 0, 0]), waits, "{retry_ms} ms");
        }
    }

    proptest! {
        #[test]
        fn no_server_is_asked_in_a_loop(
            retry_ms in prop::option::of(any::<u64>()),
            ends in prop::collection::vec((0u64..60, any::<f64>()), 1..40),
        ) {
            let mut pace = Pace::default();
            if let Some(retry) = retry_ms {
                pace.told(Duration::from_millis(retry));
            }
            let mut least = pace.first;
            for (lived, jitter) in ends {
                let wait = pace.ended(Duration::from_secs(lived), jitter);
                prop_assert!(wait >= least);
                prop_assert!(wait <= least + least / 4);
                least = (least * 2).min(LONGEST.max(pace.first));
            }
        }
    }
}

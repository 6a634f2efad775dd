//! The way out of a child, as a state machine without a clock.
//!
//! The leader is the process we started; its group are all those it started that did not leave
//! the group. A wrapper (`npx`, `sh -c`) dies of SIGTERM at once while the real server behind it
//! is still saving its work, so the time of a rung belongs to the whole group, not to the leader.

use tokio::time::Instant;

use crate::StopPolicy;

/// Where a child is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ladder {
    /// Nobody asked it to go.
    Running,
    /// Its stdin is closed.
    Closed { until: Instant },
    /// Its group got SIGTERM.
    Terminated { until: Instant },
    /// Its group got SIGKILL. The end.
    Killed,
}

/// What happens to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// It shall go.
    Stop,
    /// The leader exited, whether asked to or not.
    LeaderGone,
    /// The leader exited and no process of its group is left.
    GroupGone,
    /// The time of this rung is over.
    Deadline,
}

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    CloseStdin,
    /// SIGTERM to the group, and close stdin if it is not closed yet.
    Terminate,
    /// SIGKILL to the group.
    Kill,
}

// === impl Ladder ===

impl Ladder {
    /// When this rung is over.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Closed { until } | Self::Terminated { until } => Some(until),
            Self::Running | Self::Killed => None,
        }
    }

    /// Takes one step.
    pub(crate) fn on(&mut self, event: Event, now: Instant, policy: StopPolicy) -> Option<Order> {
        let closed = Self::Closed {
            until: now + policy.close,
        };
        let terminated = Self::Terminated {
            until: now + policy.term,
        };
        let (next, order) = match (*self, event) {
            (Self::Running, Event::Stop) => (closed, Order::CloseStdin),
            // It left unasked. What it left behind gets no more input, so no use waiting for it.
            (Self::Running, Event::LeaderGone) => (terminated, Order::Terminate),
            (Self::Closed { .. }, Event::Deadline) => (terminated, Order::Terminate),
            (Self::Terminated { .. }, Event::Deadline) => (Self::Killed, Order::Kill),
            // Nobody seems left, yet the group gets SIGKILL: looking is not proof.
            (Self::Running | Self::Closed { .. } | Self::Terminated { .. }, Event::GroupGone) => {
                (Self::Killed, Order::Kill)
            }
            (Self::Running, Event::Deadline)
            | (Self::Closed { .. } | Self::Terminated { .. }, Event::Stop | Event::LeaderGone)
            | (Self::Killed, _) => return None,
        };
        *self = next;
        Some(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const POLICY: StopPolicy = StopPolicy {
        close: Duration::from_secs(2),
        term: Duration::from_secs(3),
    };

    fn orders(events: &[Event]) -> Vec<Order> {
        let mut ladder = Ladder::Running;
        events
            .iter()
            .filter_map(|event| ladder.on(*event, Instant::now(), POLICY))
            .collect()
    }

    #[test]
    fn the_ways_out() {
        use Event::{Deadline, GroupGone, LeaderGone, Stop};
        use Order::{CloseStdin, Kill, Terminate};
        for (events, expected) in [
            (
                &[Stop, Deadline, Deadline][..],
                &[CloseStdin, Terminate, Kill][..],
            ),
            (&[Stop, LeaderGone, GroupGone], &[CloseStdin, Kill]),
            (
                &[Stop, Deadline, LeaderGone, GroupGone],
                &[CloseStdin, Terminate, Kill],
            ),
            // A grandchild outlives the leader and has the time of the rungs.
            (
                &[Stop, LeaderGone, Deadline, Deadline],
                &[CloseStdin, Terminate, Kill],
            ),
            // The leader leaves unasked.
            (&[LeaderGone, GroupGone], &[Terminate, Kill]),
            (&[LeaderGone, Stop, Deadline], &[Terminate, Kill]),
            // Asking twice changes nothing.
            (
                &[Stop, Stop, Deadline, Stop, Deadline, Stop],
                &[CloseStdin, Terminate, Kill],
            ),
        ] {
            assert_eq!(orders(events), expected, "{events:?}");
        }
    }

    #[test]
    fn asking_again_does_not_move_the_deadline() {
        let mut ladder = Ladder::Running;
        let start = Instant::now();
        ladder.on(Event::Stop, start, POLICY);
        ladder.on(Event::Stop, start + Duration::from_secs(1), POLICY);
        assert_eq!(ladder.deadline(), Some(start + POLICY.close));
    }

    proptest! {
        #[test]
        fn every_way_ends_with_one_kill(events in prop::collection::vec(prop_oneof![
            Just(Event::Stop), Just(Event::LeaderGone), Just(Event::GroupGone), Just(Event::Deadline)
        ], 0..12)) {
            let mut events = events;
            events.extend([Event::Stop, Event::Deadline, Event::Deadline]);
            let orders = orders(&events);
            prop_assert_eq!(orders.last(), Some(&Order::Kill));
            prop_assert_eq!(orders.iter().filter(|order| **order == Order::Kill).count(), 1);
            prop_assert!(orders.len() <= 3);
        }
    }
}

//! Where a link stands with its listening: pure, without a clock and without I/O.

use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;

use super::pace::Pace;

/// The largest event id that is remembered, in bytes.
const EVENT_ID: usize = 4096;

/// What has become of the streams of one link so far.
#[derive(Debug, Default)]
pub(crate) struct Course {
    state: State,
    pace: Pace,
    /// The id of the last event that had one.
    last: Option<HeaderValue>,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    /// The first stream is being asked for.
    #[default]
    First,
    /// A stream is open.
    Open { since: Instant },
    /// There is a gap.
    Gap {
        /// A stream was open before it.
        after_stream: bool,
    },
}

/// What is known to whoever asks for a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resume {
    /// There was a stream before.
    pub(crate) again: bool,
    /// The last event of it (`Last-Event-ID`).
    pub(crate) after: Option<HeaderValue>,
}

/// What an event says of the stream itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Its id. An empty one takes the ones before back.
    pub(crate) id: Option<String>,
    /// How long the server wants to be left alone after the stream.
    pub(crate) retry: Option<Duration>,
}

/// How a stream ended, or why it did not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is over for now.
    Over,
    /// There is none to be had: asking again is no use.
    Refused,
}

// === impl Course ===

impl Course {
    /// What the next stream begins with.
    pub(crate) fn resume(&self) -> Resume {
        Resume {
            again: matches!(self.state, State::Gap { after_stream: true }),
            after: self.last.clone(),
        }
    }

    /// A stream is open. Says whether something may have been missed before it: there was a gap, and no event id
    /// to make it good.
    pub(crate) fn opened(&mut self, now: Instant) -> bool {
        let gap = matches!(self.state, State::Gap { .. });
        self.state = State::Open { since: now };
        gap && self.last.is_none()
    }

    /// An event has come.
    pub(crate) fn marked(&mut self, mark: Mark) {
        if let Some(retry) = mark.retry {
            self.pace.told(retry);
        }
        if let Some(id) = mark.id {
            let fits = !id.is_empty() && id.len() <= EVENT_ID;
            let value = HeaderValue::from_bytes(id.as_bytes());
            self.last = value.ok().filter(|_| fits);
        }
    }

    /// The stream has ended, or did not begin. Says after how long the next is to be asked for, if at all.
    /// `jitter` is a random number from 0 to 1.
    pub(crate) fn ended(&mut self, end: End, now: Instant, jitter: f64) -> Option<Duration> {
        let (lived, after_stream) = match self.state {
            State::First => (Duration::ZERO, false),
            State::Open { since } => (now.saturating_duration_since(since), true),
            State::Gap { after_stream } => (Duration::ZERO, after_stream),
        };
        self.state = State::Gap { after_stream };
        match end {
            End::Over => Some(self.pace.ended(lived, jitter)),
            End::Refused => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: &str) -> Mark {
        Mark {
            id: Some(id.to_owned()),
            retry: None,
        }
    }

    fn over(course: &mut Course) -> Option<Duration> {
        course.ended(End::Over, Instant::now(), 0.0)
    }

    #[test]
    fn only_a_gap_without_ids_may_have_hidden_something() {
        let now = Instant::now();
        let mut course = Course::default();
        assert!(!course.opened(now), "there was nothing before it");
        over(&mut course);
        assert!(course.opened(now));
        course.marked(id("7"));
        over(&mut course);
        assert!(!course.opened(now), "the server can tell what came after 7");
        course.marked(id(""));
        over(&mut course);
        assert!(course.opened(now), "it has taken its ids back");

        let mut course = Course::default();
        over(&mut course);
        assert!(course.opened(now), "the first one came late");
    }

    #[test]
    fn what_a_stream_begins_with() {
        let mut course = Course::default();
        let resume = |again, after: Option<&'static str>| Resume {
            again,
            after: after.map(HeaderValue::from_static),
        };
        assert_eq!(course.resume(), resume(false, None));
        over(&mut course);
        assert_eq!(course.resume(), resume(false, None), "none was open yet");
        course.opened(Instant::now());
        course.marked(id("a-1"));
        course.marked(Mark::default());
        over(&mut course);
        assert_eq!(course.resume(), resume(true, Some("a-1")));
        over(&mut course);
        assert_eq!(course.resume(), resume(true, Some("a-1")), "it failed");
    }

    #[test]
    fn an_id_that_no_header_can_carry_is_none() {
        for (given, kept) in [
            ("x".repeat(EVENT_ID), true),
            ("é".to_owned(), true),
            ("x".repeat(EVENT_ID + 1), false),
            ("a\u{7f}b".to_owned(), false),
        ] {
            let mut course = Course::default();
            course.marked(id("1"));
            course.marked(id(&given));
            assert_eq!(course.resume().after.is_some(), kept, "{given}");
        }
    }

    #[test]
    fn a_refusal_is_final_and_an_end_is_not() {
        let start = Instant::now();
        let mut course = Course::default();
        let later = |seconds| start + Duration::from_secs(seconds);
        course.opened(start);
        let wait = course.ended(End::Over, later(1), 0.0);
        assert_eq!(wait, Some(Duration::from_secs(1)));
        let wait = course.ended(End::Over, later(100), 0.0);
        assert_eq!(wait, Some(Duration::from_secs(2)), "a gap is no life");
        course.opened(later(100));
        course.marked(Mark {
            id: None,
            retry: Some(Duration::from_secs(5)),
        });
        let wait = course.ended(End::Over, later(160), 0.0);
        assert_eq!(wait, Some(Duration::from_secs(5)));
        assert_eq!(course.ended(End::Refused, later(160), 0.0), None);
    }
}

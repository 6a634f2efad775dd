//! Listening for changes of a server's lists outside of calls: one stream per link, asked for again with backoff
//! when it ends.
//!
//! What is decided is pure ([`Course`], [`pace`]); an [`Ear`] knows one era's wire; [`keep_listening`] drives them.

mod course;
mod pace;
mod subscription;
mod watched;

use tokio::{sync::watch, time::Instant};
use tracing::debug;

pub(crate) use course::{End, Mark, Resume};
pub(crate) use subscription::Subscription;
pub(crate) use watched::Watched;

use crate::Notices;
use course::Course;

/// One way of hearing what a server says by itself. The notifications are counted where they arrive; only what
/// concerns the stream comes through here.
pub(crate) trait Ear: Send {
    /// Opens a stream. The server may take as long as it likes.
    fn open(&mut self, resume: Resume) -> impl Future<Output = Result<(), End>> + Send;

    /// The next mark on the open stream, or its end.
    fn hear(&mut self) -> impl Future<Output = Result<Mark, End>> + Send;
}

/// Listens until the server refuses; the caller ends it with the link. After a gap in which something may have
/// been missed, each watched list counts as changed.
pub(crate) async fn keep_listening(
    mut ear: impl Ear,
    watched: Watched,
    notices: watch::Sender<Notices>,
) {
    let mut course = Course::default();
    loop {
        let end = follow(&mut ear, &mut course, watched, &notices).await;
        let Some(wait) = course.ended(end, Instant::now(), jitter()) else {
            debug!("the server does not announce changes by itself");
            return;
        };
        tokio::time::sleep(wait).await;
    }
}

/// Follows one stream to its end.
async fn follow(
    ear: &mut impl Ear,
    course: &mut Course,
    watched: Watched,
    notices: &watch::Sender<Notices>,
) -> End {
    if let Err(end) = ear.open(course.resume()).await {
        return end;
    }
    if course.opened(Instant::now()) {
        notices.send_if_modified(|notices| notices.suspect(watched));
    }
    loop {
        match ear.hear().await {
            Ok(mark) => course.marked(mark),
            Err(end) => return end,
        }
    }
}

/// A random number from 0 to 1.
fn jitter() -> f64 {
    let bits = u32::try_from(uuid::Uuid::new_v4().as_u128() >> 96).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, time::Duration};

    use super::*;

    /// One stream of a script: how long it takes to open, what comes then, and when.
    struct Stream {
        opens: Result<(), End>,
        marks: Vec<Mark>,
        lives: Duration,
    }

    /// Plays a script, and tells when each stream was asked for, and with what. After the last one it refuses.
    struct Script {
        streams: VecDeque<Stream>,
        current: Option<Stream>,
        asked: Vec<(Duration, Resume)>,
        start: Instant,
    }

    impl Ear for &mut Script {
        async fn open(&mut self, resume: Resume) -> Result<(), End> {
            self.asked.push((self.start.elapsed(), resume));
            self.current = self.streams.pop_front();
            match &self.current {
                Some(stream) => stream.opens,
                None => Err(End::Refused),
            }
        }

        async fn hear(&mut self) -> Result<Mark, End> {
            let stream = self.current.as_mut().unwrap();
            if stream.marks.is_empty() {
                tokio::time::sleep(stream.lives).await;
                return Err(End::Over);
            }
            Ok(stream.marks.remove(0))
        }
    }

    const WATCHED: Watched = Watched {
        tools: true,
        prompts: false,
        resources: true,
    };

    fn stream(lives: u64) -> Stream {
        Stream {
            opens: Ok(()),
            marks: Vec::new(),
            lives: Duration::from_millis(lives),
        }
    }

    fn with_id(mut stream: Stream, id: &str) -> Stream {
        stream.marks.push(Mark {
            id: Some(id.to_owned()),
            retry: None,
        });
        stream
    }

    fn failure() -> Stream {
        Stream {
            opens: Err(End::Over),
            ..stream(0)
        }
    }

    async fn play(streams: Vec<Stream>) -> (Vec<(Duration, Resume)>, Notices) {
        let mut script = Script {
            streams: streams.into(),
            current: None,
            asked: Vec::new(),
            start: Instant::now(),
        };
        let notices = watch::Sender::default();
        keep_listening(&mut script, WATCHED, notices.clone()).await;
        (script.asked, *notices.borrow())
    }

    /// The waits between the end of a stream and the next.
    fn waits(asked: &[(Duration, Resume)], lived: Duration) -> Vec<f64> {
        asked
            .windows(2)
            .map(|pair| (pair[1].0 - pair[0].0 - lived).as_secs_f64())
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_closes_at_once_is_asked_less_and_less() {
        let lived = Duration::from_millis(100);
        let (asked, notices) = play((0..10).map(|_| stream(100)).collect()).await;
        assert_eq!(asked.len(), 11);
        let mut least = 1.0;
        for wait in waits(&asked, lived) {
            assert!(wait >= least && wait <= least * 1.25 + 0.01, "{wait}");
            least = f64::min(least * 2.0, 60.0);
        }
        // Nine gaps were followed by a stream.
        assert_eq!(
            (notices.tools, notices.prompts, notices.resources),
            (9, 0, 9)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_with_ids_is_believed() {
        let streams = vec![with_id(stream(10), "a"), stream(10), failure(), stream(10)];
        let (asked, notices) = play(streams).await;
        let after: Vec<_> = asked
            .iter()
            .map(|(_, resume)| resume.after.as_ref().and_then(|id| id.to_str().ok()))
            .collect();
        assert_eq!(after, [None, Some("a"), Some("a"), Some("a"), Some("a")]);
        assert_eq!(notices, Notices::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_stream_clears_the_record() {
        let (asked, _) = play(vec![failure(), failure(), stream(60_000), stream(0)]).await;
        let last = asked[3].0 - asked[2].0 - Duration::from_secs(60);
        assert!(last < Duration::from_secs(2), "{last:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_ends_it_at_once() {
        let (asked, notices) = play(Vec::new()).await;
        assert_eq!(asked.len(), 1);
        assert_eq!(notices, Notices::default());
    }
}

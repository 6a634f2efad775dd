//! What a child says beside the protocol: its stderr, and lines on stdout that are no message.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

use crate::clean::clean;

const MAX_LINES: usize = 200;
const MAX_BYTES: usize = 64 * 1024;
const MAX_LINE: usize = 4 * 1024;
const READ: usize = 16 * 1024;
const CUT: &str = " … (cut)";

/// The last lines of one child, at most 200 of them and 64 KiB, each of at most 4 KiB.
///
/// Clones are the same log. It outlives the child: why it died stands in its last lines.
#[derive(Debug, Clone)]
pub struct ChildLog {
    shared: Arc<Shared>,
}

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The child's stderr: logs, which are not errors.
    Stderr,
    /// A line on its stdout that was no message.
    StdoutNoise,
}

/// One line, fit to be shown: no escape sequences, no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Counts from 1 for each child, without gaps.
    pub number: u64,
    /// When it was read.
    pub at: SystemTime,
    /// Where it came from.
    pub source: Source,
    /// The text, without its end.
    pub text: String,
}

#[derive(Debug)]
struct Shared {
    label: String,
    stderr_lines: AtomicU64,
    noise_lines: AtomicU64,
    ring: Mutex<Ring>,
    /// The number of the last line.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<LogLine>,
    bytes: usize,
    last: u64,
    /// The stderr line that has no end yet.
    open: OpenLine,
}

#[derive(Debug, Default)]
enum OpenLine {
    #[default]
    Empty,
    Growing(Vec<u8>),
    /// Over the cap: its start is in the ring, the rest is dropped.
    Cut,
}

// === impl ChildLog ===

impl ChildLog {
    /// An empty log; `label` is the field `server` of its log events.
    pub(crate) fn new(label: String) -> Self {
        Self {
            shared: Arc::new(Shared {
                label,
                stderr_lines: AtomicU64::new(0),
                noise_lines: AtomicU64::new(0),
                ring: Mutex::default(),
                newest: watch::Sender::new(0),
            }),
        }
    }

    /// Notes a line on stdout that was no message. The first one of a child is logged as a
    /// warning, since it is a fault of the server that its author should know of.
    pub fn note_noise(&self, line: &[u8]) {
        let text = fit(line);
        if self.shared.noise_lines.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                target: "manifold::noise",
                server = %self.shared.label,
                line = %text,
                "the server writes to stdout what is no message; such lines are skipped, and the \
                 next ones are only counted"
            );
        }
        let newest = self.lock().push(Source::StdoutNoise, text);
        self.shared.newest.send_replace(newest);
    }

    /// How many lines came on stderr.
    pub fn stderr_lines(&self) -> u64 {
        self.shared.stderr_lines.load(Ordering::Relaxed)
    }

    /// How many lines on stdout were no message.
    pub fn noise_lines(&self) -> u64 {
        self.shared.noise_lines.load(Ordering::Relaxed)
    }

    /// The last `count` lines, the oldest first. A line of stderr that has no end yet counts, with
    /// the number it will have.
    pub fn tail(&self, count: usize) -> Vec<LogLine> {
        let ring = self.lock();
        let open = ring.open();
        let skip = (ring.lines.len() + open.iter().len()).saturating_sub(count);
        ring.lines.iter().cloned().chain(open).skip(skip).collect()
    }

    /// The whole lines after number `number` that are still kept, the oldest first.
    pub fn after(&self, number: u64) -> Vec<LogLine> {
        let ring = self.lock();
        ring.lines
            .iter()
            .filter(|line| line.number > number)
            .cloned()
            .collect()
    }

    /// Waits for a line after number `number`; with [`ChildLog::after`] this follows the log.
    /// Never completes once the child is gone. Dropping the future is harmless.
    pub async fn grown(&self, number: u64) {
        let mut newest = self.shared.newest.subscribe();
        // The sender lives as long as we do.
        if newest.wait_for(|newest| *newest > number).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Drains `stderr` into the log until it ends, as fast as it comes.
    pub(crate) async fn drain(&self, mut stderr: impl AsyncRead + Unpin) {
        let mut chunk = Vec::with_capacity(READ);
        loop {
            match stderr.read_buf(&mut chunk).await {
                Ok(0) => break,
                Ok(_) => {
                    self.take(&chunk);
                    chunk.clear();
                }
                Err(error) => {
                    tracing::debug!(server = %self.shared.label, %error, "reading stderr failed");
                    break;
                }
            }
        }
        // The end of the stream ends the line.
        self.take(b"\n");
    }

    fn take(&self, mut chunk: &[u8]) {
        let mut ring = self.lock();
        while let Some(end) = memchr(b'\n', chunk) {
            let (rest, next) = chunk.split_at(end);
            self.grow(&mut ring, rest);
            chunk = next.get(1..).unwrap_or_default();
            if let OpenLine::Growing(line) = std::mem::take(&mut ring.open) {
                self.stderr_line(&mut ring, fit(&line));
            }
        }
        self.grow(&mut ring, chunk);
        let newest = ring.last;
        drop(ring);
        self.shared.newest.send_if_modified(|last| {
            let grew = *last < newest;
            *last = newest.max(*last);
            grew
        });
    }

    /// Adds to the line that has no end yet.
    fn grow(&self, ring: &mut Ring, part: &[u8]) {
        if part.is_empty() {
            return;
        }
        let line = match &mut ring.open {
            OpenLine::Cut => return,
            OpenLine::Growing(line) => line,
            open @ OpenLine::Empty => {
                *open = OpenLine::Growing(Vec::new());
                let OpenLine::Growing(line) = open else {
                    return;
                };
                line
            }
        };
        let room = (MAX_LINE + 1).saturating_sub(line.len());
        line.extend_from_slice(part.get(..room).unwrap_or(part));
        if line.len() > MAX_LINE {
            let text = fit(line);
            ring.open = OpenLine::Cut;
            self.stderr_line(ring, text);
        }
    }

    fn stderr_line(&self, ring: &mut Ring, text: String) {
        self.shared.stderr_lines.fetch_add(1, Ordering::Relaxed);
        if text.is_empty() {
            return;
        }
        tracing::debug!(target: "manifold::stderr", server = %self.shared.label, line = %text);
        ring.push(Source::Stderr, text);
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.shared
            .ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Ring ===

impl Ring {
    /// Adds a line, drops the oldest over the bounds, and returns the number of the new one.
    fn push(&mut self, source: Source, text: String) -> u64 {
        self.last += 1;
        self.bytes += text.len();
        self.lines.push_back(LogLine {
            number: self.last,
            at: SystemTime::now(),
            source,
            text,
        });
        while self.lines.len() > MAX_LINES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.text.len();
        }
        self.last
    }

    fn open(&self) -> Option<LogLine> {
        let OpenLine::Growing(line) = &self.open else {
            return None;
        };
        let text = fit(line);
        let (number, at) = (self.last + 1, SystemTime::now());
        (!text.is_empty()).then_some(LogLine {
            number,
            at,
            source: Source::Stderr,
            text,
        })
    }
}

/// Cleans a line and cuts it to the cap.
fn fit(line: &[u8]) -> String {
    let cut = line.len() > MAX_LINE;
    let mut text = clean(line.get(..MAX_LINE).unwrap_or(line));
    // Replacement characters are longer than the bytes they stand for.
    let end = text.floor_char_boundary(MAX_LINE);
    let cut = cut || end < text.len();
    text.truncate(end);
    if cut {
        text.push_str(CUT);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn texts(lines: &[LogLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    fn log() -> ChildLog {
        ChildLog::new("test".to_owned())
    }

    #[tokio::test]
    async fn stderr_and_noise_share_the_ring_in_order() {
        let log = log();
        log.drain(&b"one\r\n\n\x1b[31mtwo\x1b[0m\nlast"[..]).await;
        log.note_noise(b"banner");
        log.drain(&b"three\n"[..]).await;
        assert_eq!(
            texts(&log.tail(10)),
            ["one", "two", "last", "banner", "three"]
        );
        assert_eq!(texts(&log.tail(2)), ["banner", "three"]);
        assert_eq!(log.tail(2)[0].source, Source::StdoutNoise);
        assert_eq!(
            (log.stderr_lines(), log.noise_lines()),
            (4, 1),
            "empty lines do not count"
        );
        let numbers: Vec<u64> = log.tail(10).iter().map(|line| line.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
    }

    #[tokio::test]
    async fn a_mebibyte_without_a_newline_stays_bounded() {
        let log = log();
        log.drain(&vec![b'x'; 1 << 20][..]).await;
        let tail = log.tail(10);
        assert_eq!(tail.len(), 1);
        assert_eq!(tail[0].text.len(), MAX_LINE + CUT.len());
        assert!(tail[0].text.ends_with(CUT));
    }

    #[test]
    fn a_line_without_an_end_is_seen_and_then_replaced() {
        let log = log();
        log.take(b"Password: ");
        assert_eq!(texts(&log.tail(1)), ["Password:"]);
        assert_eq!(log.after(0), []);
        log.take(b"ok\nnext");
        assert_eq!(texts(&log.tail(5)), ["Password: ok", "next"]);
        assert_eq!(log.tail(5)[1].number, 2);
    }

    #[tokio::test]
    async fn the_ring_is_bounded_by_lines_and_by_bytes() {
        let log = log();
        for number in 0..1000 {
            log.take(format!("{number}\n").as_bytes());
        }
        assert_eq!(log.tail(usize::MAX).len(), MAX_LINES);
        assert_eq!(texts(&log.tail(1)), ["999"]);
        for _ in 0..100 {
            log.take(&[&[0xff; 5000][..], b"\n"].concat());
        }
        let bytes: usize = log
            .tail(usize::MAX)
            .iter()
            .map(|line| line.text.len())
            .sum();
        assert!(bytes <= MAX_BYTES && bytes > MAX_BYTES / 2, "{bytes}");
    }

    #[tokio::test]
    async fn a_follower_misses_nothing() {
        let log = log();
        log.take(b"one\ntwo\n");
        let seen = log.after(1);
        assert_eq!(texts(&seen), ["two"]);
        let (grown, ()) = tokio::join!(
            tokio::time::timeout(Duration::from_secs(10), log.grown(2)),
            async { log.note_noise(b"three") }
        );
        grown.unwrap();
        assert_eq!(texts(&log.after(2)), ["three"]);
    }

    proptest! {
        #[test]
        fn chunking_does_not_matter(
            stream in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), any::<u8>()], 0..200),
            size in 1usize..50,
        ) {
            let (whole, chunked) = (log(), log());
            whole.take(&stream);
            for chunk in stream.chunks(size) {
                chunked.take(chunk);
            }
            let (whole, chunked) = (whole.tail(999), chunked.tail(999));
            prop_assert_eq!(texts(&whole), texts(&chunked));
        }
    }
}

//! Bytes in, lines out: where a child's stdout is cut.
//!
//! The only line end is the byte `\n`. U+2028, U+2029, U+0085 and the like are text that a JSON
//! string may hold as it is. Pure: no I/O, so every way of chunking can be tested.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

/// How much room a read is offered at least.
const READ: usize = 64 * 1024;
/// A line from this size on gets its buffer to itself, so that no later read keeps it alive.
const LARGE: usize = 256 * 1024;
/// Lines up to this are copied out of the buffer.
const SMALL: usize = 4 * 1024;
/// How much of a line over the limit is kept, for the one who has to explain it.
const HEAD: usize = 4 * 1024;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One line of a child's stdout, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line within the limit, never empty. It shares the buffer it was read into: copy what
    /// is to be kept for long.
    Whole(Bytes),
    /// A line over the limit. It was skipped; the next line is read as usual.
    TooLong {
        /// Its first 4 KiB.
        head: Bytes,
        /// Its length in bytes.
        length: u64,
    },
}

/// Cuts a stream of bytes into lines.
#[derive(Debug)]
pub(crate) struct Splitter {
    buffer: BytesMut,
    /// How far `buffer` is known to hold no line end.
    scanned: usize,
    limit: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Before the first byte of text: a byte order mark may come.
    Start,
    Line,
    /// Inside a line that is over the limit; none of it is in the buffer.
    Skipping {
        head: Vec<u8>,
        length: u64,
        last: u8,
    },
}

// === impl Splitter ===

impl Splitter {
    /// `limit` is the longest line, in bytes without its end.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            scanned: 0,
            limit,
            state: State::Start,
        }
    }

    /// Where to read the next bytes to; it has room for at least 64 KiB.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < READ {
            self.buffer.reserve(READ);
        }
        &mut self.buffer
    }

    /// The next whole line that has been read.
    pub(crate) fn next(&mut self) -> Option<Line> {
        loop {
            self.cut_mark();
            let fresh = self.buffer.get(self.scanned..).unwrap_or_default();
            let Some(offset) = memchr(b'\n', fresh) else {
                self.scanned = self.buffer.len();
                self.bound();
                return None;
            };
            let raw = self.take(self.scanned + offset);
            if let Some(line) = self.complete(raw) {
                return Some(line);
            }
        }
    }

    /// The line that the end of the stream ends. Call it when [`Splitter::next`] has no more.
    pub(crate) fn finish(&mut self) -> Option<Line> {
        self.cut_mark();
        let rest = self.buffer.split().freeze();
        self.scanned = 0;
        self.complete(rest)
    }

    fn cut_mark(&mut self) {
        if matches!(self.state, State::Start) && self.buffer.len() >= BOM.len() {
            if self.buffer.starts_with(BOM) {
                drop(self.buffer.split_to(BOM.len()));
                self.scanned = 0;
            }
            self.state = State::Line;
        }
    }

    /// Takes the line in front, `length` bytes and its end.
    fn take(&mut self, length: usize) -> Bytes {
        self.scanned = 0;
        if length <= SMALL {
            // Shared, it would keep the buffer from being used again: a new one is dearer than the copy.
            let line = Bytes::copy_from_slice(self.buffer.get(..length).unwrap_or_default());
            self.buffer.advance(length + 1);
            return line;
        }
        let mut line = self.buffer.split_to(length + 1);
        line.truncate(length);
        if length >= LARGE {
            // What follows moves out, so the large buffer dies with the line.
            let mut small = BytesMut::with_capacity(READ.max(self.buffer.len()));
            small.extend_from_slice(&self.buffer);
            self.buffer = small;
        }
        line.freeze()
    }

    /// Judges a line whose last part is `raw`.
    fn complete(&mut self, raw: Bytes) -> Option<Line> {
        match std::mem::replace(&mut self.state, State::Line) {
            State::Skipping {
                mut head,
                length,
                last,
            } => {
                extend_head(&mut head, &raw);
                let last = raw.last().copied().unwrap_or(last);
                let length = length + raw.len() as u64 - u64::from(last == b'\r');
                head.truncate(usize::try_from(length).unwrap_or(HEAD));
                Some(Line::TooLong {
                    head: head.into(),
                    length,
                })
            }
            State::Start | State::Line => {
                let text = trim_end(raw);
                if text.is_empty() {
                    None
                } else if text.len() > self.limit {
                    Some(Line::TooLong {
                        head: head(&text),
                        length: text.len() as u64,
                    })
                } else {
                    Some(Line::Whole(text))
                }
            }
        }
    }

    /// Keeps an unfinished line from growing past the limit.
    fn bound(&mut self) {
        let Some(&last) = self.buffer.last() else {
            return;
        };
        match &mut self.state {
            State::Skipping {
                head,
                length,
                last: before,
            } => {
                extend_head(head, &self.buffer);
                *length += self.buffer.len() as u64;
                *before = last;
                self.buffer.clear();
                self.scanned = 0;
            }
            // One more than the limit may yet be a `\r` that is cut.
            State::Line if self.buffer.len() > self.limit.saturating_add(1) => {
                let mut head = Vec::new();
                extend_head(&mut head, &self.buffer);
                self.state = State::Skipping {
                    head,
                    length: self.buffer.len() as u64,
                    last,
                };
                self.buffer = BytesMut::with_capacity(READ);
                self.scanned = 0;
            }
            State::Start | State::Line => {}
        }
    }
}

/// The start of a line, in memory of its own.
fn head(line: &[u8]) -> Bytes {
    Bytes::copy_from_slice(line.get(..HEAD).unwrap_or(line))
}

fn extend_head(head: &mut Vec<u8>, part: &[u8]) {
    let room = HEAD.saturating_sub(head.len());
    head.extend_from_slice(part.get(..room).unwrap_or(part));
}

fn trim_end(mut line: Bytes) -> Bytes {
    if line.last() == Some(&b'\r') {
        line.truncate(line.len() - 1);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(limit: usize, chunks: &[&[u8]]) -> Vec<Line> {
        let mut splitter = Splitter::new(limit);
        let mut lines = Vec::new();
        for chunk in chunks {
            splitter.room().extend_from_slice(chunk);
            lines.extend(std::iter::from_fn(|| splitter.next()));
        }
        lines.extend(splitter.finish());
        assert_eq!(splitter.finish(), None, "the end is told once");
        lines
    }

    fn whole(text: &[u8]) -> Line {
        Line::Whole(Bytes::copy_from_slice(text))
    }

    /// What the splitter should do, written the slow and obvious way.
    fn oracle(limit: usize, stream: &[u8]) -> Vec<Line> {
        let stream = stream.strip_prefix(BOM).unwrap_or(stream);
        stream
            .split(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.is_empty())
            .map(|line| match line.len() > limit {
                false => whole(line),
                true => Line::TooLong {
                    head: head(line),
                    length: line.len() as u64,
                },
            })
            .collect()
    }

    #[test]
    fn lines_are_cut_at_newlines_alone() {
        for (stream, expected) in [
            (&b"a\nb\n"[..], vec![whole(b"a"), whole(b"b")]),
            (b"a\r\nb\r\n", vec![whole(b"a"), whole(b"b")]),
            (
                b"\xEF\xBB\xBFa\n\xEF\xBB\xBFb\n",
                vec![whole(b"a"), whole(b"\xEF\xBB\xBFb")],
            ),
            (b"\n\r\n\na\n\n", vec![whole(b"a")]),
            (b"a\nlast", vec![whole(b"a"), whole(b"last")]),
            (b"a\rb\n", vec![whole(b"a\rb")]),
            (b"", vec![]),
            (b"\xEF\xBB\xBF", vec![]),
            (b"\xEF\xBB\xBF\na\n", vec![whole(b"a")]),
        ] {
            assert_eq!(split(100, &[stream]), expected, "{stream:?}");
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            assert_eq!(split(100, &bytes), expected, "{stream:?}");
        }
        let text = "a\u{2028}b\u{2029}c\u{85}d\u{b}\u{c}e\u{1F600}".as_bytes();
        assert_eq!(split(100, &[text, b"\n"]), [whole(text)]);
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_reading_goes_on() {
        let long = vec![b'x'; 100_000];
        let lines = split(10, &[b"0123456789\n0123456789a\n", &long, b"\r\n", b"ok\n"]);
        assert_eq!(
            lines,
            [
                whole(b"0123456789"),
                Line::TooLong {
                    head: Bytes::from_static(b"0123456789a"),
                    length: 11
                },
                Line::TooLong {
                    head: Bytes::from(vec![b'x'; HEAD]),
                    length: 100_000
                },
                whole(b"ok"),
            ]
        );
    }

    #[test]
    fn a_skipped_line_takes_no_memory() {
        let mut splitter = Splitter::new(1024);
        for _ in 0..1000 {
            splitter.room().extend_from_slice(&[b'x'; 60_000]);
            assert_eq!(splitter.next(), None);
            assert!(
                splitter.buffer.capacity() <= 4 * READ,
                "{}",
                splitter.buffer.capacity()
            );
        }
        assert!(
            matches!(
                splitter.finish(),
                Some(Line::TooLong {
                    length: 60_000_000,
                    ..
                })
            ),
            "told at the end"
        );
    }

    #[test]
    fn the_buffer_is_small_again_after_a_large_line() {
        let mut splitter = Splitter::new(16 << 20);
        for _ in 0..160 {
            splitter.room().extend_from_slice(&[b'x'; 50_000]);
            assert_eq!(splitter.next(), None);
        }
        splitter.room().extend_from_slice(b"\nnext\n");
        assert!(matches!(splitter.next(), Some(Line::Whole(line)) if line.len() == 8_000_000));
        assert_eq!(splitter.next(), Some(whole(b"next")));
        assert!(splitter.room().capacity() <= 4 * READ);
    }

    #[test]
    fn an_unfinished_line_is_scanned_once() {
        let mut splitter = Splitter::new(1 << 20);
        splitter.room().extend_from_slice(&[b'x'; 5000]);
        assert_eq!((splitter.next(), splitter.scanned), (None, 5000));
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_lines(
            pieces in prop::collection::vec(prop_oneof![
                Just(b"\n".to_vec()), Just(b"\r".to_vec()), Just(b"\r\n".to_vec()),
                Just(BOM.to_vec()), Just("\u{2028}".into()), prop::collection::vec(any::<u8>(), 0..12),
            ], 0..24),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            limit in 0usize..12,
        ) {
            let stream = pieces.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(split(limit, &chunks), oracle(limit, &stream));
        }

        #[test]
        fn byte_by_byte_gives_the_same_lines(stream in prop::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..64,
        ), limit in 0usize..8) {
            let chunks: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(split(limit, &chunks), oracle(limit, &stream));
        }
    }
}

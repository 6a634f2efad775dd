//! Reading events, in pieces of any size, within a bound.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

/// One event that was dispatched, or that only set an id or a retry time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// `event`, empty for the default.
    pub event: String,
    /// `data`, its lines joined by line feeds; `None` when there was no `data` line.
    pub data: Option<Bytes>,
    /// `id`.
    pub id: Option<String>,
    /// `retry`, in milliseconds.
    pub retry: Option<u64>,
}

/// Why a stream can't be read on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SseError {
    /// One event is larger than the limit.
    #[error("an event is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// A parser that is fed with the pieces of a stream. It holds at most one event plus one piece.
#[derive(Debug)]
pub struct SseParser {
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
    /// The last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    at_start: bool,
    event: SseEvent,
    /// The lines of `data` from the second one on.
    more: BytesMut,
    size: usize,
    limit: usize,
}

impl SseParser {
    /// A parser for a stream whose events may be up to `limit` bytes large.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            after_cr: false,
            at_start: true,
            event: SseEvent::default(),
            more: BytesMut::new(),
            size: 0,
            limit,
        }
    }

    /// Takes the next piece of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// The next whole event; `None` when more of the stream is needed.
    ///
    /// # Errors
    /// When an event is over the limit. The stream can't be read on then.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, SseError> {
        while let Some(line) = self.line()? {
            if line.is_empty() {
                self.size = 0;
                let mut event = std::mem::take(&mut self.event);
                if !self.more.is_empty() {
                    event.data = Some(self.more.split().freeze());
                }
                if event != SseEvent::default() {
                    return Ok(Some(event));
                }
                continue;
            }
            self.size += line.len();
            if self.size > self.limit {
                return Err(SseError::TooLarge { limit: self.limit });
            }
            self.field(line);
        }
        Ok(None)
    }

    /// Takes one line, without its end.
    fn line(&mut self) -> Result<Option<Bytes>, SseError> {
        if self.after_cr && !self.buffer.is_empty() {
            if self.buffer.first() == Some(&b'\n') {
                self.buffer.advance(1);
            }
            self.after_cr = false;
        }
        let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(found) = memchr::memchr2(b'\n', b'\r', unsearched) else {
            self.searched = self.buffer.len();
            if self.size + self.searched > self.limit.saturating_add(16) {
                return Err(SseError::TooLarge { limit: self.limit });
            }
            return Ok(None);
        };
        let mut line = self.buffer.split_to(self.searched + found).freeze();
        self.searched = 0;
        self.after_cr = self.buffer.first() == Some(&b'\r');
        self.buffer.advance(1);
        if std::mem::take(&mut self.at_start) && line.starts_with(b"\xef\xbb\xbf") {
            line.advance(3);
        }
        Ok(Some(line))
    }

    fn field(&mut self, line: Bytes) {
        let (name, value) = match memchr::memchr(b':', &line) {
            // A comment.
            Some(0) => return,
            Some(colon) => {
                let value = line.slice(colon + 1..);
                let value = match value.first() {
                    Some(b' ') => value.slice(1..),
                    _ => value,
                };
                (line.slice(..colon), value)
            }
            None => (line, Bytes::new()),
        };
        match name.as_ref() {
            b"data" => {
                // One line, the usual case, is taken as it is; only more of them are put together.
                match self.event.data.take() {
                    None if self.more.is_empty() => self.event.data = Some(value),
                    first => {
                        self.more.extend_from_slice(&first.unwrap_or_default());
                        self.more.extend_from_slice(b"\n");
                        self.more.extend_from_slice(&value);
                    }
                }
            }
            b"event" => self.event.event = String::from_utf8_lossy(&value).into_owned(),
            b"id" if !value.contains(&0) => {
                self.event.id = Some(String::from_utf8_lossy(&value).into_owned());
            }
            b"retry" => {
                self.event.retry = std::str::from_utf8(&value)
                    .ok()
                    .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                    .and_then(|digits| digits.parse().ok());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sse::{comment, message};

    fn read(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::new(1024);
        let mut events = Vec::new();
        for piece in pieces {
            parser.push(piece);
            while let Some(event) = parser.next_event().unwrap() {
                events.push(event);
            }
        }
        events
    }

    fn data(text: &'static str) -> SseEvent {
        SseEvent {
            data: Some(Bytes::from_static(text.as_bytes())),
            ..SseEvent::default()
        }
    }

    /// What servers send, in the dialects of the field.
    const STREAM: &str = "\u{feff}id: X_1\ndata: \n\n: hello\n\n:\r\n\r\nevent: message\r\ndata: {\"a\":1}\r\n\r\n\
        data: \nid: 0\nretry: 3000\n\nevent: message\ndata:{\"b\":\ndata: 2}\n\ndata\rdata: \u{2028}x\r\rnothing\n\nid: unfinished\n";

    fn expected() -> Vec<SseEvent> {
        vec![
            SseEvent {
                id: Some("X_1".to_owned()),
                ..data("")
            },
            SseEvent {
                event: "message".to_owned(),
                ..data("{\"a\":1}")
            },
            SseEvent {
                id: Some("0".to_owned()),
                retry: Some(3000),
                ..data("")
            },
            SseEvent {
                event: "message".to_owned(),
                ..data("{\"b\":\n2}")
            },
            data("\n\u{2028}x"),
        ]
    }

    #[test]
    fn reads_every_dialect_split_at_every_byte() {
        let bytes = STREAM.as_bytes();
        assert_eq!(read(&[bytes]), expected());
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(read(&[head, tail]), expected(), "split at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&single), expected());
    }

    #[test]
    fn an_event_over_the_limit_is_refused_before_it_is_held() {
        for line in ["data: ", ""] {
            let mut parser = SseParser::new(100);
            parser.push(line.as_bytes());
            let refused = (0..100).any(|_| {
                parser.push(&[b'x'; 10]);
                parser.next_event().is_err()
            });
            assert!(refused);
            assert!(parser.buffer.len() <= 200);
        }
        // Many small lines of one event count together.
        let mut parser = SseParser::new(100);
        let refused = (0..100).any(|_| {
            parser.push(b"data: xxxxx\n");
            parser.next_event().is_err()
        });
        assert!(refused);
    }

    proptest! {
        #[test]
        fn messages_survive_the_stream(texts in proptest::collection::vec("[^\r\n]*", 1..5), cut in 1..40_usize) {
            let mut stream = Vec::new();
            for text in &texts {
                stream.extend_from_slice(&message(text.as_bytes()));
                stream.extend_from_slice(&comment());
            }
            let mut parser = SseParser::new(1 << 20);
            let mut out = Vec::new();
            for piece in stream.chunks(cut) {
                parser.push(piece);
                while let Some(event) = parser.next_event().unwrap() {
                    out.push(String::from_utf8(event.data.unwrap().to_vec()).unwrap());
                }
            }
            prop_assert_eq!(out, texts);
        }
    }
}

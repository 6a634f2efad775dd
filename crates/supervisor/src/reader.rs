//! Reads a child's stdout line by line.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;

use crate::splitter::{Line, Splitter};

/// The lines a child writes.
///
/// A leading byte order mark is cut, a `\r` at the end of a line too, empty lines are skipped,
/// and a last line counts without its newline. One line over the limit costs that line alone.
#[derive(Debug)]
pub struct LineReader<R = pipe::Receiver> {
    input: R,
    splitter: Splitter,
    ended: bool,
}

// === impl LineReader ===

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Reads lines of at most `line_limit` bytes from `input`.
    pub fn new(input: R, line_limit: usize) -> Self {
        Self {
            input,
            splitter: Splitter::new(line_limit),
            ended: false,
        }
    }

    /// The next line, or `None` once nobody can write any more.
    ///
    /// Dropping the future loses nothing: what was read so far waits for the next call.
    ///
    /// # Errors
    /// Whatever reading gave. Reading again is allowed.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.splitter.next() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(self.splitter.finish());
            }
            self.ended = self.input.read_buf(self.splitter.room()).await? == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn a_dropped_read_loses_nothing() {
        let (mut child, ours) = tokio::io::duplex(64);
        let mut reader = LineReader::new(ours, 100);
        child.write_all(b"first ha").await.unwrap();
        {
            let next = reader.next();
            tokio::pin!(next);
            assert!(futures_poll(next.as_mut()).await.is_none());
        }
        child.write_all(b"lf\nlast").await.unwrap();
        drop(child);
        for expected in ["first half", "last"] {
            let line = reader.next().await.unwrap();
            assert_eq!(line, Some(Line::Whole(expected.into())));
        }
        assert_eq!(reader.next().await.unwrap(), None);
        assert_eq!(reader.next().await.unwrap(), None, "the end lasts");
    }

    /// Polls once.
    async fn futures_poll<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|cx| match std::pin::Pin::new(&mut future).poll(cx) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}

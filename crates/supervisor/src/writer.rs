//! Writes lines to a child's stdin, whole and in order.
//!
//! A tool call should cost one `write(2)`, so a sender writes by itself whenever nothing waits
//! before it and the pipe has room. Only what the pipe would not take goes to the writer task.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};
use memchr::{memchr2, memchr2_iter};
use tokio::net::unix::pipe;
use tokio::sync::{Notify, Semaphore};

/// What may wait beyond one line at the limit.
const BACKLOG: usize = 1024 * 1024;
/// How many pieces go into one write: two for each line.
const PIECES: usize = 64;
static END: &[u8] = b"\n";

/// The child's stdin. Clones write to the same pipe, never into each other's lines.
#[derive(Debug, Clone)]
pub struct LineWriter {
    shared: Arc<Shared>,
}

/// Why a line was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The child is gone, or being stopped, or closed its stdin. Nothing of this line was read.
    #[error("the child no longer reads its stdin: nothing of this line was sent")]
    Closed,
}

#[derive(Debug)]
struct Shared {
    /// Bytes that may still be queued. Whoever sends takes what its line needs, or all of it.
    budget: Semaphore,
    capacity: u32,
    state: Mutex<State>,
    /// Wakes the writer task: there is a line, or the pipe is closed.
    work: Notify,
}

#[derive(Debug)]
enum State {
    Open {
        pipe: Arc<pipe::Sender>,
        queue: VecDeque<Queued>,
    },
    Closed,
}

/// A line that waits for the pipe.
#[derive(Debug)]
struct Queued {
    text: Bytes,
    end: &'static [u8],
    /// What to give back to the budget.
    permits: u32,
}

// === impl LineWriter ===

impl LineWriter {
    /// A writer on `pipe`, with room for one line of `line_limit` bytes and 1 MiB more. Lines
    /// that the pipe does not take at once are written by [`LineWriter::run`].
    pub(crate) fn new(pipe: pipe::Sender, line_limit: usize) -> Self {
        let capacity = u32::try_from(line_limit.saturating_add(BACKLOG))
            .unwrap_or(u32::MAX)
            .min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        let state = State::Open {
            pipe: Arc::new(pipe),
            queue: VecDeque::new(),
        };
        Self {
            shared: Arc::new(Shared {
                budget: Semaphore::new(capacity as usize),
                capacity,
                state: Mutex::new(state),
                work: Notify::new(),
            }),
        }
    }

    /// Sends `line` and a newline. Waits while the child reads too slowly; a line larger than
    /// the whole buffer waits until it is alone.
    ///
    /// `Ok` means taken: written, or queued to be written before any later line. Dropping the
    /// future before that means that nothing was sent.
    ///
    /// A line must not hold `\n` or `\r`. In JSON text they can only be white space between
    /// tokens, so each is sent as a space.
    ///
    /// # Errors
    /// [`SendError::Closed`], also when that happens while waiting.
    pub async fn send(&self, line: Bytes) -> Result<(), SendError> {
        let text = one_line(line);
        let permits = self.shared.cost(&text);
        let permit = self.shared.budget.acquire_many(permits).await;
        // The queue gives the permits back, when the line is written.
        permit.map_err(|_closed| SendError::Closed)?.forget();
        self.shared.enqueue(Queued {
            text,
            end: END,
            permits,
        })
    }

    /// Whether sending is over.
    pub fn is_closed(&self) -> bool {
        matches!(*self.shared.lock(), State::Closed)
    }

    /// Closes the pipe, so that the child sees the end of its input, and drops what waits.
    pub(crate) fn close(&self) {
        self.shared.close(&mut self.shared.lock());
    }

    /// Writes what waits, until the pipe is closed. To be run by one task.
    pub(crate) async fn run(self) {
        loop {
            let work = self.shared.work.notified();
            let pipe = match &*self.shared.lock() {
                State::Closed => return,
                State::Open { queue, .. } if queue.is_empty() => None,
                State::Open { pipe, .. } => Some(Arc::clone(pipe)),
            };
            let Some(pipe) = pipe else {
                work.await;
                continue;
            };
            tokio::select! {
                () = work => {}
                ready = pipe.writable() => {
                    if ready.is_err() {
                        self.close();
                    }
                    self.shared.flush();
                }
            }
        }
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a line takes from the budget: its bytes, or everything when it is larger.
    fn cost(&self, text: &Bytes) -> u32 {
        u32::try_from(text.len() + END.len())
            .unwrap_or(u32::MAX)
            .min(self.capacity)
    }

    fn enqueue(&self, line: Queued) -> Result<(), SendError> {
        let mut state = self.lock();
        let State::Open { pipe, queue } = &mut *state else {
            return Err(SendError::Closed);
        };
        queue.push_back(line);
        if queue.len() > 1 {
            // The writer task is at it already.
            return Ok(());
        }
        match write(pipe, queue) {
            Ok(freed) => {
                self.budget.add_permits(freed);
                if !queue.is_empty() {
                    self.work.notify_one();
                }
                Ok(())
            }
            Err(_broken) => {
                self.close(&mut state);
                Err(SendError::Closed)
            }
        }
    }

    fn flush(&self) {
        let mut state = self.lock();
        let State::Open { pipe, queue } = &mut *state else {
            return;
        };
        match write(pipe, queue) {
            Ok(freed) => self.budget.add_permits(freed),
            Err(_broken) => self.close(&mut state),
        }
    }

    fn close(&self, state: &mut State) {
        *state = State::Closed;
        self.budget.close();
        self.work.notify_one();
    }
}

// === impl Queued ===

impl Queued {
    fn len(&self) -> usize {
        self.text.len() + self.end.len()
    }

    fn advance(&mut self, written: usize) {
        let text = written.min(self.text.len());
        self.text.advance(text);
        self.end = self.end.get(written - text..).unwrap_or_default();
    }
}

/// Writes from the front of `queue` until it is empty or the pipe is full. Returns the permits
/// of the lines that are through.
fn write(pipe: &pipe::Sender, queue: &mut VecDeque<Queued>) -> io::Result<usize> {
    let mut freed = 0;
    while !queue.is_empty() {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let mut offered = 0;
        let mut count = 0;
        for (pair, line) in pieces.chunks_exact_mut(2).zip(queue.iter()) {
            pair.copy_from_slice(&[IoSlice::new(&line.text), IoSlice::new(line.end)]);
            offered += line.len();
            count += 2;
        }
        let pieces = pieces.get(..count).unwrap_or_default();
        let written = match pipe.try_write_vectored(pieces) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        freed += advance(queue, written);
        if written < offered {
            // The pipe is full: asking again would only cost a system call.
            break;
        }
    }
    Ok(freed)
}

fn advance(queue: &mut VecDeque<Queued>, mut written: usize) -> usize {
    let mut freed = 0;
    while let Some(line) = queue.front_mut() {
        if written < line.len() {
            line.advance(written);
            break;
        }
        written -= line.len();
        freed += line.permits as usize;
        queue.pop_front();
    }
    freed
}

fn one_line(line: Bytes) -> Bytes {
    if memchr2(b'\n', b'\r', &line).is_none() {
        return line;
    }
    let mut text = line.to_vec();
    for at in memchr2_iter(b'\n', b'\r', &line) {
        if let Some(byte) = text.get_mut(at) {
            *byte = b' ';
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;
    use tokio::task::JoinSet;

    fn pair(line_limit: usize, tasks: &mut JoinSet<()>) -> (LineWriter, pipe::Receiver) {
        let (sender, receiver) = pipe::pipe().unwrap();
        let writer = LineWriter::new(sender, line_limit);
        tasks.spawn(writer.clone().run());
        (writer, receiver)
    }

    #[tokio::test]
    async fn line_ends_inside_become_spaces() {
        let mut tasks = JoinSet::new();
        let (writer, mut child) = pair(100, &mut tasks);
        writer
            .send(Bytes::from_static(b"{\r\n\"a\":1}\n"))
            .await
            .unwrap();
        writer.send(Bytes::new()).await.unwrap();
        let mut text = vec![0; 12];
        child.read_exact(&mut text).await.unwrap();
        assert_eq!(text, b"{  \"a\":1} \n\n");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lines_of_many_senders_stay_whole_and_in_order() {
        let mut tasks = JoinSet::new();
        let (writer, mut child) = pair(100, &mut tasks);
        let mut senders = JoinSet::new();
        for sender in 0..4u8 {
            let writer = writer.clone();
            senders.spawn(async move {
                for number in 0..200usize {
                    let fill = char::from(b'a' + sender)
                        .to_string()
                        .repeat(number * 37 % 9000);
                    writer
                        .send(format!("{sender} {number} {fill}").into())
                        .await
                        .unwrap();
                }
            });
        }
        let reading = async {
            let mut reader = crate::LineReader::new(&mut child, 1 << 20);
            let mut next = [0usize; 4];
            for _ in 0..800 {
                let Some(crate::Line::Whole(line)) = reader.next().await.unwrap() else {
                    panic!("a line is missing")
                };
                let line = String::from_utf8(line.to_vec()).unwrap();
                let mut parts = line.splitn(3, ' ');
                let sender: usize = parts.next().unwrap().parse().unwrap();
                let number: usize = parts.next().unwrap().parse().unwrap();
                assert_eq!(number, next[sender], "in order");
                let fill = parts.next().unwrap();
                assert_eq!(fill.len(), number * 37 % 9000);
                assert!(fill.bytes().all(|byte| usize::from(byte - b'a') == sender));
                next[sender] += 1;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), reading)
            .await
            .unwrap();
        while let Some(done) = senders.join_next().await {
            done.unwrap();
        }
        assert_eq!(
            writer.shared.budget.available_permits(),
            writer.shared.capacity as usize
        );
    }

    #[tokio::test]
    async fn a_child_that_does_not_read_holds_senders_back_until_the_close() {
        let mut tasks = JoinSet::new();
        let (writer, child) = pair(1024, &mut tasks);
        let line = Bytes::from(vec![b'x'; 64 * 1024]);
        let mut sent = 0;
        let send = async {
            loop {
                if writer.send(line.clone()).await.is_err() {
                    return sent;
                }
                sent += line.len();
                assert!(sent < 4 << 20, "bounded");
            }
        };
        let close = async {
            while writer.shared.budget.available_permits() > line.len() {
                tokio::task::yield_now().await;
            }
            writer.close();
        };
        let (sent, ()) = tokio::join!(send, close);
        assert!(sent >= 1 << 20, "it was buffered before it waited: {sent}");
        assert_eq!(writer.send(Bytes::new()).await, Err(SendError::Closed));
        while tasks.join_next().await.is_some() {}
        // Both ends of the truth: the task is gone and the pipe is closed.
        let mut rest = Vec::new();
        let mut child = child;
        child.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() < sent);
    }

    #[tokio::test]
    async fn a_dropped_send_sends_nothing() {
        let mut tasks = JoinSet::new();
        let (writer, mut child) = pair(0, &mut tasks);
        let first = Bytes::from(vec![b'a'; 2 << 20]);
        writer.send(first.clone()).await.unwrap();
        {
            let second = writer.send(Bytes::from_static(b"dropped"));
            let waited = tokio::time::timeout(Duration::from_millis(20), second).await;
            assert!(waited.is_err(), "the first line fills the buffer");
        }
        let mut text = vec![0; first.len() + 1];
        child.read_exact(&mut text).await.unwrap();
        writer.send(Bytes::from_static(b"third")).await.unwrap();
        let mut text = vec![0; 6];
        child.read_exact(&mut text).await.unwrap();
        assert_eq!(text, b"third\n");
    }

    #[tokio::test]
    async fn a_reader_that_left_closes_the_writer() {
        let mut tasks = JoinSet::new();
        let (writer, child) = pair(100, &mut tasks);
        drop(child);
        let deadline = Duration::from_secs(10);
        let closed = async { while writer.send(Bytes::from_static(b"x")).await.is_ok() {} };
        tokio::time::timeout(deadline, closed).await.unwrap();
        assert!(writer.is_closed());
        tokio::time::timeout(deadline, tasks.join_next())
            .await
            .unwrap();
    }
}

//! The stdio transport: one message a line, everything over one pair of pipes.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::MAX_MESSAGE;
use crate::eras::{Era, Eras};
use crate::error::ExampleError;
use crate::handle::{Action, Peer, era_of, handle};
use crate::jobs::{Job, Outlet};
use crate::message::{Id, parse};
use crate::process::{Process, Questions};
use crate::reply::{Fault, Reply};

/// Messages waiting for a slow client; a full queue stops the reading, too.
const QUEUE: usize = 64;

/// How long answers already given may take to go out after the client closed its end.
const DRAIN: Duration = Duration::from_secs(1);

/// Serves the process's own stdin and stdout until stdin ends.
///
/// Stdout carries nothing but messages; one line on stderr says that the server is there. At the end of stdin calls in
/// progress are given up and what is already said goes out, for at most a second.
///
/// Dropping the future stops serving; the thread that reads stdin stays until the next line or the end of it.
///
/// # Errors
/// [`ExampleError::Read`] and [`ExampleError::Write`] when a pipe breaks.
pub async fn serve_stdio(eras: Eras) -> Result<(), ExampleError> {
    // Nobody may be listening on stderr, which is no reason not to serve.
    writeln!(
        std::io::stderr().lock(),
        "example server ready on stdio ({eras:?})"
    )
    .ok();
    serve_lines(tokio::io::stdin(), tokio::io::stdout(), eras).await
}

/// Serves one connection over any pair of byte streams, in the framing of the stdio transport, until the reader ends.
///
/// A blank line is skipped, as is one longer than [`MAX_MESSAGE`], which gets an error. Requests run concurrently, at most
/// 1024 at a time. Dropping the future gives up the calls in progress.
///
/// # Errors
/// [`ExampleError::Read`] and [`ExampleError::Write`] when a stream breaks.
pub async fn serve_lines<R, W>(reader: R, writer: W, eras: Eras) -> Result<(), ExampleError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (messages, queue) = mpsc::channel(QUEUE);
    let mut writing = std::pin::pin!(write_lines(writer, queue));
    let connection = Connection::new(Process::new(eras), messages);
    tokio::select! {
        // Only a broken writer ends here: the queue stays open while the connection reads.
        written = &mut writing => return written,
        read = connection.serve(BufReader::new(reader)) => read?,
    }
    match tokio::time::timeout(DRAIN, writing).await {
        Ok(written) => written,
        // A client that has closed its end and does not read either wants no answer.
        Err(_) => Ok(()),
    }
}

/// The reading half of a connection, which owns its jobs.
struct Connection {
    process: Arc<Process>,
    peer: Peer,
    outlet: Outlet,
    jobs: JoinSet<Id>,
    running: HashMap<Id, AbortHandle>,
}

/// What reading a line came to.
enum Line {
    Whole,
    TooLong,
    End,
}

impl Connection {
    fn new(process: Arc<Process>, messages: mpsc::Sender<String>) -> Self {
        Self {
            process,
            peer: Peer::default(),
            outlet: Outlet {
                messages,
                questions: Arc::new(Questions::default()),
                closing: CancellationToken::new(),
            },
            jobs: JoinSet::new(),
            running: HashMap::new(),
        }
    }

    /// Reads and acts until the stream ends. The jobs end with it.
    async fn serve(mut self, mut reader: impl AsyncBufRead + Unpin) -> Result<(), ExampleError> {
        let mut line = Vec::new();
        loop {
            let read = tokio::select! {
                Some(ended) = self.jobs.join_next_with_id() => {
                    // A job that was aborted has left the map already.
                    if let Ok((task, id)) = ended
                        && self.running.get(&id).is_some_and(|job| job.id() == task)
                    {
                        self.running.remove(&id);
                    }
                    continue;
                }
                // Keeps what it has in `line` when a job's end comes first.
                read = read_line(&mut reader, &mut line) => read.map_err(ExampleError::Read)?,
            };
            match read {
                Line::Whole => self.receive(&line).await,
                Line::TooLong => {
                    let fault = Fault::TooLarge { limit: MAX_MESSAGE };
                    self.refuse(None, Era::Legacy, fault).await;
                }
                Line::End => break,
            }
            line.clear();
        }
        self.jobs.shutdown().await;
        Ok(())
    }

    async fn receive(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let message = match parse(line) {
            Ok(message) => message,
            Err(malformed) => {
                return self
                    .refuse(malformed.id, Era::Legacy, malformed.fault)
                    .await;
            }
        };
        let era = era_of(self.process.eras, &message, None);
        match handle(&self.process, &mut self.peer, era, message) {
            Action::Reply(reply) => self.send(reply.to_json()).await,
            Action::Run(job) => self.start(job).await,
            Action::Cancel(id) => {
                if let Some(job) = self.running.remove(&id) {
                    job.abort();
                }
            }
            Action::Deliver { question, answer } => {
                self.outlet.questions.deliver(question, answer);
            }
            Action::Ignore => {}
        }
    }

    async fn start(&mut self, job: Job) {
        let (id, era) = (job.id.clone(), job.caller.era);
        if self.running.contains_key(&id) {
            return self.refuse(Some(id.clone()), era, Fault::IdInUse(id)).await;
        }
        let Some(running) = self.process.begin(&job) else {
            return self.refuse(Some(id), era, Fault::Busy).await;
        };
        let (outlet, key) = (self.outlet.clone(), id.clone());
        let task = self.jobs.spawn(async move {
            let reply = job.run(&outlet).await;
            running.finish();
            // The connection is being closed when nobody takes this.
            outlet.messages.send(reply.to_json()).await.ok();
            id
        });
        self.running.insert(key, task);
    }

    async fn refuse(&self, id: Option<Id>, era: Era, fault: Fault) {
        let outcome = Err(fault);
        self.send(Reply { id, era, outcome }.to_json()).await;
    }

    async fn send(&self, message: String) {
        // The connection is being closed when nobody takes this.
        self.outlet.messages.send(message).await.ok();
    }
}

/// Writes one message a line until the queue is closed and empty.
async fn write_lines(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<String>,
) -> Result<(), ExampleError> {
    while let Some(message) = queue.recv().await {
        // A raw part of a message can hold line breaks between its tokens; as whitespace they say nothing.
        let mut line = message.replace(['\n', '\r'], " ");
        line.push('\n');
        writer
            .write_all(line.as_bytes())
            .await
            .map_err(ExampleError::Write)?;
        if queue.is_empty() {
            writer.flush().await.map_err(ExampleError::Write)?;
        }
    }
    writer.flush().await.map_err(ExampleError::Write)
}

/// Reads up to a newline, which it drops, or the end of the stream. Of a line that is too long nothing is kept beyond the
/// limit.
///
/// Cancel safe: what has been read so far stays in `line`, and the next call goes on from there.
async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> std::io::Result<Line> {
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            // A last line without its newline is still a line.
            return Ok(if line.is_empty() {
                Line::End
            } else {
                finished(line)
            });
        }
        let newline = available.iter().position(|byte| *byte == b'\n');
        let (part, _) = available.split_at(newline.unwrap_or(available.len()));
        let room = (MAX_MESSAGE + 1).saturating_sub(line.len());
        let (kept, _) = part.split_at(part.len().min(room));
        line.extend_from_slice(kept);
        let used = part.len() + usize::from(newline.is_some());
        reader.consume(used);
        if newline.is_some() {
            return Ok(finished(line));
        }
    }
}

fn finished(line: &[u8]) -> Line {
    if line.len() > MAX_MESSAGE {
        Line::TooLong
    } else {
        Line::Whole
    }
}

//! A link over a child's pipes: one reader, a table of exchanges, and one queue for what needs no answer.

mod exchange;
mod pipes;
mod reader;

use std::{ops::Deref, sync::Arc};

use bytes::Bytes;
use manifold_supervisor::{LineWriter, Spawned, StartPermit};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use exchange::StdioExchange;
pub(crate) use pipes::Pipes;

/// How many cancels and answers to a server's requests wait to be written.
const CONTROL_QUEUE: usize = 256;

/// The pipes of one child. Dropping it stops the child; a clone of the [`Pipes`] does not keep it alive.
#[derive(Debug)]
pub(crate) struct Stdio(Arc<Pipes>);

/// A child whose stdout is read, and to which nothing is written yet. What is to be answered to it waits, in a
/// bounded queue. Dropping it stops the child.
#[derive(Debug)]
pub(crate) struct Quiet {
    stdio: Stdio,
    queue: mpsc::Receiver<Bytes>,
}

// === impl Quiet ===

impl Quiet {
    /// Takes over what the supervisor has spawned. A task on `tasks` reads stdout until the child ends.
    pub(crate) fn of(
        spawned: Spawned,
        tasks: &TaskTracker,
        label: &str,
        limit: usize,
    ) -> (Self, StartPermit) {
        let Spawned {
            child,
            stdin,
            stdout,
            permit,
        } = spawned;
        let (control, queue) = mpsc::channel(CONTROL_QUEUE);
        let pipes = Arc::new(Pipes::new(child, stdin, label, control));
        tasks.spawn(reader::read(pipes.clone(), stdout, limit));
        let stdio = Stdio(pipes);
        (Self { stdio, queue }, permit)
    }

    /// From now on something is written. One more task on `tasks` does that until the child ends.
    pub(crate) fn speak(self, tasks: &TaskTracker) -> Stdio {
        let Self { stdio, queue } = self;
        let (writer, ended) = (stdio.writer().clone(), stdio.end().clone());
        tasks.spawn(write_control(writer, queue, ended));
        stdio
    }

    pub(crate) fn pipes(&self) -> &Arc<Pipes> {
        &self.stdio
    }
}

// === impl Stdio ===

impl Deref for Stdio {
    type Target = Arc<Pipes>;

    fn deref(&self) -> &Arc<Pipes> {
        &self.0
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.0.child().stop();
    }
}

/// Writes cancels and answers, in order, until the child ends.
async fn write_control(
    writer: LineWriter,
    mut queue: mpsc::Receiver<Bytes>,
    ended: CancellationToken,
) {
    loop {
        let line = tokio::select! {
            line = queue.recv() => line,
            () = ended.cancelled() => None,
        };
        let Some(line) = line else { return };
        if writer.send(line).await.is_err() {
            return;
        }
    }
}

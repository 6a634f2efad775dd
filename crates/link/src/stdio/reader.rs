//! Reads a child's stdout until it ends. Waits for nobody but the child.

use std::{sync::Arc, time::Duration};

use manifold_protocol::{IdField, LinkRequestId, message::id_of};
use manifold_supervisor::{Child, Line, LineReader, Source};
use tracing::warn;

use super::pipes::Pipes;
use crate::LinkError;

/// How long a child that has closed its stdout may take to be seen exiting.
pub(super) const EXIT_GRACE: Duration = Duration::from_millis(500);

/// Reads until the end, and then says why it came.
pub(super) async fn read(pipes: Arc<Pipes>, mut stdout: LineReader, limit: usize) {
    loop {
        match stdout.next().await {
            Ok(Some(Line::Whole(line))) => pipes.line(line),
            Ok(Some(Line::TooLong { head, length })) => too_long(&pipes, &head, length, limit),
            Ok(None) => break,
            Err(error) => {
                warn!(server = pipes.label(), %error, "can't read a server's stdout");
                break;
            }
        }
    }
    // Usually the child is exiting: its exit code says more than the end of its stdout.
    let exit = tokio::time::timeout(EXIT_GRACE, pipes.child().exited())
        .await
        .ok();
    let last_stderr = last_stderr(pipes.child());
    pipes.child().stop();
    pipes.ended_by(LinkError::Exited { exit, last_stderr });
}

/// The last thing a child said on stderr, if it said anything there.
fn last_stderr(child: &Child) -> Option<String> {
    let mut lines = child.log().tail(usize::MAX);
    lines.retain(|line| line.source == Source::Stderr);
    lines.pop().map(|line| line.text)
}

/// A line over the limit fails the call it answers, which is known if its id stands near the start.
fn too_long(pipes: &Pipes, head: &[u8], length: u64, limit: usize) {
    warn!(
        server = pipes.label(),
        length, limit, "a server's message is over limits.message and is dropped"
    );
    if let IdField::Id(id) = id_of(head)
        && let Some(id) = LinkRequestId::from_raw(id.as_raw())
    {
        pipes.finish(id, Err(LinkError::TooLarge { limit }));
    }
}

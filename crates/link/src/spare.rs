//! A process that waits for its handshake.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use manifold_supervisor::{Child, StartPermit};
use tokio_util::task::TaskTracker;

use crate::{
    LinkError, LinkId,
    stdio::{Pipes, Quiet},
};

/// How long a spare keeps its turn among the children that are starting. It says nothing until it is spoken to, so
/// nobody can tell when it has started; most servers have burnt what they burn by then. Without any turn, the spares
/// of all servers would start at once, and take the time from the starts that somebody waits for.
const SETTLING: Duration = Duration::from_secs(2);

/// A started process to which nothing has been written. Its stdout and stderr are drained: what it asks is answered
/// after the handshake, at most 256 times; its noise is counted in [`Child::log`].
///
/// It keeps its turn among the children that are starting for two seconds, or until it ends; a handshake with it needs
/// no turn. Dropping it stops the process by its stop ladder.
#[derive(Debug)]
pub struct Spare {
    id: LinkId,
    quiet: Quiet,
    started: SystemTime,
}

impl Spare {
    pub(crate) fn new(id: LinkId, quiet: Quiet, turn: StartPermit, tasks: &TaskTracker) -> Self {
        let gone = quiet.pipes().ended();
        tasks.spawn(async move {
            // Late or gone, it is the same: others may start.
            drop(tokio::time::timeout(SETTLING, gone).await);
            drop(turn);
        });
        Self {
            id,
            quiet,
            started: SystemTime::now(),
        }
    }

    /// The number of the link that it will be.
    #[must_use]
    pub fn id(&self) -> LinkId {
        self.id
    }

    /// The process.
    #[must_use]
    pub fn child(&self) -> &Child {
        self.pipes().child()
    }

    /// When it was started.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// Whether it is no use any more: it has ended, closed its stdout, or is being stopped.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.pipes().is_ended()
    }

    /// Waits until it is no use any more, and says why. The future does not keep it alive; dropping it changes
    /// nothing.
    pub fn ended(&self) -> impl Future<Output = LinkError> + Send + 'static {
        self.pipes().ended()
    }

    /// Begins its stop ladder, as dropping it does.
    pub fn stop(&self) {
        self.child().stop();
    }

    pub(crate) fn label(&self) -> &str {
        self.pipes().label()
    }

    pub(crate) fn into_quiet(self) -> Quiet {
        self.quiet
    }

    fn pipes(&self) -> &Arc<Pipes> {
        self.quiet.pipes()
    }
}

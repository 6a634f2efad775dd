//! One request in flight to a child.

use std::sync::Arc;

use manifold_protocol::{LinkRequestId, Method, Raw, wire};
use tracing::debug;

use super::pipes::Pipes;
use crate::{
    exchange::Event,
    mailbox::{Early, Mail, Mailbox},
};

/// One request in flight to a child.
#[derive(Debug)]
pub(crate) struct StdioExchange {
    pipes: Arc<Pipes>,
    id: LinkRequestId,
    mailbox: Arc<Mailbox>,
    /// Whether a cancel may be sent. `initialize` must not be cancelled (2025-11-25 cancellation), and a
    /// probe is not worth it.
    cancellable: bool,
}

impl StdioExchange {
    /// A request that is in the table and not written yet.
    pub(super) fn unsent(pipes: Arc<Pipes>, id: LinkRequestId, mailbox: Arc<Mailbox>) -> Self {
        Self {
            pipes,
            id,
            mailbox,
            cancellable: false,
        }
    }

    /// The request has been written.
    pub(super) fn sent(&mut self, method: &Method) {
        self.cancellable = !matches!(method, Method::Initialize | Method::ServerDiscover);
    }

    /// The next event. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Event {
        match self.mailbox.take().await {
            Mail::Early(Early::Note(note)) => Event::Note(note),
            Mail::Early(Early::Ask(ask)) => Event::Ask(ask),
            Mail::Done(outcome) => {
                let dropped = self.mailbox.dropped();
                if dropped > 0 {
                    debug!(dropped, "a call's notes came faster than they were taken");
                }
                Event::Done(outcome)
            }
        }
    }

    /// Gives the call up, and tells the server.
    pub(crate) fn cancel(&mut self, reason: &'static str) {
        // Not in the table: the answer has come, or the child has gone.
        if self.pipes.forget(self.id) && self.cancellable {
            let params = Raw::of(&serde_json::json!({ "requestId": self.id.0, "reason": reason }));
            self.pipes.tell(wire::notification(
                Method::Cancelled.as_str(),
                params.as_bytes(),
            ));
        }
    }
}

impl Drop for StdioExchange {
    fn drop(&mut self) {
        self.pipes.forget(self.id);
    }
}

//! What the reader of a child and the exchanges share: the way in, and the table of requests in flight.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use manifold_protocol::{
    IdField, LinkRequestId, Message, Method, Notification, Outcome, Params, Request, Response,
    meta,
    noise::{self, Line as Classified},
    splice::one_line,
    wire,
};
use manifold_supervisor::{Child, LineWriter};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{exchange::StdioExchange, reader::EXIT_GRACE};
use crate::{
    LinkError, Notices,
    exchange::{Ask, Note, answer_ourselves, reply},
    mailbox::{Early, Mailbox},
};

/// The pipes of one child. They do not keep it alive.
#[derive(Debug)]
pub(crate) struct Pipes {
    child: Child,
    writer: LineWriter,
    /// The server's name, for log lines.
    label: String,
    next: AtomicU64,
    table: Mutex<Table>,
    control: mpsc::Sender<Bytes>,
    notices: watch::Sender<Notices>,
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<LinkRequestId, Open>,
    ended: Option<LinkError>,
}

/// A request in the table of those in flight.
#[derive(Debug)]
struct Open {
    mailbox: Arc<Mailbox>,
    purpose: Purpose,
}

/// What a request is in flight for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A client waits for it.
    Work,
    /// Manifold waits for it.
    Own,
    /// Nobody waits for its answer: it is open for what comes before that.
    Subscription,
}

// === impl Purpose ===

impl Purpose {
    fn of(method: &Method) -> Self {
        if *method == Method::SubscriptionsListen {
            Self::Subscription
        } else if method.is_work() {
            Self::Work
        } else {
            Self::Own
        }
    }
}

// === impl Pipes ===

impl Pipes {
    pub(super) fn new(
        child: Child,
        writer: LineWriter,
        label: &str,
        control: mpsc::Sender<Bytes>,
    ) -> Self {
        Self {
            child,
            writer,
            label: label.to_owned(),
            next: AtomicU64::new(1),
            table: Mutex::default(),
            control,
            notices: watch::Sender::default(),
            ended: CancellationToken::new(),
        }
    }

    /// Sends a request; `params` are made for the id it gets.
    ///
    /// Dropping the future before it resolves sends nothing.
    pub(crate) async fn request(
        self: &Arc<Self>,
        method: &Method,
        params: impl FnOnce(LinkRequestId) -> Bytes,
    ) -> Result<StdioExchange, LinkError> {
        let id = LinkRequestId(self.next.fetch_add(1, Ordering::Relaxed));
        let mailbox = Arc::new(Mailbox::default());
        let entry = Open {
            mailbox: mailbox.clone(),
            purpose: Purpose::of(method),
        };
        self.open(id, entry)?;
        let mut exchange = StdioExchange::unsent(self.clone(), id, mailbox);
        let line = one_line(wire::request(id, method.as_str(), &params(id)));
        if self.writer.send(line).await.is_err() {
            return Err(self.why_closed().await);
        }
        exchange.sent(method);
        Ok(exchange)
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &Method, params: &[u8]) -> Result<(), LinkError> {
        let line = one_line(wire::notification(method.as_str(), params));
        if self.writer.send(line).await.is_err() {
            return Err(self.why_closed().await);
        }
        Ok(())
    }

    /// Why nothing can be written any more: the reader knows, but often a moment later than the writer.
    async fn why_closed(&self) -> LinkError {
        tokio::time::timeout(EXIT_GRACE * 2, self.ended.cancelled())
            .await
            .map_or(LinkError::Closed, |()| self.end_reason())
    }

    pub(crate) fn child(&self) -> &Child {
        &self.child
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn writer(&self) -> &LineWriter {
        &self.writer
    }

    pub(super) fn end(&self) -> &CancellationToken {
        &self.ended
    }

    pub(crate) fn notices(&self) -> &watch::Sender<Notices> {
        &self.notices
    }

    /// How many requests of clients wait for an answer.
    pub(crate) fn in_flight(&self) -> usize {
        let table = self.lock();
        let work = |open: &&Open| open.purpose == Purpose::Work;
        table.open.values().filter(work).count()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.is_cancelled() || self.writer.is_closed()
    }

    /// Waits until the child is no use any more, and says why.
    pub(crate) fn ended(self: &Arc<Self>) -> impl Future<Output = LinkError> + Send + 'static {
        let pipes = self.clone();
        async move {
            pipes.ended.cancelled().await;
            pipes.end_reason()
        }
    }

    // --- the table ---

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, id: LinkRequestId, entry: Open) -> Result<(), LinkError> {
        let mut table = self.lock();
        match &table.ended {
            Some(reason) => Err(reason.clone()),
            None => {
                table.open.insert(id, entry);
                Ok(())
            }
        }
    }

    pub(super) fn forget(&self, id: LinkRequestId) -> bool {
        self.lock().open.remove(&id).is_some()
    }

    fn mailbox(&self, id: LinkRequestId) -> Option<Arc<Mailbox>> {
        self.lock().open.get(&id).map(|open| open.mailbox.clone())
    }

    /// The only call of a client in flight, if there is exactly one: what names no call belongs to it, and never to a
    /// request of our own.
    fn sole_mailbox(&self) -> Option<Arc<Mailbox>> {
        let table = self.lock();
        let mut work = table
            .open
            .values()
            .filter(|open| open.purpose == Purpose::Work);
        match (work.next(), work.next()) {
            (Some(open), None) => Some(open.mailbox.clone()),
            _ => None,
        }
    }

    fn is_subscription(&self, id: LinkRequestId) -> bool {
        self.lock()
            .open
            .get(&id)
            .is_some_and(|open| open.purpose == Purpose::Subscription)
    }

    pub(super) fn finish(&self, id: LinkRequestId, outcome: Result<Outcome, LinkError>) {
        let open = self.lock().open.remove(&id);
        match open {
            Some(open) => open.mailbox.finish(outcome),
            None => debug!(%id, "an answer to no call, or to a cancelled one"),
        }
    }

    /// Queues what needs no answer. A child that does not read loses it: it could not act on it anyway.
    pub(super) fn tell(&self, line: Bytes) {
        if self.control.try_send(one_line(line)).is_err() {
            debug!("a cancel or an answer was dropped: the server does not read its stdin");
        }
    }

    /// The reader has come to the end: all that is in flight fails.
    pub(super) fn ended_by(&self, reason: LinkError) {
        let open = {
            let mut table = self.lock();
            if table.ended.is_some() {
                return;
            }
            table.ended = Some(reason.clone());
            std::mem::take(&mut table.open)
        };
        for open in open.into_values() {
            open.mailbox.finish(Err(reason.clone()));
        }
        self.ended.cancel();
    }

    fn end_reason(&self) -> LinkError {
        self.lock().ended.clone().unwrap_or(LinkError::Closed)
    }

    // --- what the reader finds ---

    pub(super) fn line(&self, line: Bytes) {
        match noise::classify(line.clone()) {
            Classified::Message { message, prefix } => {
                if prefix > 0 {
                    let junk = line.get(..prefix).unwrap_or_default();
                    self.child.log().note_noise(junk);
                }
                self.message(*message);
            }
            Classified::Batch(messages) => {
                for message in messages {
                    self.message(message);
                }
            }
            Classified::Unusable { id, why } => {
                self.child.log().note_noise(&line);
                if let Some(id) = LinkRequestId::from_raw(id.as_raw()) {
                    self.finish(id, Err(LinkError::NotMcp(why.to_string())));
                }
            }
            Classified::Noise => self.child.log().note_noise(&line),
        }
    }

    fn message(&self, message: Message) {
        match message {
            Message::Response(response) => self.response(response),
            Message::Notification(notification) => self.notification(notification),
            Message::Request(request) => self.request_from_server(request),
        }
    }

    fn response(&self, response: Response) {
        let id = match &response.id {
            IdField::Id(id) => LinkRequestId::from_raw(id.as_raw()),
            IdField::Absent | IdField::Null | IdField::Invalid => None,
        };
        match id {
            Some(id) => self.finish(id, Ok(response.outcome)),
            None => debug!("an answer without an id of ours"),
        }
    }

    fn notification(&self, notification: Notification) {
        let Notification { method, params } = notification;
        if method == Method::Progress {
            let token = params.progress_token();
            let call = token.and_then(|token| LinkRequestId::from_raw(&token));
            match call.and_then(|id| self.mailbox(id)) {
                Some(mailbox) => mailbox.leave(Early::Note(Note { method, params })),
                None => debug!("progress of no call in flight"),
            }
        } else if method == Method::LogMessage {
            if let Some(mailbox) = self.sole_mailbox() {
                mailbox.leave(Early::Note(Note { method, params }));
            }
        } else if method == Method::SubscriptionsAcknowledged {
            if let Some(mailbox) = self.subscribed(&params) {
                mailbox.leave(Early::Note(Note { method, params }));
            }
        } else if method == Method::Cancelled {
            self.cancelled(&params);
        } else {
            self.notices
                .send_if_modified(|notices| notices.record(&method));
        }
    }

    /// The subscription that a notification names in its `_meta`.
    fn subscribed(&self, params: &Params) -> Option<Arc<Mailbox>> {
        let id = params.meta()?.get(meta::SUBSCRIPTION_ID)?;
        let id = LinkRequestId::from_raw(&id).filter(|id| self.is_subscription(*id))?;
        self.mailbox(id)
    }

    /// A server may end a subscription in this way, and nothing else (2026-07-28 cancellation).
    fn cancelled(&self, params: &Params) {
        let id = params.request_id();
        let id = id.and_then(|id| LinkRequestId::from_raw(&id));
        match id.filter(|id| self.is_subscription(*id)) {
            Some(id) => self.finish(id, Err(LinkError::cancelled())),
            None => debug!("a server cancels what it can't cancel"),
        }
    }

    fn request_from_server(&self, request: Request) {
        let Request { id, method, params } = request;
        // Whose question it is shows only when one call is running.
        let asker = self.sole_mailbox().filter(|_| method.is_ask());
        let Some(mailbox) = asker else {
            self.tell(reply(&id, answer_ourselves(&method)));
            return;
        };
        let control = self.control.clone();
        let answer = move |answer| {
            // A full queue means a server that does not read: it gets no answer.
            drop(control.try_send(one_line(reply(&id, answer))));
        };
        mailbox.leave(Early::Ask(Ask::new(method, params, Box::new(answer))));
    }
}

//! A link over a child's pipes: one reader, a table of exchanges, and one queue for what needs no answer.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use manifold_protocol::{
    IdField, LinkRequestId, Message, Method, Notification, Outcome, Raw, Request, Response,
    message::id_of,
    noise::{self, Line as Classified},
    splice::one_line,
    wire,
};
use manifold_supervisor::{Child, Line, LineReader, LineWriter, Source, Spawned, StartPermit};
use tokio::sync::{mpsc, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use crate::{
    LinkError, Notices,
    exchange::{Ask, Event, Note, answer_ourselves, reply},
    mailbox::{Early, Mail, Mailbox},
};

/// How many cancels and answers to a server's requests wait to be written.
const CONTROL_QUEUE: usize = 256;

/// How long a child that has closed its stdout may take to be seen exiting.
const EXIT_GRACE: Duration = Duration::from_millis(500);

/// The pipes of one child. Dropping it stops the child.
#[derive(Debug)]
pub(crate) struct Stdio {
    shared: Arc<Shared>,
    writer: LineWriter,
    next: AtomicU64,
}

/// What the reader and the exchanges share. It does not keep the child alive.
#[derive(Debug)]
struct Shared {
    child: Child,
    /// The server's name, for log lines.
    label: String,
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
    /// A client waits for it.
    is_work: bool,
}

/// One request in flight to a child.
#[derive(Debug)]
pub(crate) struct StdioExchange {
    shared: Arc<Shared>,
    id: LinkRequestId,
    mailbox: Arc<Mailbox>,
    /// Whether a cancel may be sent. `initialize` must not be cancelled (2025-11-25 cancellation), and a
    /// probe is not worth it.
    cancellable: bool,
}

// === impl Stdio ===

impl Stdio {
    /// Takes over the pipes. Two tasks on `tasks` serve them until the child ends.
    pub(crate) fn new(
        child: Child,
        writer: LineWriter,
        stdout: LineReader,
        tasks: &TaskTracker,
        label: &str,
        limit: usize,
    ) -> Self {
        let (control, queue) = mpsc::channel(CONTROL_QUEUE);
        let shared = Arc::new(Shared {
            child,
            label: label.to_owned(),
            table: Mutex::default(),
            control,
            notices: watch::Sender::default(),
            ended: CancellationToken::new(),
        });
        tasks.spawn(read(shared.clone(), stdout, limit));
        tasks.spawn(write_control(writer.clone(), queue, shared.ended.clone()));
        Self {
            shared,
            writer,
            next: AtomicU64::new(1),
        }
    }

    /// Takes over what the supervisor has spawned. The permit is to be held until the handshake is done.
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
        (Self::new(child, stdin, stdout, tasks, label, limit), permit)
    }

    /// Sends a request; `params` are made for the id it gets.
    ///
    /// Dropping the future before it resolves sends nothing.
    pub(crate) async fn request(
        &self,
        method: &Method,
        params: impl FnOnce(LinkRequestId) -> Bytes,
    ) -> Result<StdioExchange, LinkError> {
        let id = LinkRequestId(self.next.fetch_add(1, Ordering::Relaxed));
        let mailbox = Arc::new(Mailbox::default());
        let entry = Open {
            mailbox: mailbox.clone(),
            is_work: method.is_work(),
        };
        self.shared.open(id, entry)?;
        let mut exchange = StdioExchange {
            shared: self.shared.clone(),
            id,
            mailbox,
            cancellable: false,
        };
        let line = one_line(wire::request(id, method.as_str(), &params(id)));
        if self.writer.send(line).await.is_err() {
            return Err(self.why_closed().await);
        }
        exchange.cancellable = !matches!(method, Method::Initialize | Method::ServerDiscover);
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
        tokio::time::timeout(EXIT_GRACE * 2, self.ended())
            .await
            .unwrap_or(LinkError::Closed)
    }

    pub(crate) fn child(&self) -> &Child {
        &self.shared.child
    }

    pub(crate) fn notices(&self) -> watch::Receiver<Notices> {
        self.shared.notices.subscribe()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.shared.lock().open.len()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.shared.ended.is_cancelled() || self.writer.is_closed()
    }

    /// Waits until the child is no use any more, and says why.
    pub(crate) fn ended(&self) -> impl Future<Output = LinkError> + Send + 'static {
        let shared = self.shared.clone();
        async move {
            shared.ended.cancelled().await;
            shared.end_reason()
        }
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.shared.child.stop();
    }
}

// === impl StdioExchange ===

impl StdioExchange {
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

    pub(crate) fn cancel(&mut self, reason: &'static str) {
        // Not in the table: the answer has come, or the child has gone.
        if self.shared.forget(self.id) && self.cancellable {
            let params = Raw::of(&serde_json::json!({ "requestId": self.id.0, "reason": reason }));
            self.shared.tell(wire::notification(
                Method::Cancelled.as_str(),
                params.as_bytes(),
            ));
        }
    }
}

impl Drop for StdioExchange {
    fn drop(&mut self) {
        self.shared.forget(self.id);
    }
}

// === impl Shared ===

impl Shared {
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

    fn forget(&self, id: LinkRequestId) -> bool {
        self.lock().open.remove(&id).is_some()
    }

    fn mailbox(&self, id: LinkRequestId) -> Option<Arc<Mailbox>> {
        self.lock().open.get(&id).map(|open| open.mailbox.clone())
    }

    /// The only call of a client in flight, if there is exactly one: what names no call belongs to it, and never to a
    /// request of our own.
    fn sole_mailbox(&self) -> Option<Arc<Mailbox>> {
        let table = self.lock();
        let mut work = table.open.values().filter(|open| open.is_work);
        match (work.next(), work.next()) {
            (Some(open), None) => Some(open.mailbox.clone()),
            _ => None,
        }
    }

    fn finish(&self, id: LinkRequestId, outcome: Result<Outcome, LinkError>) {
        let open = self.lock().open.remove(&id);
        match open {
            Some(open) => open.mailbox.finish(outcome),
            None => debug!(%id, "an answer to no call, or to a cancelled one"),
        }
    }

    /// Queues what needs no answer. A child that does not read loses it: it could not act on it anyway.
    fn tell(&self, line: Bytes) {
        if self.control.try_send(one_line(line)).is_err() {
            debug!("a cancel or an answer was dropped: the server does not read its stdin");
        }
    }

    fn end(&self, reason: LinkError) {
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

    fn line(&self, line: Bytes) {
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
            Message::Request(request) => self.request(request),
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
        } else {
            self.notices
                .send_if_modified(|notices| notices.record(&method));
        }
    }

    fn request(&self, request: Request) {
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

/// Reads stdout until it ends. Waits for nobody but the child.
async fn read(shared: Arc<Shared>, mut stdout: LineReader, limit: usize) {
    loop {
        match stdout.next().await {
            Ok(Some(Line::Whole(line))) => shared.line(line),
            Ok(Some(Line::TooLong { head, length })) => too_long(&shared, &head, length, limit),
            Ok(None) => break,
            Err(error) => {
                warn!(server = shared.label, %error, "can't read a server's stdout");
                break;
            }
        }
    }
    // Usually the child is exiting: its exit code says more than the end of its stdout.
    let exit = tokio::time::timeout(EXIT_GRACE, shared.child.exited())
        .await
        .ok();
    let last_stderr = last_stderr(&shared.child);
    shared.child.stop();
    shared.end(LinkError::Exited { exit, last_stderr });
}

/// The last thing a child said on stderr, if it said anything there.
fn last_stderr(child: &Child) -> Option<String> {
    let mut lines = child.log().tail(usize::MAX);
    lines.retain(|line| line.source == Source::Stderr);
    lines.pop().map(|line| line.text)
}

/// A line over the limit fails the call it answers, which is known if its id stands near the start.
fn too_long(shared: &Shared, head: &[u8], length: u64, limit: usize) {
    warn!(
        server = shared.label,
        length, limit, "a server's message is over limits.message and is dropped"
    );
    if let IdField::Id(id) = id_of(head)
        && let Some(id) = LinkRequestId::from_raw(id.as_raw())
    {
        shared.finish(id, Err(LinkError::TooLarge { limit }));
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

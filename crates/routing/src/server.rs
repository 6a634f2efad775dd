//! A server of the configuration: how it is reached, how it is, what it lists, and the links to it.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use manifold_link::{ConnectOptions, Connector, ForwardedHeaders, Link, LinkError, Origin, Spare};
use manifold_protocol::{Kind, ServerName};
use manifold_supervisor::{Child, ChildLog, Exit, LogLine};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, watch},
    time::Instant,
};
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::{
    RouteError,
    events::{Event, Observer, StartReason},
    gate::Gate,
    health::{Health, Report},
    lease::Lease,
    lists::{Hello, List, Lists},
    seats::Seats,
    settings::ServerSettings,
    spares::Spares,
};

/// What a server has said of itself.
#[derive(Debug, Clone)]
pub struct Known {
    /// In its handshake.
    pub hello: Hello,
    /// Its lists, as far as they are known.
    pub lists: Lists,
}

/// What a link is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It fills the catalog.
    Catalog,
    /// It is a client session's.
    Session,
    /// It is a modern caller's.
    Principal,
    /// It serves all callers.
    Shared,
}

/// A server.
pub struct Server {
    settings: ServerSettings,
    connector: Connector,
    report: watch::Sender<Report>,
    known: Mutex<Option<Known>>,
    links: Mutex<Vec<(Weak<Link>, Use)>>,
    last_exit: Mutex<Option<Exit>>,
    /// What the child that was started last says, also after its end, and what the one before said.
    logs: Mutex<Logs>,
    gate: Mutex<Gate>,
    seats: Seats,
    spares: Spares,
    restart: Notify,
    suspect: Notify,
    needed: watch::Sender<Instant>,
    tasks: TaskTracker,
    observer: Arc<dyn Observer>,
}

/// What the last children of a server said.
#[derive(Debug, Default)]
struct Logs {
    last: Option<ChildLog>,
    before: Option<ChildLog>,
}

/// A link in use, and its seat among the server's links.
#[derive(Debug)]
pub struct HeldLink {
    link: Arc<Link>,
    /// Given up when the link ends, whoever still holds it.
    seat: Mutex<Option<OwnedSemaphorePermit>>,
    /// It was closed on purpose: its end is no failure.
    closing: AtomicBool,
}

// === impl Server ===

impl Server {
    /// A server that is not started yet. Its tasks run on `tasks`.
    pub fn new(
        settings: ServerSettings,
        connector: Connector,
        tasks: TaskTracker,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let health = if settings.enabled {
            Health::Starting
        } else {
            Health::Disabled
        };
        Self {
            seats: Seats::new(settings.max_links),
            spares: Spares::new(settings.spare),
            gate: Mutex::new(Gate::new(settings.restart)),
            settings,
            connector,
            report: watch::Sender::new(Report::new(health)),
            known: Mutex::default(),
            links: Mutex::default(),
            last_exit: Mutex::default(),
            logs: Mutex::default(),
            restart: Notify::new(),
            suspect: Notify::new(),
            needed: watch::Sender::new(Instant::now()),
            tasks,
            observer,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &ServerName {
        &self.settings.name
    }

    /// What the configuration says of it.
    #[must_use]
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// How it is reached.
    #[must_use]
    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    /// How it is now.
    #[must_use]
    pub fn report(&self) -> Report {
        self.report.borrow().clone()
    }

    /// How the last child that ended did so.
    #[must_use]
    pub fn last_exit(&self) -> Option<Exit> {
        *lock(&self.last_exit)
    }

    /// The live links and what they are used for.
    #[must_use]
    pub fn links(&self) -> Vec<(Arc<Link>, Use)> {
        let mut links = lock(&self.links);
        links.retain(|(link, _)| link.strong_count() > 0);
        links
            .iter()
            .filter_map(|(link, used)| Some((link.upgrade()?, *used)))
            .filter(|(link, _)| !link.is_ended())
            .collect()
    }

    /// The last lines of the child that was started last; while it has said nothing, those of the one before.
    #[must_use]
    pub fn log_tail(&self, count: usize) -> Vec<LogLine> {
        let logs = lock(&self.logs);
        let last = logs.last.iter().chain(&logs.before);
        let mut tails = last.map(|log| log.tail(count));
        tails.find(|tail| !tail.is_empty()).unwrap_or_default()
    }

    /// What it said of itself, if it ever did. It is kept while the server is down.
    #[must_use]
    pub fn known(&self) -> Option<Known> {
        lock(&self.known).clone()
    }

    /// The server has said hello. Lists that it does not declare any more are forgotten.
    pub(crate) fn set_hello(&self, hello: Hello) {
        let mut known = lock(&self.known);
        let lists = known.take().map(|known| known.lists).unwrap_or_default();
        *known = Some(Known {
            lists: lists.declared(&hello),
            hello,
        });
    }

    /// Puts a new list in place; says whether it differs from the one before.
    pub(crate) fn set_list(&self, kind: Kind, list: List) -> bool {
        let mut known = lock(&self.known);
        known
            .as_mut()
            .is_some_and(|known| known.lists.set(kind, list))
    }

    /// A list without what the configuration keeps from clients.
    pub(crate) fn permitted(&self, kind: Kind, list: List) -> List {
        let permits = |key: &str| kind != Kind::Tool || (self.settings.permits)(key);
        list.permitted(permits, self.settings.hint)
    }

    /// The one place where a server's state changes.
    pub(crate) fn turn(&self, health: Health) {
        let name = self.name();
        let up = matches!(health, Health::Ready);
        let was_up = matches!(self.report.borrow().health, Health::Ready);
        match health.failure() {
            Some(failure) => tracing::warn!(
                server = %name, state = health.word(), attempt = failure.attempt,
                retry_ms = millis(failure.retry_after(Instant::now())),
                last_stderr = failure.error.last_stderr(),
                "server {name} {}; it is tried again by itself", failure.error,
            ),
            None => {
                info!(server = %name, state = health.word(), "server {name} is {}", health.word())
            }
        }
        self.report.send_modify(|report| report.turn(health));
        if up != was_up {
            self.observer
                .observe(&Event::ServerTurned { server: name, up });
        }
    }

    /// Says that there is a server, before anything has become of it.
    pub(crate) fn announce(&self) {
        self.observer.observe(&Event::ServerTurned {
            server: self.name(),
            up: false,
        });
    }

    /// Ends all links; the catalog's is made anew at once, callers' with their next calls.
    pub(crate) fn restart(&self) {
        lock(&self.gate).reset();
        for lease in self.seats.taken() {
            lease.let_go();
        }
        self.restart.notify_one();
    }

    /// Waits until an operator wants a restart.
    pub(crate) async fn restarted(&self) {
        self.restart.notified().await;
    }

    /// Somebody needs the server: if it is lazy and asleep, it is started.
    pub(crate) fn need(&self) {
        self.needed.send_replace(Instant::now());
    }

    /// When somebody needed the server last, and word of the next time.
    pub(crate) fn needed(&self) -> watch::Receiver<Instant> {
        self.needed.subscribe()
    }

    /// Whether any link but the catalog's is up.
    pub(crate) fn is_used(&self) -> bool {
        self.links().iter().any(|(_, used)| *used != Use::Catalog)
    }

    /// A call could not reach the server: the keeper should look.
    pub(crate) fn suspect(&self) {
        self.suspect.notify_one();
    }

    /// Waits until somebody suspects that the server is gone.
    pub(crate) async fn suspected(&self) {
        self.suspect.notified().await;
    }

    pub(crate) fn count_restart(&self) {
        self.report.send_modify(|report| report.restarts += 1);
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        self.observer.observe(event);
    }

    /// Waits until the server can be used, up to `until`.
    ///
    /// # Errors
    /// When it is down, or still starting then.
    pub(crate) async fn usable(&self, until: Instant) -> Result<(), RouteError> {
        if self.settings.lazy {
            self.need();
        }
        let mut reports = self.report.subscribe();
        let settled = reports.wait_for(|report| report.health.is_settled());
        match tokio::time::timeout_at(until, settled).await {
            Ok(Ok(report)) if matches!(report.health, Health::Ready) => Ok(()),
            Ok(Ok(report)) => Err(self.down(&report.health)),
            // The server is gone with its reports.
            Ok(Err(_)) => Err(self.down(&Health::Stopped)),
            Err(_) => Err(RouteError::Starting {
                server: self.name().clone(),
            }),
        }
    }

    fn down(&self, health: &Health) -> RouteError {
        let failure = health.failure();
        RouteError::Down {
            server: self.name().clone(),
            state: health.word(),
            reason: failure.map(|failure| failure.error.clone()),
            retry_after: failure.map(|failure| failure.retry_after(Instant::now())),
        }
    }

    pub(crate) fn failed(&self, error: LinkError) -> RouteError {
        RouteError::Link {
            server: self.name().clone(),
            error,
            state: self.report.borrow().health.word(),
        }
    }

    /// What is told of a link whose making began then and failed.
    pub(crate) fn not_made(&self, began: Instant, error: LinkError) -> RouteError {
        self.fail_gate(began, &error);
        if matches!(error, LinkError::Unreachable(_)) {
            self.suspect();
        }
        let now = Instant::now();
        let retry_after = lock(&self.gate)
            .check(now)
            .map(|closed| closed.until.saturating_duration_since(now));
        RouteError::Down {
            server: self.name().clone(),
            state: self.report.borrow().health.word(),
            reason: Some(error),
            retry_after,
        }
    }

    /// A seat for the link of `lease`, waited for up to `timeouts.connect`.
    ///
    /// # Errors
    /// When all are in use until then.
    pub(crate) async fn seat(
        &self,
        lease: &Arc<Lease>,
    ) -> Result<OwnedSemaphorePermit, RouteError> {
        let name = self.name();
        let seat = self.seats.take(name, lease, self.settings.seat_wait).await;
        seat.ok_or_else(|| RouteError::Busy {
            server: name.clone(),
        })
    }

    /// Whether callers may make links now.
    ///
    /// # Errors
    /// When the last ones failed in a row and it is too early for another.
    pub(crate) fn admit(&self) -> Result<(), RouteError> {
        let now = Instant::now();
        match lock(&self.gate).check(now) {
            None => Ok(()),
            Some(closed) => Err(RouteError::Down {
                server: self.name().clone(),
                state: "backoff",
                reason: Some(closed.error.clone()),
                retry_after: Some(closed.until.saturating_duration_since(now)),
            }),
        }
    }

    fn fail_gate(&self, began: Instant, error: &LinkError) {
        lock(&self.gate).failed(Instant::now(), began, jitter(), error.clone());
    }

    /// Makes a link, counts it and sees it to its end. Without `seat` it is the catalog's own, which takes
    /// no seat. A caller's link begins on a spare if one waits.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        origin: &Origin,
        used: Use,
        reason: StartReason,
        forwarded: ForwardedHeaders,
        seat: Option<OwnedSemaphorePermit>,
    ) -> Result<Arc<HeldLink>, LinkError> {
        let server = self.name();
        let spare = seat.as_ref().and_then(|_| self.spares.take());
        if spare.is_none() {
            self.observe(&Event::LinkStarted { server, reason });
        }
        let began = Instant::now();
        let options = ConnectOptions { spare, forwarded };
        let link = self
            .connector
            .connect_with(options, origin, |child| self.watch_child(child))
            .await?;
        let took = began.elapsed();
        let peer = link.peer();
        info!(
            server = %server, link = %link.id(), reason = reason.word(), era = %peer.era(),
            version = %peer.version, took_ms = millis(took), "a link to server {server} is up",
        );
        self.report
            .send_modify(|report| report.version = Some(peer.version));
        self.observe(&Event::LinkOpened { server, took });
        let held = Arc::new(HeldLink {
            link: Arc::new(link),
            seat: Mutex::new(seat),
            closing: AtomicBool::new(false),
        });
        {
            let mut links = lock(&self.links);
            links.retain(|(link, _)| link.strong_count() > 0);
            links.push((Arc::downgrade(&held.link), used));
        }
        self.watch_link(&held, used);
        Ok(held)
    }

    /// The processes that wait for callers.
    #[must_use]
    pub fn spares(&self) -> &Spares {
        &self.spares
    }

    /// Starts a process that waits for a caller. `None` for an HTTP server, where there is nothing to start.
    pub(crate) async fn spawn_spare(self: &Arc<Self>) -> Result<Option<Spare>, LinkError> {
        self.observe(&Event::LinkStarted {
            server: self.name(),
            reason: StartReason::Spare,
        });
        self.connector.spawn(|child| self.watch_child(child)).await
    }

    /// Waits until the server's catalog link is up.
    pub(crate) async fn ready(&self) {
        let mut reports = self.report.subscribe();
        let ready = reports.wait_for(|report| matches!(report.health, Health::Ready));
        if ready.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Sees a child to its end, whatever becomes of the link it was started for.
    fn watch_child(self: &Arc<Self>, child: &Child) {
        lock(&self.logs).started(child.log());
        let (server, child) = (self.clone(), child.clone());
        // The handle that waits must not keep the child alive: whoever made it stops it explicitly.
        self.tasks.spawn(async move {
            let exit = child.exited().await;
            *lock(&server.last_exit) = Some(exit);
            server.observe(&Event::ChildExited {
                server: server.name(),
                exit,
                stderr_lines: child.log().stderr_lines(),
                noise_lines: child.log().noise_lines(),
            });
        });
    }

    /// Sees a link to its end.
    fn watch_link(self: &Arc<Self>, held: &Arc<HeldLink>, used: Use) {
        let (server, id, opened) = (self.clone(), held.link.id(), Instant::now());
        let (ended, held) = (held.link.ended(), Arc::downgrade(held));
        self.tasks.spawn(async move {
            let reason = ended.await;
            let name = server.name();
            info!(server = %name, link = %id, "a link to server {name} has ended: {reason}");
            let Some(held) = held.upgrade() else { return };
            drop(lock(&held.seat).take());
            // The keeper counts the failures of its own link.
            if used != Use::Catalog && !held.closing.load(Ordering::Relaxed) {
                server.fail_gate(opened, &reason);
            }
        });
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.settings.name)
            .finish_non_exhaustive()
    }
}

impl Logs {
    /// A child has been started. Why the one before ended must not be forgotten for it.
    fn started(&mut self, log: &ChildLog) {
        let last = self.last.replace(log.clone());
        if let Some(last) = last.filter(|last| !last.tail(1).is_empty()) {
            self.before = Some(last);
        }
    }
}

// === impl HeldLink ===

impl HeldLink {
    /// The link.
    #[must_use]
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Closes the link on purpose.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.link.close();
    }
}

impl Drop for HeldLink {
    fn drop(&mut self) {
        self.close();
    }
}

// === impl Use ===

impl Use {
    /// The word for it in `/status`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Session => "session",
            Self::Principal => "principal",
            Self::Shared => "shared",
        }
    }
}

/// A random number from 0 to 1.
pub(crate) fn jitter() -> f64 {
    let bits = u32::try_from(uuid::Uuid::new_v4().as_u128() >> 96).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

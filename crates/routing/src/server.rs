//! A server of the configuration: how it is reached, how it is, what it lists, and the links to it.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use manifold_link::{Connector, Link, LinkError, Origin, Patience};
use manifold_protocol::{Naming, OriginalName, ServerName};
use manifold_supervisor::{Exit, RestartPolicy};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::{
    RouteError,
    events::{Event, Observer, StartReason},
    health::{Health, Report},
    listing::Item,
};

/// What the configuration says of a server, beside how it is reached.
#[derive(Clone)]
pub struct ServerSettings {
    /// Its name.
    pub name: ServerName,
    /// How its names are exposed on the merged path.
    pub naming: Naming,
    /// Switched off servers are only shown.
    pub enabled: bool,
    /// Readiness waits for it.
    pub required: bool,
    /// Who gets a link of their own.
    pub isolation: Isolation,
    /// How restarts are spaced.
    pub restart: RestartPolicy,
    /// How long its answers may take.
    pub patience: Patience,
    /// The most links at a time, beside the catalog's.
    pub max_links: usize,
    /// A caller's link that is not used for so long is closed.
    pub link_idle: Duration,
    /// Whether clients may see the last line of stderr.
    pub expose_stderr: bool,
    /// Which of its tools are exposed.
    pub permits: ToolFilter,
}

/// Says whether a tool is exposed, by its original name.
pub type ToolFilter = Arc<dyn Fn(&OriginalName) -> bool + Send + Sync>;

/// Who gets a link of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Every caller.
    Session,
    /// Nobody: one link serves all.
    Shared,
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
    items: Mutex<Option<Arc<Vec<Item>>>>,
    links: Mutex<Vec<(Weak<Link>, Use)>>,
    last_exit: Mutex<Option<Exit>>,
    seats: Arc<Semaphore>,
    pub(crate) restart: Notify,
    tasks: TaskTracker,
    observer: Arc<dyn Observer>,
}

/// A link in use, and its seat among the server's links.
#[derive(Debug)]
pub struct HeldLink {
    link: Arc<Link>,
    _seat: Option<OwnedSemaphorePermit>,
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
            seats: Arc::new(Semaphore::new(settings.max_links)),
            settings,
            connector,
            report: watch::Sender::new(Report::new(health)),
            items: Mutex::default(),
            links: Mutex::default(),
            last_exit: Mutex::default(),
            restart: Notify::new(),
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

    /// Its list, if it was ever listed. It is kept while the server is down.
    #[must_use]
    pub fn items(&self) -> Option<Arc<Vec<Item>>> {
        lock(&self.items).clone()
    }

    /// Puts a new list in place; says whether it differs from the one before.
    pub(crate) fn set_items(&self, items: Vec<Item>) -> bool {
        let mut place = lock(&self.items);
        let changed = place.as_ref().is_none_or(|before| **before != items);
        *place = Some(Arc::new(items));
        changed
    }

    /// The one place where a server's state changes.
    pub(crate) fn turn(&self, health: Health) {
        let name = self.name();
        let up = matches!(health, Health::Ready);
        let was_up = matches!(self.report.borrow().health, Health::Ready);
        match health.failure() {
            Some(failure) => tracing::warn!(
                server = %name, state = health.word(), attempt = failure.attempt,
                retry_ms = failure.retry_after(Instant::now()).as_millis(),
                "server {name} {}", failure.error,
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

    /// Makes a link and counts it. Without `seat` it is the catalog's own, which takes no seat.
    pub(crate) async fn connect(
        &self,
        origin: &Origin,
        used: Use,
        reason: StartReason,
        seat: Option<OwnedSemaphorePermit>,
    ) -> Result<Arc<HeldLink>, LinkError> {
        let began = Instant::now();
        let link = Arc::new(self.connector.connect(origin).await?);
        let took = began.elapsed();
        let (server, peer) = (self.name(), link.peer());
        info!(
            server = %server, link = %link.id(), reason = reason.word(), era = %peer.era(),
            version = %peer.version, took_ms = took.as_millis(), "a link to server {server} is up",
        );
        {
            let mut links = lock(&self.links);
            links.retain(|(link, _)| link.strong_count() > 0);
            links.push((Arc::downgrade(&link), used));
        }
        self.report
            .send_modify(|report| report.version = Some(link.peer().version));
        self.observe(&Event::LinkOpened {
            server,
            reason,
            took,
        });
        Ok(Arc::new(HeldLink { link, _seat: seat }))
    }

    /// A seat for a caller's link.
    pub(crate) fn seat(&self) -> Result<OwnedSemaphorePermit, RouteError> {
        self.seats
            .clone()
            .try_acquire_owned()
            .map_err(|_| RouteError::Busy {
                server: self.name().clone(),
            })
    }

    /// Sees a link to its end: reports it, and how the child ended.
    pub(crate) fn watch(self: &Arc<Self>, link: &Link) {
        let server = self.clone();
        let child = link.child().cloned();
        let id = link.id();
        let ended = link.end_watch();
        self.tasks.spawn(async move {
            let reason = ended.await;
            let name = server.name();
            info!(server = %name, link = %id, "a link to server {name} has ended: {reason}");
            server.observe(&Event::LinkClosed { server: name });
            if let Some(child) = child {
                let exit = child.exited().await;
                *lock(&server.last_exit) = Some(exit);
                server.observe(&Event::ChildExited {
                    server: name,
                    exit,
                    stderr_lines: child.log().stderr_lines(),
                    noise_lines: child.log().noise_lines(),
                });
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

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings")
            .field("name", &self.name)
            .field("isolation", &self.isolation)
            .finish_non_exhaustive()
    }
}

// === impl HeldLink ===

impl HeldLink {
    /// The link.
    #[must_use]
    pub fn link(&self) -> &Arc<Link> {
        &self.link
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

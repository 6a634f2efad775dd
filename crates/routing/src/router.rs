//! From a name to a server, from a caller to a link.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use manifold_link::{Call, Origin};
use manifold_protocol::{Method, OriginalName, Params, ServerName};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use crate::{
    Health, RouteError,
    caller::Caller,
    catalog::{Catalog, Part, PartList, Scope, ServerIndex},
    events::{CallOutcome, Event, Observer},
    keeper,
    lease::Lease,
    nearest::nearest,
    running::{Begun, RunningCall},
    server::{HeldLink, Isolation, Server, Use},
    session::{ClientHello, Full, Session, SessionId, Sessions},
};

/// How often sessions and links are looked over for idle ones.
const SWEEP: Duration = Duration::from_secs(5);

/// The core: servers, catalog, sessions, and the way through them.
#[derive(Debug)]
pub struct Router {
    servers: Vec<Arc<Server>>,
    store: Arc<CatalogStore>,
    sessions: Sessions,
    anonymous: Arc<Caller>,
    shared: Vec<Arc<Lease>>,
    list_until: Instant,
    tasks: TaskTracker,
    stop: CancellationToken,
    observer: Arc<dyn Observer>,
}

/// The bounds of the core.
#[derive(Debug, Clone, Copy)]
pub struct RouterLimits {
    /// How long a merged list waits for servers that are starting, counted from the start.
    pub list: Duration,
}

/// The current catalog, and word of each new one.
#[derive(Debug)]
pub(crate) struct CatalogStore {
    servers: Vec<Arc<Server>>,
    current: ArcSwap<Catalog>,
    version: watch::Sender<u64>,
    observer: Arc<dyn Observer>,
}

/// A request for one tool, as a face hands it over.
#[derive(Debug)]
pub struct ToolCall {
    /// The client's params.
    pub params: Params,
    /// What the request says of its client.
    pub origin: Origin,
    /// Whether the client wants progress.
    pub progress: bool,
}

/// Where a call goes.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) server: Arc<Server>,
    pub(crate) lease: Arc<Lease>,
    /// When the call began, however often it is sent.
    began: Instant,
}

// === impl Router ===

impl Router {
    /// Starts the servers. Their tasks run on `tasks` until [`Router::stop`].
    pub fn start(
        servers: Vec<Server>,
        sessions: Sessions,
        limits: RouterLimits,
        tasks: TaskTracker,
        observer: Arc<dyn Observer>,
    ) -> Arc<Self> {
        let servers: Vec<_> = servers.into_iter().map(Arc::new).collect();
        let store = Arc::new(CatalogStore::new(servers.clone(), observer.clone()));
        let router = Arc::new(Self {
            shared: servers
                .iter()
                .map(|_| Arc::new(Lease::new(Use::Shared)))
                .collect(),
            servers,
            store,
            sessions,
            anonymous: Arc::new(Caller::new(Use::Principal)),
            list_until: Instant::now() + limits.list,
            tasks,
            stop: CancellationToken::new(),
            observer,
        });
        for server in router
            .servers
            .iter()
            .filter(|server| server.settings().enabled)
        {
            server.announce();
            router.tasks.spawn(keeper::keep(
                server.clone(),
                router.store.clone(),
                router.stop.child_token(),
            ));
        }
        router.tasks.spawn(sweep(router.clone()));
        router
    }

    /// Ends everything: sessions, leases, catalog links. The tasks end by themselves; whoever owns the
    /// tracker waits for them.
    pub fn stop(&self) {
        self.stop.cancel();
        for session in self.sessions.all() {
            self.end_session(session.id());
        }
        self.anonymous.end();
        for lease in &self.shared {
            lease.end();
        }
    }

    /// The servers, in the order of the configuration.
    #[must_use]
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// The live client sessions.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The caller that modern requests without a principal share.
    #[must_use]
    pub fn anonymous(&self) -> &Arc<Caller> {
        &self.anonymous
    }

    /// Who counts.
    #[must_use]
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.observer
    }

    /// Opens a session.
    ///
    /// # Errors
    /// When there are as many as may be and none is idle. The longest idle one makes room otherwise.
    pub fn open_session(&self, hello: ClientHello) -> Result<Arc<Session>, Full> {
        let (session, evicted) = self.sessions.open(hello)?;
        if let Some(evicted) = evicted {
            self.count_end(&evicted);
        }
        Ok(session)
    }

    /// Ends a session; says whether there was one.
    pub fn end_session(&self, id: SessionId) -> bool {
        let ended = self.sessions.end(id);
        if let Some(session) = &ended {
            self.count_end(session);
        }
        ended.is_some()
    }

    fn count_end(&self, session: &Session) {
        self.observer.observe(&Event::SessionEnded {
            lasted: session.age(),
        });
    }

    /// The place of a server by its name.
    #[must_use]
    pub fn server_index(&self, name: &str) -> Option<ServerIndex> {
        self.servers
            .iter()
            .position(|server| server.name().as_str() == name && server.settings().enabled)
            .map(ServerIndex)
    }

    /// Restarts a server's links now, whatever its state; says whether there is such a server.
    pub fn restart(&self, name: &str) -> bool {
        let Some(ServerIndex(index)) = self.server_index(name) else {
            return false;
        };
        if let Some(server) = self.servers.get(index) {
            server.restart();
        }
        true
    }

    /// Whether every required server has been up once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.servers
            .iter()
            .filter(|server| server.settings().required && server.settings().enabled)
            .all(|server| server.report().was_up)
    }

    /// The lists of a path. Shortly after the start it waits for servers that are still starting, up to
    /// `timeouts.list` from the start; later it answers at once.
    pub async fn catalog(&self, scope: Scope) -> Arc<Catalog> {
        let mut version = self.store.version.subscribe();
        loop {
            version.mark_unchanged();
            // What the catalog itself says: a server may be a moment ahead of it.
            let catalog = self.store.current.load_full();
            if Instant::now() >= self.list_until || catalog.view(scope).is_settled() {
                return catalog;
            }
            if tokio::time::timeout_at(self.list_until, version.changed())
                .await
                .is_err()
            {
                return self.store.current.load_full();
            }
        }
    }

    /// Begins a call of a tool. Nothing is sent before the call is first asked for an event.
    pub fn call_tool(
        self: &Arc<Self>,
        caller: Arc<Caller>,
        scope: Scope,
        request: ToolCall,
    ) -> RunningCall {
        let beginning = self.clone().begin_tool(caller, scope, request);
        RunningCall::new(self.clone(), Method::ToolsCall, Box::pin(beginning))
    }

    /// Counts a call that is refused because its caller has too many in flight.
    pub fn refuse_busy(&self, method: &Method) {
        self.observer.observe(&Event::CallEnded {
            server: None,
            method,
            outcome: CallOutcome::Busy,
            took: Duration::ZERO,
        });
    }

    async fn begin_tool(
        self: Arc<Self>,
        caller: Arc<Caller>,
        scope: Scope,
        request: ToolCall,
    ) -> Result<Begun, RouteError> {
        let began = Instant::now();
        let exposed = request
            .params
            .name()
            .ok_or(RouteError::InvalidParams("params.name must be a string"))?;
        let (index, name) = self.resolve(scope, &exposed).await?;
        let route = self.route(&caller, index, began)?;
        let call = Call {
            method: Method::ToolsCall,
            params: request.params,
            name: Some(name),
            origin: request.origin,
            progress: request.progress,
            patience: route.server.settings().patience,
        };
        self.begin(route, call).await
    }

    /// Finds the server of an exposed name. A name that may belong to a server which was never listed
    /// waits for that server.
    async fn resolve(
        &self,
        scope: Scope,
        exposed: &str,
    ) -> Result<(ServerIndex, OriginalName), RouteError> {
        let found = |catalog: &Catalog| {
            catalog
                .view(scope)
                .tool(exposed)
                .map(|target| (target.server, target.name.clone()))
        };
        let catalog = self.store.current.load_full();
        if let Some(found) = found(&catalog) {
            return Ok(found);
        }
        let mut down = None;
        for server in self.unlisted(&catalog, scope, exposed) {
            let until = Instant::now() + server.settings().patience.silence;
            if let Err(error) = server.usable(until).await {
                down.get_or_insert(error);
            } else if let Some(found) = found(&self.store.current.load()) {
                return Ok(found);
            }
        }
        if let Some(error) = down {
            return Err(error);
        }
        let catalog = self.store.current.load_full();
        Err(RouteError::UnknownTool {
            name: exposed.to_owned(),
            nearest: nearest(exposed, catalog.view(scope).tool_names()),
        })
    }

    /// The servers that are in no list yet and whose prefix the name has.
    fn unlisted(&self, catalog: &Catalog, scope: Scope, exposed: &str) -> Vec<Arc<Server>> {
        let view = catalog.view(scope);
        self.servers
            .iter()
            .enumerate()
            .filter(|(index, server)| match scope {
                Scope::Merged => server.settings().naming.could_expose(exposed),
                Scope::Alone(alone) => alone == ServerIndex(*index),
            })
            .filter(|(_, server)| view.lacks(server.name()))
            .map(|(_, server)| server.clone())
            .collect()
    }

    fn route(
        &self,
        caller: &Caller,
        index: ServerIndex,
        began: Instant,
    ) -> Result<Route, RouteError> {
        let gone = || RouteError::InvalidParams("the server is not configured");
        let server = self.servers.get(index.0).ok_or_else(gone)?.clone();
        let lease = match server.settings().isolation {
            Isolation::Session => caller.lease(index),
            Isolation::Shared => self.shared.get(index.0).ok_or_else(gone)?.clone(),
        };
        Ok(Route {
            server,
            lease,
            began,
        })
    }

    /// Sends a call on the caller's link. A link that turns out to have ended before anything was sent is
    /// replaced once. However often it is begun, a call has one end.
    pub(crate) async fn begin(
        self: Arc<Self>,
        route: Route,
        mut call: Call,
    ) -> Result<Begun, RouteError> {
        let Route { server, lease, .. } = &route;
        let patience = server.settings().patience;
        let end = route.began + patience.max;
        let until = (Instant::now() + patience.silence).min(end);
        let mut tried = false;
        loop {
            let held = match lease.held() {
                Some(held) => held,
                None => self.make_link(&route, &call, until).await?,
            };
            call.patience.max = end.saturating_duration_since(Instant::now());
            match held.link().begin(call.clone()).await {
                Ok(exchange) => {
                    return Ok(Begun {
                        route,
                        call,
                        exchange,
                        _held: held,
                    });
                }
                Err(error) if held.link().is_ended() && !tried => {
                    tried = true;
                    info!(server = %server.name(), %error, "a link had ended: a new one is made");
                    lease.let_go();
                }
                Err(error) => return Err(server.failed(error)),
            }
        }
    }

    async fn make_link(
        &self,
        route: &Route,
        call: &Call,
        until: Instant,
    ) -> Result<Arc<HeldLink>, RouteError> {
        let Route { server, lease, .. } = route;
        server.usable(until).await?;
        // A link may outlive the request that made it, so no capability of one request is offered, and one
        // that serves all speaks for nobody.
        let mut origin = Origin::manifold();
        if server.settings().isolation == Isolation::Session {
            origin.client_info = call.origin.client_info.clone();
        }
        tokio::time::timeout_at(until, lease.link(server, &origin, &self.tasks))
            .await
            .map_err(|_| RouteError::Starting {
                server: server.name().clone(),
            })?
    }
}

// === impl CatalogStore ===

impl CatalogStore {
    fn new(servers: Vec<Arc<Server>>, observer: Arc<dyn Observer>) -> Self {
        let store = Self {
            servers,
            current: ArcSwap::from_pointee(Catalog::build(&[])),
            version: watch::Sender::new(0),
            observer,
        };
        store.publish();
        store
    }

    /// Builds the catalog anew from what the servers are and list, and puts it in place whole.
    pub(crate) fn publish(&self) {
        // One at a time: the last one built must be the last one put in place.
        self.version.send_modify(|version| {
            let reports: Vec<_> = self.servers.iter().map(|server| server.report()).collect();
            let parts: Vec<_> = self
                .servers
                .iter()
                .zip(&reports)
                .map(|(server, report)| Part {
                    name: server.name(),
                    naming: &server.settings().naming,
                    list: part_list(server, &report.health),
                })
                .collect();
            let catalog = Catalog::build(&parts);
            let before = self.current.load();
            for name in &catalog.conflicts {
                if !before.conflicts.contains(name) {
                    warn!(%name, "an exposed name is claimed twice: give one server another prefix");
                }
            }
            self.observer.observe(&Event::Merged {
                conflicts: catalog.conflicts.len(),
            });
            self.current.store(Arc::new(catalog));
            *version = version.wrapping_add(1);
        });
    }
}

fn part_list(server: &Server, health: &Health) -> PartList {
    if matches!(health, Health::Disabled) {
        return PartList::Disabled;
    }
    match server.items() {
        Some(items) => PartList::Listed(items),
        None => PartList::Missing {
            state: health.word(),
            reason: match health.failure() {
                Some(failure) => public_reason(server.name(), &failure.error),
                None => format!("server {} is {}", server.name(), health.word()),
            },
        },
    }
}

/// What clients are told of a failure: whose it is, never a path or what the system said.
pub(crate) fn public_reason(server: &ServerName, error: &manifold_link::LinkError) -> String {
    format!("server {server} {}", error.public())
}

/// Looks for idle sessions and links until the router stops.
async fn sweep(router: Arc<Router>) {
    let mut ticks = tokio::time::interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = router.stop.cancelled() => return,
        }
        let now = Instant::now();
        for session in router.sessions.end_expired(now) {
            info!("a session was not used for sessions.idle_timeout and is ended");
            router.count_end(&session);
        }
        for session in router.sessions.all() {
            session.caller().end_idle_links(&router.servers, now);
        }
        router.anonymous.end_idle_links(&router.servers, now);
        for (server, lease) in router.servers.iter().zip(&router.shared) {
            if let Some(limit) = now.checked_sub(server.settings().link_idle) {
                lease.let_go_if_idle(limit);
            }
        }
    }
}

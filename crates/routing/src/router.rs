//! From a name to a server, from a caller to a link.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use manifold_link::{Call, Exchange, Origin, Patience};
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
    events::{Event, Observer},
    keeper,
    lease::Lease,
    nearest::nearest,
    running::{RunningCall, Watch},
    server::{HeldLink, Isolation, Server, Use},
    session::Sessions,
};

/// How often sessions and links are looked over for idle ones.
const SWEEP: Duration = Duration::from_secs(5);

/// The core: servers, catalog, sessions, and the way through them.
#[derive(Debug)]
pub struct Router {
    servers: Vec<Arc<Server>>,
    store: Arc<CatalogStore>,
    sessions: Sessions,
    anonymous: Caller,
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
    lease: Arc<Lease>,
    origin: Origin,
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
            anonymous: Caller::new(Use::Principal),
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
    pub fn anonymous(&self) -> &Caller {
        &self.anonymous
    }

    /// Who counts.
    #[must_use]
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.observer
    }

    /// Ends a session and counts it.
    pub fn end_session(&self, id: crate::session::SessionId) -> bool {
        let Some(session) = self.sessions.end(id) else {
            return false;
        };
        self.observer.observe(&Event::SessionEnded {
            lasted: session.age(),
        });
        true
    }

    /// The place of a server by its name.
    #[must_use]
    pub fn server_index(&self, name: &str) -> Option<ServerIndex> {
        self.servers
            .iter()
            .position(|server| server.name().as_str() == name && server.settings().enabled)
            .map(ServerIndex)
    }

    /// Restarts a server's catalog link now, whatever its state; says whether there is such a server.
    pub fn restart(&self, name: &str) -> bool {
        let Some(ServerIndex(index)) = self.server_index(name) else {
            return false;
        };
        if let Some(server) = self.servers.get(index) {
            server.restart.notify_one();
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
            if Instant::now() >= self.list_until || self.is_settled(scope) {
                break;
            }
            if tokio::time::timeout_at(self.list_until, version.changed())
                .await
                .is_err()
            {
                break;
            }
        }
        self.store.current.load_full()
    }

    fn is_settled(&self, scope: Scope) -> bool {
        let settled =
            |server: &Arc<Server>| server.items().is_some() || server.report().health.is_settled();
        match scope {
            Scope::Merged => self.servers.iter().all(settled),
            Scope::Alone(ServerIndex(index)) => self.servers.get(index).is_none_or(settled),
        }
    }

    /// Begins a call of a tool.
    ///
    /// Dropping the future sends nothing, or cancels what was sent.
    ///
    /// # Errors
    /// When the name leads nowhere, or no link can be had in the call's own time.
    pub async fn call_tool(
        self: &Arc<Self>,
        caller: &Caller,
        scope: Scope,
        request: ToolCall,
    ) -> Result<RunningCall, RouteError> {
        let mut watch = Watch::begin(self.observer.clone(), Method::ToolsCall);
        let begun = self.begin_tool(caller, scope, request, &mut watch).await;
        match begun {
            Ok((route, call, exchange, held)) => Ok(RunningCall::new(
                self.clone(),
                route,
                call,
                exchange,
                held,
                watch,
            )),
            Err(error) => {
                watch.end(error.outcome());
                Err(error)
            }
        }
    }

    async fn begin_tool(
        &self,
        caller: &Caller,
        scope: Scope,
        request: ToolCall,
        watch: &mut Watch,
    ) -> Result<(Route, Call, Exchange, Arc<HeldLink>), RouteError> {
        let exposed = request
            .params
            .name()
            .ok_or(RouteError::InvalidParams("params.name must be a string"))?;
        let (server, name) = self.resolve(scope, &exposed).await?;
        let route = self.route(caller, server, request.origin)?;
        watch.routed(route.server.name());
        let patience = route.server.settings().patience;
        let call = Call {
            method: Method::ToolsCall,
            params: request.params,
            name: Some(name),
            origin: route.origin.clone(),
            progress: request.progress,
            patience,
        };
        let (exchange, held) = self.begin(&route, call.clone()).await?;
        Ok((route, call, exchange, held))
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
        if let Some(found) = found(&self.store.current.load()) {
            return Ok(found);
        }
        for server in self.unlisted(scope, exposed) {
            let until = Instant::now() + server.settings().patience.silence;
            server.usable(until).await?;
        }
        if let Some(found) = found(&self.store.current.load()) {
            return Ok(found);
        }
        let catalog = self.store.current.load_full();
        Err(RouteError::UnknownTool {
            name: exposed.to_owned(),
            nearest: nearest(exposed, catalog.view(scope).tool_names()),
        })
    }

    /// The servers that were never listed and whose prefix the name has.
    fn unlisted(&self, scope: Scope, exposed: &str) -> Vec<Arc<Server>> {
        self.servers
            .iter()
            .enumerate()
            .filter(|(index, server)| match scope {
                Scope::Merged => server.settings().naming.could_expose(exposed),
                Scope::Alone(alone) => alone == ServerIndex(*index),
            })
            .filter(|(_, server)| server.settings().enabled && server.items().is_none())
            .map(|(_, server)| server.clone())
            .collect()
    }

    fn route(
        &self,
        caller: &Caller,
        index: ServerIndex,
        origin: Origin,
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
            origin,
        })
    }

    /// Sends a call on the caller's link. A link that turns out to have ended before anything was sent is
    /// replaced once.
    pub(crate) async fn begin(
        &self,
        route: &Route,
        call: Call,
    ) -> Result<(Exchange, Arc<HeldLink>), RouteError> {
        let Route { server, lease, .. } = route;
        let origin = match server.settings().isolation {
            Isolation::Session => route.handshake_origin(),
            Isolation::Shared => Origin::manifold(),
        };
        let until = Instant::now() + call.patience.silence;
        let mut tried = false;
        loop {
            let held = match lease.held_now() {
                Some(held) => held,
                None => {
                    server.usable(until).await?;
                    let making = lease.link(server, &origin, &self.tasks);
                    tokio::time::timeout_at(until, making).await.map_err(|_| {
                        RouteError::Starting {
                            server: server.name().clone(),
                        }
                    })??
                }
            };
            match held.link().begin(call.clone()).await {
                Ok(exchange) => return Ok((exchange, held)),
                Err(error) if held.link().is_ended() && !tried => {
                    tried = true;
                    info!(server = %server.name(), %error, "a link had ended: a new one is made");
                }
                Err(error) => return Err(server.failed(error)),
            }
        }
    }

    /// The patience of Manifold's own requests to a server.
    #[must_use]
    pub fn patience(&self, index: ServerIndex) -> Option<Patience> {
        Some(self.servers.get(index.0)?.settings().patience)
    }
}

impl Route {
    /// What the link says of the caller at its handshake: a link may outlive the request that made it, so
    /// no capability of one request is offered.
    fn handshake_origin(&self) -> Origin {
        Origin {
            client_info: self.origin.client_info.clone(),
            ..Origin::manifold()
        }
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
        for id in router.sessions.expired(now) {
            info!("a session was not used for sessions.idle_timeout and is ended");
            router.end_session(id);
        }
        for session in router.sessions.all() {
            session.caller().end_idle_links(&router.servers, now);
        }
        router.anonymous.end_idle_links(&router.servers, now);
    }
}

//! From a name to a server, from a caller to a link.

use std::{sync::Arc, time::Duration};

use manifold_link::{Call, Origin, Subject};
use manifold_protocol::{LogLevel, Method, Outcome, Raw, ResultObject};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::info;

use crate::{
    Health, RouteError,
    caller::{Caller, Callers, Changes},
    catalog::{Scope, ServerIndex, Surface, View, ViewIndex},
    events::{CallOutcome, Event, Observer},
    keeper,
    lease::Lease,
    request::{Found, Request, Wanted},
    running::{Beginnings, Begun, RunningCall},
    server::{HeldLink, Server, Use},
    session::{ClientHello, Full, Session, SessionId, Sessions},
    settings::Isolation,
    spares::Spares,
    store::CatalogStore,
    sweep,
};

/// The core: servers, catalog, sessions, and the way through them.
#[derive(Debug)]
pub struct Router {
    servers: Vec<Arc<Server>>,
    views: Arc<[View]>,
    store: Arc<CatalogStore>,
    sessions: Sessions,
    anonymous: Callers,
    /// Sees what everybody sees who has no link of their own.
    nobody: Callers,
    shared: Vec<Arc<Lease>>,
    list_until: Instant,
    tasks: TaskTracker,
    stop: CancellationToken,
    observer: Arc<dyn Observer>,
}

/// What the configuration says of the core.
#[derive(Debug, Clone)]
pub struct RouterSettings {
    /// How long a merged list waits for servers that are starting, counted from the start.
    pub list: Duration,
    /// The views, in the order of the configuration.
    pub views: Vec<View>,
}

/// Where a call goes.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) server: Arc<Server>,
    pub(crate) lease: Arc<Lease>,
    index: ServerIndex,
    /// What the caller saw: the URIs of the answer are exposed as its lists have them.
    surface: Arc<Surface>,
    /// When the call began, however often it is sent.
    began: Instant,
}

// === impl Router ===

impl Router {
    /// Starts the servers. Their tasks run on `tasks` until [`Router::stop`].
    pub fn start(
        servers: Vec<Server>,
        sessions: Sessions,
        settings: RouterSettings,
        tasks: TaskTracker,
        observer: Arc<dyn Observer>,
    ) -> Arc<Self> {
        let servers: Vec<_> = servers.into_iter().map(Arc::new).collect();
        let views: Arc<[View]> = settings.views.into();
        let store = CatalogStore::new(servers.clone(), views.clone(), observer.clone());
        let store = Arc::new(store);
        let router = Arc::new(Self {
            shared: servers
                .iter()
                .enumerate()
                .map(|(index, _)| Lease::shared(ServerIndex(index)))
                .map(Arc::new)
                .collect(),
            servers,
            views,
            store,
            sessions,
            anonymous: Callers::new(Use::Principal),
            nobody: Callers::new(Use::Principal),
            list_until: Instant::now() + settings.list,
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
            if server.settings().spare > 0 {
                let stop = router.stop.child_token();
                router.tasks.spawn(Spares::keep(server.clone(), stop));
            }
        }
        router
            .tasks
            .spawn(sweep::sweep(router.clone(), router.stop.child_token()));
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

    /// The caller that modern requests without a principal share, one for each set of forwarded headers.
    #[must_use]
    pub fn anonymous(&self) -> &Callers {
        &self.anonymous
    }

    /// A caller that never calls: it sees what everybody sees who has no link of their own.
    #[must_use]
    pub fn nobody(&self) -> &Caller {
        self.nobody.plain()
    }

    /// The links that serve all callers.
    pub(crate) fn shared(&self) -> impl Iterator<Item = (&Arc<Server>, &Arc<Lease>)> {
        self.servers.iter().zip(&self.shared)
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

    /// Remembers the log level of a session and tells the servers that it has links to.
    pub fn set_log_level(&self, session: &Session, level: LogLevel) {
        let replay = session.callers().replay();
        replay.set_log_level(level);
        for (ServerIndex(index), held) in session.callers().links() {
            let Some(server) = self.servers.get(index) else {
                continue;
            };
            let (server, replay) = (server.name().clone(), replay.clone());
            self.tasks
                .spawn(async move { replay.tell(&server, held.link()).await });
        }
    }

    /// Ends a session; says whether there was one.
    pub fn end_session(&self, id: SessionId) -> bool {
        let ended = self.sessions.end(id);
        if let Some(session) = &ended {
            self.count_end(session);
        }
        ended.is_some()
    }

    pub(crate) fn count_end(&self, session: &Session) {
        self.observer.observe(&Event::SessionEnded {
            lasted: session.age(),
        });
    }

    /// What is served at `/mcp/NAME`, if anything is.
    #[must_use]
    pub fn scope(&self, name: &str) -> Option<Scope> {
        if let Some(index) = self.server_index(name) {
            return Some(Scope::Alone(index));
        }
        let view = self.views.iter().position(|view| &*view.name == name)?;
        Some(Scope::View(ViewIndex(view)))
    }

    /// The name of what is served there; none for the merged path.
    #[must_use]
    pub fn scope_name(&self, scope: Scope) -> Option<&str> {
        match scope {
            Scope::Merged => None,
            Scope::Alone(ServerIndex(index)) => {
                self.servers.get(index).map(|server| server.name().as_str())
            }
            Scope::View(ViewIndex(index)) => self.views.get(index).map(|view| &*view.name),
        }
    }

    /// The place of a server by its name.
    #[must_use]
    pub fn server_index(&self, name: &str) -> Option<ServerIndex> {
        self.servers
            .iter()
            .position(|server| server.name().as_str() == name && server.settings().enabled)
            .map(ServerIndex)
    }

    /// The names of the headers that some server wants of clients' requests, in lower case.
    #[must_use]
    pub fn forward_headers(&self) -> Vec<Box<str>> {
        let all = self.servers.iter();
        let mut names: Vec<_> = all
            .flat_map(|server| server.settings().forward_headers.iter().cloned())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
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

    /// What a caller sees on a path. Shortly after the start it waits for servers that are still starting, up to
    /// `timeouts.list` from the start; later it answers at once. Lazy servers that were never listed are started.
    pub async fn lists(&self, caller: &Caller, scope: Scope) -> Arc<Surface> {
        self.seen(caller, scope, self.list_until, Surface::is_settled)
            .await
    }

    /// What a path says of itself. One server's is waited for up to its `timeouts.list`; what all have in common is
    /// known.
    pub async fn hello(&self, caller: &Caller, scope: Scope) -> Arc<Surface> {
        let Scope::Alone(ServerIndex(index)) = scope else {
            return self.surface(caller, scope);
        };
        let patience = self.servers.get(index);
        let patience = patience.map_or(Duration::ZERO, |server| server.settings().list);
        let is_known = |surface: &Surface| surface.is_known() || surface.is_settled();
        self.seen(caller, scope, Instant::now() + patience, is_known)
            .await
    }

    /// What a caller sees when it is as it should be, or at `until`.
    async fn seen(
        &self,
        caller: &Caller,
        scope: Scope,
        until: Instant,
        is_ready: impl Fn(&Surface) -> bool,
    ) -> Arc<Surface> {
        let mut version = self.store.changes();
        loop {
            version.mark_unchanged();
            // What the catalog itself says: a server may be a moment ahead of it.
            let surface = self.surface(caller, scope);
            let woken = self.wake(&surface);
            if Instant::now() >= until || (!woken && is_ready(&surface)) {
                return surface;
            }
            if tokio::time::timeout_at(until, version.changed())
                .await
                .is_err()
            {
                return self.surface(caller, scope);
            }
        }
    }

    /// What a caller sees on a path now.
    #[must_use]
    pub fn surface(&self, caller: &Caller, scope: Scope) -> Arc<Surface> {
        caller.surface(&self.store.current(), scope)
    }

    /// Word of each change in what a caller sees.
    #[must_use]
    pub fn changes(&self, caller: &Caller) -> Changes {
        caller.changes(self.store.changes())
    }

    /// Starts the lazy servers of a path that were never listed; says whether some are only now waking up.
    fn wake(&self, surface: &Surface) -> bool {
        let mut woken = false;
        for ServerIndex(index) in surface.unlisted() {
            if let Some(server) = self.servers.get(index)
                && server.settings().lazy
            {
                server.need();
                woken |= matches!(server.report().health, Health::Asleep);
            }
        }
        woken
    }

    /// Begins a call. Nothing is sent before it is first asked for an event.
    pub fn call(
        self: &Arc<Self>,
        caller: Arc<Caller>,
        scope: Scope,
        request: Request,
    ) -> RunningCall {
        let method = request.method.clone();
        let beginning = self.clone().begin_routed(caller, scope, request);
        RunningCall::new(self.clone(), method, Box::pin(beginning))
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

    async fn begin_routed(
        self: Arc<Self>,
        caller: Arc<Caller>,
        scope: Scope,
        request: Request,
    ) -> Result<Beginnings, RouteError> {
        let began = Instant::now();
        let wanted = Wanted::of(&request.method, &request.params)?;
        let (found, surface) = self.find(&caller, scope, &request.method, wanted).await?;
        let route = self.route(&caller, found.server, surface, began)?;
        if let Some(answer) = answer_without(&route.server, &request.method) {
            return Ok(Beginnings::Answer(Box::new(answer)));
        }
        let call = Call {
            method: request.method,
            params: request.params,
            subject: found.subject,
            origin: request.origin,
            progress: request.progress,
            patience: route.server.settings().patience,
        };
        self.begin(route, call).await
    }

    /// Finds the server of what a client names. A name that may belong to a server which was never listed waits for
    /// that server.
    async fn find(
        &self,
        caller: &Caller,
        scope: Scope,
        method: &Method,
        wanted: Wanted,
    ) -> Result<(Found, Arc<Surface>), RouteError> {
        let surface = self.surface(caller, scope);
        if !surface.capabilities().answers(method) {
            return Err(RouteError::UnknownMethod(method.clone()));
        }
        if let Some(found) = wanted.find(&surface) {
            return Ok((found, surface));
        }
        // A bare URI says nothing of its server: it may be one of those that are starting still.
        let surface = match wanted.uri() {
            Some(_) => self.lists(caller, scope).await,
            None => surface,
        };
        if let Some(found) = wanted.find(&surface) {
            return Ok((found, surface));
        }
        let mut down = None;
        for server in self.candidates(&surface, scope, &wanted) {
            let until = Instant::now() + server.settings().patience.silence;
            if let Err(error) = server.usable(until).await {
                down.get_or_insert(error);
                continue;
            }
            let surface = self.surface(caller, scope);
            if let Some(found) = wanted.find(&surface) {
                return Ok((found, surface));
            }
        }
        match down {
            Some(error) => Err(error),
            None => Err(wanted.unknown(&self.surface(caller, scope))),
        }
    }

    /// The servers that are in no list yet and whose the name may be by its prefix.
    fn candidates(&self, surface: &Surface, scope: Scope, wanted: &Wanted) -> Vec<Arc<Server>> {
        let is_alone = matches!(scope, Scope::Alone(_));
        surface
            .unlisted()
            .filter_map(|index| Some((index, self.servers.get(index.0)?)))
            .filter(|(index, server)| {
                is_alone
                    || match wanted.name() {
                        Some(name) => server.settings().naming.could_expose(name),
                        None => wanted.uri().and_then(|uri| surface.marked(uri)) == Some(*index),
                    }
            })
            .map(|(_, server)| server.clone())
            .collect()
    }

    fn route(
        &self,
        caller: &Caller,
        index: ServerIndex,
        surface: Arc<Surface>,
        began: Instant,
    ) -> Result<Route, RouteError> {
        let gone = || RouteError::InvalidParams("the server is not configured");
        let server = self.servers.get(index.0).ok_or_else(gone)?.clone();
        let lease = match server.settings().isolation {
            Isolation::Session => caller.lease(index, &server),
            Isolation::Shared => self.shared.get(index.0).ok_or_else(gone)?.clone(),
        };
        Ok(Route {
            server,
            lease,
            index,
            surface,
            began,
        })
    }

    /// Sends a call on the caller's link. A link that turns out to have ended before anything was sent is
    /// replaced once. However often it is begun, a call has one end.
    pub(crate) async fn begin(
        self: Arc<Self>,
        route: Route,
        mut call: Call,
    ) -> Result<Beginnings, RouteError> {
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
                    return Ok(Beginnings::Begun(Box::new(Begun {
                        route,
                        call,
                        exchange,
                        _held: held,
                    })));
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

// === impl Route ===

impl Route {
    /// An answer as the client gets it: the server's URIs as the client knows them, the one it asked for as it wrote
    /// it.
    pub(crate) fn exposed(&self, call: &Call, outcome: Outcome) -> Outcome {
        let asked = match &call.subject {
            Subject::Uri(original) => call.params.uri().map(|asked| (original, asked)),
            Subject::Plain | Subject::Name(_) | Subject::Reference(_) => None,
        };
        let link = |uri: &str| match &asked {
            Some((original, asked)) if ***original == *uri => Some(asked.clone()),
            _ => self.surface.expose(self.index, uri),
        };
        match outcome {
            Outcome::Result(result) => Outcome::Result(result.with_links(&link)),
            Outcome::Error(error) => Outcome::Error(error),
        }
    }
}

/// The answer to a request of which the server declares nothing: it is never asked.
fn answer_without(server: &Server, method: &Method) -> Option<ResultObject> {
    let hello = server.known()?.hello;
    if *method != Method::CompletionComplete || hello.serves.completions {
        return None;
    }
    let nothing = Raw::of(&serde_json::json!({ "completion": { "values": [] } }));
    ResultObject::parse(&nothing).ok()
}

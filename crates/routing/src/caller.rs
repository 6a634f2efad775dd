//! Whoever calls: a client session or a modern caller, and the leases it holds.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use crate::{
    catalog::{Catalog, Scope, ServerIndex, Surface},
    lease::Lease,
    own::OwnLists,
    replay::Replay,
    server::{HeldLink, Server, Use},
};

/// One caller. Its links, ids and state are its own.
#[derive(Debug)]
pub struct Caller {
    used: Use,
    /// What its requests carry for servers that want it.
    forwarded: Forwarded,
    /// Whose links serve it at servers that want nothing of that.
    plain: Option<Arc<Caller>>,
    leases: Mutex<HashMap<ServerIndex, Arc<Lease>>>,
    own: Arc<OwnLists>,
    replay: Arc<Replay>,
}

/// Headers of a client's request that servers may want (`forward_headers`): lower-case names and values, sorted.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Forwarded(Arc<[ForwardedHeader]>);

/// A lower-case name and a value.
pub(crate) type ForwardedHeader = (Box<str>, Box<[u8]>);

/// One caller with different forwarded headers: each set of values has links and lists of its own.
#[derive(Debug)]
pub struct Callers {
    plain: Arc<Caller>,
    replay: Arc<Replay>,
    others: Mutex<HashMap<Forwarded, (Arc<Caller>, Instant)>>,
}

/// Word of each change in what a caller sees.
#[derive(Debug)]
pub struct Changes {
    catalog: watch::Receiver<u64>,
    own: watch::Receiver<u64>,
    plain: Option<watch::Receiver<u64>>,
}

/// The most sets of forwarded headers of one caller.
const SETS: usize = 1024;
/// A set of forwarded headers that was not used for so long and has no link is forgotten.
const SET_IDLE: Duration = Duration::from_secs(600);

// === impl Forwarded ===

impl Forwarded {
    /// Takes headers of a request.
    #[must_use]
    pub fn new(mut headers: Vec<(Box<str>, Box<[u8]>)>) -> Self {
        headers.sort_unstable();
        Self(headers.into())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ones of those names.
    pub(crate) fn only(&self, names: &[Box<str>]) -> Vec<ForwardedHeader> {
        self.0
            .iter()
            .filter(|(name, _)| names.contains(name))
            .cloned()
            .collect()
    }
}

impl fmt::Debug for Forwarded {
    /// Values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

// === impl Changes ===

impl Changes {
    /// Waits until something may have changed. Dropping the future loses nothing.
    pub async fn next(&mut self) {
        let plain = async {
            match &mut self.plain {
                Some(plain) => plain.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Ok(()) = self.catalog.changed() => {}
            Ok(()) = self.own.changed() => {}
            Ok(()) = plain => {}
            else => std::future::pending().await,
        }
    }
}

// === impl Callers ===

impl Callers {
    pub(crate) fn new(used: Use) -> Self {
        let replay = Arc::<Replay>::default();
        Self {
            plain: Arc::new(Caller::new(
                used,
                Forwarded::default(),
                None,
                replay.clone(),
            )),
            replay,
            others: Mutex::default(),
        }
    }

    /// The caller whose requests carry these headers. `None` when it has too many sets of them in use.
    #[must_use]
    pub fn with(&self, forwarded: &Forwarded) -> Option<Arc<Caller>> {
        if forwarded.is_empty() {
            return Some(self.plain.clone());
        }
        let now = Instant::now();
        let mut others = self.lock();
        if let Some((caller, used)) = others.get_mut(forwarded) {
            *used = now;
            return Some(caller.clone());
        }
        if others.len() >= SETS {
            forget(&mut others, now, Duration::ZERO);
        }
        if others.len() >= SETS {
            return None;
        }
        let plain = Some(self.plain.clone());
        let caller = Arc::new(Caller::new(
            self.plain.used,
            forwarded.clone(),
            plain,
            self.replay.clone(),
        ));
        others.insert(forwarded.clone(), (caller.clone(), now));
        Some(caller)
    }

    /// What holds on all its links.
    pub(crate) fn replay(&self) -> &Arc<Replay> {
        &self.replay
    }

    /// The one without forwarded headers.
    #[must_use]
    pub fn plain(&self) -> &Arc<Caller> {
        &self.plain
    }

    /// The links that are up.
    #[must_use]
    pub fn links(&self) -> Vec<(ServerIndex, Arc<HeldLink>)> {
        let mut links: Vec<_> = self
            .all()
            .iter()
            .flat_map(|caller| caller.links())
            .collect();
        links.sort_by_key(|(server, _)| *server);
        links
    }

    /// Ends all leases, and their links with them.
    pub(crate) fn end(&self) {
        for caller in self.all() {
            for (_, lease) in caller.leases() {
                lease.end();
            }
        }
    }

    /// Closes links that have not been used for their server's `link_idle`.
    pub(crate) fn end_idle(&self, servers: &[Arc<Server>], now: Instant) {
        for caller in self.all() {
            caller.end_idle_links(servers, now);
        }
        forget(&mut self.lock(), now, SET_IDLE);
    }

    fn all(&self) -> Vec<Arc<Caller>> {
        let others = self.lock();
        let others = others.values().map(|(caller, _)| caller.clone());
        std::iter::once(self.plain.clone()).chain(others).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Forwarded, (Arc<Caller>, Instant)>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets callers that were not used for `idle` and have no link.
fn forget(others: &mut HashMap<Forwarded, (Arc<Caller>, Instant)>, now: Instant, idle: Duration) {
    others.retain(|_, (caller, used)| {
        let busy = Arc::strong_count(caller) > 1 || !caller.links().is_empty();
        busy || now.saturating_duration_since(*used) < idle
    });
}

// === impl Caller ===

impl Caller {
    fn new(used: Use, forwarded: Forwarded, plain: Option<Arc<Self>>, replay: Arc<Replay>) -> Self {
        Self {
            used,
            forwarded,
            plain,
            leases: Mutex::default(),
            own: Arc::default(),
            replay,
        }
    }

    /// What the caller sees on a path.
    pub(crate) fn surface(&self, catalog: &Catalog, scope: Scope) -> Arc<Surface> {
        let under = self.plain.as_ref().map(|plain| &*plain.own);
        self.own.surface(catalog, scope, under)
    }

    /// Word of each change in that.
    pub(crate) fn changes(&self, catalog: watch::Receiver<u64>) -> Changes {
        Changes {
            catalog,
            own: self.own.changes(),
            plain: self.plain.as_ref().map(|plain| plain.own.changes()),
        }
    }

    pub(crate) fn lease(&self, index: ServerIndex, server: &Server) -> Arc<Lease> {
        let names = &server.settings().forward_headers;
        if let Some(plain) = self.plain.as_ref().filter(|_| names.is_empty()) {
            return plain.lease(index, server);
        }
        self.leases
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(index)
            .or_insert_with(|| {
                let forwarded = self.forwarded.only(names);
                let (own, replay) = (self.own.clone(), self.replay.clone());
                Arc::new(Lease::new(self.used, index, forwarded, own, replay))
            })
            .clone()
    }

    /// The links that are up.
    #[must_use]
    pub fn links(&self) -> Vec<(ServerIndex, Arc<HeldLink>)> {
        self.leases()
            .into_iter()
            .filter_map(|(server, lease)| Some((server, lease.held()?)))
            .collect()
    }

    fn end_idle_links(&self, servers: &[Arc<Server>], now: Instant) {
        for (ServerIndex(index), lease) in self.leases() {
            let idle = servers
                .get(index)
                .map(|server| server.settings().link_idle)
                .and_then(|idle| now.checked_sub(idle));
            if let Some(limit) = idle {
                lease.let_go_if_idle(limit);
            }
        }
    }

    fn leases(&self) -> Vec<(ServerIndex, Arc<Lease>)> {
        self.leases
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|(server, lease)| (*server, lease.clone()))
            .collect()
    }
}

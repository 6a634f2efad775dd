//! Whoever calls: a client session or a modern caller, and the leases it holds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::time::Instant;

use crate::{
    catalog::ServerIndex,
    lease::Lease,
    server::{HeldLink, Server, Use},
};

/// One caller. Its links, ids and state are its own.
#[derive(Debug)]
pub struct Caller {
    used: Use,
    leases: Mutex<HashMap<ServerIndex, Arc<Lease>>>,
}

impl Caller {
    /// A caller without leases.
    pub(crate) fn new(used: Use) -> Self {
        Self {
            used,
            leases: Mutex::default(),
        }
    }

    pub(crate) fn lease(&self, server: ServerIndex) -> Arc<Lease> {
        self.leases
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(server)
            .or_insert_with(|| Arc::new(Lease::new(self.used)))
            .clone()
    }

    /// The links that are up.
    #[must_use]
    pub fn links(&self) -> Vec<(ServerIndex, Arc<HeldLink>)> {
        let mut links: Vec<_> = self
            .leases()
            .into_iter()
            .filter_map(|(server, lease)| Some((server, lease.held()?)))
            .collect();
        links.sort_by_key(|(server, _)| *server);
        links
    }

    /// Ends all leases, and their links with them.
    pub(crate) fn end(&self) {
        for (_, lease) in self.leases() {
            lease.end();
        }
    }

    /// Closes links that have not been used for their server's `link_idle`.
    pub(crate) fn end_idle_links(&self, servers: &[Arc<Server>], now: Instant) {
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

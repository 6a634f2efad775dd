//! The current catalog, and word of each new one.

use std::{collections::HashSet, sync::Arc};

use arc_swap::ArcSwap;
use manifold_link::LinkError;
use manifold_protocol::{Kind, ServerName};
use tokio::sync::watch;
use tracing::warn;

use crate::{
    Health,
    catalog::{Catalog, Part, PartList, Scope, View},
    events::{Event, Observer},
    server::Server,
};

/// The catalog in place.
#[derive(Debug)]
pub(crate) struct CatalogStore {
    servers: Vec<Arc<Server>>,
    views: Arc<[View]>,
    current: ArcSwap<Catalog>,
    version: watch::Sender<u64>,
    observer: Arc<dyn Observer>,
}

impl CatalogStore {
    pub(crate) fn new(
        servers: Vec<Arc<Server>>,
        views: Arc<[View]>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let store = Self {
            current: ArcSwap::from_pointee(Catalog::build(0, Vec::new(), views.clone())),
            servers,
            views,
            version: watch::Sender::new(0),
            observer,
        };
        store.publish();
        store
    }

    /// The catalog now.
    pub(crate) fn current(&self) -> Arc<Catalog> {
        self.current.load_full()
    }

    /// Word of each new catalog.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Builds the catalog anew from what the servers are and list, and puts it in place whole.
    pub(crate) fn publish(&self) {
        // One at a time: the last one built must be the last one put in place.
        self.version.send_modify(|version| {
            *version = version.wrapping_add(1);
            let parts = self.servers.iter().map(|server| part(server)).collect();
            let catalog = Catalog::build(*version, parts, self.views.clone());
            self.tell_conflicts(&catalog);
            self.current.store(Arc::new(catalog));
        });
    }

    fn tell_conflicts(&self, catalog: &Catalog) {
        let before = self.current.load();
        let before: HashSet<(Kind, &String)> = before
            .surface(Scope::Merged)
            .conflicts()
            .flat_map(|(kind, names)| names.iter().map(move |name| (kind, name)))
            .collect();
        for (kind, names) in catalog.surface(Scope::Merged).conflicts() {
            for name in names.iter().filter(|name| !before.contains(&(kind, *name))) {
                warn!(
                    name,
                    kind = kind.word(),
                    "an exposed name is claimed twice: give one server another prefix",
                );
            }
            self.observer.observe(&Event::Merged {
                kind,
                conflicts: names.len(),
            });
        }
    }
}

fn part(server: &Server) -> Part {
    let settings = server.settings();
    Part {
        name: settings.name.clone(),
        naming: settings.naming.clone(),
        mark: settings.mark.clone(),
        list: part_list(server, &server.report().health),
    }
}

fn part_list(server: &Server, health: &Health) -> PartList {
    if matches!(health, Health::Disabled) {
        return PartList::Disabled;
    }
    let state = health.word();
    let reason = match health.failure() {
        Some(failure) => public_reason(server.name(), &failure.error),
        None if matches!(health, Health::Ready) => {
            format!("server {} has not given this list yet", server.name())
        }
        None => format!("server {} is {state}", server.name()),
    };
    match server.known() {
        Some(known) => PartList::Known {
            hello: known.hello,
            lists: known.lists,
            state,
            reason,
        },
        None => PartList::Missing { state, reason },
    }
}

/// What clients are told of a failure: whose it is, never a path or what the system said.
fn public_reason(server: &ServerName, error: &LinkError) -> String {
    format!("server {server} {}", error.public())
}

//! The lists that a caller's own links give it: a server may list by capabilities, by session, by forwarded headers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use manifold_link::Link;
use manifold_protocol::Kind;
use tokio::sync::watch;

use crate::{
    catalog::{Catalog, Scope, ServerIndex, Surface},
    lister::Lister,
    lists::{List, Lists},
    server::Server,
};

/// The lists that one caller's links gave, which may differ from everybody's.
#[derive(Debug, Default)]
pub(crate) struct OwnLists {
    state: Mutex<State>,
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    lists: HashMap<ServerIndex, Lists>,
    /// What was made of them last, by path.
    made: HashMap<Scope, (Version, Arc<Surface>)>,
}

/// Of what a surface was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    catalog: u64,
    own: u64,
    under: u64,
}

impl OwnLists {
    /// What the caller sees on a path: everybody's lists, over them those of `under`, over them its own.
    pub(crate) fn surface(
        &self,
        catalog: &Catalog,
        scope: Scope,
        under: Option<&Self>,
    ) -> Arc<Surface> {
        let beneath = under.map(Self::lists).unwrap_or_default();
        let version = Version {
            catalog: catalog.version(),
            own: *self.version.borrow(),
            under: under.map_or(0, |under| *under.version.borrow()),
        };
        let mut state = self.lock();
        if state.lists.is_empty() && beneath.is_empty() {
            state.made.clear();
            return catalog.surface(scope).clone();
        }
        if let Some((made, surface)) = state.made.get(&scope)
            && *made == version
        {
            return surface.clone();
        }
        let mut lists = beneath;
        lists.extend(
            state
                .lists
                .iter()
                .map(|(server, lists)| (*server, lists.clone())),
        );
        let surface = catalog.surface_with(scope, lists);
        state.made.insert(scope, (version, surface.clone()));
        surface
    }

    fn lists(&self) -> HashMap<ServerIndex, Lists> {
        self.lock().lists.clone()
    }

    /// Word of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Keeps the lists of a link until it ends.
    pub(crate) async fn follow(&self, index: ServerIndex, server: &Arc<Server>, link: &Arc<Link>) {
        let mut lister = Lister::start(server, link);
        let ended = link.ended();
        tokio::pin!(ended);
        loop {
            let (kind, fetched) = tokio::select! {
                _ = &mut ended => break,
                next = lister.next() => next,
            };
            if let Ok(list) = fetched {
                let changed = self.set(index, server, kind, server.permitted(kind, list));
                lister.was_change(kind, changed);
            }
        }
        self.forget(index);
    }

    /// Puts a list of the caller's own in place; says whether it differs from the one before. Until all are known,
    /// everybody's stand in for the rest.
    fn set(&self, index: ServerIndex, server: &Server, kind: Kind, list: List) -> bool {
        let base = server.known().map(|known| known.lists).unwrap_or_default();
        let mut state = self.lock();
        let lists = state.lists.entry(index).or_insert_with(|| base.clone());
        let changed = lists.set(kind, list);
        // Most are what everybody's are: kept once.
        lists.share(kind, &base);
        drop(state);
        if changed {
            self.tell();
        }
        changed
    }

    fn forget(&self, index: ServerIndex) {
        if self.lock().lists.remove(&index).is_some() {
            self.tell();
        }
    }

    fn tell(&self) {
        self.version
            .send_modify(|version| *version = version.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The merged lists: which exposed name or URI is which server's, and the bytes that clients get.
//!
//! Pure: a catalog is a function of the servers' lists and states, in the order of the configuration.

mod hello;
mod list;
mod names;
mod surface;
mod uris;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
};

use manifold_protocol::{Kind, Naming, Raw, ServerName, uri::UriPrefix};

use crate::{
    lists::{Hello, Lists},
    settings::ToolFilter,
};

pub use hello::Capabilities;
pub use list::UnknownCursor;
pub use names::Target;
pub use surface::{Fingerprints, Outcome, Surface};
pub use uris::ResourceTarget;

/// The place of a server in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerIndex(pub usize);

/// The place of a view in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewIndex(pub usize);

/// What clients see on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `/mcp`: all servers.
    Merged,
    /// `/mcp/NAME`: one server alone, as it is.
    Alone(ServerIndex),
    /// `/mcp/NAME`: a choice of servers and tools.
    View(ViewIndex),
}

/// A choice of servers and tools with a path of its own.
#[derive(Clone)]
pub struct View {
    /// Its name.
    pub name: Box<str>,
    /// Its servers, and which tools of each pass, by original names.
    pub members: Vec<(ServerIndex, ToolFilter)>,
}

/// One version of all lists.
#[derive(Debug)]
pub struct Catalog {
    version: u64,
    parts: Vec<Part>,
    views: Arc<[View]>,
    merged: Arc<Surface>,
    /// Built when somebody asks for them: most paths are never used.
    alone: Vec<OnceLock<Arc<Surface>>>,
    viewed: Vec<OnceLock<Arc<Surface>>>,
}

/// What a catalog is made of, for one server.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: ServerName,
    pub(crate) naming: Arc<Naming>,
    pub(crate) mark: UriPrefix,
    pub(crate) list: PartList,
}

/// What is known of a server's lists.
#[derive(Debug, Clone)]
pub(crate) enum PartList {
    /// It is switched off.
    Disabled,
    /// It has never said what it is.
    Missing { state: &'static str, reason: String },
    /// It is known; some of its lists may be on their way still, for which `state` and `reason` stand.
    Known {
        hello: Hello,
        lists: Lists,
        state: &'static str,
        reason: String,
    },
}

impl Catalog {
    pub(crate) fn build(version: u64, parts: Vec<Part>, views: Arc<[View]>) -> Self {
        Self {
            version,
            merged: Arc::new(surface(&parts, &views, Scope::Merged, &HashMap::new())),
            alone: parts.iter().map(|_| OnceLock::new()).collect(),
            viewed: views.iter().map(|_| OnceLock::new()).collect(),
            parts,
            views,
        }
    }

    /// Which one it is.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The lists of a path. A path that leads to no server or view has the merged ones; the configuration rules that
    /// out.
    #[must_use]
    pub fn surface(&self, scope: Scope) -> &Arc<Surface> {
        let place = match scope {
            Scope::Merged => None,
            Scope::Alone(ServerIndex(index)) => self.alone.get(index),
            Scope::View(ViewIndex(index)) => self.viewed.get(index),
        };
        let Some(place) = place else {
            return &self.merged;
        };
        place.get_or_init(|| Arc::new(surface(&self.parts, &self.views, scope, &HashMap::new())))
    }

    /// The lists of a path for a caller that has lists of its own of some servers.
    pub(crate) fn surface_with(
        &self,
        scope: Scope,
        mut own: HashMap<ServerIndex, Lists>,
    ) -> Arc<Surface> {
        own.retain(|index, lists| match self.parts.get(index.0) {
            Some(Part {
                list: PartList::Known { lists: base, .. },
                ..
            }) => !lists.same(base),
            _ => false,
        });
        if own.is_empty() {
            return self.surface(scope).clone();
        }
        Arc::new(surface(&self.parts, &self.views, scope, &own))
    }
}

fn surface(
    parts: &[Part],
    views: &[View],
    scope: Scope,
    own: &HashMap<ServerIndex, Lists>,
) -> Surface {
    let member = |index: ServerIndex, filter: Option<ToolFilter>| {
        let part = parts.get(index.0)?;
        let mut part = part.clone();
        if let (PartList::Known { lists, .. }, Some(theirs)) = (&mut part.list, own.get(&index)) {
            *lists = theirs.clone();
        }
        Some(surface::Member {
            index,
            part,
            filter,
        })
    };
    match scope {
        Scope::Merged => {
            let all = (0..parts.len()).filter_map(|index| member(ServerIndex(index), None));
            Surface::merged(all.collect())
        }
        Scope::Alone(index) => Surface::alone(member(index, None)),
        Scope::View(ViewIndex(index)) => {
            let members = views.get(index).map(|view| view.members.as_slice());
            let members = members.unwrap_or_default().iter();
            let members =
                members.filter_map(|(index, filter)| member(*index, Some(filter.clone())));
            Surface::merged(members.collect())
        }
    }
}

/// Who Manifold says it is.
#[must_use]
pub fn server_info() -> Raw {
    Raw::of(&serde_json::json!({
        "name": "manifold",
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

impl Part {
    /// Whether its list of `kind` takes part, and if not, why.
    fn list_of(&self, kind: Kind) -> surface::Taking<'_> {
        use surface::Taking;
        match &self.list {
            PartList::Disabled => Taking::Disabled,
            PartList::Missing { state, reason } => Taking::Missing { state, reason },
            PartList::Known {
                hello,
                lists,
                state,
                reason,
            } => match lists.get(kind) {
                Some(list) => Taking::Listed(list),
                None if hello.lists(kind) => Taking::Missing { state, reason },
                None => Taking::Nothing,
            },
        }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

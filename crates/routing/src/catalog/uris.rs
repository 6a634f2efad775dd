//! Whose a URI is: resources and templates.
//!
//! A URI stays as it is for the first configured server that lists it; later claimants get theirs marked with their
//! prefix. Clients may use either form.

use std::collections::{HashMap, HashSet};

use manifold_protocol::{
    Item,
    uri::{Template, UriPrefix},
};

use super::{ServerIndex, list::ListBuilder};

/// Which URI leads where.
#[derive(Debug, Default)]
pub(super) struct UriTable {
    /// Listed resources, by exposed URI.
    resources: HashMap<Box<str>, ResourceTarget>,
    /// Templates in the order of the configuration.
    templates: Vec<KnownTemplate>,
    /// The marks of the servers.
    marks: Vec<(ServerIndex, UriPrefix)>,
    /// The server that answers for URIs nobody lists: the first that exposes its own without a mark.
    bare: Option<ServerIndex>,
}

/// Where a URI leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceTarget {
    /// The server.
    pub server: ServerIndex,
    /// Its URI for the resource.
    pub uri: Box<str>,
}

#[derive(Debug)]
struct KnownTemplate {
    server: ServerIndex,
    original: Box<str>,
    exposed: Box<str>,
    /// None for one that can't be read: it matches nothing but itself.
    pattern: Option<Template>,
}

impl UriTable {
    pub(super) fn new(marks: Vec<(ServerIndex, UriPrefix)>, bare: Option<ServerIndex>) -> Self {
        Self {
            marks,
            bare,
            ..Self::default()
        }
    }

    /// Settles who gets which URI, and writes the entries into `list`. Claims come in the order of the configuration.
    pub(super) fn add_resources(
        &mut self,
        claims: &[(ServerIndex, &Item)],
        list: &mut ListBuilder,
        conflicts: &mut Vec<String>,
    ) {
        for (server, item) in claims {
            let taken = |uri: &str| self.resources.contains_key(uri);
            let Some(exposed) = self.settle(*server, item.key(), taken, conflicts) else {
                continue;
            };
            list.push(&exposed, &item.exposed(&exposed, &[], &|_| None));
            let target = ResourceTarget {
                server: *server,
                uri: item.key().into(),
            };
            self.resources.insert(exposed, target);
        }
    }

    /// The same for templates.
    pub(super) fn add_templates(
        &mut self,
        claims: &[(ServerIndex, &Item, Option<Template>)],
        list: &mut ListBuilder,
        conflicts: &mut Vec<String>,
    ) {
        let mut names: HashSet<Box<str>> = HashSet::new();
        for (server, item, pattern) in claims {
            let taken = |uri: &str| names.contains(uri);
            let Some(exposed) = self.settle(*server, item.key(), taken, conflicts) else {
                continue;
            };
            list.push(&exposed, &item.exposed(&exposed, &[], &|_| None));
            names.insert(exposed.clone());
            self.templates.push(KnownTemplate {
                server: *server,
                original: item.key().into(),
                pattern: pattern.clone(),
                exposed,
            });
        }
    }

    /// The exposed form of a claim: bare if it is the first, else marked; none if that is taken as well.
    fn settle(
        &self,
        server: ServerIndex,
        uri: &str,
        taken: impl Fn(&str) -> bool,
        conflicts: &mut Vec<String>,
    ) -> Option<Box<str>> {
        if !taken(uri) {
            return Some(uri.into());
        }
        let marked = self.mark(server, uri).filter(|marked| !taken(marked));
        if marked.is_none() {
            conflicts.push(uri.to_owned());
        }
        marked.map(Into::into)
    }

    /// Where a URI that a client uses leads.
    pub(super) fn get(&self, uri: &str) -> Option<ResourceTarget> {
        if let Some(target) = self.resources.get(uri) {
            return Some(target.clone());
        }
        if let Some((server, uri)) = self.unmark(uri) {
            return Some(ResourceTarget {
                server,
                uri: uri.into(),
            });
        }
        self.owner(uri).map(|server| ResourceTarget {
            server,
            uri: uri.into(),
        })
    }

    /// Where a template that a client uses leads.
    pub(super) fn template(&self, exposed: &str) -> Option<ResourceTarget> {
        self.templates
            .iter()
            .find(|known| &*known.exposed == exposed)
            .map(|known| ResourceTarget {
                server: known.server,
                uri: known.original.clone(),
            })
            .or_else(|| self.get(exposed))
    }

    /// How a URI in a result of `server` is exposed, if not as it is.
    pub(super) fn expose(&self, server: ServerIndex, uri: &str) -> Option<String> {
        if self.owner(uri) == Some(server) {
            return None;
        }
        self.mark(server, uri)
    }

    /// The server whose the URI is, taken as it is.
    fn owner(&self, uri: &str) -> Option<ServerIndex> {
        if let Some(target) = self.resources.get(uri) {
            return Some(target.server);
        }
        self.templates
            .iter()
            .find(|known| {
                known
                    .pattern
                    .as_ref()
                    .is_some_and(|pattern| pattern.matches(uri))
            })
            .map(|known| known.server)
            .or(self.bare)
    }

    fn mark(&self, server: ServerIndex, uri: &str) -> Option<String> {
        self.marks
            .iter()
            .find(|(of, _)| *of == server)
            .and_then(|(_, prefix)| prefix.mark(uri))
    }

    /// The server whose mark the URI has, and what it is without.
    pub(super) fn unmark(&self, uri: &str) -> Option<(ServerIndex, String)> {
        self.marks
            .iter()
            .find_map(|(server, prefix)| Some((*server, prefix.unmark(uri)?)))
    }
}

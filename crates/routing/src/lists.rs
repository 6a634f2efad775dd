//! What one server has said of itself: its lists, and who it is.

use std::sync::Arc;

use manifold_link::{Peer, Serves};
use manifold_protocol::{Item, Kind, uri::Template};

/// One list of a server, all pages of it.
#[derive(Debug, Clone, Default)]
pub struct List {
    items: Vec<Item>,
    /// Of templates: which URIs each matches. Read once, since catalogs are built often.
    patterns: Vec<Option<Template>>,
    hint: Option<CacheHint>,
}

/// How long a list may be kept, and by whom (2026-07-28 caching).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheHint {
    /// For how long, in milliseconds.
    pub ttl_ms: u64,
    /// Whether it is the same for everybody.
    pub public: bool,
}

/// The lists of a server that are known. One that is not is still being asked for, or was refused.
#[derive(Debug, Clone, Default)]
pub struct Lists {
    tools: Option<Arc<List>>,
    prompts: Option<Arc<List>>,
    resources: Option<Arc<List>>,
    templates: Option<Arc<List>>,
}

/// What a server says of itself in its handshake, as far as clients are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// `instructions`.
    pub instructions: Option<Arc<str>>,
    /// What it declares.
    pub serves: Serves,
}

// === impl List ===

impl List {
    /// A list of `kind` with its entries in the server's order, each key once.
    #[must_use]
    pub fn new(kind: Kind, items: Vec<Item>, hint: Option<CacheHint>) -> Self {
        let patterns = match kind {
            Kind::Template => items
                .iter()
                .map(|item| Template::parse(item.key()))
                .collect(),
            Kind::Tool | Kind::Prompt | Kind::Resource => Vec::new(),
        };
        Self {
            items,
            patterns,
            hint,
        }
    }

    /// Its entries.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Its entries as templates, with what each matches.
    pub(crate) fn templates(&self) -> impl Iterator<Item = (&Item, Option<Template>)> {
        self.items
            .iter()
            .zip(self.patterns.iter().cloned().chain(std::iter::repeat(None)))
    }

    /// How long it may be kept, if anybody has said so.
    #[must_use]
    pub fn hint(&self) -> Option<CacheHint> {
        self.hint
    }

    /// The list with only the entries that pass, and with `hint` where the server gave none.
    pub(crate) fn permitted(mut self, permits: impl Fn(&str) -> bool, hint: CacheHint) -> Self {
        // Patterns stand beside the entries of templates alone, which are never left out.
        if self.patterns.is_empty() {
            self.items.retain(|item| permits(item.key()));
        }
        self.hint.get_or_insert(hint);
        self
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items && self.hint == other.hint
    }
}

// === impl CacheHint ===

impl CacheHint {
    /// What fits both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            ttl_ms: self.ttl_ms.min(other.ttl_ms),
            public: self.public && other.public,
        }
    }
}

impl Default for CacheHint {
    /// May not be kept, and is one caller's own: what a server means that gives no hint.
    fn default() -> Self {
        Self {
            ttl_ms: 0,
            public: false,
        }
    }
}

// === impl Lists ===

impl Lists {
    /// The list of a kind, if it is known.
    #[must_use]
    pub fn get(&self, kind: Kind) -> Option<&Arc<List>> {
        match kind {
            Kind::Tool => self.tools.as_ref(),
            Kind::Prompt => self.prompts.as_ref(),
            Kind::Resource => self.resources.as_ref(),
            Kind::Template => self.templates.as_ref(),
        }
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        Kind::ALL.into_iter().all(|kind| self.get(kind).is_none())
    }

    /// Puts a list in place; says whether it differs from the one before.
    pub(crate) fn set(&mut self, kind: Kind, list: List) -> bool {
        let place = self.place(kind);
        if place.as_deref() == Some(&list) {
            return false;
        }
        *place = Some(Arc::new(list));
        true
    }

    /// Holds a list that is the same in `other` in common with it.
    pub(crate) fn share(&mut self, kind: Kind, other: &Self) {
        let place = self.place(kind);
        if place.as_ref() == other.get(kind) {
            *place = other.get(kind).cloned();
        }
    }

    fn place(&mut self, kind: Kind) -> &mut Option<Arc<List>> {
        match kind {
            Kind::Tool => &mut self.tools,
            Kind::Prompt => &mut self.prompts,
            Kind::Resource => &mut self.resources,
            Kind::Template => &mut self.templates,
        }
    }

    /// Without the lists that `hello` does not declare.
    pub(crate) fn declared(mut self, hello: &Hello) -> Self {
        for kind in Kind::ALL.into_iter().filter(|kind| !hello.lists(*kind)) {
            *self.place(kind) = None;
        }
        self
    }

    /// Whether all of them are the same as `other`'s.
    #[must_use]
    pub(crate) fn same(&self, other: &Self) -> bool {
        Kind::ALL
            .into_iter()
            .all(|kind| match (self.get(kind), other.get(kind)) {
                (Some(one), Some(two)) => Arc::ptr_eq(one, two) || one == two,
                (one, two) => one.is_none() && two.is_none(),
            })
    }

    /// How many entries a list has.
    #[must_use]
    pub fn count(&self, kind: Kind) -> usize {
        self.get(kind).map_or(0, |list| list.items().len())
    }
}

// === impl Hello ===

impl Hello {
    pub(crate) fn of(peer: &Peer) -> Self {
        Self {
            instructions: peer
                .instructions
                .as_deref()
                .filter(|text| !text.trim().is_empty())
                .map(Arc::from),
            serves: peer.serves,
        }
    }

    /// Whether the server declares lists of that kind.
    #[must_use]
    pub fn lists(&self, kind: Kind) -> bool {
        self.serves.lists(kind)
    }
}

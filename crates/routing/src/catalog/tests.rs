//! The merged lists: which exposed name is which server's, and the bytes that clients get.
//!
//! Pure: a catalog is a function of the servers' lists and states, in the order of the configuration.

use std::collections::{BTreeMap, HashMap};

use bytes::{BufMut, Bytes, BytesMut};
use manifold_protocol::{Era, ExposedName, Naming, OriginalName, Raw, ServerName, meta};
use serde::Serialize;

use crate::{Health, listing::Item};

/// The place of a server in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerIndex(pub usize);

/// What clients see on one path: all servers, or one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `/mcp`.
    Merged,
    /// `/mcp/NAME`.
    Alone(ServerIndex),
}

/// One version of all lists.
#[derive(Debug)]
pub struct Catalog {
    merged: View,
    alone: Vec<View>,
    /// Exposed names that more than one server claims.
    pub conflicts: Vec<ExposedName>,
}

/// The lists of one path.
#[derive(Debug)]
pub struct View {
    tools: HashMap<ExposedName, Target>,
    /// The result of `tools/list`, ready made for each era.
    legacy: Raw,
    modern: Raw,
    /// How each server took part.
    pub outcomes: Vec<(ServerName, Outcome)>,
}

/// Where an exposed name leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The server.
    pub server: ServerIndex,
    /// Its name for the tool.
    pub name: OriginalName,
}

/// How a server took part in a merged list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its list is in it.
    Listed {
        /// How many tools.
        tools: usize,
    },
    /// It has never been listed.
    Missing {
        /// The server's state.
        state: &'static str,
        /// Why.
        reason: String,
    },
    /// It is switched off.
    Disabled,
}

/// What a catalog is made of, for one server.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) name: &'a ServerName,
    pub(crate) naming: &'a Naming,
    pub(crate) list: PartList,
}

#[derive(Debug)]
pub(crate) enum PartList {
    Disabled,
    Missing { state: &'static str, reason: String },
    Listed(std::sync::Arc<Vec<Item>>),
}

/// An entry of `_meta["dev.manifold/unavailable"]`.
#[derive(Debug, Serialize)]
struct Unavailable<'a> {
    server: &'a str,
    state: &'a str,
    reason: &'a str,
}

/// An entry of `_meta["dev.manifold/origin"]`.
#[derive(Debug, Serialize)]
struct Origin<'a> {
    server: &'a str,
    name: &'a str,
}

// === impl Catalog ===

impl Catalog {
    pub(crate) fn build(parts: &[Part<'_>]) -> Self {
        let mut conflicts = Vec::new();
        let merged = View::build(parts.iter().enumerate(), None, &mut conflicts);
        let alone = parts
            .iter()
            .enumerate()
            .map(|part| {
                View::build(
                    std::iter::once(part),
                    Some(&Naming::Verbatim),
                    &mut Vec::new(),
                )
            })
            .collect();
        Self {
            merged,
            alone,
            conflicts,
        }
    }

    /// The lists of a path. A path without a server has the merged ones; the configuration rules that out.
    #[must_use]
    pub fn view(&self, scope: Scope) -> &View {
        match scope {
            Scope::Merged => &self.merged,
            Scope::Alone(ServerIndex(index)) => self.alone.get(index).unwrap_or(&self.merged),
        }
    }
}

// === impl View ===

impl View {
    fn build<'a>(
        parts: impl Iterator<Item = (usize, &'a Part<'a>)>,
        naming: Option<&Naming>,
        conflicts: &mut Vec<ExposedName>,
    ) -> Self {
        let mut outcomes = Vec::new();
        let mut missing = Vec::new();
        let mut claims: Vec<Claim<'_>> = Vec::new();
        for (index, part) in parts {
            let naming = naming.unwrap_or(part.naming);
            match &part.list {
                PartList::Disabled => outcomes.push((part.name.clone(), Outcome::Disabled)),
                PartList::Missing { state, reason } => {
                    missing.push((part.name, *state, reason.as_str()));
                    let (state, reason) = (*state, reason.clone());
                    outcomes.push((part.name.clone(), Outcome::Missing { state, reason }));
                }
                PartList::Listed(items) => {
                    let tools = items.len();
                    outcomes.push((part.name.clone(), Outcome::Listed { tools }));
                    claims.extend(items.iter().map(|item| {
                        let exposed = naming.expose(&item.name);
                        Claim {
                            server: ServerIndex(index),
                            server_name: part.name,
                            item,
                            altered: naming.alters(&item.name, &exposed),
                            bare: naming.is_bare(),
                            exposed,
                        }
                    }));
                }
            }
        }
        let claims = settle(claims, conflicts);
        let missing = (!missing.is_empty()).then(|| {
            let entries: Vec<_> = missing
                .into_iter()
                .map(|(server, state, reason)| Unavailable {
                    server: server.as_str(),
                    state,
                    reason,
                })
                .collect();
            Raw::of(&entries)
        });
        let list = list(&claims);
        Self {
            legacy: result(&list, "", "", missing.as_ref()),
            modern: result(&list, MODERN_MEMBERS, &modern_meta(), missing.as_ref()),
            tools: claims
                .into_iter()
                .map(|claim| {
                    let name = claim.item.name.clone();
                    let server = claim.server;
                    (claim.exposed, Target { server, name })
                })
                .collect(),
            outcomes,
        }
    }

    /// Where a tool's exposed name leads.
    #[must_use]
    pub fn tool(&self, exposed: &str) -> Option<&Target> {
        self.tools.get(exposed)
    }

    /// All exposed names of tools, in no order.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(ExposedName::as_str)
    }

    /// Whether a server is not in it that has never been listed.
    pub(crate) fn lacks(&self, server: &ServerName) -> bool {
        self.outcomes
            .iter()
            .any(|(name, outcome)| name == server && matches!(outcome, Outcome::Missing { .. }))
    }

    /// Whether it is known of every server how its start went.
    pub(crate) fn is_settled(&self) -> bool {
        let starting = Health::Starting.word();
        self.outcomes.iter().all(
            |(_, outcome)| !matches!(outcome, Outcome::Missing { state, .. } if *state == starting),
        )
    }

    /// The result of `tools/list`, naming the servers that are missing.
    #[must_use]
    pub fn tools_list(&self, era: Era) -> &Raw {
        match era {
            Era::Legacy => &self.legacy,
            Era::Modern => &self.modern,
        }
    }
}

/// What a list result of 2026-07-28 carries besides. What legacy servers list may change at any time and is
/// one caller's own, so nothing may be kept (2026-07-28 caching).
const MODERN_MEMBERS: &str = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;

fn modern_meta() -> String {
    format!(
        "{}:{}",
        Raw::of(meta::SERVER_INFO).as_str(),
        server_info().as_str()
    )
}

/// Who Manifold says it is.
#[must_use]
pub fn server_info() -> Raw {
    Raw::of(&serde_json::json!({
        "name": "manifold",
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

/// A list result: the list, an era's own members, and `_meta` where there is something to say.
fn result(list: &Bytes, members: &str, meta_members: &str, missing: Option<&Raw>) -> Raw {
    let missing = missing.map(|missing| {
        let key = Raw::of(meta::UNAVAILABLE);
        format!("{}:{}", key.as_str(), missing.as_str())
    });
    let meta: Vec<&str> = [Some(meta_members), missing.as_deref()]
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect();
    let mut out = BytesMut::with_capacity(list.len() + 256);
    out.put_slice(b"{");
    out.put_slice(list);
    if !members.is_empty() {
        out.put_slice(b",");
        out.put_slice(members.as_bytes());
    }
    if !meta.is_empty() {
        out.put_slice(b",\"_meta\":{");
        out.put_slice(meta.join(",").as_bytes());
        out.put_slice(b"}");
    }
    out.put_slice(b"}");
    Raw::parse(out.freeze()).unwrap_or_else(|_| Raw::of(&serde_json::json!({ "tools": [] })))
}

/// A server's wish for an exposed name.
#[derive(Debug)]
struct Claim<'a> {
    server: ServerIndex,
    server_name: &'a ServerName,
    item: &'a Item,
    exposed: ExposedName,
    altered: bool,
    bare: bool,
}

/// Settles who gets a name: prefixed before bare, bare ones in the order of the configuration; what still
/// collides nobody gets. Claims come in that order, and stay in it.
fn settle<'a>(claims: Vec<Claim<'a>>, conflicts: &mut Vec<ExposedName>) -> Vec<Claim<'a>> {
    let mut by_name: BTreeMap<ExposedName, Vec<(bool, ServerIndex)>> = BTreeMap::new();
    for claim in &claims {
        by_name
            .entry(claim.exposed.clone())
            .or_default()
            .push((claim.bare, claim.server));
    }
    let mut winners: HashMap<ExposedName, Option<ServerIndex>> = HashMap::new();
    for (name, claimants) in by_name {
        if claimants.len() > 1 {
            conflicts.push(name.clone());
        }
        let prefixed: Vec<_> = claimants.iter().filter(|(bare, _)| !bare).collect();
        let winner = match prefixed.as_slice() {
            [] => claimants.first().map(|(_, server)| *server),
            [(_, server)] => Some(*server),
            _ => None,
        };
        // Two names of one server that were made equal are two claims of it: nobody gets the name.
        let own = claimants
            .iter()
            .filter(|(_, server)| Some(*server) == winner)
            .count();
        winners.insert(name, winner.filter(|_| own == 1));
    }
    claims
        .into_iter()
        .filter(|claim| winners.get(&claim.exposed) == Some(&Some(claim.server)))
        .collect()
}

/// `"tools":[…]`.
fn list(claims: &[Claim<'_>]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(b"\"tools\":[");
    for (index, claim) in claims.iter().enumerate() {
        if index > 0 {
            out.put_slice(b",");
        }
        let exposed = claim.exposed.as_str();
        let object = if claim.altered {
            let origin = Raw::of(&Origin {
                server: claim.server_name.as_str(),
                name: claim.item.name.as_str(),
            });
            claim.item.exposed(exposed, &[(meta::ORIGIN, origin)])
        } else {
            claim.item.exposed(exposed, &[])
        };
        out.put_slice(&object);
    }
    out.put_slice(b"]");
    out.freeze()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn prefixed(prefix: &str) -> Naming {
        Naming::Prefixed {
            prefix: prefix.into(),
            separator: "__".into(),
            max_length: 48,
        }
    }

    fn items(names: &[&str]) -> PartList {
        let items = names
            .iter()
            .map(|name| Item::parse(&Raw::of(&serde_json::json!({ "name": name }))).unwrap())
            .collect();
        PartList::Listed(Arc::new(items))
    }

    /// Builds a catalog of (server, prefix, list).
    fn build(parts: Vec<(&str, &str, PartList)>) -> Catalog {
        let named: Vec<_> = parts
            .into_iter()
            .map(|(name, prefix, list)| (ServerName::new(name), prefixed(prefix), list))
            .collect();
        let parts: Vec<_> = named
            .into_iter()
            .map(|(name, naming, list)| {
                (Box::leak(Box::new(name)), Box::leak(Box::new(naming)), list)
            })
            .map(|(name, naming, list)| Part { name, naming, list })
            .collect();
        Catalog::build(&parts)
    }

    fn listed(view: &View) -> String {
        view.tools_list(Era::Legacy).as_str().to_owned()
    }

    #[test]
    fn two_servers_with_the_same_tool_are_both_reachable() {
        let catalog = build(vec![
            ("b1", "b1", items(&["search"])),
            ("b2", "b2", items(&["search"])),
        ]);
        let view = catalog.view(Scope::Merged);
        assert_eq!(
            listed(view),
            r#"{"tools":[{"name":"b1__search"},{"name":"b2__search"}]}"#
        );
        assert_eq!(view.tool("b1__search").unwrap().server, ServerIndex(0));
        assert_eq!(view.tool("b2__search").unwrap().server, ServerIndex(1));
        assert!(view.tool("search").is_none());
        assert!(catalog.conflicts.is_empty());
        let alone = catalog.view(Scope::Alone(ServerIndex(1)));
        assert_eq!(listed(alone), r#"{"tools":[{"name":"search"}]}"#);
        assert_eq!(alone.tool("search").unwrap().server, ServerIndex(1));
    }

    #[test]
    fn a_bare_name_loses_to_a_prefixed_one_and_to_an_earlier_bare_one() {
        let catalog = build(vec![
            ("bare", "", items(&["a__x", "y"])),
            ("later", "", items(&["y", "z"])),
            ("a", "a", items(&["x"])),
        ]);
        let view = catalog.view(Scope::Merged);
        assert_eq!(
            listed(view),
            r#"{"tools":[{"name":"y"},{"name":"z"},{"name":"a__x"}]}"#
        );
        assert_eq!(view.tool("a__x").unwrap().server, ServerIndex(2));
        assert_eq!(view.tool("y").unwrap().server, ServerIndex(0));
        assert_eq!(catalog.conflicts.len(), 2);
    }

    #[test]
    fn names_that_two_prefixed_servers_claim_are_dropped_for_both() {
        let catalog = build(vec![
            ("a", "a", items(&["b__x", "y"])),
            ("a-b", "a__b", items(&["x", "y"])),
        ]);
        assert_eq!(
            listed(catalog.view(Scope::Merged)),
            r#"{"tools":[{"name":"a__y"},{"name":"a__b__y"}]}"#
        );
    }

    #[test]
    fn an_altered_name_says_where_it_comes_from() {
        let catalog = build(vec![("s", "s", items(&["a.b"]))]);
        let text = listed(catalog.view(Scope::Merged));
        assert!(
            text.contains(r#""_meta":{"dev.manifold/origin":{"server":"s","name":"a.b"}}"#),
            "{text}"
        );
        let target = catalog.view(Scope::Merged).tools.values().next().unwrap();
        assert_eq!(target.name.as_str(), "a.b");
        assert_eq!(
            listed(catalog.view(Scope::Alone(ServerIndex(0)))),
            r#"{"tools":[{"name":"a.b"}]}"#
        );
    }

    #[test]
    fn a_list_says_who_is_missing() {
        let missing = PartList::Missing {
            state: "backoff",
            reason: "could not be started".to_owned(),
        };
        let catalog = build(vec![
            ("up", "up", items(&["t"])),
            ("down", "down", missing),
            ("off", "off", PartList::Disabled),
        ]);
        let view = catalog.view(Scope::Merged);
        assert_eq!(
            listed(view),
            r#"{"tools":[{"name":"up__t"}],"_meta":{"dev.manifold/unavailable":[{"server":"down","state":"backoff","reason":"could not be started"}]}}"#
        );
        let modern = view.tools_list(Era::Modern).as_str();
        assert!(modern.contains(r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#));
        assert!(modern.contains(r#""io.modelcontextprotocol/serverInfo":{"name":"manifold""#));
        assert!(modern.contains("dev.manifold/unavailable"));
        assert_eq!(view.outcomes.len(), 3);
        assert_eq!(view.outcomes[0].1, Outcome::Listed { tools: 1 });
        assert_eq!(view.outcomes[2].1, Outcome::Disabled);
    }
}

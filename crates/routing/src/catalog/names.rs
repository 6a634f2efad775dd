//! Who gets an exposed name: tools and prompts.

use std::collections::{BTreeMap, HashMap};

use manifold_protocol::{ExposedName, Item, Naming, OriginalName, Raw, ServerName, meta};
use serde::Serialize;

use super::{ServerIndex, list::ListBuilder};

/// Which exposed name leads where.
#[derive(Debug, Default)]
pub(super) struct NameTable(HashMap<ExposedName, Target>);

/// Where an exposed name leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The server.
    pub server: ServerIndex,
    /// Its name for the tool or prompt.
    pub name: OriginalName,
}

/// A server's wish for an exposed name.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    server: ServerIndex,
    server_name: &'a ServerName,
    item: &'a Item,
    original: OriginalName,
    exposed: ExposedName,
    altered: bool,
    bare: bool,
}

/// An entry of `_meta["dev.manifold/origin"]`.
#[derive(Debug, Serialize)]
struct Origin<'a> {
    server: &'a str,
    name: &'a str,
}

impl<'a> Claim<'a> {
    pub(super) fn new(
        server: ServerIndex,
        server_name: &'a ServerName,
        naming: &Naming,
        item: &'a Item,
    ) -> Self {
        let original = OriginalName::new(item.key());
        let exposed = naming.expose(&original);
        Self {
            altered: naming.alters(&original, &exposed),
            bare: naming.is_bare(),
            server,
            server_name,
            item,
            original,
            exposed,
        }
    }
}

impl NameTable {
    /// Settles the claims, and writes the entries of the winners into `list`, their links translated by `link`.
    pub(super) fn build(
        claims: Vec<Claim<'_>>,
        list: &mut ListBuilder,
        conflicts: &mut Vec<String>,
        link: &dyn Fn(ServerIndex, &str) -> Option<String>,
    ) -> Self {
        let mut table = HashMap::new();
        for claim in settle(claims, conflicts) {
            let exposed = claim.exposed.as_str();
            let link = |uri: &str| link(claim.server, uri);
            let object = if claim.altered {
                let origin = Raw::of(&Origin {
                    server: claim.server_name.as_str(),
                    name: claim.original.as_str(),
                });
                claim
                    .item
                    .exposed(exposed, &[(meta::ORIGIN, origin)], &link)
            } else {
                claim.item.exposed(exposed, &[], &link)
            };
            list.push(exposed, &object);
            table.insert(
                claim.exposed,
                Target {
                    server: claim.server,
                    name: claim.original,
                },
            );
        }
        Self(table)
    }

    pub(super) fn get(&self, exposed: &str) -> Option<&Target> {
        self.0.get(exposed)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(ExposedName::as_str)
    }
}

/// Settles who gets a name: prefixed before bare, bare ones in the order of the configuration; what still
/// collides nobody gets. Claims come in that order, and stay in it.
fn settle<'a>(claims: Vec<Claim<'a>>, conflicts: &mut Vec<String>) -> Vec<Claim<'a>> {
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
            conflicts.push(name.as_str().to_owned());
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

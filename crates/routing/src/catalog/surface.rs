//! What clients see on one path.

use manifold_protocol::{Era, Kind, Method, Naming, Raw, ServerName};
use serde::Serialize;

use super::{
    Capabilities, Part, PartList, ResourceTarget, ServerIndex, Target, UnknownCursor,
    hello::instructions,
    list::{ListBuilder, ReadyList},
    names::{Claim, NameTable},
    uris::UriTable,
};
use crate::{
    Health,
    lists::{CacheHint, List},
    settings::ToolFilter,
};

/// The lists of one path, and what its exposed names and URIs lead to.
#[derive(Debug)]
pub struct Surface {
    tools: NameTable,
    prompts: NameTable,
    uris: UriTable,
    lists: ReadyLists,
    /// How each server took part in the list of tools.
    outcomes: Vec<(ServerIndex, ServerName, Outcome)>,
    capabilities: Capabilities,
    instructions: Option<String>,
    /// Names and URIs that more than one server claims, by kind.
    conflicts: Vec<(Kind, Vec<String>)>,
    /// Whether some list of some server is not known yet, of which something may still become.
    unsettled: bool,
    /// Whether every server has said hello, ever.
    known: bool,
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

/// What tells the lists of a path from those before: what a client would be told of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fingerprints {
    tools: u64,
    prompts: u64,
    resources: u64,
    templates: u64,
}

/// A server on a path.
pub(super) struct Member {
    pub(super) index: ServerIndex,
    pub(super) part: Part,
    /// Which of its tools pass; all, if none.
    pub(super) filter: Option<ToolFilter>,
}

/// How a server takes part in one list.
#[derive(Debug)]
pub(super) enum Taking<'a> {
    Disabled,
    /// It declares no such list.
    Nothing,
    Missing {
        state: &'static str,
        reason: &'a str,
    },
    Listed(&'a List),
}

#[derive(Debug)]
struct ReadyLists {
    tools: ReadyList,
    prompts: ReadyList,
    resources: ReadyList,
    templates: ReadyList,
}

/// An entry of `_meta["dev.manifold/unavailable"]`.
#[derive(Debug, Serialize)]
struct Unavailable<'a> {
    server: &'a str,
    state: &'a str,
    reason: &'a str,
}

// === impl Surface ===

impl Surface {
    /// Servers under their exposed names and URIs.
    pub(super) fn merged(members: Vec<Member>) -> Self {
        let marks = members
            .iter()
            .map(|member| (member.index, member.part.mark.clone()))
            .collect();
        let bare = members
            .iter()
            .find(|member| member.part.naming.is_bare() && member.serves_resources())
            .map(|member| member.index);
        let capabilities = Capabilities::all();
        let instructions = instructions(
            members
                .iter()
                .filter(|member| !matches!(member.part.list, PartList::Disabled))
                .map(|member| (&member.part.name, member.instructions())),
        );
        Self::build(
            &members,
            None,
            UriTable::new(marks, bare),
            capabilities,
            instructions,
        )
    }

    /// One server, everything as it has it.
    pub(super) fn alone(member: Option<Member>) -> Self {
        let bare = member.as_ref().map(|member| member.index);
        let capabilities = match member.as_ref().map(|member| &member.part.list) {
            Some(PartList::Known { hello, .. }) => Capabilities::of(hello.serves),
            _ => Capabilities::all(),
        };
        let instructions = member
            .as_ref()
            .and_then(|member| member.instructions())
            .map(str::to_owned);
        let members: Vec<_> = member.into_iter().collect();
        Self::build(
            &members,
            Some(&Naming::Verbatim),
            UriTable::new(Vec::new(), bare),
            capabilities,
            instructions,
        )
    }

    fn build(
        members: &[Member],
        naming: Option<&Naming>,
        mut uris: UriTable,
        capabilities: Capabilities,
        instructions: Option<String>,
    ) -> Self {
        let mut conflicts = Vec::new();
        let resources = Kind::Resource;
        let resources = list(members, resources, &mut conflicts, |list, conflicts| {
            let claims: Vec<_> = members
                .iter()
                .flat_map(|member| member.items(Kind::Resource))
                .collect();
            uris.add_resources(&claims, list, conflicts);
        });
        let templates = list(
            members,
            Kind::Template,
            &mut conflicts,
            |list, conflicts| {
                let claims: Vec<_> = members
                    .iter()
                    .filter_map(|member| Some((member.index, member.list(Kind::Template)?)))
                    .flat_map(|(server, list)| {
                        let templates = list.templates();
                        templates.map(move |(item, pattern)| (server, item, pattern))
                    })
                    .collect();
                uris.add_templates(&claims, list, conflicts);
            },
        );
        let link = |server, uri: &str| uris.expose(server, uri);
        let mut names = |kind| {
            let mut table = NameTable::default();
            let ready = list(members, kind, &mut conflicts, |list, conflicts| {
                let claims = members
                    .iter()
                    .flat_map(|member| {
                        let naming = naming.unwrap_or(&member.part.naming);
                        member.items(kind).map(|(server, item)| {
                            Claim::new(server, &member.part.name, naming, item)
                        })
                    })
                    .collect();
                table = NameTable::build(claims, list, conflicts, &link);
            });
            (table, ready)
        };
        let (tools, tool_list) = names(Kind::Tool);
        let (prompts, prompt_list) = names(Kind::Prompt);
        Self {
            tools,
            prompts,
            uris,
            lists: ReadyLists {
                tools: tool_list,
                prompts: prompt_list,
                resources,
                templates,
            },
            outcomes: members.iter().map(Member::outcome).collect(),
            capabilities,
            instructions,
            conflicts,
            unsettled: members.iter().any(Member::is_unsettled),
            known: members
                .iter()
                .all(|member| !matches!(member.part.list, PartList::Missing { .. })),
        }
    }

    /// Where a tool's exposed name leads.
    #[must_use]
    pub fn tool(&self, exposed: &str) -> Option<&Target> {
        self.tools.get(exposed)
    }

    /// Where a prompt's exposed name leads.
    #[must_use]
    pub fn prompt(&self, exposed: &str) -> Option<&Target> {
        self.prompts.get(exposed)
    }

    /// Where a URI leads, bare or marked, listed or made from a template.
    #[must_use]
    pub fn resource(&self, uri: &str) -> Option<ResourceTarget> {
        self.uris.get(uri)
    }

    /// Where a template leads.
    #[must_use]
    pub fn template(&self, exposed: &str) -> Option<ResourceTarget> {
        self.uris.template(exposed)
    }

    /// How a URI in a result of `server` is exposed; `None` for one that stays as it is.
    #[must_use]
    pub fn expose(&self, server: ServerIndex, uri: &str) -> Option<String> {
        self.uris.expose(server, uri)
    }

    /// All exposed names of a kind, in no order; none for kinds that have URIs.
    pub fn names(&self, kind: Kind) -> Box<dyn Iterator<Item = &str> + '_> {
        match kind {
            Kind::Tool => Box::new(self.tools.names()),
            Kind::Prompt => Box::new(self.prompts.names()),
            Kind::Resource | Kind::Template => Box::new(std::iter::empty()),
        }
    }

    /// The result of a list request, naming the servers that are missing. With a `size` it is a page of the list.
    ///
    /// # Errors
    /// When the cursor is none of this list.
    pub fn list(
        &self,
        kind: Kind,
        era: Era,
        cursor: Option<&Raw>,
        size: Option<usize>,
    ) -> Result<Raw, UnknownCursor> {
        self.lists.get(kind).page(era, cursor, size)
    }

    /// What the path declares.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// What its servers say of how to use them.
    #[must_use]
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// How each server took part in the list of tools.
    pub fn outcomes(&self) -> impl Iterator<Item = (&ServerName, &Outcome)> {
        self.outcomes
            .iter()
            .map(|(_, name, outcome)| (name, outcome))
    }

    /// The names and URIs that more than one server claims.
    pub fn conflicts(&self) -> impl Iterator<Item = (Kind, &[String])> {
        self.conflicts
            .iter()
            .map(|(kind, names)| (*kind, names.as_slice()))
    }

    /// What tells its lists from those before.
    #[must_use]
    pub fn fingerprints(&self) -> Fingerprints {
        let print = |kind| self.lists.get(kind).fingerprint();
        Fingerprints {
            tools: print(Kind::Tool),
            prompts: print(Kind::Prompt),
            resources: print(Kind::Resource),
            templates: print(Kind::Template),
        }
    }

    /// The servers on the path whose lists of tools are not known.
    pub(crate) fn unlisted(&self) -> impl Iterator<Item = ServerIndex> {
        self.outcomes
            .iter()
            .filter(|(.., outcome)| matches!(outcome, Outcome::Missing { .. }))
            .map(|(index, ..)| *index)
    }

    /// The server whose mark a URI has.
    pub(crate) fn marked(&self, uri: &str) -> Option<ServerIndex> {
        self.uris.unmark(uri).map(|(server, _)| server)
    }

    /// Whether every server has said what it is, ever.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// Whether it is known of every server how its start went.
    pub(crate) fn is_settled(&self) -> bool {
        !self.unsettled
    }
}

fn list(
    members: &[Member],
    kind: Kind,
    all_conflicts: &mut Vec<(Kind, Vec<String>)>,
    fill: impl FnOnce(&mut ListBuilder, &mut Vec<String>),
) -> ReadyList {
    let mut builder = ListBuilder::new(kind);
    let mut conflicts = Vec::new();
    fill(&mut builder, &mut conflicts);
    all_conflicts.push((kind, conflicts));
    let mut hint: Option<CacheHint> = None;
    let mut missing = Vec::new();
    for member in members {
        match member.part.list_of(kind) {
            Taking::Listed(list) => {
                let own = list.hint().unwrap_or_default();
                hint = Some(hint.map_or(own, |hint| hint.and(own)));
            }
            Taking::Missing { state, reason } => missing.push(Unavailable {
                server: member.part.name.as_str(),
                state,
                reason,
            }),
            Taking::Disabled | Taking::Nothing => {}
        }
    }
    if missing.is_empty() {
        return builder.finish(hint.unwrap_or_default(), None);
    }
    // What is missing may come at any time.
    builder.finish(CacheHint::default(), Some(Raw::of(&missing)))
}

// === impl Member ===

impl Member {
    fn list(&self, kind: Kind) -> Option<&List> {
        match self.part.list_of(kind) {
            Taking::Listed(list) => Some(list),
            Taking::Disabled | Taking::Nothing | Taking::Missing { .. } => None,
        }
    }

    /// The entries that pass.
    fn items(&self, kind: Kind) -> impl Iterator<Item = (ServerIndex, &manifold_protocol::Item)> {
        let filter = self.filter.as_ref().filter(|_| kind == Kind::Tool);
        let items = self.list(kind).map(List::items).unwrap_or_default();
        items
            .iter()
            .filter(move |item| filter.is_none_or(|permits| permits(item.key())))
            .map(|item| (self.index, item))
    }

    fn instructions(&self) -> Option<&str> {
        match &self.part.list {
            PartList::Known { hello, .. } => hello.instructions.as_deref(),
            PartList::Disabled | PartList::Missing { .. } => None,
        }
    }

    fn serves_resources(&self) -> bool {
        matches!(&self.part.list, PartList::Known { hello, .. } if hello.serves.resources)
    }

    fn outcome(&self) -> (ServerIndex, ServerName, Outcome) {
        let outcome = match self.part.list_of(Kind::Tool) {
            Taking::Disabled => Outcome::Disabled,
            Taking::Nothing => Outcome::Listed { tools: 0 },
            Taking::Missing { state, reason } => Outcome::Missing {
                state,
                reason: reason.to_owned(),
            },
            Taking::Listed(list) => Outcome::Listed {
                tools: list.items().len(),
            },
        };
        (self.index, self.part.name.clone(), outcome)
    }

    fn is_unsettled(&self) -> bool {
        let starting = Health::Starting.word();
        Kind::ALL.into_iter().any(|kind| {
            matches!(self.part.list_of(kind), Taking::Missing { state, .. } if state == starting)
        })
    }
}

// === impl ReadyLists ===

impl ReadyLists {
    fn get(&self, kind: Kind) -> &ReadyList {
        match kind {
            Kind::Tool => &self.tools,
            Kind::Prompt => &self.prompts,
            Kind::Resource => &self.resources,
            Kind::Template => &self.templates,
        }
    }
}

// === impl Fingerprints ===

impl Fingerprints {
    /// Takes what is in `now` of the list of a kind.
    pub(crate) fn take(&mut self, kind: Kind, now: Self) {
        match kind {
            Kind::Tool => self.tools = now.tools,
            Kind::Prompt => self.prompts = now.prompts,
            Kind::Resource => self.resources = now.resources,
            Kind::Template => self.templates = now.templates,
        }
    }

    /// The notifications for what differs in `now`. Resources and templates have one.
    #[must_use]
    pub fn changes(&self, now: Self) -> Vec<Method> {
        let resources = self.resources != now.resources || self.templates != now.templates;
        [
            (self.tools != now.tools, Method::ToolsListChanged),
            (self.prompts != now.prompts, Method::PromptsListChanged),
            (resources, Method::ResourcesListChanged),
        ]
        .into_iter()
        .filter_map(|(changed, method)| changed.then_some(method))
        .collect()
    }
}

//! `[views.NAME]`: a choice of servers and tools under a path of its own.

use crate::fault::{Refusal, quoted};
use crate::glob::Glob;
use crate::names::{ServerName, ViewName};
use crate::nearest::nearest;
use crate::reader::{Entry, Placed, Shown, Span, without_places};
use crate::section::Section;
use crate::servers::Servers;

/// A choice of servers and tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Its name, which no server has.
    pub name: ViewName,
    /// The servers in it; each exists.
    pub servers: Vec<ServerName>,
    /// The tools that pass, by original names, for servers of the view. A server not named here passes none.
    ///
    /// A view without a `tools` table passes all tools of its servers; then each stands here with `*`.
    pub tools: Vec<(ServerName, Vec<Glob>)>,
}

/// Reads `[views]`.
pub(crate) fn read(root: &mut Section<'_, '_>, servers: &Servers) -> Vec<View> {
    let entries = root.entries("views");
    let views = entries.iter().filter_map(|entry| {
        let name = view_name(root, entry, servers);
        let (servers, tools) =
            root.named(entry, "views.*", |section| read_view(section, servers))?;
        Some(View {
            name: name?,
            servers,
            tools,
        })
    });
    views.collect()
}

fn view_name(root: &Section<'_, '_>, entry: &Entry<'_>, servers: &Servers) -> Option<ViewName> {
    let refuse = |refusal: Refusal| {
        root.reader
            .refuse(&entry.key_span, refusal.about(&entry.path))
    };
    if servers.declared.iter().any(|name| name == entry.key) {
        refuse(
            Refusal::new("has the name of a server, and the two would share a path")
                .remedy("give the view another name"),
        );
    }
    ViewName::new(entry.key).map_err(refuse).ok()
}

fn read_view(
    section: &mut Section<'_, '_>,
    servers: &Servers,
) -> (Vec<ServerName>, Vec<(ServerName, Vec<Glob>)>) {
    let texts: Vec<Placed<String>> = section
        .list("servers", Shown::Yes, |name| Ok(name.to_owned()))
        .unwrap_or_default();
    let mut chosen: Vec<ServerName> = Vec::with_capacity(texts.len());
    for Placed { value, span } in &texts {
        let Some(name) = declared(section, "servers", value, span, servers) else {
            continue;
        };
        if chosen.contains(&name) {
            let refusal = Refusal::new("names a server twice");
            section
                .reader
                .refuse(span, refusal.about(&section.path_of("servers")));
        } else {
            chosen.push(name);
        }
    }
    if section.place_of("tools").is_none() {
        let tools = chosen.iter().map(|name| (name.clone(), vec![Glob::any()]));
        let tools = tools.collect();
        return (chosen, tools);
    }
    let mut tools = Vec::new();
    for entry in section.entries("tools") {
        let globs = without_places(section.list_in(&entry, Shown::Yes, Glob::new));
        let Some(name) = declared(section, "tools", entry.key, &entry.key_span, servers) else {
            continue;
        };
        if !texts.iter().any(|text| text.value == entry.key) {
            let refusal = Refusal::new("names a server that is not in `servers` of this view");
            section
                .reader
                .refuse(&entry.key_span, refusal.about(&entry.path));
        }
        tools.push((name, globs));
    }
    (chosen, tools)
}

/// The name of a server that the file declares; otherwise a fault, unless the name itself is one already.
fn declared(
    section: &Section<'_, '_>,
    key: &str,
    name: &str,
    span: &Span,
    servers: &Servers,
) -> Option<ServerName> {
    let names = || servers.declared.iter().map(String::as_str);
    if names().any(|declared| declared == name) {
        return ServerName::new(name).ok();
    }
    let mut refusal = Refusal::new("names a server that does not exist");
    if let Some(known) = nearest(name, names()) {
        refusal = refusal.remedy(format!("did you mean {}?", quoted(known)));
    }
    section
        .reader
        .refuse(span, refusal.about(&section.path_of(key)));
    None
}

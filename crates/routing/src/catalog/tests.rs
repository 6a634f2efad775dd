use std::{collections::HashMap, sync::Arc};

use manifold_link::Serves;
use manifold_protocol::{Era, Item, Kind, Naming, Raw, ServerName, uri::UriPrefix};
use proptest::prelude::*;

use super::*;
use crate::lists::{CacheHint, List};

const MERGED: Scope = Scope::Merged;

fn part(name: &str, prefix: &str, list: PartList) -> Part {
    Part {
        name: ServerName::new(name),
        naming: Arc::new(Naming::Prefixed {
            prefix: prefix.into(),
            separator: "__".into(),
            max_length: 48,
        }),
        mark: UriPrefix::new(prefix),
        list,
    }
}

fn list(kind: Kind, keys: &[&str]) -> List {
    let items = keys
        .iter()
        .map(|key| Item::parse(kind, &Raw::of(&serde_json::json!({ kind.key(): key }))).unwrap())
        .collect();
    List::new(kind, items, None)
}

fn known(lists: &[(Kind, &[&str])]) -> PartList {
    let mut all = Lists::default();
    for kind in Kind::ALL {
        let keys = lists.iter().find(|(of, _)| *of == kind);
        all.set(kind, list(kind, keys.map_or(&[], |(_, keys)| keys)));
    }
    PartList::Known {
        hello: Hello {
            instructions: None,
            serves: Serves {
                tools: true,
                prompts: true,
                resources: true,
                completions: true,
                logging: true,
            },
        },
        lists: all,
        state: "ready",
        reason: String::new(),
    }
}

fn tools(names: &[&str]) -> PartList {
    known(&[(Kind::Tool, names)])
}

/// Builds a catalog of (server, prefix, list).
fn build(parts: Vec<(&str, &str, PartList)>) -> Catalog {
    let parts = parts
        .into_iter()
        .map(|(name, prefix, list)| part(name, prefix, list))
        .collect();
    Catalog::build(1, parts, Arc::new([]))
}

fn listed(surface: &Surface, kind: Kind) -> String {
    let list = surface.list(kind, Era::Legacy, None, None).unwrap();
    list.as_str().to_owned()
}

fn conflicts(surface: &Surface) -> usize {
    surface.conflicts().map(|(_, names)| names.len()).sum()
}

fn target(server: usize, uri: &str) -> Option<ResourceTarget> {
    Some(ResourceTarget {
        server: ServerIndex(server),
        uri: uri.into(),
    })
}

#[test]
fn two_servers_with_the_same_tool_are_both_reachable() {
    let catalog = build(vec![
        ("b1", "b1", tools(&["search"])),
        ("b2", "b2", tools(&["search"])),
    ]);
    let surface = catalog.surface(MERGED);
    assert_eq!(
        listed(surface, Kind::Tool),
        r#"{"tools":[{"name":"b1__search"},{"name":"b2__search"}]}"#
    );
    assert_eq!(surface.tool("b1__search").unwrap().server, ServerIndex(0));
    assert_eq!(surface.tool("b2__search").unwrap().server, ServerIndex(1));
    assert!(surface.tool("search").is_none());
    assert_eq!(conflicts(surface), 0);
    let alone = catalog.surface(Scope::Alone(ServerIndex(1)));
    assert_eq!(
        listed(alone, Kind::Tool),
        r#"{"tools":[{"name":"search"}]}"#
    );
    assert_eq!(alone.tool("search").unwrap().server, ServerIndex(1));
}

#[test]
fn a_bare_name_loses_to_a_prefixed_one_and_to_an_earlier_bare_one() {
    let catalog = build(vec![
        ("bare", "", tools(&["a__x", "y"])),
        ("later", "", tools(&["y", "z"])),
        ("a", "a", tools(&["x"])),
    ]);
    let surface = catalog.surface(MERGED);
    assert_eq!(
        listed(surface, Kind::Tool),
        r#"{"tools":[{"name":"y"},{"name":"z"},{"name":"a__x"}]}"#
    );
    assert_eq!(surface.tool("a__x").unwrap().server, ServerIndex(2));
    assert_eq!(surface.tool("y").unwrap().server, ServerIndex(0));
    assert_eq!(conflicts(surface), 2);
}

#[test]
fn names_that_two_prefixed_servers_claim_are_dropped_for_both() {
    let catalog = build(vec![
        ("a", "a", tools(&["b__x", "y"])),
        ("a-b", "a__b", tools(&["x", "y"])),
    ]);
    assert_eq!(
        listed(catalog.surface(MERGED), Kind::Tool),
        r#"{"tools":[{"name":"a__y"},{"name":"a__b__y"}]}"#
    );
}

#[test]
fn an_altered_name_says_where_it_comes_from() {
    let lists: &[(Kind, &[&str])] = &[(Kind::Tool, &["a.b"]), (Kind::Prompt, &["ü"])];
    let catalog = build(vec![("s", "s", known(lists))]);
    let surface = catalog.surface(MERGED);
    for (kind, original) in [(Kind::Tool, "a.b"), (Kind::Prompt, "ü")] {
        let text = listed(surface, kind);
        let origin =
            format!(r#""_meta":{{"dev.manifold/origin":{{"server":"s","name":"{original}"}}}}"#);
        assert!(text.contains(&origin), "{text}");
        let exposed = surface.names(kind).next().unwrap().to_owned();
        let target = if kind == Kind::Tool {
            surface.tool(&exposed)
        } else {
            surface.prompt(&exposed)
        };
        assert_eq!(target.unwrap().name.as_str(), original);
    }
    assert_eq!(
        listed(catalog.surface(Scope::Alone(ServerIndex(0))), Kind::Tool),
        r#"{"tools":[{"name":"a.b"}]}"#
    );
}

#[test]
fn a_list_says_who_is_missing() {
    let missing = || PartList::Missing {
        state: "backoff",
        reason: "could not be started".to_owned(),
    };
    let catalog = build(vec![
        ("up", "up", tools(&["t"])),
        ("down", "down", missing()),
        ("off", "off", PartList::Disabled),
    ]);
    let surface = catalog.surface(MERGED);
    let unavailable = r#""_meta":{"dev.manifold/unavailable":[{"server":"down","state":"backoff","reason":"could not be started"}]}}"#;
    assert_eq!(
        listed(surface, Kind::Tool),
        format!(r#"{{"tools":[{{"name":"up__t"}}],{unavailable}"#)
    );
    assert_eq!(
        listed(surface, Kind::Template),
        format!(r#"{{"resourceTemplates":[],{unavailable}"#)
    );
    let modern = surface.list(Kind::Tool, Era::Modern, None, None).unwrap();
    let modern = modern.as_str();
    assert!(modern.contains(r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#));
    assert!(modern.contains(r#""io.modelcontextprotocol/serverInfo":{"name":"manifold""#));
    assert!(modern.contains("dev.manifold/unavailable"));
    let outcomes: Vec<_> = surface.outcomes().map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes[0], &Outcome::Listed { tools: 1 });
    assert_eq!(outcomes[2], &Outcome::Disabled);
    assert!(surface.is_settled());
}

#[test]
fn one_late_list_of_a_server_hides_no_other() {
    let PartList::Known { hello, .. } = tools(&[]) else {
        unreachable!()
    };
    let mut lists = Lists::default();
    lists.set(Kind::Tool, list(Kind::Tool, &["t"]));
    let part = PartList::Known {
        hello,
        lists,
        state: "starting",
        reason: "late".to_owned(),
    };
    let catalog = build(vec![("s", "s", part)]);
    let surface = catalog.surface(MERGED);
    assert_eq!(
        listed(surface, Kind::Tool),
        r#"{"tools":[{"name":"s__t"}]}"#
    );
    assert!(listed(surface, Kind::Prompt).contains("dev.manifold/unavailable"));
    assert!(!surface.is_settled());
}

#[test]
fn a_uri_is_bare_for_the_first_and_marked_for_the_rest() {
    let lists: &[(Kind, &[&str])] = &[
        (Kind::Resource, &["file:///a.txt"]),
        (Kind::Template, &["db://{table}/{id}"]),
    ];
    let catalog = build(vec![
        ("b1", "b1", known(lists)),
        ("b2", "b2", known(lists)),
        ("b3", "", known(lists)),
    ]);
    let surface = catalog.surface(MERGED);
    assert_eq!(
        listed(surface, Kind::Resource),
        r#"{"resources":[{"uri":"file:///a.txt"},{"uri":"b2+file:///a.txt"}]}"#
    );
    assert_eq!(
        listed(surface, Kind::Template),
        r#"{"resourceTemplates":[{"uriTemplate":"db://{table}/{id}"},{"uriTemplate":"b2+db://{table}/{id}"}]}"#
    );
    // Two claims of b3 that have no form of their own.
    assert_eq!(conflicts(surface), 2);
    for (uri, expected) in [
        ("file:///a.txt", target(0, "file:///a.txt")),
        ("b1+file:///a.txt", target(0, "file:///a.txt")),
        ("b2+file:///a.txt", target(1, "file:///a.txt")),
        ("db://users/7", target(0, "db://users/7")),
        ("b2+db://users/7", target(1, "db://users/7")),
        // Nobody lists it: the server without a mark is asked.
        ("file:///other", target(2, "file:///other")),
    ] {
        assert_eq!(surface.resource(uri), expected, "{uri}");
    }
    let template = |uri| surface.template(uri);
    assert_eq!(
        template("b2+db://{table}/{id}"),
        target(1, "db://{table}/{id}")
    );
    assert_eq!(
        template("db://{table}/{id}"),
        target(0, "db://{table}/{id}")
    );
    let alone = catalog.surface(Scope::Alone(ServerIndex(1)));
    assert_eq!(alone.resource("any:thing"), target(1, "any:thing"));
    assert_eq!(alone.expose(ServerIndex(1), "any:thing"), None);
}

#[test]
fn a_link_in_a_result_can_be_read_back() {
    let lists: &[(Kind, &[&str])] = &[(Kind::Resource, &["a:1"])];
    let catalog = build(vec![("b1", "b1", known(lists)), ("b2", "b2", known(lists))]);
    let surface = catalog.surface(MERGED);
    for (server, uri, exposed) in [
        (0, "a:1", None),
        (1, "a:1", Some("b2+a:1")),
        (0, "a:unlisted", Some("b1+a:unlisted")),
        (1, "ui://x/y.html", Some("ui://b2/x/y.html")),
    ] {
        let made = surface.expose(ServerIndex(server), uri);
        assert_eq!(made.as_deref(), exposed);
        let back = surface.resource(made.as_deref().unwrap_or(uri));
        assert_eq!(back, target(server, uri));
    }
    assert_eq!(surface.resource("a:unlisted"), None);
}

#[test]
fn pages_are_cut_where_the_client_was() {
    let names: Vec<String> = (0..7).map(|index| format!("t{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let walk = |first: &Catalog, then: &Catalog| {
        let mut seen = Vec::new();
        let mut cursor: Option<Raw> = None;
        let mut catalog = first;
        loop {
            let page = catalog
                .surface(MERGED)
                .list(Kind::Tool, Era::Legacy, cursor.as_ref(), Some(3))
                .unwrap();
            let page: serde_json::Value = page.read().unwrap();
            let tools = page["tools"].as_array().unwrap().clone();
            assert!(tools.len() <= 3);
            seen.extend(
                tools
                    .iter()
                    .map(|tool| tool["name"].as_str().unwrap().to_owned()),
            );
            match page.get("nextCursor") {
                Some(next) => cursor = Some(Raw::of(next)),
                None => return seen,
            }
            catalog = then;
        }
    };
    let catalog = build(vec![("s", "s", tools(&names))]);
    let expected: Vec<_> = names.iter().map(|name| format!("s__{name}")).collect();
    assert_eq!(walk(&catalog, &catalog), expected);
    // A server in front comes up between two pages: nothing that was there is missed or comes twice.
    let grown = build(vec![
        ("new", "new", tools(&["x", "y"])),
        ("s", "s", tools(&names)),
    ]);
    assert_eq!(walk(&catalog, &grown), expected);
    // Entries that were shown go, or the one that was next: what stays comes once.
    for gone in [&["t1", "t2"][..], &["t3"], &["t2", "t3"]] {
        let left: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| !gone.contains(name))
            .collect();
        let shrunk = build(vec![("s", "s", tools(&left))]);
        let seen = walk(&catalog, &shrunk);
        for name in left {
            let times = seen.iter().filter(|seen| **seen == format!("s__{name}"));
            assert_eq!(times.count(), 1, "{gone:?} {seen:?}");
        }
    }

    let surface = catalog.surface(MERGED);
    for cursor in ["\"x\"", "7", "{}", "\"dG9vbHM6MA\""] {
        let cursor = Raw::parse(cursor.as_bytes().to_vec().into()).unwrap();
        for size in [None, Some(3)] {
            let page = surface.list(Kind::Tool, Era::Legacy, Some(&cursor), size);
            assert!(page.is_err());
        }
    }
}

#[test]
fn merged_lists_are_kept_no_longer_than_the_shortest_of_them() {
    let hinted = |ttl_ms, public| {
        let mut lists = Lists::default();
        let hint = Some(CacheHint { ttl_ms, public });
        lists.set(Kind::Tool, List::new(Kind::Tool, Vec::new(), hint));
        let PartList::Known { hello, .. } = tools(&[]) else {
            unreachable!()
        };
        PartList::Known {
            hello,
            lists,
            state: "ready",
            reason: String::new(),
        }
    };
    let modern = |catalog: &Catalog| {
        let surface = catalog.surface(MERGED);
        let list = surface.list(Kind::Tool, Era::Modern, None, None).unwrap();
        list.as_str().to_owned()
    };
    let two = build(vec![
        ("a", "a", hinted(9, true)),
        ("b", "b", hinted(5, true)),
    ]);
    assert!(modern(&two).contains(r#""ttlMs":5,"cacheScope":"public""#));
    let three = build(vec![
        ("a", "a", hinted(9, true)),
        ("b", "b", hinted(5, false)),
        ("c", "c", tools(&[])),
    ]);
    assert!(modern(&three).contains(r#""ttlMs":0,"cacheScope":"private""#));
}

#[test]
fn a_view_shows_what_was_chosen() {
    let parts = vec![
        part("a", "a", tools(&["read_x", "write_x"])),
        part("b", "b", tools(&["y"])),
        part("c", "c", tools(&["z"])),
    ];
    let reads: ToolFilter = Arc::new(|name: &str| name.starts_with("read_"));
    let none: ToolFilter = Arc::new(|_: &str| false);
    let view = View {
        name: "v".into(),
        members: vec![(ServerIndex(0), reads), (ServerIndex(1), none)],
    };
    let catalog = Catalog::build(1, parts, Arc::new([view]));
    let surface = catalog.surface(Scope::View(ViewIndex(0)));
    assert_eq!(
        listed(surface, Kind::Tool),
        r#"{"tools":[{"name":"a__read_x"}]}"#
    );
    assert!(surface.tool("a__write_x").is_none() && surface.tool("c__z").is_none());
}

#[test]
fn a_callers_own_lists_stand_in_for_a_servers() {
    let catalog = build(vec![("a", "a", tools(&["x"])), ("b", "b", tools(&["y"]))]);
    let mut own = Lists::default();
    own.set(Kind::Tool, list(Kind::Tool, &["x", "mine"]));
    let surface = catalog.surface_with(MERGED, HashMap::from([(ServerIndex(0), own)]));
    assert_eq!(
        listed(&surface, Kind::Tool),
        r#"{"tools":[{"name":"a__x"},{"name":"a__mine"},{"name":"b__y"}]}"#
    );
    let base = catalog.surface(MERGED);
    let changes = base.fingerprints().changes(surface.fingerprints());
    assert_eq!(changes, [manifold_protocol::Method::ToolsListChanged]);
}

proptest! {
    /// Whoever joins or leaves, a server's names stay what they are and lead to it.
    #[test]
    fn names_are_unique_stable_and_lead_home(
        names in proptest::collection::vec(proptest::collection::vec("[a-c._]{1,4}", 0..5), 1..5),
        leaves in 0_usize..5,
    ) {
        let parts: Vec<Part> = names
            .iter()
            .enumerate()
            .map(|(index, names)| {
                let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
                names.sort_unstable();
                names.dedup();
                part(&format!("s{index}"), &format!("s{index}"), tools(&names))
            })
            .collect();
        let mut fewer = parts.clone();
        if let Some(gone) = fewer.get_mut(leaves) {
            gone.list = PartList::Disabled;
        }
        let all = Catalog::build(1, parts, Arc::new([]));
        let fewer = Catalog::build(2, fewer, Arc::new([]));
        let all = all.surface(MERGED);
        let fewer = fewer.surface(MERGED);
        let mut listed = 0;
        for (index, names) in names.iter().enumerate() {
            for name in names {
                let found = all
                    .names(Kind::Tool)
                    .filter(|exposed| {
                        let target = all.tool(exposed).unwrap();
                        target.server == ServerIndex(index) && target.name.as_str() == name
                    })
                    .collect::<Vec<_>>();
                prop_assert_eq!(found.len(), 1);
                let exposed = found[0];
                prop_assert!(exposed.len() <= 48);
                if index != leaves {
                    prop_assert_eq!(fewer.tool(exposed), all.tool(exposed));
                }
                listed += 1;
            }
        }
        prop_assert!(all.names(Kind::Tool).count() <= listed);
        prop_assert_eq!(conflicts(all), 0);
    }
}

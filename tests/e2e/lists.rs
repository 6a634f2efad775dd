//! Merged lists: complete, partial when they must be, in an order that stays.

use std::{collections::HashSet, time::Duration};

use manifold_testkit::{Gateway, HttpStub, Reaction, eventually};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet, time::timeout};

use crate::{
    MANIFOLD,
    shelf::{
        Asker, LISTS, List, PROMPTS, RESOURCES, TEMPLATES, TOOLS, announce, missing, ready, result,
    },
    stub::{Stub, error, text},
};

/// Two servers whose lists have nothing in common but the order in which they stand.
fn two(one: (usize, &[&str]), two: (usize, &[&str])) -> (Stub, Stub, String) {
    let (first, second) = (Stub::new(), Stub::new());
    let mut config = String::new();
    for (stub, name, (count, flags)) in [(&first, "one", one), (&second, "two", two)] {
        for list in LISTS {
            list.fill(stub, &list.many(name, count));
        }
        let flags = [&["shelf", "named=it"], flags].concat();
        config += &stub.server(name, &flags);
    }
    (first, second, config)
}

/// What is exposed of the lists of [`two`].
fn merged(list: List, one: usize, two: usize) -> Vec<String> {
    let prefixed = list.key == "name";
    let of = |name: &str, count| {
        let keys = list.many(name, count).into_iter();
        let exposed = keys.map(move |key| match prefixed {
            true => format!("{name}__{key}"),
            false => key,
        });
        exposed.collect::<Vec<_>>()
    };
    [of("one", one), of("two", two)].concat()
}

/// All pages of a list, and the greatest of them.
async fn walk(asker: &Asker, list: List) -> (Vec<String>, usize) {
    let (mut all, mut greatest) = (Vec::new(), 0);
    let mut params = json!({});
    loop {
        let reply = asker.ask(list.method, params).await;
        let keys = list.keys(&reply);
        greatest = greatest.max(keys.len());
        all.extend(keys);
        let cursor = result(&reply)["nextCursor"].take();
        if cursor.is_null() {
            return (all, greatest);
        }
        assert!(cursor.is_string(), "{cursor}");
        params = json!({ "cursor": cursor });
    }
}

/// S21.
#[tokio::test]
async fn only_the_first_page_of_a_list_was_taken() {
    let (one, two, config) = two((101, &["page=50"]), (3, &[]));
    let gateway = ready(&config, &["one", "two"]).await;
    for asker in Asker::both(&gateway.client().unwrap()).await {
        for list in LISTS {
            let reply = asker.ask(list.method, json!({})).await;
            assert_eq!(list.keys(&reply), merged(list, 101, 3), "{}", list.method);
            // Nobody has asked for pages of ours.
            assert_eq!(result(&reply)["nextCursor"], Value::Null);
        }
        for name in merged(TOOLS, 101, 3) {
            let reply = asker.ask("tools/call", json!({ "name": name })).await;
            let (_, original) = name.split_once("__").unwrap();
            assert_eq!(text(&reply), format!("called as {original}"));
        }
        for name in merged(PROMPTS, 101, 3) {
            let reply = asker.ask("prompts/get", json!({ "name": name })).await;
            let (_, original) = name.split_once("__").unwrap();
            let said = &result(&reply)["messages"][0]["content"]["text"];
            assert_eq!(*said, format!("it says {original}"));
        }
        let expanded = merged(TEMPLATES, 101, 3).into_iter();
        let expanded = expanded.map(|template| template.replace("{id}", "7"));
        for uri in merged(RESOURCES, 101, 3).into_iter().chain(expanded) {
            let reply = asker.ask("resources/read", json!({ "uri": uri })).await;
            let read = &result(&reply)["contents"][0]["text"];
            assert_eq!(*read, format!("it has {uri}"));
        }
    }
    // Each by the server that has it: twice for each era.
    for (stub, tools, uris) in [(&one, 101, 202), (&two, 3, 6)] {
        assert_eq!(stub.messages("tools/call").len(), 2 * tools);
        assert_eq!(stub.messages("prompts/get").len(), 2 * tools);
        assert_eq!(stub.messages("resources/read").len(), 2 * uris);
    }
}

/// S21.
#[tokio::test]
async fn a_cursor_that_repeats_was_followed_for_ever() {
    let (one, _two, config) = two((10, &["page=4", "circle"]), (1, &[]));
    let gateway = ready(&config, &["one", "two"]).await;
    for asker in Asker::both(&gateway.client().unwrap()).await {
        for list in LISTS {
            assert_eq!(list.shown(&asker).await, merged(list, 10, 1));
        }
    }
    // Three pages, and perhaps the one that was seen before.
    for list in LISTS {
        let asked = one.messages(list.method).len();
        assert!(matches!(asked, 3..=4), "{}: {asked}", list.method);
    }
}

/// S21.
#[tokio::test]
async fn an_unknown_cursor_was_taken_for_the_beginning() {
    for limits in ["", "[limits]\npage_size = 2\n"] {
        let (_one, _two, config) = two((3, &[]), (3, &[]));
        let gateway = ready(&(config + limits), &["one", "two"]).await;
        for asker in Asker::both(&gateway.client().unwrap()).await {
            for list in LISTS {
                let other = TOOLS.method == list.method;
                let other = if other { PROMPTS } else { TOOLS };
                let first = asker.ask(other.method, json!({})).await;
                // That of another list, if there is one.
                let foreign = result(&first)["nextCursor"].take();
                let nothing = foreign.is_null();
                assert_eq!(nothing, limits.is_empty());
                for cursor in [json!("x"), json!(""), json!(7), json!({}), foreign] {
                    if cursor.is_null() {
                        continue;
                    }
                    let params = json!({ "cursor": cursor });
                    let reply = asker.ask(list.method, params).await;
                    assert_eq!(error(&reply)["code"], -32602, "{cursor}: {reply:?}");
                    assert_eq!(reply.status, 200, "{cursor}: {reply:?}");
                }
                let reply = asker.ask(list.method, json!({ "cursor": null })).await;
                let expected = if nothing { 6 } else { 2 };
                assert_eq!(list.keys(&reply).len(), expected, "{reply:?}");
            }
        }
    }
}

/// S21: what a client pages through is all there is.
#[tokio::test]
async fn pages_of_the_gateway_lost_or_repeated_entries() {
    for size in [1, 7, 13, 14, 500] {
        let (_one, _two, config) = two((10, &["page=3"]), (4, &[]));
        let config = format!("{config}[limits]\npage_size = {size}\n");
        let gateway = ready(&config, &["one", "two"]).await;
        for asker in Asker::both(&gateway.client().unwrap()).await {
            for list in LISTS {
                let (all, greatest) = walk(&asker, list).await;
                assert_eq!(all, merged(list, 10, 4), "{size}");
                assert_eq!(greatest, size.min(14));
            }
        }
        let alone = gateway.client_of("/mcp/one").unwrap();
        for asker in Asker::both(&alone).await {
            for list in LISTS {
                let (all, greatest) = walk(&asker, list).await;
                assert_eq!((all, greatest), (list.many("one", 10), size.min(10)));
            }
        }
    }
}

/// The first page of every list, then a change in the middle of the walk, then the rest.
async fn walk_over_a_change(change: impl Fn(&mut Vec<String>)) {
    let (one, _two, config) = two((9, &[]), (2, &[]));
    let config = format!("{config}[limits]\npage_size = 3\n");
    let gateway = ready(&config, &["one", "two"]).await;
    let askers = Asker::both(&gateway.client().unwrap()).await;
    let mut begun = Vec::new();
    for asker in &askers {
        for list in LISTS {
            let reply = asker.ask(list.method, json!({})).await;
            let cursor = result(&reply)["nextCursor"].take();
            begun.push((asker, list, list.keys(&reply), cursor));
        }
    }
    for list in LISTS {
        let mut keys = list.many("one", 9);
        change(&mut keys);
        list.fill(&one, &keys);
    }
    announce(&one, 1, &[TOOLS, PROMPTS, RESOURCES], 1);
    for (asker, list, mut seen, mut cursor) in begun {
        let mut now = list.many("one", 9);
        change(&mut now);
        let is_new = || async {
            let (all, _) = walk(asker, list).await;
            (all.len() == now.len() + 2).then_some(all)
        };
        let all = eventually("the changed list", is_new).await.unwrap();
        while !cursor.is_null() {
            let params = json!({ "cursor": cursor });
            let reply = asker.ask(list.method, params).await;
            seen.extend(list.keys(&reply));
            cursor = result(&reply)["nextCursor"].take();
        }
        // Once each of those that were there all the time.
        let stayed = merged(list, 9, 2)
            .into_iter()
            .filter(|key| all.contains(key));
        for key in stayed {
            let times = seen.iter().filter(|seen| **seen == key).count();
            assert_eq!(times, 1, "{} {key}: {seen:?}", list.method);
        }
        let unique: HashSet<_> = seen.iter().collect();
        assert_eq!(unique.len(), seen.len(), "{seen:?}");
    }
}

/// S21.
#[tokio::test]
async fn a_list_that_grew_between_two_pages_lost_or_repeated_entries() {
    walk_over_a_change(|keys| {
        let more = |key: &String| key.replace("one", "more");
        let grown = [
            more(&keys[0]),
            more(&keys[1]),
            more(&keys[2]),
            more(&keys[3]),
        ];
        let [a, b, c, d] = grown;
        keys.insert(0, a);
        keys.insert(2, b);
        keys.insert(7, c);
        keys.push(d);
    })
    .await;
}

/// S21: among those that went is the one that the cursor spoke of.
#[tokio::test]
async fn a_list_that_shrank_between_two_pages_lost_entries() {
    walk_over_a_change(|keys| {
        keys.drain(1..3);
    })
    .await;
}

/// S18.
#[tokio::test]
async fn one_broken_server_took_prompts_and_resources_down() {
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = refusing.local_addr().unwrap();
    drop(refusing);
    let page = Reaction::body(500, "text/html", "<html>Error</html>");
    let fails = HttpStub::start(move |_| page.clone()).await.unwrap();
    let healthy = Stub::new();
    for list in LISTS {
        list.fill(&healthy, &list.many("h", 2));
    }
    let broken = format!(
        "[servers.refuses]\nurl = \"http://{address}/mcp\"\n\
         [servers.fails]\nurl = {:?}\n\
         [servers.dies]\ncommand = \"sh\"\nargs = [\"-c\", \"exit 1\"]\n",
        fails.url()
    );
    for (config, expected) in [
        (broken.clone() + &healthy.server("healthy", &["shelf"]), 2),
        (broken, 0),
    ] {
        let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
        let client = gateway.client().unwrap();
        let opening = Asker::both(&client);
        let askers = timeout(Duration::from_secs(10), opening).await.unwrap();
        for asker in askers {
            for list in LISTS {
                let reply = asker.ask(list.method, json!({})).await;
                assert_eq!(list.keys(&reply).len(), expected, "{reply:?}");
                let missing = missing(&reply);
                let servers: Vec<_> = missing.iter().map(|(name, _)| name.as_str()).collect();
                assert_eq!(servers, ["refuses", "fails", "dies"], "{reply:?}");
                for (_, state) in &missing {
                    assert!(
                        matches!(state.as_str(), "backoff" | "crash_loop"),
                        "{state}"
                    );
                }
            }
        }
        if expected > 0 {
            let session = client.session().await.unwrap();
            let uri = RESOURCES.many("h", 1)[0].clone();
            let params = json!({ "uri": uri }).to_string();
            let read = session.request(9, "resources/read", &params).await.unwrap();
            assert_eq!(result(&read)["contents"][0]["uri"], uri);
        }
    }
}

/// S19.
#[tokio::test]
async fn one_list_that_never_came_hid_the_others_of_its_server() {
    for silent in LISTS {
        let (half, whole) = (Stub::new(), Stub::new());
        for list in LISTS {
            list.fill(&half, &list.many("half", 2));
            list.fill(&whole, &list.many("whole", 2));
        }
        let never = format!("silent={}", silent.method);
        let config = format!(
            "[timeouts]\nlist = \"1s\"\n{}{}",
            half.server("half", &["shelf", &never]),
            whole.server("whole", &["shelf"])
        );
        let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
        for asker in Asker::both(&gateway.client().unwrap()).await {
            for list in LISTS {
                let listing = asker.ask(list.method, json!({}));
                let reply = timeout(Duration::from_secs(20), listing).await.unwrap();
                let keys = list.keys(&reply);
                let of = |stem: &str| keys.iter().filter(|key| key.contains(stem)).count();
                assert_eq!(of("whole"), 2, "{reply:?}");
                let missing = missing(&reply);
                let missing: Vec<_> = missing.iter().map(|(name, _)| name.as_str()).collect();
                if list.method == silent.method {
                    assert_eq!((of("half"), missing), (0, vec!["half"]), "{reply:?}");
                } else {
                    assert_eq!((of("half"), missing), (2, vec![]), "{reply:?}");
                }
            }
            if silent.method != RESOURCES.method {
                let uri = &RESOURCES.many("half", 1)[0];
                let reply = asker.ask("resources/read", json!({ "uri": uri })).await;
                assert_eq!(result(&reply)["contents"][0]["uri"], **uri);
            }
            if silent.method != TOOLS.method {
                let params = json!({ "name": "half__half-1" });
                let reply = asker.ask("tools/call", params).await;
                assert_eq!(text(&reply), "called as half-1");
            }
        }
    }
}

/// S19: the longest wait, not the sum of them.
#[tokio::test]
async fn slow_servers_added_up() {
    let quick = Stub::new();
    let slow: Vec<_> = (0..5).map(|_| Stub::new()).collect();
    // Those that hang must not be all that may start at a time.
    let mut config = "[timeouts]\nlist = \"4s\"\n[limits]\nchildren_starting = 8\n".to_owned();
    for (n, stub) in slow.iter().enumerate() {
        config += &stub.server(&format!("slow-{n}"), &["shelf", "gate=open"]);
    }
    for list in LISTS {
        list.fill(&quick, &list.many("q", 1));
    }
    config += &quick.server("quick", &["shelf"]);
    let gateway = ready(&config, &["quick"]).await;
    let client = gateway.client().unwrap();
    let mut clients = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        clients.spawn(async move {
            let asker = Asker::Legacy(client.session().await.unwrap());
            for list in LISTS {
                let reply = asker.ask(list.method, json!({})).await;
                assert_eq!(list.keys(&reply).len(), 1, "{reply:?}");
                assert_eq!(missing(&reply).len(), 5, "{reply:?}");
            }
        });
    }
    let all = async {
        while let Some(done) = clients.join_next().await {
            done.unwrap();
        }
    };
    // At most one wait of 4 s; one for each list would be 16.
    timeout(Duration::from_secs(12), all).await.unwrap();
}

/// Many servers have resources and know nothing of templates.
#[tokio::test]
async fn a_server_without_templates_made_every_list_incomplete() {
    let stub = Stub::new();
    RESOURCES.fill(&stub, &["a:1"]);
    let config = stub.server("s", &["shelf", "lacks=resources/templates/list"]);
    let gateway = ready(&config, &["s"]).await;
    for asker in Asker::both(&gateway.client().unwrap()).await {
        for list in LISTS {
            let reply = asker.ask(list.method, json!({})).await;
            assert_eq!(missing(&reply), [], "{reply:?}");
        }
        assert_eq!(RESOURCES.shown(&asker).await, ["a:1"]);
        assert_eq!(TEMPLATES.shown(&asker).await, Vec::<String>::new());
    }
    assert_eq!(stub.starts(), 1);
}

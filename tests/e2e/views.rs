//! Paths that show a choice of servers and tools.

use manifold_testkit::Gateway;
use serde_json::json;

use crate::{
    shelf::{
        Asker, LISTS, PROMPTS, RESOURCES, TEMPLATES, TOOLS, announce, everything, listening,
        missing, ready, result, told,
    },
    stub::{Stub, error, text},
};

/// Four servers, of which a view shows three: of one some tools, of another none, and one that never starts.
async fn gateway() -> (Vec<Stub>, Gateway) {
    let stubs: Vec<_> = (0..4).map(|_| Stub::new()).collect();
    let mut config = String::new();
    for (stub, name) in stubs.iter().zip(["one", "two", "three", "late"]) {
        TOOLS.fill(stub, &["read_a", "read_b", "delete_a"]);
        for list in [PROMPTS, RESOURCES, TEMPLATES] {
            list.fill(stub, &list.many(name, 1));
        }
        let flags: &[&str] = match name {
            "late" => &["shelf", "gate=open"],
            _ => &["shelf"],
        };
        config += &stub.server(name, flags);
    }
    config += "[timeouts]\nlist = \"500ms\"\n\
        [views.readonly]\nservers = [\"two\", \"one\"]\ntools = { one = [\"read_*\"] }\n\
        [views.waits]\nservers = [\"three\", \"late\"]\n";
    let gateway = ready(&config, &["one", "two", "three"]).await;
    (stubs, gateway)
}

#[tokio::test]
async fn a_view_showed_more_than_was_chosen() {
    let (stubs, gateway) = gateway().await;
    for asker in Asker::both(&gateway.client_of("/mcp/readonly").unwrap()).await {
        for list in LISTS {
            let reply = asker.ask(list.method, json!({})).await;
            // A server that is not on this path is not missed here.
            assert_eq!(missing(&reply), [], "{reply:?}");
            assert!(!reply.body.contains("three"), "{reply:?}");
        }
        assert_eq!(TOOLS.shown(&asker).await, ["one__read_a", "one__read_b"]);
        // The order is that of the configuration.
        let prompts = PROMPTS.shown(&asker).await;
        assert_eq!(prompts, ["one__one-0", "two__two-0"]);
        let reply = asker
            .ask("tools/call", json!({ "name": "one__read_a" }))
            .await;
        assert_eq!(text(&reply), "called as read_a");
        for name in ["one__delete_a", "two__read_a", "three__read_a", "read_a"] {
            let reply = asker.ask("tools/call", json!({ "name": name })).await;
            assert_eq!(error(&reply)["code"], -32602, "{name}");
            // And what it does not show it does not propose either.
            let nearest = error(&reply)["data"]["nearest"].to_string();
            assert!(!nearest.contains("delete_a"), "{nearest}");
            assert!(!nearest.contains("three"), "{nearest}");
        }
        for (method, params) in [
            ("prompts/get", json!({ "name": "three__three-0" })),
            ("resources/read", json!({ "uri": "three://r/0" })),
            ("resources/read", json!({ "uri": "three+three://r/0" })),
            ("resources/read", json!({ "uri": "three://t/0/7" })),
        ] {
            let reply = asker.ask(method, params).await;
            let code = error(&reply)["code"].as_i64().unwrap();
            assert!(matches!(code, -32602 | -32002), "{method}: {reply:?}");
        }
        let reply = asker
            .ask("resources/read", json!({ "uri": "two://r/0" }))
            .await;
        assert_eq!(result(&reply)["contents"][0]["uri"], "two://r/0");
    }
    assert!(stubs[2].messages("resources/read").is_empty());
    assert!(stubs[2].messages("tools/call").is_empty());
    // The rest is where it was.
    for asker in Asker::both(&gateway.client().unwrap()).await {
        assert_eq!(TOOLS.shown(&asker).await.len(), 9);
        let reply = asker
            .ask("tools/call", json!({ "name": "one__delete_a" }))
            .await;
        assert_eq!(text(&reply), "called as delete_a");
    }
    for asker in Asker::both(&gateway.client_of("/mcp/waits").unwrap()).await {
        for list in LISTS {
            let reply = asker.ask(list.method, json!({})).await;
            let missing = missing(&reply);
            assert_eq!(missing, [("late".to_owned(), "starting".to_owned())]);
        }
        assert_eq!(TOOLS.shown(&asker).await.len(), 3);
    }
}

/// A change that a path does not show is none there.
#[tokio::test]
async fn a_path_was_told_of_what_it_does_not_show() {
    let (stubs, gateway) = gateway().await;
    let mut streams = Vec::new();
    for path in ["/mcp", "/mcp/readonly", "/mcp/one", "/mcp/two"] {
        let client = gateway.client_of(path).unwrap();
        streams.push(client.session().await.unwrap().stream().await.unwrap());
        streams.push(listening(&client, everything()).await);
    }
    let [
        merged,
        merged_too,
        view,
        view_too,
        one,
        one_too,
        two,
        two_too,
    ] = &mut streams[..]
    else {
        panic!("two for each path");
    };
    // Not chosen for the view, and not the other server's.
    TOOLS.fill(&stubs[0], &["read_a", "read_b", "delete_a", "delete_b"]);
    announce(&stubs[0], 1, &[TOOLS], 1);
    for events in [&mut *merged, merged_too, one, one_too] {
        assert_eq!(told(events).await, TOOLS.changed);
    }
    // So these hear of this first.
    PROMPTS.fill(&stubs[1], &["new"]);
    announce(&stubs[1], 1, &[PROMPTS], 1);
    for events in [&mut *merged, merged_too, view, view_too, two, two_too] {
        assert_eq!(told(events).await, PROMPTS.changed);
    }
    TOOLS.fill(&stubs[0], &["read_a"]);
    announce(&stubs[0], 2, &[TOOLS], 1);
    for events in [merged, merged_too, view, view_too, one, one_too] {
        assert_eq!(told(events).await, TOOLS.changed);
    }
}

#[tokio::test]
async fn a_session_of_one_path_was_let_in_on_another() {
    let (_stubs, gateway) = gateway().await;
    let paths = [
        "/mcp",
        "/mcp/readonly",
        "/mcp/waits",
        "/mcp/one",
        "/mcp/two",
    ];
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut sessions = Vec::new();
    for path in paths {
        sessions.push(gateway.client_of(path).unwrap().session().await.unwrap());
    }
    for (own, session) in paths.iter().zip(&sessions) {
        for path in paths {
            let client = gateway.client_of(path).unwrap();
            let id = [("mcp-session-id", session.id.as_str())];
            if path == *own {
                continue;
            }
            let reply = client.post(&id, ping).await.unwrap();
            assert_eq!(reply.status, 404, "{own} on {path}: {reply:?}");
            let get = [id[0], ("accept", "text/event-stream")];
            let reply = client.send("GET", &get, "").await.unwrap();
            assert_eq!(reply.status, 404, "{own} on {path}: {reply:?}");
            let reply = client.send("DELETE", &id, "").await.unwrap();
            assert_eq!(reply.status, 404, "{own} on {path}: {reply:?}");
        }
        // None of that has hurt it. A slash at the end is the same path.
        for path in [(*own).to_owned(), format!("{own}/")] {
            let client = gateway.client_of(&path).unwrap();
            let id = [("mcp-session-id", session.id.as_str())];
            let reply = client.post(&id, ping).await.unwrap();
            assert_eq!(reply.status, 200, "{own} on {path}: {reply:?}");
            assert!(reply.message().unwrap()["result"].is_object());
        }
        let slash = gateway.client_of(&format!("{own}/")).unwrap();
        let other = slash.session().await.unwrap();
        let id = [("mcp-session-id", other.id.as_str())];
        let client = gateway.client_of(own).unwrap();
        assert_eq!(client.post(&id, ping).await.unwrap().status, 200);
        for list in LISTS {
            let here = Asker::Legacy(session.clone());
            let there = Asker::Legacy(other.clone());
            assert_eq!(list.shown(&here).await, list.shown(&there).await);
        }
    }
    for path in [
        "/mcp/nothing",
        "/mcp/readonly/one",
        "/mcp/one//",
        "/mcp//",
        "/",
    ] {
        let reply = gateway
            .client_of(path)
            .unwrap()
            .post(&[], ping)
            .await
            .unwrap();
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
    }
}

//! Names of tools: never lost, never mixed up, always taken by clients.

use std::collections::HashSet;

use manifold_testkit::Gateway;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    MANIFOLD,
    stub::{Stub, error, names, text},
};

fn tools(names: &[String]) -> String {
    let tools: Vec<_> = names
        .iter()
        .map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }))
        .collect();
    Value::from(tools).to_string()
}

/// S22.
#[tokio::test]
async fn two_servers_with_one_tool_lost_one_of_them() {
    let (one, two) = (Stub::new(), Stub::new());
    for (stub, answer) in [(&one, "one"), (&two, "two")] {
        stub.write("tools", &tools(&["search".to_owned()]));
        let result = json!({ "content": [{ "type": "text", "text": answer }] });
        stub.write("result-search", &result.to_string());
    }
    let flags = ["named=same"];
    let first = one.server("one", &flags) + &two.server("two", &flags);
    // The other way round, and with a head start for the second.
    let second = two.server("two", &flags) + &one.server("one", &["named=same", "gate=open"]);
    for (config, order) in [
        (first, ["one__search", "two__search"]),
        (second, ["two__search", "one__search"]),
    ] {
        let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
        gateway.server_is("two", "ready").await.unwrap();
        one.write("open", "");
        let session = gateway.client().unwrap().session().await.unwrap();
        let listed = session.request(1, "tools/list", "{}").await.unwrap();
        assert_eq!(names(&listed), order);
        // A session may have 64 calls at a time.
        let second = gateway.client().unwrap().session().await.unwrap();
        let mut calls = JoinSet::new();
        for id in 0..100 {
            let session = if id < 50 { &session } else { &second }.clone();
            calls.spawn(async move {
                let name = if id % 2 == 0 { "one" } else { "two" };
                let reply = session
                    .call(id, &format!("{name}__search"), "{}")
                    .await
                    .unwrap();
                assert_eq!(text(&reply), name);
            });
        }
        while let Some(done) = calls.join_next().await {
            done.unwrap();
        }
        let unprefixed = error(&session.call(2, "search", "{}").await.unwrap());
        assert_eq!(unprefixed["code"], -32602, "{unprefixed}");
    }
    for stub in [&one, &two] {
        let calls = stub.messages("tools/call");
        assert_eq!(calls.len(), 100);
        assert!(calls.iter().all(|call| call["params"]["name"] == "search"));
    }
}

/// S23.
#[tokio::test]
async fn a_tools_name_broke_the_whole_request() {
    let stub = Stub::new();
    let long = "l".repeat(127);
    let originals: Vec<String> = [
        "plain",
        "with.dot",
        "with/slash",
        "with space",
        "with_space",
        "with,space",
        "caf\u{e9}",
        "1digit",
        "_underscore",
        "\u{5de5}\u{5177}",
        &"a".repeat(34),
        &"b".repeat(60),
        &"c".repeat(64),
        &format!("{}-{}", "m".repeat(60), "n".repeat(60)),
        &format!("{}+{}", "m".repeat(60), "n".repeat(60)),
        &format!("{long}1"),
        &format!("{long}2"),
    ]
    .map(str::to_owned)
    .to_vec();
    stub.write("tools", &tools(&originals));
    let mut lists = Vec::new();
    // The same after a restart.
    for _ in 0..2 {
        let name = "a-server-with-a-longer-name";
        let config = stub.server(&name[..24], &[]);
        let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
        let session = gateway.client().unwrap().session().await.unwrap();
        let listed = session.request(1, "tools/list", "{}").await.unwrap();
        let exposed = names(&listed);
        assert_eq!(exposed.len(), originals.len(), "{exposed:?}");
        let safe = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
        for name in &exposed {
            assert!(name.len() <= 48 && name.chars().all(safe), "{name}");
            assert!(name.starts_with("a-server-with-a-longer-n__"), "{name}");
        }
        assert_eq!(exposed.iter().collect::<HashSet<_>>().len(), exposed.len());
        assert_eq!(exposed[0], "a-server-with-a-longer-n__plain");
        let message = listed.message().unwrap();
        let tools = message["result"]["tools"].as_array().unwrap();
        for ((tool, exposed), original) in tools.iter().zip(&exposed).zip(&originals) {
            let plain = format!("a-server-with-a-longer-n__{original}");
            let origin = &tool["_meta"]["dev.manifold/origin"];
            if *exposed == plain {
                assert!(origin.is_null(), "{tool}");
            } else {
                assert_eq!(origin["name"], **original, "{tool}");
                assert_eq!(origin["server"], "a-server-with-a-longer-n", "{tool}");
            }
            let reply = session.call(2, exposed, "{}").await.unwrap();
            assert_eq!(text(&reply), format!("called as {original}"));
        }
        // On its own path nothing is renamed.
        let alone = gateway.client_of("/mcp/a-server-with-a-longer-n").unwrap();
        let listed = alone
            .session()
            .await
            .unwrap()
            .request(1, "tools/list", "{}")
            .await;
        assert_eq!(names(&listed.unwrap()), originals);
        lists.push(exposed);
    }
    assert_eq!(lists[0], lists[1]);
}

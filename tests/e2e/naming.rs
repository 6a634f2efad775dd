//! Names of prompts, and of servers that have no prefix.

use std::collections::HashSet;

use serde_json::json;

use crate::{
    shelf::{Asker, PROMPTS, RESOURCES, TOOLS, ready, result},
    stub::{Stub, error, text},
};

/// S22.
#[tokio::test]
async fn two_servers_with_one_prompt_lost_one_of_them() {
    let (one, two) = (Stub::new(), Stub::new());
    for stub in [&one, &two] {
        PROMPTS.fill(stub, &["help"]);
        // A prompt and a tool may have one name.
        TOOLS.fill(stub, &["help"]);
    }
    let (first, second) = (["shelf", "named=1"], ["shelf", "named=2", "gate=open"]);
    let config = two.server("two", &second) + &one.server("one", &first);
    let gateway = ready(&config, &["one"]).await;
    two.write("open", "");
    gateway.server_is("two", "ready").await.unwrap();
    for asker in Asker::both(&gateway.client().unwrap()).await {
        assert_eq!(PROMPTS.shown(&asker).await, ["two__help", "one__help"]);
        for (name, said) in [("one__help", "1 says help"), ("two__help", "2 says help")] {
            let reply = asker.ask("prompts/get", json!({ "name": name })).await;
            assert_eq!(result(&reply)["messages"][0]["content"]["text"], said);
        }
        let reply = asker.ask("prompts/get", json!({ "name": "help" })).await;
        let unknown = error(&reply);
        assert_eq!(unknown["code"], -32602, "{unknown}");
        let reply = asker
            .ask("prompts/get", json!({ "name": "one__hepl" }))
            .await;
        assert_eq!(error(&reply)["data"]["nearest"][0], "one__help");
    }
    for stub in [&one, &two] {
        let asked = stub.messages("prompts/get");
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().all(|get| get["params"]["name"] == "help"));
    }
}

/// S23.
#[tokio::test]
async fn a_prompts_name_broke_the_whole_request() {
    let stub = Stub::new();
    let long = "l".repeat(127);
    let originals = [
        "plain".to_owned(),
        "with.dot".to_owned(),
        "with/slash and space".to_owned(),
        "caf\u{e9}".to_owned(),
        format!("{long}1"),
        format!("{long}2"),
    ];
    PROMPTS.fill(&stub, &originals);
    let gateway = ready(&stub.server("s", &["shelf", "named=it"]), &["s"]).await;
    for asker in Asker::both(&gateway.client().unwrap()).await {
        let reply = asker.ask("prompts/list", json!({})).await;
        let exposed = PROMPTS.keys(&reply);
        assert_eq!(
            exposed.iter().collect::<HashSet<_>>().len(),
            originals.len()
        );
        assert_eq!(exposed[0], "s__plain");
        let prompts = result(&reply)["prompts"].take();
        for (n, (name, original)) in exposed.iter().zip(&originals).enumerate() {
            let safe = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
            assert!(name.len() <= 48 && name.chars().all(safe), "{name}");
            let origin = &prompts[n]["_meta"]["dev.manifold/origin"];
            if n == 0 {
                assert!(origin.is_null(), "{origin}");
            } else {
                assert_eq!(*origin, json!({ "server": "s", "name": original }));
            }
            let reply = asker.ask("prompts/get", json!({ "name": name })).await;
            let said = &result(&reply)["messages"][0]["content"]["text"];
            assert_eq!(*said, format!("it says {original}"));
        }
    }
    let alone = gateway.client_of("/mcp/s").unwrap();
    for asker in Asker::both(&alone).await {
        assert_eq!(PROMPTS.shown(&asker).await, originals);
    }
}

/// S22: an operator may want the names as they are, and whoever comes second must not take them away.
#[tokio::test]
async fn a_server_without_a_prefix_took_the_names_of_others() {
    let stubs = [Stub::new(), Stub::new(), Stub::new()];
    let mut config = String::new();
    for (stub, (name, tools, uris, more)) in stubs.iter().zip([
        (
            "bare",
            &["t", "two__t"][..],
            &["a:1"][..],
            "prefix = \"\"\n",
        ),
        ("two", &["t"], &["a:1", "b:1"], ""),
        ("last", &["t", "z"], &["a:1", "c:1"], "prefix = \"\"\n"),
    ]) {
        TOOLS.fill(stub, tools);
        PROMPTS.fill(stub, tools);
        RESOURCES.fill(stub, uris);
        config += &stub.server(name, &["shelf", &format!("named={name}")]);
        config += more;
    }
    let gateway = ready(&config, &["bare", "two", "last"]).await;
    for asker in Asker::both(&gateway.client().unwrap()).await {
        for list in [TOOLS, PROMPTS] {
            assert_eq!(list.shown(&asker).await, ["t", "two__t", "z"]);
        }
        for (name, said) in [
            ("t", "bare says t"),
            ("two__t", "two says t"),
            ("z", "last says z"),
        ] {
            let reply = asker.ask("prompts/get", json!({ "name": name })).await;
            assert_eq!(result(&reply)["messages"][0]["content"]["text"], said);
            let reply = asker.ask("tools/call", json!({ "name": name })).await;
            let original = name.trim_start_matches("two__");
            assert_eq!(text(&reply), format!("called as {original}"));
        }
        assert_eq!(
            RESOURCES.shown(&asker).await,
            ["a:1", "two+a:1", "b:1", "c:1"]
        );
        for (uri, read) in [
            ("a:1", "bare has a:1"),
            ("two+a:1", "two has a:1"),
            ("b:1", "two has b:1"),
            ("c:1", "last has c:1"),
        ] {
            let reply = asker.ask("resources/read", json!({ "uri": uri })).await;
            assert_eq!(result(&reply)["contents"][0]["text"], read);
            assert_eq!(result(&reply)["contents"][0]["uri"], uri);
        }
        // What nobody lists is a question to the first one without a mark.
        let asked = stubs[0].messages("resources/read").len();
        let reply = asker
            .ask("resources/read", json!({ "uri": "nobody:1" }))
            .await;
        assert_eq!(error(&reply)["data"]["uri"], "nobody:1");
        assert_eq!(stubs[0].messages("resources/read").len(), asked + 1);
    }
    let calls = |n: usize| stubs[n].messages("tools/call").len();
    assert_eq!([calls(0), calls(1), calls(2)], [2, 2, 2]);
    // The operator sees what is dropped: two__t and t of tools and prompts, a:1 of the last.
    let metrics = gateway.admin("GET", "/metrics").await.unwrap().body;
    for (kind, count) in [("tool", 2), ("prompt", 2), ("resource", 1), ("template", 0)] {
        let line = format!("manifold_catalog_conflicts{{kind=\"{kind}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    let log = gateway.log_text();
    for name in ["two__t", "a:1"] {
        let told = |line: &&str| line.contains("claimed twice") && line.contains(name);
        assert!(log.lines().any(|line| told(&line)), "{log}");
    }
}

//! What a path says of itself: instructions, capabilities, and what follows from them.

use manifold_testkit::{Client, Session, eventually, is_alive};
use serde_json::{Value, json};

use crate::{
    shelf::{LISTS, TOOLS, ready, result},
    stub::{Stub, error, in_background, text},
};

/// What both eras are told of a path.
async fn hellos(client: &Client) -> [Value; 2] {
    // At a time: the first must not wait for what the second needs.
    let discovering = client.modern("server/discover", json!({}));
    let (session, discovered) = tokio::join!(client.session(), discovering);
    [session.unwrap().hello, result(&discovered.unwrap())]
}

fn declared(hello: &Value) -> Vec<&str> {
    let capabilities = hello["capabilities"].as_object().unwrap();
    capabilities.keys().map(String::as_str).collect()
}

/// S26.
#[tokio::test]
async fn the_instructions_of_servers_were_dropped_or_mixed_up() {
    let stubs: Vec<_> = (0..4).map(|_| Stub::new()).collect();
    let long = "\u{fc}".repeat(10_000);
    let mut config = String::new();
    for (stub, (name, text, flags)) in stubs.iter().zip([
        ("first", Some("AAA\nand more"), &["shelf"][..]),
        ("none", None, &["shelf"]),
        ("late", Some("LATE"), &["shelf", "gate=open"]),
        ("long", Some(long.as_str()), &["shelf"]),
    ]) {
        if let Some(text) = text {
            stub.write("instructions", text);
        }
        config += &stub.server(name, flags);
    }
    let gateway = ready(&config, &["first", "none", "long"]).await;
    let client = gateway.client().unwrap();
    let mut before = Vec::new();
    for hello in hellos(&client).await {
        let text = hello["instructions"].as_str().unwrap().to_owned();
        // Each under its name, in the order of the configuration.
        let (start, rest) = text.split_once("AAA\nand more").unwrap();
        assert!(start.contains("first"), "{text}");
        let (label, rest) = rest.split_once('\u{fc}').unwrap();
        assert!(label.contains("long"), "{label}");
        // Most of the long one, and word that there was more.
        assert!(rest.matches('\u{fc}').count() > 3000);
        assert!(text.len() < 12 * 1024, "{}", text.len());
        assert!(text.ends_with(|last: char| last != '\u{fc}'), "{text}");
        assert!(!text.contains("none") && !text.contains("LATE"), "{text}");
        before.push(text);
    }
    assert_eq!(before[0], before[1]);
    stubs[2].write("open", "");
    gateway.server_is("late", "ready").await.unwrap();
    for hello in hellos(&client).await {
        let text = hello["instructions"].as_str().unwrap();
        let (head, tail) = text.split_once("LATE").unwrap();
        assert!(head.contains("AAA") && head.contains("late"), "{text}");
        assert!(tail.contains("long") && !head.contains("long"), "{text}");
    }
    // Alone, each speaks for itself.
    for (name, own) in [
        ("first", Some("AAA\nand more")),
        ("long", Some(&*long)),
        ("none", None),
    ] {
        let client = gateway.client_of(&format!("/mcp/{name}")).unwrap();
        for hello in hellos(&client).await {
            assert_eq!(hello.get("instructions").and_then(Value::as_str), own);
            assert_eq!(hello.get("instructions").is_some(), own.is_some());
        }
    }
}

/// Instructions with everything that a gateway might want to put right.
fn odd() -> String {
    let long = "x".repeat(20_000);
    format!("  \n# Title \u{1F600}\r\n{long}\t\"\\ \u{2028}\n\n")
}

/// S26.
#[tokio::test]
async fn the_instructions_of_a_single_server_were_rewritten() {
    let odd = odd();
    for text in [Some(odd.as_str()), None, Some("")] {
        let stub = Stub::new();
        if let Some(text) = text {
            stub.write("instructions", text);
        }
        let gateway = ready(&stub.server("s", &["shelf"]), &["s"]).await;
        for path in ["/mcp", "/mcp/s"] {
            for hello in hellos(&gateway.client_of(path).unwrap()).await {
                let said = hello.get("instructions");
                let expected = text.filter(|text| !text.is_empty()).map(Value::from);
                assert_eq!(said, expected.as_ref(), "{path}");
            }
        }
    }
}

/// S26: one that is switched off says nothing, and is nobody to be told from.
#[tokio::test]
async fn a_server_that_is_switched_off_counted_as_a_second() {
    let (stub, off) = (Stub::new(), Stub::new());
    for stub in [&stub, &off] {
        stub.write("instructions", &odd());
    }
    let config = stub.server("s", &["shelf"]) + &off.server("off", &["shelf"]);
    let gateway = ready(&(config + "enabled = false\n"), &["s"]).await;
    for hello in hellos(&gateway.client().unwrap()).await {
        let said = hello["instructions"].as_str().unwrap();
        assert!(said == odd(), "{} ...", &said[..8]);
    }
}

/// S27.
#[tokio::test]
async fn a_merged_path_declared_a_method_and_refused_it() {
    let stub = Stub::new();
    stub.write("capabilities", r#"{"tools":{}}"#);
    let gateway = ready(&stub.server("s", &["shelf"]), &["s"]).await;
    let client = gateway.client().unwrap();
    for hello in hellos(&client).await {
        let expected = ["completions", "logging", "prompts", "resources", "tools"];
        assert_eq!(declared(&hello), expected);
        for list in ["tools", "prompts", "resources"] {
            assert_eq!(hello["capabilities"][list]["listChanged"], true, "{hello}");
        }
    }
    let session = client.session().await.unwrap();
    for list in LISTS {
        let empty = list.method != TOOLS.method;
        for reply in [
            session.request(1, list.method, "{}").await.unwrap(),
            client.modern(list.method, json!({})).await.unwrap(),
        ] {
            assert_eq!(list.keys(&reply).is_empty(), empty, "{reply:?}");
            assert_eq!(
                result(&reply)["_meta"]["dev.manifold/unavailable"],
                Value::Null
            );
        }
    }
    let level = session.request(2, "logging/setLevel", r#"{"level":"debug"}"#);
    assert_eq!(result(&level.await.unwrap()), json!({}));
    text(&session.call(3, "s__pid", "{}").await.unwrap());
    // The server is never asked for what it has not declared.
    for method in ["prompts/list", "resources/list", "logging/setLevel"] {
        assert!(stub.messages(method).is_empty(), "{method}");
    }
}

/// S27.
#[tokio::test]
async fn a_path_of_one_server_declared_what_it_has_not() {
    let requests = [
        ("tools", "tools/list", json!({})),
        ("tools", "tools/call", json!({ "name": "pid" })),
        ("prompts", "prompts/list", json!({})),
        ("prompts", "prompts/get", json!({ "name": "p" })),
        ("resources", "resources/list", json!({})),
        ("resources", "resources/templates/list", json!({})),
        ("resources", "resources/read", json!({ "uri": "a:1" })),
        (
            "completions",
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "" } }),
        ),
        ("logging", "logging/setLevel", json!({ "level": "info" })),
    ];
    let mut faults = Vec::new();
    for (own, names) in [
        (r#"{"tools":{}}"#, &["tools"][..]),
        (
            r#"{"prompts":{"listChanged":true},"logging":{},"experimental":{"x":{}},"tasks":{}}"#,
            &["logging", "prompts"],
        ),
        (
            r#"{"completions":{},"resources":{}}"#,
            &["completions", "resources"],
        ),
        ("{}", &[]),
    ] {
        let (stub, other) = (Stub::new(), Stub::new());
        for list in LISTS {
            list.fill(&stub, &["p"]);
        }
        stub.write("capabilities", own);
        let config = stub.server("s", &["shelf"]) + &other.server("other", &["shelf"]);
        let gateway = ready(&config, &["s", "other"]).await;
        let client = gateway.client_of("/mcp/s").unwrap();
        for hello in hellos(&client).await {
            assert_eq!(declared(&hello), names);
        }
        let session = client.session().await.unwrap();
        for (capability, method, params) in &requests {
            if names.contains(capability) {
                continue;
            }
            let legacy = session
                .request(4, method, &params.to_string())
                .await
                .unwrap();
            let modern = client.modern(method, params.clone()).await.unwrap();
            for (reply, status) in [(legacy, 200), (modern, 404)] {
                let message = reply.message().unwrap();
                if (reply.status, &message["error"]["code"]) != (status, &json!(-32601)) {
                    faults.push(format!("{own} {method} {}: {message}", reply.status));
                }
            }
            if !stub.messages(method).is_empty() {
                faults.push(format!("{own} {method} was sent on"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// S27: what a server declares is not known before it is up.
#[tokio::test]
async fn a_path_of_one_starting_server_declared_anything() {
    let stub = Stub::new();
    stub.write("capabilities", r#"{"prompts":{}}"#);
    let config = stub.server("s", &["shelf", "gate=open"]) + "[timeouts]\nlist = \"60s\"\n";
    let gateway = ready(&config, &[]).await;
    let client = gateway.client_of("/mcp/s").unwrap();
    let waiting = in_background(async move { hellos(&client).await });
    // The merged path does not wait.
    let merged = gateway.client().unwrap().session().await.unwrap();
    assert_eq!(declared(&merged.hello).len(), 5);
    assert!(!waiting.is_finished());
    stub.write("open", "");
    for hello in waiting.await.unwrap() {
        assert_eq!(declared(&hello), ["prompts"]);
    }
}

/// The levels that a server was told, one after the other.
fn levels(stub: &Stub) -> Vec<Value> {
    let messages = stub.messages("logging/setLevel").into_iter();
    messages
        .map(|mut message| message["params"]["level"].take())
        .collect()
}

async fn set_level(session: &Session, level: &str) {
    let params = json!({ "level": level }).to_string();
    let reply = session.request(1, "logging/setLevel", &params).await;
    assert_eq!(result(&reply.unwrap()), json!({}));
}

/// Of a process: the methods it was sent.
fn methods_of(stub: &Stub, pid: &str) -> Vec<String> {
    let sent = std::fs::read_to_string(stub.path(&format!("{pid}.stdin"))).unwrap();
    let messages = sent
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let methods = messages.map(|message| message["method"].as_str().unwrap_or("").to_owned());
    methods.collect()
}

/// S27.
#[tokio::test]
async fn a_log_level_was_lost_or_told_to_everybody() {
    let (logs, later, quiet) = (Stub::new(), Stub::new(), Stub::new());
    quiet.write("capabilities", r#"{"tools":{}}"#);
    let config = logs.server("logs", &["shelf"])
        + &later.server("later", &["shelf", "gate=open"])
        + &quiet.server("quiet", &["shelf"]);
    let gateway = ready(&config, &["logs", "quiet"]).await;
    let client = gateway.client().unwrap();
    let (session, other) = (
        client.session().await.unwrap(),
        client.session().await.unwrap(),
    );
    // To a link that is there.
    text(&session.call(2, "logs__pid", "{}").await.unwrap());
    text(&session.call(2, "quiet__pid", "{}").await.unwrap());
    set_level(&session, "debug").await;
    logs.was_sent("logging/setLevel", 1).await;
    set_level(&session, "critical").await;
    logs.was_sent("logging/setLevel", 2).await;
    assert_eq!(levels(&logs), ["debug", "critical"]);
    // To one that is made later, before its first call.
    later.write("open", "");
    let pid = text(&session.call(3, "later__pid", "{}").await.unwrap());
    assert_eq!(levels(&later), ["critical"]);
    let methods = methods_of(&later, &pid);
    let place = |method: &str| methods.iter().position(|sent| sent == method).unwrap();
    assert!(
        place("logging/setLevel") < place("tools/call"),
        "{methods:?}"
    );
    assert!(
        place("notifications/initialized") < place("logging/setLevel"),
        "{methods:?}"
    );
    // To one that replaces it.
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid])
        .status();
    assert!(killed.unwrap().success());
    let look = || async { (!is_alive(pid.parse().unwrap())).then_some(()) };
    eventually("its end", look).await.unwrap();
    let fresh = eventually("a new link", || async {
        let reply = session.call(4, "later__pid", "{}").await.unwrap();
        reply.message().unwrap()["result"]
            .is_object()
            .then(|| text(&reply))
    })
    .await
    .unwrap();
    assert_ne!(fresh, pid);
    assert_eq!(levels(&later), ["critical", "critical"]);
    let methods = methods_of(&later, &fresh);
    let place = |method: &str| methods.iter().position(|sent| sent == method).unwrap();
    assert!(
        place("logging/setLevel") < place("tools/call"),
        "{methods:?}"
    );
    // Not for another session, and not to a server that has not declared it.
    let theirs = text(&other.call(5, "logs__pid", "{}").await.unwrap());
    assert!(!methods_of(&logs, &theirs).contains(&"logging/setLevel".to_owned()));
    assert_eq!(levels(&logs).len(), 2);
    assert!(levels(&quiet).is_empty());
}

/// S27.
#[tokio::test]
async fn a_level_that_is_none_was_passed_on() {
    for path in ["/mcp", "/mcp/s"] {
        let stub = Stub::new();
        let gateway = ready(&stub.server("s", &["shelf"]), &["s"]).await;
        let session = gateway.client_of(path).unwrap().session().await.unwrap();
        let name = if path == "/mcp" { "s__pid" } else { "pid" };
        text(&session.call(1, name, "{}").await.unwrap());
        for params in [
            "{}",
            r#"{"level":"loud"}"#,
            r#"{"level":"Debug"}"#,
            r#"{"level":"warn"}"#,
            r#"{"level":""}"#,
            r#"{"level":3}"#,
            r#"{"level":null}"#,
        ] {
            let reply = session
                .request(2, "logging/setLevel", params)
                .await
                .unwrap();
            assert_eq!(error(&reply)["code"], -32602, "{params}: {reply:?}");
            assert_eq!(reply.status, 200);
        }
        assert!(levels(&stub).is_empty());
        let all = [
            "debug",
            "info",
            "notice",
            "warning",
            "error",
            "critical",
            "alert",
            "emergency",
        ];
        for (n, level) in all.into_iter().enumerate() {
            set_level(&session, level).await;
            stub.was_sent("logging/setLevel", n + 1).await;
            assert_eq!(levels(&stub).last().unwrap(), level);
        }
        // The other era has no such method: it says the level with each request.
        let client = gateway.client_of(path).unwrap();
        let params = json!({ "level": "debug" });
        let reply = client.modern("logging/setLevel", params).await.unwrap();
        assert_eq!(reply.status, 404, "{reply:?}");
        assert_eq!(error(&reply)["code"], -32601);
    }
}

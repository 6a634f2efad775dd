//! Who gets which link: caps, spares, forwarded headers.

use std::sync::Arc;

use manifold_testkit::{Client, Gateway, HttpStub, LegacyServer, Session, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    MANIFOLD,
    stub::{error, text},
};

const SEEN: &str = r#"{"content":[{"type":"text","text":"seen"}]}"#;

/// The built-in server, with more keys.
async fn example(more: &str) -> Gateway {
    let config =
        format!("[servers.ex]\ncommand = {MANIFOLD:?}\nargs = [\"example-server\"]\n{more}");
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    gateway.server_is("ex", "ready").await.unwrap();
    gateway
}

async fn pid(session: &Session) -> u64 {
    let reply = session.call(1, "ex__whoami", "{}").await.unwrap();
    let said: Value = serde_json::from_str(&text(&reply)).unwrap();
    said["pid"].as_u64().unwrap()
}

/// The processes of the server by what they are used for.
async fn used(gateway: &Gateway, used: &str) -> Vec<u64> {
    let status = gateway.status().await.unwrap();
    let links = status["servers"][0]["links"].as_array().unwrap();
    links
        .iter()
        .filter(|link| link["use"] == used)
        .map(|link| link["pid"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn each_first_call_paid_for_a_start() {
    let gateway = example("spare = 2\n").await;
    let spares = || async {
        let spares = used(&gateway, "spare").await;
        (spares.len() == 2).then_some(spares)
    };
    let before = eventually("the spares", spares).await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    assert_eq!(pid(&session).await, before[0]);
    assert_eq!(used(&gateway, "session").await, before[..1]);
    // Another takes its place; the other one waits on.
    let after = eventually("the next spare", spares).await.unwrap();
    assert_eq!(after[0], before[1]);
    let metrics = gateway.admin("GET", "/metrics").await.unwrap().body;
    let line =
        |reason| format!("manifold_server_starts_total{{reason=\"{reason}\",server=\"ex\"}}");
    assert!(
        metrics.contains(&format!("{} 3\n", line("spare"))),
        "{metrics}"
    );
    assert!(!metrics.contains(&line("lease")), "{metrics}");
}

#[tokio::test]
async fn one_link_too_many_was_refused_while_others_were_idle() {
    let gateway = example("max_links = 2\ntimeouts = { connect = \"300ms\" }\n").await;
    let client = gateway.client().unwrap();
    let (one, two, three) = (
        client.session().await.unwrap(),
        client.session().await.unwrap(),
        client.session().await.unwrap(),
    );
    let first = pid(&one).await;
    let second = pid(&two).await;
    // The one that was not used for longest goes.
    pid(&three).await;
    let left = used(&gateway, "session").await;
    assert!(!left.contains(&first) && left.contains(&second), "{left:?}");
    // Who lost it gets another.
    assert_ne!(pid(&one).await, first);

    // None is idle: busy, and said so.
    let mut calls = JoinSet::new();
    for session in [&one, &three] {
        let before = in_flight(&gateway).await;
        let session = session.clone();
        calls.spawn(async move {
            let slow = r#"{"from":100,"interval_ms":1000}"#;
            // It is never answered: the gateway is stopped first.
            drop(session.call(5, "ex__countdown", slow).await);
        });
        let more = || async { (in_flight(&gateway).await > before).then_some(()) };
        eventually("the call", more).await.unwrap();
    }
    let reply = two.call(9, "ex__whoami", "{}").await.unwrap();
    let refusal = error(&reply);
    assert_eq!(refusal["code"], 51017, "{reply:?}");
    assert_eq!(refusal["data"]["server"], "ex");
}

async fn in_flight(gateway: &Gateway) -> u64 {
    let status = gateway.status().await.unwrap();
    let links = status["servers"][0]["links"].as_array().unwrap();
    links
        .iter()
        .map(|link| link["in_flight"].as_u64().unwrap())
        .sum()
}

/// S43, the second half.
#[tokio::test]
async fn a_tenant_did_not_arrive_or_was_mixed_with_another() {
    let server = Arc::new(LegacyServer::new(SEEN));
    let script = server.clone();
    let stub = HttpStub::start(move |seen| script.react(seen))
        .await
        .unwrap();
    let config = format!(
        "[servers.h]\nurl = {:?}\nheaders = {{ x-own = \"ours\" }}\nforward_headers = [\"X-Tenant\"]\n",
        stub.url()
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    gateway.server_is("h", "ready").await.unwrap();
    let client = gateway.client().unwrap();
    for tenant in ["red", "blue", "red"] {
        let reply = modern_call(&client, tenant).await;
        assert_eq!(text(&reply), "seen");
    }
    let calls = stub.posts("tools/call");
    let tenants: Vec<_> = calls
        .iter()
        .map(|call| call.header("x-tenant").unwrap().to_owned())
        .collect();
    assert_eq!(tenants, ["red", "blue", "red"]);
    for call in &calls {
        assert_eq!(call.header("x-own"), Some("ours"));
        assert_eq!(call.header("x-other"), None);
        assert_eq!(call.header("authorization"), None);
    }
    // One session for each tenant, which is the tenant's from the first request on.
    let session = |index: usize| calls[index].header("mcp-session-id").unwrap();
    assert_eq!(session(0), session(2));
    assert_ne!(session(0), session(1));
    let hellos = stub.posts("initialize");
    let tenants: Vec<_> = hellos
        .iter()
        .map(|hello| hello.header("x-tenant"))
        .collect();
    assert_eq!(tenants, [None, Some("red"), Some("blue")]);
}

async fn modern_call(client: &Client, tenant: &str) -> manifold_testkit::Reply {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "h__look", "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        } },
    });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "h__look"),
        ("x-tenant", tenant),
        ("x-own", "forged"),
        ("x-other", "no"),
        ("authorization", "Bearer client"),
    ];
    client.post(&headers, &body.to_string()).await.unwrap()
}

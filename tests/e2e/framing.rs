//! What stands on a child's pipes beside proper lines.

use manifold_testkit::{Gateway, eventually};
use serde_json::Value;

use crate::{
    MANIFOLD,
    stub::{Stub, names, text},
};

/// S07.
#[tokio::test]
async fn a_banner_on_stdout_broke_the_handshake() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("loud", &["banner"]))
        .await
        .unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let listed = session.request(1, "tools/list", "{}").await.unwrap();
    assert!(
        names(&listed).contains(&"loud__echo".to_owned()),
        "{listed:?}"
    );
    for id in 2..6 {
        let reply = session.call(id, "loud__echo", r#"{"a":1}"#).await.unwrap();
        assert_eq!(text(&reply), r#"{"a": 1}"#);
        assert_eq!(reply.messages().unwrap().len(), 1, "{reply:?}");
    }
    gateway.server_is("loud", "ready").await.unwrap();
    // Two children: the catalog's and the session's.
    assert_eq!(stub.starts(), 2);
    // At the start, and before discover, initialize, tools/list; at the start, and before initialize, tools/list
    // and four calls. Eight lines each time.
    eventually("the noise to be counted", || async {
        let metrics = gateway.admin("GET", "/metrics").await.unwrap().body;
        let line = "manifold_stdout_noise_total{server=\"loud\"} 88\n";
        metrics.contains(line).then_some(())
    })
    .await
    .unwrap();
    let log = gateway.log();
    let told = log
        .iter()
        .filter(|entry| entry["target"] == "manifold::noise");
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told.iter().all(|entry| entry["server"] == "loud"),
        "{told:?}"
    );
}

/// S09: the stub ends itself when it sees a carriage return or a byte order mark.
#[tokio::test]
async fn a_pretty_printing_client_killed_the_child() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &[]))
        .await
        .unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let pretty = "{\r\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": 7,\r\n  \"method\": \"tools/call\",\r\n  \"params\": {\r\n\
        \t\"name\": \"s__echo\",\r\n\t\"arguments\": {\r\n\t\t\"a\": [\r\n 1,\n\n 2 ],\r\n \"b\": \"x\\r\\ny\"\r\n}\r\n}\r\n}\r\n";
    let reply = session.post(pretty).await.unwrap();
    assert_eq!(text(&reply), r#"{"a": [1, 2], "b": "x\r\ny"}"#);
    let modern = "{\r\n \"jsonrpc\": \"2.0\",\r\n \"id\": 8,\r\n \"method\": \"tools/call\",\r\n \"params\": {\r\n\
        \"name\": \"s__echo\",\r\n \"arguments\": {\r\n\"c\":\r\n3\r\n},\r\n \"_meta\": {\r\n\
        \"io.modelcontextprotocol/protocolVersion\": \"2026-07-28\",\r\n\
        \"io.modelcontextprotocol/clientInfo\": {\r\n\"name\": \"t\",\r\n\"version\": \"1\"\r\n},\r\n\
        \"io.modelcontextprotocol/clientCapabilities\": {\r\n}\r\n}\r\n}\r\n}\r\n";
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "s__echo"),
    ];
    let reply = client.post(&headers, modern).await.unwrap();
    assert_eq!(text(&reply), r#"{"c": 3}"#);
    // Nothing but messages, one a line.
    let stdin = String::from_utf8(stub.stdin()).unwrap();
    assert!(stdin.ends_with('\n') && !stdin.contains('\r') && !stdin.contains('\u{feff}'));
    for line in stdin.split_terminator('\n') {
        let message: Value = serde_json::from_str(line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        assert!(message["method"].is_string(), "{line}");
    }
    assert_eq!(stub.messages("tools/call").len(), 2);
    gateway.server_is("s", "ready").await.unwrap();
}

/// S09.
#[tokio::test]
async fn a_child_with_windows_line_ends_was_dropped() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("win", &["crlf"]))
        .await
        .unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    for id in 1..4 {
        let reply = session.call(id, "win__echo", r#"{"a":"b"}"#).await.unwrap();
        assert_eq!(text(&reply), r#"{"a": "b"}"#);
        assert!(
            !reply.body.contains('\r') && !reply.body.contains('\u{feff}'),
            "{reply:?}"
        );
    }
    // Nor is it noise.
    let metrics = gateway.admin("GET", "/metrics").await.unwrap().body;
    assert!(
        metrics.contains("manifold_stdout_noise_total{server=\"win\"} 0"),
        "{metrics}"
    );
}

/// S11.
#[tokio::test]
async fn answers_to_nothing_closed_the_connection() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("odd", &["odd"]))
        .await
        .unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    for id in 1..6 {
        let reply = session.call(id, "odd__echo", r#"{"a":1}"#).await.unwrap();
        assert_eq!(text(&reply), r#"{"a": 1}"#);
        let messages = reply.messages().unwrap();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(messages[0]["id"], id);
    }
    assert_eq!(stub.starts(), 2);
}

//! Requests of 2026-07-28: what headers and body say must agree.

use manifold_testkit::{Client, Gateway, Reply};
use serde_json::{Value, json};

use crate::{
    MANIFOLD,
    stub::{Stub, error, names, text},
};

const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");
const METHOD: (&str, &str) = ("mcp-method", "tools/call");
const NAME: (&str, &str) = ("mcp-name", "s__echo");

fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn message(method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": "r", "method": method, "params": params }).to_string()
}

fn call(name: &str, meta: &Value) -> String {
    message(
        "tools/call",
        json!({ "name": name, "arguments": {}, "_meta": meta }),
    )
}

async fn gateway(stub: &Stub) -> (Gateway, Client) {
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &[]))
        .await
        .unwrap();
    gateway.server_is("s", "ready").await.unwrap();
    let client = gateway.client().unwrap();
    (gateway, client)
}

fn refused(what: &str, reply: &Reply, status: u16, code: i64) -> Value {
    assert_eq!(reply.status, status, "{what}: {reply:?}");
    let error = error(reply);
    assert_eq!(error["code"], code, "{what}: {error}");
    assert_eq!(reply.message().unwrap()["id"], "r", "{what}");
    error
}

/// S47.
#[tokio::test]
async fn headers_that_contradict_the_body_were_taken() {
    let stub = Stub::new();
    let (_gateway, client) = gateway(&stub).await;
    let good = call("s__echo", &meta("2026-07-28"));
    for (what, headers) in [
        ("no method", vec![VERSION, NAME]),
        (
            "another method",
            vec![VERSION, ("mcp-method", "tools/list"), NAME],
        ),
        (
            "method in capitals",
            vec![VERSION, ("mcp-method", "Tools/Call"), NAME],
        ),
        ("two methods", vec![VERSION, METHOD, METHOD, NAME]),
        ("no name", vec![VERSION, METHOD]),
        (
            "another name",
            vec![VERSION, METHOD, ("mcp-name", "s__pid")],
        ),
        (
            "the server's name",
            vec![VERSION, METHOD, ("mcp-name", "echo")],
        ),
        (
            "bad base64",
            vec![VERSION, METHOD, ("mcp-name", "=?base64?!!?=")],
        ),
        ("no version", vec![METHOD, NAME]),
        (
            "another version",
            vec![("mcp-protocol-version", "2025-11-25"), METHOD, NAME],
        ),
    ] {
        let reply = client.post(&headers, &good).await.unwrap();
        refused(what, &reply, 400, -32020);
    }
    assert_eq!(stub.messages("tools/call").len(), 0);
    for headers in [
        vec![VERSION, METHOD, NAME],
        vec![
            ("MCP-Protocol-Version", "2026-07-28"),
            ("MCP-METHOD", "tools/call"),
            ("Mcp-Name", "s__echo"),
        ],
        vec![VERSION, METHOD, ("mcp-name", "=?base64?c19fZWNobw==?=")],
    ] {
        let reply = client.post(&headers, &good).await.unwrap();
        assert_eq!(text(&reply), "{}", "{headers:?}");
        assert_eq!(reply.message().unwrap()["result"]["resultType"], "complete");
    }
    // A name that no header can hold as it is.
    let headers = [VERSION, METHOD, ("mcp-name", "=?base64?c19fY2Fmw6k=?=")];
    let reply = client
        .post(&headers, &call("s__caf\u{e9}", &meta("2026-07-28")))
        .await
        .unwrap();
    let unknown = error(&reply);
    assert_eq!(unknown["code"], -32602, "{unknown}");
}

/// S47.
#[tokio::test]
async fn a_version_nobody_speaks_was_answered_with_the_wrong_error() {
    let stub = Stub::new();
    let (_gateway, client) = gateway(&stub).await;
    let headers = [("mcp-protocol-version", "2099-01-01"), METHOD, NAME];
    let reply = client
        .post(&headers, &call("s__echo", &meta("2099-01-01")))
        .await
        .unwrap();
    let error = refused("unknown version", &reply, 400, -32022);
    let supported = error["data"]["supported"].as_array().unwrap();
    assert!(supported.contains(&json!("2026-07-28")), "{error}");
    assert_eq!(error["data"]["requested"], "2099-01-01", "{error}");
}

/// S47.
#[tokio::test]
async fn requests_without_the_fields_of_their_era_were_taken() {
    let stub = Stub::new();
    let (_gateway, client) = gateway(&stub).await;
    let headers = [VERSION, METHOD, NAME];
    let without = |key: &str| {
        let mut meta = meta("2026-07-28");
        meta.as_object_mut().unwrap().remove(key).unwrap();
        call("s__echo", &meta)
    };
    for body in [
        message("tools/call", json!({ "name": "s__echo" })),
        without("io.modelcontextprotocol/protocolVersion"),
        without("io.modelcontextprotocol/clientCapabilities"),
    ] {
        let reply = client.post(&headers, &body).await.unwrap();
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
        let code = error(&reply)["code"].as_i64().unwrap();
        assert!(matches!(code, -32602 | -32020), "{body}: {reply:?}");
    }
    assert_eq!(stub.messages("tools/call").len(), 0);
}

/// S47: clients fall back to another era by these.
#[tokio::test]
async fn an_unknown_method_was_not_404() {
    let stub = Stub::new();
    let (_gateway, client) = gateway(&stub).await;
    for method in ["no/such", "initialize2", "logging/setLevel", "ping"] {
        let headers = [VERSION, ("mcp-method", method)];
        let body = message(method, json!({ "_meta": meta("2026-07-28") }));
        let reply = client.post(&headers, &body).await.unwrap();
        refused(method, &reply, 404, -32601);
    }
    for verb in ["GET", "DELETE"] {
        let headers = [
            VERSION,
            ("accept", "text/event-stream"),
            ("mcp-session-id", "x"),
        ];
        let reply = client.send(verb, &headers, "").await.unwrap();
        assert_eq!(reply.status, 405, "{verb}: {reply:?}");
        assert!(reply.headers.contains_key("allow"), "{verb}: {reply:?}");
    }
    // The other era's first word is always its own.
    let hello = r#"{"jsonrpc":"2.0","id":"r","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let reply = client.post(&[VERSION], hello).await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(
        reply.message().unwrap()["result"]["protocolVersion"],
        "2025-11-25"
    );
}

#[tokio::test]
async fn a_stateless_client_was_given_a_session() {
    let stub = Stub::new();
    let (gateway, client) = gateway(&stub).await;
    let discovered = client.modern("server/discover", json!({})).await.unwrap();
    let result = discovered.message().unwrap()["result"].clone();
    let versions = result["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{result}");
    assert_eq!(result["resultType"], "complete");
    let listed = client.modern("tools/list", json!({})).await.unwrap();
    assert!(names(&listed).contains(&"s__echo".to_owned()));
    let params = json!({ "name": "s__pid", "arguments": {} });
    let first = client.modern("tools/call", params.clone()).await.unwrap();
    let second = client.modern("tools/call", params).await.unwrap();
    assert_eq!(text(&first), text(&second));
    // A session's id is not looked at.
    let headers = [VERSION, METHOD, NAME, ("mcp-session-id", "garbage")];
    let third = client
        .post(&headers, &call("s__echo", &meta("2026-07-28")))
        .await
        .unwrap();
    assert_eq!(text(&third), "{}");
    for reply in [discovered, listed, first, second, third] {
        assert_eq!(reply.status, 200);
        assert!(!reply.headers.contains_key("mcp-session-id"), "{reply:?}");
    }
    assert_eq!(gateway.status().await.unwrap()["sessions"], 0);
}

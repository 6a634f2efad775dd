//! The modern era: headers, statuses, rounds of input, cancellation by closing.

use http::StatusCode;
use manifold_example_server::Eras;
use serde_json::json;

use crate::client::{Server, countdown, message};

#[tokio::test]
async fn a_modern_question_takes_two_requests() {
    let server = Server::start(Eras::Modern).await;
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} } });
    let first = server
        .modern("tools/call", json!({ "name": "ask", "_meta": meta }))
        .await
        .json()
        .await;
    assert_eq!(first["result"]["resultType"], "input_required");
    let retry = json!({
        "name": "ask", "_meta": meta, "requestState": first["result"]["requestState"],
        "inputResponses": { "name": { "action": "accept", "content": { "name": "Ada" } } },
    });
    let last = server.modern("tools/call", retry).await.json().await;
    assert_eq!(last["result"]["content"][0]["text"], "Hello, Ada!");
    let refused = server.modern("tools/call", json!({ "name": "ask" })).await;
    let error = refused.error(400, json!(1), -32021).await;
    assert!(error["data"]["requiredCapabilities"]["elicitation"].is_object());
    server.stop().await;
}

#[tokio::test]
async fn modern_protocol_errors_have_their_status() {
    let server = Server::start(Eras::Both).await;
    server
        .modern("nonsense", json!({}))
        .await
        .error(404, json!(1), -32601)
        .await;
    server
        .modern("ping", json!({}))
        .await
        .error(404, json!(1), -32601)
        .await;
    server
        .modern("tools/call", json!({ "name": "nothing" }))
        .await
        .error(200, json!(1), -32602)
        .await;
    let body = |version: &str| {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {} });
        message(json!(1), "tools/list", json!({ "_meta": meta }))
    };
    let method = ("mcp-method", "tools/list");
    let version = ("mcp-protocol-version", "2026-07-28");
    for (headers, body, code) in [
        (vec![version], body("2026-07-28"), -32020),
        (vec![method], body("2026-07-28"), -32020),
        (
            vec![version, ("mcp-method", "tools/call")],
            body("2026-07-28"),
            -32020,
        ),
        (
            vec![("mcp-protocol-version", "2025-11-25"), method],
            body("2026-07-28"),
            -32020,
        ),
        (
            vec![("mcp-protocol-version", "2030-01-01"), method],
            body("2030-01-01"),
            -32022,
        ),
        (
            vec![version, method],
            message(json!(1), "tools/list", json!({})),
            -32602,
        ),
    ] {
        server
            .post(&headers, body)
            .await
            .error(400, json!(1), code)
            .await;
    }
    // A session id means nothing to a modern request.
    let headers = [version, method, ("mcp-session-id", "nonsense")];
    assert_eq!(
        server.post(&headers, body("2026-07-28")).await.status,
        StatusCode::OK
    );
    // The name of a tool may come wrapped.
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let call = message(
        json!(1),
        "tools/call",
        json!({ "_meta": meta, "name": "whoami" }),
    );
    let headers = [
        version,
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?d2hvYW1p?="),
    ];
    assert_eq!(server.post(&headers, call).await.status, StatusCode::OK);
    server.stop().await;
}

#[tokio::test]
async fn closing_the_stream_cancels_the_call() {
    let server = Server::start(Eras::Both).await;
    let mut streaming = server.modern("tools/call", countdown(1000, 20, true)).await;
    streaming.event().await.unwrap();
    drop(streaming);
    server.until(0, 1).await;

    // The same before the response has begun.
    let silent = server.modern("tools/call", countdown(1000, 10_000, false));
    tokio::select! {
        _answer = silent => panic!("ten thousand seconds cannot be over"),
        () = server.until(1, 1) => {}
    }
    server.until(0, 2).await;
    server.stop().await;
}

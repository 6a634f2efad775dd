//! The legacy era: sessions, questions on the wire, cancellation by notification.

use std::time::Duration;

use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use manifold_example_server::Eras;
use serde_json::json;

use crate::client::{Server, countdown, message, request};

#[tokio::test]
async fn a_legacy_session_lives_until_it_is_deleted() {
    let server = Server::start(Eras::Both).await;
    let session = server.session(json!({})).await;
    assert!(session.len() >= 32);
    let list = server
        .legacy(&session, 1, "tools/list", json!({}))
        .await
        .json()
        .await;
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 5);
    assert!(list["result"].get("resultType").is_none());
    let unknown = server.legacy(&session, 2, "nonsense", json!({})).await;
    unknown.error(200, json!(2), -32601).await;
    let pong = server
        .legacy(&session, 3, "ping", json!({}))
        .await
        .json()
        .await;
    assert_eq!(pong, json!({ "jsonrpc": "2.0", "id": 3, "result": {} }));

    let other = server.session(json!({})).await;
    assert_ne!(other, session);
    let delete = || request(Method::DELETE, &[("mcp-session-id", &session)], "");
    assert_eq!(server.send(delete()).await.status, StatusCode::NO_CONTENT);
    assert_eq!(server.send(delete()).await.status, StatusCode::NOT_FOUND);
    server
        .legacy(&session, 4, "ping", json!({}))
        .await
        .error(404, json!(4), -32600)
        .await;
    assert_eq!(
        server.legacy(&other, 5, "ping", json!({})).await.status,
        StatusCode::OK
    );
    server.stop().await;
}

#[tokio::test]
async fn legacy_requests_that_are_turned_away_keep_their_id() {
    let server = Server::start(Eras::Both).await;
    let session = server.session(json!({})).await;
    let ping = || message(json!("p"), "ping", json!({}));
    server
        .post(&[], ping())
        .await
        .error(400, json!("p"), -32600)
        .await;
    server
        .post(&[("mcp-session-id", "no")], ping())
        .await
        .error(404, json!("p"), -32600)
        .await;
    for version in ["1900-01-01", "nonsense"] {
        let headers = [
            ("mcp-session-id", session.as_str()),
            ("mcp-protocol-version", version),
        ];
        let answer = server.post(&headers, ping()).await;
        assert!(answer.status == 400, "{version}: {}", answer.status);
        assert_eq!(answer.json().await["id"], "p");
    }
    // Clients that send no version, or modern headers, on legacy requests are common enough.
    let headers = [
        ("mcp-session-id", session.as_str()),
        ("mcp-method", "other"),
        ("mcp-name", "other"),
    ];
    assert_eq!(server.post(&headers, ping()).await.status, StatusCode::OK);
    server.stop().await;
}

#[tokio::test]
async fn a_legacy_question_goes_out_on_the_call_and_its_answer_is_posted() {
    let server = Server::start(Eras::Both).await;
    let session = server.session(json!({ "elicitation": {} })).await;
    let stranger = server.session(json!({ "elicitation": {} })).await;
    let mut call = server
        .legacy(&session, 1, "tools/call", json!({ "name": "ask" }))
        .await;
    let question = call.event().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let reply = |name: &str| {
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": { "name": name } } }).to_string()
    };
    // The same id in another session answers nothing here.
    let wrong = server
        .post(&[("mcp-session-id", &stranger)], reply("Mallory"))
        .await;
    assert_eq!(wrong.status, StatusCode::ACCEPTED);
    let right = server
        .post(&[("mcp-session-id", &session)], reply("Ada"))
        .await;
    assert_eq!(right.status, StatusCode::ACCEPTED);
    let answer = call.event().await.unwrap();
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(1), &json!("Hello, Ada!"))
    );
    assert!(call.event().await.is_none());

    let plain = server.session(json!({})).await;
    let refused = server
        .legacy(&plain, 2, "tools/call", json!({ "name": "ask" }))
        .await
        .json()
        .await;
    assert_eq!(refused["result"]["isError"], true);
    server.stop().await;
}

#[tokio::test]
async fn the_get_stream_stays_open_until_the_session_ends() {
    let server = Server::start(Eras::Both).await;
    let session = server.session(json!({})).await;
    for (headers, status) in [
        (vec![], 400),
        (vec![("mcp-session-id", "no")], 404),
        (
            vec![
                ("mcp-session-id", session.as_str()),
                ("accept", "application/json"),
            ],
            406,
        ),
        (
            vec![
                ("mcp-session-id", session.as_str()),
                ("mcp-protocol-version", "2026-07-28"),
            ],
            405,
        ),
    ] {
        assert_eq!(
            server.send(request(Method::GET, &headers, "")).await.status,
            status,
            "{headers:?}"
        );
    }
    let mut stream = server
        .send(request(Method::GET, &[("mcp-session-id", &session)], ""))
        .await;
    assert_eq!(
        (stream.status, stream.kind()),
        (StatusCode::OK, "text/event-stream")
    );
    let early = tokio::time::timeout(Duration::from_millis(50), stream.body.frame()).await;
    assert!(early.is_err(), "the stream has nothing to say: {early:?}");
    server
        .send(request(Method::DELETE, &[("mcp-session-id", &session)], ""))
        .await;
    assert!(stream.event().await.is_none());
    server.stop().await;
}

#[tokio::test]
async fn a_legacy_call_is_cancelled_by_notification_and_by_the_end_of_its_session() {
    let server = Server::start(Eras::Both).await;
    let session = server.session(json!({})).await;
    let mut call = server
        .legacy(&session, 1, "tools/call", countdown(1000, 20, true))
        .await;
    call.event().await.unwrap();
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }).to_string();
    let other = server.session(json!({})).await;
    server
        .post(&[("mcp-session-id", &other)], cancel.clone())
        .await;
    assert!(
        call.event().await.is_some(),
        "another session's cancellation changes nothing"
    );
    assert_eq!(
        server
            .post(&[("mcp-session-id", &session)], cancel)
            .await
            .status,
        StatusCode::ACCEPTED
    );
    while let Some(event) = call.event().await {
        assert_eq!(
            event["method"], "notifications/progress",
            "no answer to a cancelled call"
        );
    }
    server.until(0, 1).await;

    let mut call = server
        .legacy(&session, 1, "tools/call", countdown(1000, 20, true))
        .await;
    call.event().await.unwrap();
    server
        .send(request(Method::DELETE, &[("mcp-session-id", &session)], ""))
        .await;
    while let Some(event) = call.event().await {
        assert_eq!(event["method"], "notifications/progress");
    }
    server.until(0, 2).await;
    server.stop().await;
}

//! What legacy HTTP servers say by themselves, on the stream that a GET opens.

use manifold_link::LinkError;
use manifold_testkit::eventually;
use serde_json::json;
use tokio_util::task::TaskTracker;

use crate::support::{
    LIMIT, called, connect, finished,
    http::{Reaction, Seen, Server, in_turn},
    in_time, noticed,
};

const TOOLS: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

#[tokio::test]
async fn changes_are_heard_and_questions_answered() {
    let mut server = Server::legacy(in_turn([])).await;
    let tasks = TaskTracker::new();
    let link = connect(&server.connector(&tasks)).await;
    assert!(server.verbs("GET").is_empty(), "nobody has asked for it");
    link.listen();
    link.listen();
    let mut stream = server.stream().await;
    let get = &server.verbs("GET")[0];
    assert_eq!(get.header("accept"), Some("text/event-stream"));
    assert_eq!(get.header("mcp-session-id"), Some("downstream"));
    assert_eq!(get.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(get.header("content-type"), None);
    assert_eq!(get.header("last-event-id"), None);

    assert!(stream.write("id: 1\ndata: \n\n: comment\n\n").await);
    stream.send(TOOLS).await;
    noticed(&link, [1, 0, 0]).await;
    stream
        .send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)
        .await;
    stream
        .send(r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#)
        .await;
    let answers = eventually("answers", async || {
        let answers = server.messages("");
        (answers.len() == 2).then_some(answers)
    })
    .await
    .unwrap();
    assert_eq!(
        answers[0],
        json!({"jsonrpc": "2.0", "id": "p", "result": {}})
    );
    assert_eq!(answers[1]["id"], 7);
    assert_eq!(answers[1]["error"]["code"], -32601);

    assert_eq!(link.in_flight(), 0);
    assert!(called(&link).await.is_ok());
    assert!(!server.has_stream(), "one stream is enough");
    link.close();
    stream.closed().await;
    finished(&tasks).await;
    assert_eq!(server.verbs("DELETE").len(), 1);
}

#[tokio::test]
async fn a_server_that_offers_no_stream_is_asked_once() {
    let reactions: [fn() -> Reaction; 7] = [
        || Reaction::status(405),
        || Reaction::status(404),
        || Reaction::status(403),
        || Reaction::status(429),
        || Reaction::body(200, "text/plain", "hello"),
        || Reaction::body(200, "application/json", "{}"),
        || Reaction::status(204),
    ];
    for react in reactions {
        let server = Server::legacy(move |_| react()).await;
        let tasks = TaskTracker::new();
        let link = connect(&server.connector(&tasks)).await;
        link.listen();
        // Nobody listens any more, and nothing begins again by itself.
        finished(&tasks).await;
        assert_eq!(server.verbs("GET").len(), 1);
        assert!(!link.is_ended());
        assert!(called(&link).await.is_ok());
        noticed(&link, [0, 0, 0]).await;
    }
}

#[tokio::test]
async fn a_stream_without_ids_that_ends_may_have_hidden_changes() {
    let mut server = Server::legacy(in_turn([|_| Reaction::status(503)])).await;
    let tasks = TaskTracker::new();
    let link = connect(&server.connector(&tasks)).await;
    link.listen();
    let mut first = server.stream().await;
    // It came late: something may have changed before it. The server has no prompts.
    noticed(&link, [1, 0, 1]).await;
    assert!(first.write("retry: 1\n\n").await);
    first.send(TOOLS).await;
    noticed(&link, [2, 0, 1]).await;
    drop(first);
    let mut second = server.stream().await;
    noticed(&link, [3, 0, 2]).await;
    second.send(TOOLS).await;
    noticed(&link, [4, 0, 2]).await;
    assert!(
        server
            .verbs("GET")
            .iter()
            .all(|get| get.header("last-event-id").is_none())
    );
}

#[tokio::test]
async fn a_stream_with_ids_goes_on_where_it_ended() {
    let mut server = Server::legacy(in_turn([])).await;
    let tasks = TaskTracker::new();
    let link = connect(&server.connector(&tasks)).await;
    link.listen();
    let mut first = server.stream().await;
    assert!(first.write("id: a-1\nretry: 300\ndata: \n\n").await);
    assert!(
        first
            .write("id: a-2\ndata: \n\nid: a-3\ndata: unfinished")
            .await
    );
    drop(first);
    let mut second = server.stream().await;
    assert_eq!(server.verbs("GET")[1].header("last-event-id"), Some("a-2"));
    second.send(TOOLS).await;
    noticed(&link, [1, 0, 0]).await;
}

#[tokio::test]
async fn a_session_that_is_gone_when_the_stream_is_asked_for_again_ends_the_link() {
    for gone in [
        |_: &Seen| Reaction::status(404),
        |_: &Seen| Reaction::body(400, "text/plain", "Bad Request: no such session"),
    ] {
        let mut server = Server::legacy(in_turn([|_| Reaction::Stream, gone])).await;
        let tasks = TaskTracker::new();
        let link = connect(&server.connector(&tasks)).await;
        link.listen();
        drop(server.stream().await);
        assert!(matches!(
            in_time(link.ended()).await,
            LinkError::SessionLost
        ));
        assert_eq!(server.verbs("GET").len(), 2);
        drop(link);
        finished(&tasks).await;
        assert!(server.verbs("DELETE").is_empty(), "there is nothing to end");
    }
}

#[tokio::test]
async fn a_refusal_of_another_stream_leaves_the_link_alone() {
    let mut server =
        Server::legacy(in_turn([|_| Reaction::Stream, |_| Reaction::status(405)])).await;
    let tasks = TaskTracker::new();
    let link = connect(&server.connector(&tasks)).await;
    link.listen();
    drop(server.stream().await);
    finished(&tasks).await;
    assert_eq!(server.verbs("GET").len(), 2);
    assert!(!link.is_ended());
}

#[tokio::test]
async fn an_event_over_the_limit_is_not_gathered() {
    let mut server = Server::legacy(in_turn([])).await;
    let tasks = TaskTracker::new();
    let link = connect(&server.connector(&tasks)).await;
    link.listen();
    let mut stream = server.stream().await;
    assert!(stream.write("retry: 1\n\ndata: ").await);
    let piece = "x".repeat(LIMIT);
    // It takes what sockets hold, and then no more.
    while stream.write(&piece).await {}
    server.stream().await.send(TOOLS).await;
    // One for the gap.
    noticed(&link, [2, 0, 1]).await;
}

#[tokio::test]
async fn a_link_that_is_dropped_listens_no_more() {
    let mut server = Server::legacy(in_turn([])).await;
    let tasks = TaskTracker::new();
    let link = connect(&server.connector(&tasks)).await;
    link.listen();
    let stream = server.stream().await;
    drop(link);
    stream.closed().await;
    finished(&tasks).await;
}

#[tokio::test]
async fn a_link_that_waits_for_its_next_stream_can_be_closed() {
    let mut server = Server::legacy(in_turn([])).await;
    let tasks = TaskTracker::new();
    let link = connect(&server.connector(&tasks)).await;
    link.listen();
    let mut stream = server.stream().await;
    assert!(stream.write("retry: 600000\n\n").await);
    stream.send(TOOLS).await;
    noticed(&link, [1, 0, 0]).await;
    drop(stream);
    link.close();
    finished(&tasks).await;
    assert_eq!(server.verbs("GET").len(), 1);
}

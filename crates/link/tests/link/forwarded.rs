//! Headers of a client's request on their way to a server.

use manifold_link::{ConnectOptions, ForwardedHeaders, Origin};
use tokio_util::task::TaskTracker;

use crate::support::{
    called, finished,
    http::{Server, in_turn},
};

#[tokio::test]
async fn every_request_of_a_link_carries_them() {
    let mut server = Server::legacy(in_turn([])).await;
    let tasks = TaskTracker::new();
    let connector = server.connector_with("authorization", "configured", &tasks);
    let forwarded = ForwardedHeaders::new([
        ("x-tenant", "blue"),
        ("authorization", "theirs"),
        ("mcp-session-id", "stolen"),
        ("content-type", "text/plain"),
    ]);
    let options = ConnectOptions {
        forwarded,
        ..ConnectOptions::default()
    };
    let link = connector
        .connect_with(options, &Origin::manifold(), |_| {})
        .await
        .unwrap();
    link.listen();
    let stream = server.stream().await;
    assert!(called(&link).await.is_ok());
    link.close();
    stream.closed().await;
    finished(&tasks).await;

    let seen = server.seen();
    let mut kinds: Vec<String> = seen
        .iter()
        .map(|seen| format!("{} {}", seen.verb, seen.method()))
        .collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [
            "DELETE ",
            "GET ",
            "POST initialize",
            "POST notifications/initialized",
            "POST server/discover",
            "POST tools/call"
        ]
    );
    for request in seen {
        assert_eq!(request.header("x-tenant"), Some("blue"), "{request:?}");
        assert_eq!(request.header("authorization"), Some("configured"));
        assert_ne!(request.header("mcp-session-id"), Some("stolen"));
        assert_ne!(request.header("content-type"), Some("text/plain"));
    }
}

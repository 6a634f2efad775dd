//! What modern servers say by themselves, on a subscription.

use manifold_link::Link;
use manifold_testkit::eventually;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use crate::support::{
    called,
    child::Shell,
    connect, finished,
    http::{Reaction, Server, Stream, in_turn},
    in_time, noticed,
};

const CAPABILITIES: &str =
    r#"{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":true}}"#;

/// The next stream, and the id of the request that opened it.
async fn subscribed(server: &mut Server) -> (Stream, Value) {
    let stream = server.stream().await;
    let requests = server.messages("subscriptions/listen");
    let id = requests.last().unwrap()["id"].clone();
    (stream, id)
}

async fn listening(server: &Server, tasks: &TaskTracker) -> Link {
    let link = connect(&server.connector(tasks)).await;
    link.listen();
    link
}

#[tokio::test]
async fn changes_are_heard() {
    let mut server = Server::modern(CAPABILITIES, in_turn([])).await;
    let tasks = TaskTracker::new();
    let link = listening(&server, &tasks).await;
    link.listen();
    let (mut stream, id) = subscribed(&mut server).await;
    let request = &server.messages("subscriptions/listen")[0];
    assert_eq!(
        request["params"]["notifications"],
        json!({"toolsListChanged": true, "resourcesListChanged": true})
    );
    let meta = &request["params"]["_meta"];
    assert_eq!(
        meta["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
    assert_eq!(
        meta["io.modelcontextprotocol/clientInfo"]["name"],
        "manifold"
    );
    assert_eq!(
        meta["io.modelcontextprotocol/clientCapabilities"],
        json!({})
    );
    assert_eq!(meta.get("progressToken"), None);

    stream.notify("subscriptions/acknowledged", &id).await;
    stream.notify("tools/list_changed", &id).await;
    noticed(&link, [1, 0, 0]).await;
    assert_eq!(link.in_flight(), 0);
    assert!(called(&link).await.is_ok());
    assert!(!server.has_stream(), "one subscription is enough");
    drop(link);
    stream.closed().await;
    finished(&tasks).await;
}

#[tokio::test]
async fn every_end_but_a_refusal_is_followed_by_a_new_subscription() {
    let mut server = Server::modern(CAPABILITIES, in_turn([])).await;
    let tasks = TaskTracker::new();
    let link = listening(&server, &tasks).await;
    let (mut stream, id) = subscribed(&mut server).await;
    stream.notify("subscriptions/acknowledged", &id).await;
    stream
        .send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete"}}}}"#
        ))
        .await;
    stream.closed().await;

    let (mut stream, id) = subscribed(&mut server).await;
    noticed(&link, [0, 0, 0]).await;
    stream.notify("subscriptions/acknowledged", &id).await;
    noticed(&link, [1, 0, 1]).await;
    for wrong in [json!(999), json!(null)] {
        stream
            .send(
                &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": wrong}})
                .to_string(),
            )
            .await;
    }
    stream.notify("resources/list_changed", &id).await;
    noticed(&link, [1, 0, 2]).await;
    stream
        .send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id}})
            .to_string(),
        )
        .await;
    stream.closed().await;

    let (mut stream, id) = subscribed(&mut server).await;
    stream.notify("subscriptions/acknowledged", &id).await;
    noticed(&link, [2, 0, 3]).await;
    drop(stream);
    drop(subscribed(&mut server).await);
    let ids: Vec<Value> = server
        .messages("subscriptions/listen")
        .iter()
        .map(|request| request["id"].clone())
        .collect();
    assert_eq!(ids.len(), 4);
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
}

#[tokio::test]
async fn a_server_without_subscriptions_is_asked_once() {
    let reactions: [fn(&crate::support::http::Seen) -> Reaction; 4] = [
        |seen| Reaction::error(seen, 404, -32601),
        |seen| Reaction::error(seen, 200, -32601),
        |_| Reaction::status(404),
        |_| Reaction::status(405),
    ];
    for react in reactions {
        let server = Server::modern(CAPABILITIES, react).await;
        let tasks = TaskTracker::new();
        let link = listening(&server, &tasks).await;
        finished(&tasks).await;
        assert_eq!(server.messages("subscriptions/listen").len(), 1);
        assert!(!link.is_ended());
        assert!(called(&link).await.is_ok());
    }
}

#[tokio::test]
async fn a_server_that_announces_nothing_is_not_asked() {
    let capabilities =
        r#"{"tools":{"listChanged":false},"prompts":{},"resources":{"subscribe":true}}"#;
    let server = Server::modern(capabilities, in_turn([])).await;
    let tasks = TaskTracker::new();
    let link = listening(&server, &tasks).await;
    assert!(tasks.is_empty());
    assert!(called(&link).await.is_ok());
    assert!(server.messages("subscriptions/listen").is_empty());
}

/// A child that ends its first subscription with a result, cancels the second and refuses the third.
const CHILD: &str = r#"
n=0
while read -r line; do
    say "$line" >> lines
    id="$(id "$line")"
    meta='"_meta":{"io.modelcontextprotocol/subscriptionId":'"$id"'}'
    ack='{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},'"$meta"'}}'
    case "$line" in
    *'"method":"server/discover"'*)
        say '{"jsonrpc":"2.0","id":'"$id"',"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}}' ;;
    *'"method":"subscriptions/listen"'*)
        n=$((n+1))
        case $n in
        1)  say "$ack"
            say '{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{'"$meta"'}}'
            say '{"jsonrpc":"2.0","id":'"$id"',"result":{"resultType":"complete",'"$meta"'}}' ;;
        2)  say "$ack"
            say '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
            read -r call
            say '{"jsonrpc":"2.0","id":'"$(id "$call")"',"result":{"content":[]}}'
            say '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":'"$id"'}}' ;;
        *)  say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"no"}}' ;;
        esac ;;
    esac
done"#;

#[tokio::test]
async fn a_child_is_subscribed_to_and_asked_again() {
    let shell = Shell::new(CHILD);
    let link = connect(&shell.connector).await;
    let without = shell.tasks.len();
    link.listen();
    // One change, and the gap between the first and the second.
    noticed(&link, [2, 0, 0]).await;
    assert_eq!(link.in_flight(), 0);
    assert!(called(&link).await.is_ok());
    // The third is refused: nobody listens any more.
    eventually("the listening's end", async || {
        (shell.tasks.len() == without).then_some(())
    })
    .await
    .unwrap();
    let listens = shell.lines();
    let listens = listens
        .iter()
        .filter(|line| line.contains("subscriptions/listen"));
    assert_eq!(listens.count(), 3);
    noticed(&link, [2, 0, 0]).await;
    drop(link);
    shell.end().await;
}

#[tokio::test]
async fn a_legacy_child_needs_no_asking() {
    let shell =
        Shell::legacy(r#"say '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'"#);
    let link = connect(&shell.connector).await;
    let without = shell.tasks.len();
    link.listen();
    assert_eq!(shell.tasks.len(), without);
    noticed(&link, [1, 0, 0]).await;
    drop(link);
    shell.end().await;
}

#[tokio::test]
async fn a_child_that_ends_ends_the_listening() {
    let shell = Shell::new(
        r#"
while read -r line; do
    case "$line" in
    *'"method":"server/discover"'*)
        say '{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}}' ;;
    *) exit 3 ;;
    esac
done"#,
    );
    let link = connect(&shell.connector).await;
    link.listen();
    in_time(link.ended()).await;
    // The link is still held, and nothing runs.
    finished(&shell.tasks).await;
    shell.end().await;
}

//! Calls without an answer: whether the server had begun to give one.

use http::HeaderMap;
use manifold_link::{LinkError, Origin};
use manifold_protocol::Outcome;
use tokio_util::task::TaskTracker;

use crate::support::{
    call, called,
    child::Shell,
    connect,
    http::{Reaction, Server, connector, in_turn, legacy},
};

/// What becomes of a call to which a server answers these bytes and closes the connection.
async fn answered_with(bytes: &'static str) -> LinkError {
    let server = Server::start(move |seen| match &*seen.method() {
        "tools/call" => Reaction::Bytes(bytes.to_owned()),
        _ => legacy(seen),
    })
    .await;
    let link = connect(&server.connector(&TaskTracker::new())).await;
    called(&link).await.unwrap_err()
}

#[tokio::test]
async fn silence_is_told_from_an_answer_that_broke_off() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\n";
    for (bytes, unanswered) in [
        ("", true),
        ("HTTP/1.1 200 OK\r\ncontent-ty", true),
        ("hello, this is no HTTP\r\n\r\n", false),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n",
            false,
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"json",
            false,
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nid: 1\ndata: \n\n",
            false,
        ),
    ] {
        assert!(bytes.is_empty() || bytes.starts_with(HEAD) || bytes.starts_with("hello"));
        let error = answered_with(bytes).await;
        assert!(matches!(error, LinkError::Broken(_)), "{bytes:?}: {error}");
        assert_eq!(error.is_unanswered(), unanswered, "{bytes:?}: {error}");
    }
    let error = answered_with("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await;
    assert!(!error.is_unanswered(), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_has_not_answered() {
    let server = Server::start(legacy).await;
    let tasks = TaskTracker::new();
    let link = connect(&server.connector(&tasks)).await;
    drop(server);
    let error = called(&link).await.unwrap_err();
    assert!(error.is_unanswered(), "{error}");

    let nobody = connector("http://127.0.0.1:1/mcp", HeaderMap::new(), &tasks);
    let error = nobody.connect(&Origin::manifold(), |_| {}).await;
    let error = error.unwrap_err();
    assert!(matches!(error, LinkError::Unreachable(_)), "{error}");
    assert!(error.is_unanswered());
}

#[tokio::test]
async fn a_call_outlives_the_session_that_another_has_lost() {
    let react = in_turn([|_| Reaction::Stream, |_| Reaction::status(404)]);
    let mut server = Server::start(move |seen| match &*seen.method() {
        "tools/call" => react(seen),
        _ => legacy(seen),
    })
    .await;
    let tasks = TaskTracker::new();
    let link = connect(&server.connector(&tasks)).await;
    let working = link.begin(call()).await.unwrap();
    let late = link.begin(call()).await.unwrap();
    let end = async {
        let mut stream = server.stream().await;
        let error = called(&link).await.unwrap_err();
        assert!(matches!(error, LinkError::SessionLost), "{error}");
        assert!(link.is_ended());
        // What was not sent is not sent any more.
        let error = late.finish().await.unwrap_err();
        assert!(matches!(error, LinkError::SessionLost), "{error}");
        let calls = server.messages("tools/call");
        assert_eq!(calls.len(), 2);
        let id = &calls[0]["id"];
        stream
            .send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
            .await;
    };
    let (outcome, ()) = tokio::join!(working.finish(), end);
    // The server has worked on it: it must not be sent again.
    assert!(matches!(outcome, Ok(Outcome::Result(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_child_that_dies_is_no_silence() {
    let shell = Shell::legacy("");
    let link = connect(&shell.connector).await;
    link.child().unwrap().stop();
    let error = called(&link).await.unwrap_err();
    assert!(!error.is_unanswered(), "{error}");
    shell.end().await;
}

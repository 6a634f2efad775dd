//! Long lines and loud servers.

use manifold_testkit::Gateway;

use crate::{
    MANIFOLD,
    stub::{Stub, error, in_background, text},
};

/// S08: the pipe, a line buffer, a scanner's limit, a megabyte.
#[tokio::test]
async fn a_long_answer_killed_the_reader() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &[]))
        .await
        .unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    for bytes in [65_535, 65_536, 65_537, (1 << 20) + 1, 16 << 20] {
        let arguments = format!(r#"{{"bytes":{bytes}}}"#);
        let (large, small) = tokio::join!(
            session.call(1, "s__size", &arguments),
            session.call(2, "s__echo", "{}"),
        );
        assert_eq!(text(&small.unwrap()), "{}");
        let large = text(&large.unwrap());
        assert_eq!(large.len(), bytes);
        assert!(large.bytes().all(|byte| byte == b'x'));
    }
    assert_eq!(stub.starts(), 2);
}

/// S08, the other way.
#[tokio::test]
async fn long_arguments_killed_the_server() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &[]))
        .await
        .unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    for bytes in [65_535, 65_536, 65_537, (1 << 20) + 1, 8 << 20] {
        let arguments = format!(r#"{{"a":"{}"}}"#, "y".repeat(bytes));
        let (large, small) = tokio::join!(
            session.call(1, "s__echo", &arguments),
            session.call(2, "s__echo", "{}"),
        );
        assert_eq!(text(&small.unwrap()), "{}");
        let echo = text(&large.unwrap());
        assert_eq!(echo.len(), bytes + r#"{"a": ""}"#.len());
    }
    assert_eq!(stub.starts(), 2);
}

/// S08: one call's own fault.
#[tokio::test]
async fn an_answer_over_the_limit_took_the_server_down() {
    let stub = Stub::new();
    let config = format!("[limits]\nmessage = \"1MiB\"\n{}", stub.server("s", &[]));
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    let own = text(&session.call(1, "s__pid", "{}").await.unwrap());
    let waiting = {
        let session = session.clone();
        in_background(async move { session.call(2, "s__wait", r#"{"file":"go"}"#).await })
    };
    stub.was_sent("tools/call", 2).await;
    for bytes in [1 << 20, 3 << 20] {
        let arguments = format!(r#"{{"bytes":{bytes}}}"#);
        let reply = session.call(3, "s__size", &arguments).await.unwrap();
        let large = error(&reply);
        assert_eq!(reply.message().unwrap()["id"], 3);
        assert_eq!(large["code"], 51016, "{large}");
        assert_eq!(large["data"]["server"], "s", "{large}");
        assert!(
            large["message"]
                .as_str()
                .unwrap()
                .contains("limits.message"),
            "{large}"
        );
        // The stream goes on at the next line.
        assert_eq!(text(&session.call(4, "s__pid", "{}").await.unwrap()), own);
    }
    stub.write("go", "");
    assert_eq!(text(&waiting.await.unwrap().unwrap()), "waited");
    let fits = session
        .call(5, "s__size", r#"{"bytes":1000000}"#)
        .await
        .unwrap();
    assert_eq!(text(&fits).len(), 1_000_000);
    assert_eq!(stub.starts(), 2);
}

/// S05.
#[tokio::test]
async fn a_full_stderr_pipe_blocked_the_server() {
    let stub = Stub::new();
    let config = stub.server("loud", &["stderr=1048576"]);
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    for id in 1..5 {
        let reply = session
            .call(id, "loud__stderr", r#"{"bytes":262144}"#)
            .await
            .unwrap();
        assert_eq!(text(&reply), "written");
        assert_eq!(reply.messages().unwrap().len(), 1);
    }
    let status = gateway.server_is("loud", "ready").await.unwrap();
    let tail = status["stderr_tail"].as_array().unwrap();
    // There to be read, in lines of a length that can be.
    assert!(!tail.is_empty(), "{status}");
    for line in tail {
        let line = line.as_str().unwrap();
        assert!(line.len() <= 64 * 1024, "{}", line.len());
        assert!(!line.contains('\u{1b}'), "{line}");
    }
}

//! Whatever ends, the processes it started end with it.

use std::time::Duration;

use manifold_testkit::{Gateway, eventually, tagged};
use tokio::time::timeout;

use crate::{
    MANIFOLD,
    stub::{Stub, error, in_background, text},
};

/// A variable in the environment of a test's children and of nobody else.
struct Tag(String);

impl Tag {
    fn new(what: &str) -> Self {
        Self(format!("{}-{what}", std::process::id()))
    }

    fn env(&self) -> String {
        format!("env = {{ E2E_TAG = {:?} }}\n", self.0)
    }

    fn pids(&self) -> Vec<u32> {
        tagged(&format!("E2E_TAG={}", self.0))
    }

    async fn count_is(&self, count: usize) {
        let what = format!("{count} processes of {}", self.0);
        let same = || async { (self.pids().len() == count).then_some(()) };
        eventually(&what, same).await.unwrap();
    }

    async fn are_gone_within(&self, limit: Duration) {
        let gone = async {
            while !self.pids().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let outcome = timeout(limit, gone).await;
        assert!(outcome.is_ok(), "left: {:?}", self.pids());
    }
}

/// Servers that are hard to get rid of, and how many processes each link has.
fn hard_ones(stub: &Stub, tag: &Tag, more: &str) -> (String, usize) {
    let keys = tag.env() + more;
    let config = [
        stub.server_behind_shell("wrapped", &[]),
        stub.server_behind_shell("deaf", &["deaf"]),
        stub.server("hidden", &["hidden", "deaf"]),
    ];
    let config = config.map(|server| server + &keys).concat();
    (config, 2 + 2 + 2)
}

const QUICK_STOP: &str = "stop = { close = \"100ms\", term = \"100ms\" }\n";

/// S01, the worst end there is.
#[tokio::test]
async fn a_killed_gateway_left_servers_behind() {
    let (stub, tag) = (Stub::new(), Tag::new("killed"));
    let (config, per_link) = hard_ones(&stub, &tag, "");
    let mut gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    for server in ["wrapped", "deaf", "hidden"] {
        text(
            &session
                .call(1, &format!("{server}__pid"), "{}")
                .await
                .unwrap(),
        );
    }
    tag.count_is(2 * per_link).await;
    gateway.signal("KILL").await.unwrap();
    tag.are_gone_within(Duration::from_secs(5)).await;
    assert_eq!(gateway.exit_code().await.unwrap(), None);
}

/// S01 (2).
#[tokio::test]
async fn sigterm_lost_calls_in_flight_or_left_servers_behind() {
    let (stub, tag) = (Stub::new(), Tag::new("terminated"));
    let (config, per_link) = hard_ones(&stub, &tag, QUICK_STOP);
    let mut gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    for server in ["wrapped", "hidden"] {
        text(
            &session
                .call(1, &format!("{server}__pid"), "{}")
                .await
                .unwrap(),
        );
    }
    let calling = {
        let session = session.clone();
        in_background(async move { session.call(9, "deaf__wait", r#"{"file":"go"}"#).await })
    };
    stub.was_sent("tools/call", 3).await;
    tag.count_is(2 * per_link).await;
    gateway.signal("TERM").await.unwrap();
    eventually("no readiness", || async {
        let ready = gateway.admin("GET", "/readyz").await.ok()?;
        (ready.status == 503).then_some(())
    })
    .await
    .unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":"new","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"late","version":"1"}}}"#;
    let refused = gateway.client().unwrap().post(&[], hello).await.unwrap();
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.message().unwrap()["id"], "new");
    error(&refused);
    stub.write("go", "");
    let reply = calling.await.unwrap().unwrap();
    assert_eq!(text(&reply), "waited");
    assert_eq!(reply.message().unwrap()["id"], 9);
    assert_eq!(
        gateway.exit_code().await.unwrap(),
        Some(0),
        "{}",
        gateway.log_text()
    );
    assert_eq!(tag.pids(), [0; 0]);
}

#[tokio::test]
async fn a_second_signal_was_not_heard() {
    let (stub, tag) = (Stub::new(), Tag::new("hurried"));
    let (config, _) = hard_ones(&stub, &tag, "");
    let mut gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    let calling =
        in_background(async move { session.call(9, "deaf__wait", r#"{"file":"never"}"#).await });
    stub.was_sent("tools/call", 1).await;
    gateway.signal("TERM").await.unwrap();
    eventually("no readiness", || async {
        let ready = gateway.admin("GET", "/readyz").await.ok()?;
        (ready.status == 503).then_some(())
    })
    .await
    .unwrap();
    gateway.signal("INT").await.unwrap();
    // Far less than the call may take.
    let code = timeout(Duration::from_secs(10), gateway.exit_code()).await;
    assert_eq!(code.unwrap().unwrap(), Some(1));
    tag.are_gone_within(Duration::from_secs(5)).await;
    drop(calling.await);
}

/// S01 (1), S15.
#[tokio::test]
async fn a_deleted_session_left_its_servers_running() {
    let (stub, tag) = (Stub::new(), Tag::new("deleted"));
    let (config, per_link) = hard_ones(&stub, &tag, QUICK_STOP);
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let (leaving, staying) = (
        client.session().await.unwrap(),
        client.session().await.unwrap(),
    );
    let mut kept = Vec::new();
    for server in ["wrapped", "deaf", "hidden"] {
        let tool = format!("{server}__pid");
        let first = text(&leaving.call(1, &tool, "{}").await.unwrap());
        let second = text(&staying.call(1, &tool, "{}").await.unwrap());
        assert_ne!(first, second);
        kept.push((tool, second));
    }
    tag.count_is(3 * per_link).await;
    let reply = leaving.delete().await.unwrap();
    assert!((200..300).contains(&reply.status), "{reply:?}");
    // The catalog's and the other session's stay.
    tag.count_is(2 * per_link).await;
    for (tool, pid) in kept {
        assert_eq!(text(&staying.call(2, &tool, "{}").await.unwrap()), pid);
    }
    for reply in [
        leaving.request(3, "ping", "{}").await.unwrap(),
        leaving.delete().await.unwrap(),
    ] {
        assert_eq!(reply.status, 404, "{reply:?}");
        error(&reply);
    }
    let reply = client.send("DELETE", &[], "").await.unwrap();
    assert_eq!(reply.status, 400, "{reply:?}");
}

/// Browsers and health checks open connections that they may never use.
#[tokio::test]
async fn a_connection_without_a_request_held_up_the_end() {
    let mut gateway = Gateway::start(MANIFOLD, "").await.unwrap();
    let unused = tokio::net::TcpStream::connect(gateway.authority())
        .await
        .unwrap();
    // Accepted before this is answered.
    gateway.client().unwrap().session().await.unwrap();
    gateway.signal("TERM").await.unwrap();
    let code = timeout(Duration::from_secs(10), gateway.exit_code()).await;
    assert_eq!(code.unwrap().unwrap(), Some(0), "{}", gateway.log_text());
    drop(unused);
}

//! One server's trouble is its own.

use std::{sync::Arc, time::Duration};

use manifold_testkit::{Gateway, HttpStub, LegacyServer, Reaction, eventually};
use serde_json::Value;
use tokio::{net::TcpListener, time::timeout};

use crate::{
    MANIFOLD,
    stub::{Stub, error, names, text},
};

/// Stubs that are no MCP servers, and the configuration of them all.
async fn broken_ones() -> (Vec<HttpStub>, String, Vec<(&'static str, &'static [i64])>) {
    // A port that was free a moment ago.
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = refusing.local_addr().unwrap();
    drop(refusing);
    let answers = [
        (
            "page",
            Reaction::body(200, "text/html", "<html>Welcome!</html>"),
        ),
        (
            "fails",
            Reaction::body(500, "text/plain", "Internal Server Error"),
        ),
        (
            "json",
            Reaction::body(200, "application/json", r#"{"status":"ok"}"#),
        ),
        ("closes", Reaction::Close),
    ];
    let mut stubs = Vec::new();
    let mut config = format!(
        "[servers.refuses]\nurl = \"http://{address}/mcp\"\n\
         [servers.nowhere]\nurl = \"http://no-such-host.invalid/mcp\"\n"
    );
    for (name, reaction) in answers {
        let stub = HttpStub::start(move |_| reaction.clone()).await.unwrap();
        config += &format!("[servers.{name}]\nurl = {:?}\n", stub.url());
        stubs.push(stub);
    }
    let down: &[i64] = &[51010];
    let down_or_strange: &[i64] = &[51010, 51015];
    let expected = vec![
        ("refuses", down),
        ("nowhere", down),
        ("page", down_or_strange),
        ("fails", down_or_strange),
        ("json", down_or_strange),
        ("closes", down_or_strange),
    ];
    (stubs, config, expected)
}

/// S18.
#[tokio::test]
async fn one_broken_server_took_all_lists_down() {
    let stub = Stub::new();
    let (_stubs, broken, expected) = broken_ones().await;
    let config = broken + &stub.server("healthy", &[]);
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let opening = timeout(Duration::from_secs(10), client.session());
    let session = opening.await.unwrap().unwrap();
    let listed = session.request(1, "tools/list", "{}").await.unwrap();
    let healthy = names(&listed);
    assert!(healthy.contains(&"healthy__echo".to_owned()), "{listed:?}");
    assert!(
        healthy.iter().all(|name| name.starts_with("healthy__")),
        "{healthy:?}"
    );
    assert_eq!(
        text(&session.call(2, "healthy__echo", "{}").await.unwrap()),
        "{}"
    );
    for (server, codes) in expected {
        let reply = session
            .call(3, &format!("{server}__any"), "{}")
            .await
            .unwrap();
        assert_eq!(reply.status, 200, "{server}: {reply:?}");
        let down = error(&reply);
        assert!(
            codes.contains(&down["code"].as_i64().unwrap()),
            "{server}: {down}"
        );
        assert_eq!(down["data"]["server"], server, "{down}");
        // Never what the server said, nor where it is.
        for secret in ["Welcome", "127.0.0.1", "Internal"] {
            assert!(!down.to_string().contains(secret), "{down}");
        }
        let status = eventually("the fault in /status", || async {
            let status = gateway.status().await.ok()?;
            let servers = status["servers"].as_array()?.clone();
            servers
                .into_iter()
                .find(|entry| entry["name"] == server && !entry["last_error"].is_null())
        });
        status.await.unwrap();
    }
    let listed = session.request(4, "tools/list", "{}").await.unwrap();
    let message = listed.message().unwrap();
    let missing = message["result"]["_meta"]["dev.manifold/unavailable"]
        .as_array()
        .unwrap();
    assert_eq!(missing.len(), 6, "{missing:?}");
}

/// S18: with nothing but broken ones, the gateway is up, and one that comes back is used.
#[tokio::test]
async fn a_gateway_without_a_healthy_server_gave_up() {
    let (_stubs, broken, _) = broken_ones().await;
    let server = Arc::new(LegacyServer::new(
        r#"{"content":[{"type":"text","text":"back"}]}"#,
    ));
    let up = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (script, switch) = (server.clone(), up.clone());
    let stub = HttpStub::start(move |seen| {
        if switch.load(std::sync::atomic::Ordering::Relaxed) {
            script.react(seen)
        } else {
            Reaction::body(502, "text/html", "<html>Bad Gateway</html>")
        }
    })
    .await
    .unwrap();
    let config = format!(
        "{broken}[servers.late]\nurl = {:?}\nrestart = {{ initial = \"100ms\", max = \"200ms\" }}\n",
        stub.url()
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    let listed = session.request(1, "tools/list", "{}").await.unwrap();
    assert_eq!(names(&listed), Vec::<String>::new());
    up.store(true, std::sync::atomic::Ordering::Relaxed);
    // In the same session, without anybody doing anything.
    let look = || async {
        let listed = session.request(2, "tools/list", "{}").await.ok()?;
        (names(&listed) == ["late__look"]).then_some(())
    };
    eventually("the server that came back", look).await.unwrap();
    assert_eq!(
        text(&session.call(3, "late__look", "{}").await.unwrap()),
        "back"
    );
}

/// S04, S19.
#[tokio::test]
async fn a_slow_starter_held_up_everyone_or_was_never_seen() {
    let (slow, quick) = (Stub::new(), Stub::new());
    let config = format!(
        "[timeouts]\nlist = \"1s\"\n{}{}",
        slow.server("slow", &["gate=open"]),
        quick.server("quick", &[])
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let listing = session.request(1, "tools/list", "{}");
    let listed = timeout(Duration::from_secs(20), listing)
        .await
        .unwrap()
        .unwrap();
    assert!(
        names(&listed)
            .iter()
            .all(|name| name.starts_with("quick__")),
        "{listed:?}"
    );
    assert!(!names(&listed).is_empty());
    let message = listed.message().unwrap();
    let missing = &message["result"]["_meta"]["dev.manifold/unavailable"];
    assert_eq!(missing[0]["server"], "slow", "{missing}");
    assert_eq!(missing[0]["state"], "starting", "{missing}");
    assert_eq!(
        text(&session.call(2, "quick__echo", "{}").await.unwrap()),
        "{}"
    );
    // A call waits for it.
    let call = {
        let session = session.clone();
        crate::stub::in_background(async move { session.call(3, "slow__echo", "{}").await })
    };
    text(&session.call(4, "quick__echo", "{}").await.unwrap());
    assert!(!call.is_finished());
    slow.write("open", "");
    assert_eq!(text(&call.await.unwrap().unwrap()), "{}");
    let listed = session.request(5, "tools/list", "{}").await.unwrap();
    assert!(
        names(&listed).contains(&"slow__echo".to_owned()),
        "{listed:?}"
    );
    assert_eq!(listed.message().unwrap()["result"]["_meta"], Value::Null);
    // The one in front was not restarted for being slow: the lister and the session's.
    assert_eq!(slow.starts(), 2);
}

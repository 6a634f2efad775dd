//! Servers that are started only when somebody needs them.

use std::time::Duration;

use manifold_testkit::{eventually, is_alive};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    shelf::{Asker, LISTS, PROMPTS, RESOURCES, TOOLS, announce, missing, ready, result, told},
    stub::{Stub, error, in_background, text},
};

/// A lazy server beside one that is not.
fn config(stub: &Stub, eager: &Stub, flags: &[&str], more: &str) -> String {
    for list in LISTS {
        list.fill(stub, &list.many("l", 2));
    }
    TOOLS.fill(stub, &["pid"]);
    let flags = [&["shelf", "named=it"], flags].concat();
    let lazy = stub.server("lazy", &flags);
    let eager = eager.server("eager", &[]);
    format!("{eager}{lazy}start = \"lazy\"\n{more}")
}

#[tokio::test]
async fn a_lazy_server_was_started_with_the_gateway_or_never_listed() {
    for list in LISTS {
        let (stub, eager) = (Stub::new(), Stub::new());
        let gateway = ready(&config(&stub, &eager, &[], ""), &["eager"]).await;
        // Neither the start nor a hello needs it.
        let asker = Asker::Legacy(gateway.client().unwrap().session().await.unwrap());
        text(
            &asker
                .ask("tools/call", json!({ "name": "eager__pid" }))
                .await,
        );
        gateway.server_is("lazy", "stopped").await.unwrap();
        assert_eq!(stub.starts(), 0);
        let reply = asker.ask(list.method, json!({})).await;
        assert_eq!(missing(&reply), [], "{reply:?}");
        let keys = list.keys(&reply);
        let expected = if list.method == TOOLS.method { 1 } else { 2 };
        let of_it = keys.iter().filter(|key| !key.starts_with("eager__"));
        assert_eq!(of_it.count(), expected, "{keys:?}");
        assert_eq!(stub.starts(), 1);
    }
}

#[tokio::test]
async fn a_lazy_server_that_starts_slowly_held_up_the_list_or_was_never_announced() {
    let (stub, eager) = (Stub::new(), Stub::new());
    let config = config(
        &stub,
        &eager,
        &["gate=open"],
        "[timeouts]\nlist = \"500ms\"\n",
    );
    let gateway = ready(&config, &["eager"]).await;
    let session = gateway.client().unwrap().session().await.unwrap();
    let mut events = session.stream().await.unwrap();
    let asker = Asker::Legacy(session);
    let reply = asker.ask("tools/list", json!({})).await;
    let missing = missing(&reply);
    assert_eq!(missing.len(), 1, "{reply:?}");
    assert_eq!(missing[0].0, "lazy");
    assert!(
        matches!(missing[0].1.as_str(), "starting" | "stopped"),
        "{missing:?}"
    );
    assert!(
        TOOLS
            .keys(&reply)
            .iter()
            .all(|name| name.starts_with("eager__"))
    );
    stub.write("open", "");
    let mut all = vec![
        told(&mut events).await,
        told(&mut events).await,
        told(&mut events).await,
    ];
    all.sort();
    assert_eq!(all, [PROMPTS.changed, RESOURCES.changed, TOOLS.changed]);
    assert!(TOOLS.shown(&asker).await.contains(&"lazy__pid".to_owned()));
    assert_eq!(PROMPTS.shown(&asker).await, ["lazy__l-0", "lazy__l-1"]);
}

#[tokio::test]
async fn a_call_to_a_sleeping_server_was_refused() {
    for (method, params) in [
        ("tools/call", json!({ "name": "lazy__pid" })),
        ("prompts/get", json!({ "name": "lazy__l-1" })),
        ("resources/read", json!({ "uri": "lazy+l://r/0" })),
    ] {
        for modern in [false, true] {
            let (stub, eager) = (Stub::new(), Stub::new());
            let config = config(&stub, &eager, &["gate=open"], "");
            let gateway = ready(&config, &["eager"]).await;
            let [legacy, other] = Asker::both(&gateway.client().unwrap()).await;
            let asker = if modern { other } else { legacy };
            assert_eq!(stub.starts(), 0);
            let call = {
                let (asker, params) = (asker.clone(), params.clone());
                in_background(async move { asker.ask(method, params).await })
            };
            // It waits for the server, which nobody else has woken.
            eventually("the start", || async { (stub.starts() > 0).then_some(()) })
                .await
                .unwrap();
            text(
                &asker
                    .ask("tools/call", json!({ "name": "eager__pid" }))
                    .await,
            );
            assert!(!call.is_finished());
            stub.write("open", "");
            result(&call.await.unwrap());
            assert_eq!(stub.messages(method).len(), 1);
        }
    }
}

#[tokio::test]
async fn an_unknown_name_woke_every_sleeping_server() {
    let (stub, eager) = (Stub::new(), Stub::new());
    let gateway = ready(&config(&stub, &eager, &[], ""), &["eager"]).await;
    let session = gateway.client().unwrap().session().await.unwrap();
    for name in ["eager__nothing", "nothing", "lazier__pid"] {
        let reply = session.call(1, name, "{}").await.unwrap();
        assert_eq!(error(&reply)["code"], -32602, "{name}");
    }
    assert_eq!(stub.starts(), 0);
    // But one that may be its own does, and is then known not to be.
    let reply = session.call(1, "lazy__nothing", "{}").await.unwrap();
    assert_eq!(error(&reply)["code"], -32602, "{reply:?}");
    assert_eq!(stub.starts(), 1);
}

#[tokio::test]
async fn an_idle_lazy_server_stayed_or_lost_its_tools() {
    let (stub, eager) = (Stub::new(), Stub::new());
    let gateway = ready(
        &config(&stub, &eager, &[], "link_idle = \"1s\"\n"),
        &["eager"],
    )
    .await;
    let session = gateway.client().unwrap().session().await.unwrap();
    let mut events = session.stream().await.unwrap();
    let asker = Asker::Legacy(session);
    let call = || asker.ask("tools/call", json!({ "name": "lazy__pid" }));
    let first = text(&call().await);
    let listed = TOOLS.shown(&asker).await;
    assert!(listed.contains(&"lazy__pid".to_owned()));
    // Its lists have come, which was a change, and may be told before or after the client lists.
    for list in LISTS {
        list.shown(&asker).await;
    }
    gateway.server_is("lazy", "stopped").await.unwrap();
    while let Ok(before) = timeout(Duration::from_millis(1), events.next()).await {
        before.unwrap();
    }
    eventually("the end of its processes", || async {
        let starts = std::fs::read_to_string(stub.path("starts")).unwrap();
        let any = starts.lines().any(|pid| is_alive(pid.parse().unwrap()));
        (!any).then_some(())
    })
    .await
    .unwrap();
    let started = stub.starts();
    // Asleep, it is as good as there.
    for list in LISTS {
        let reply = asker.ask(list.method, json!({})).await;
        assert_eq!(missing(&reply), [], "{reply:?}");
    }
    assert_eq!(TOOLS.shown(&asker).await, listed);
    assert_eq!(stub.starts(), started);
    let second = text(&call().await);
    assert_ne!(first, second);
    gateway.server_is("lazy", "ready").await.unwrap();
    assert_eq!(TOOLS.shown(&asker).await, listed);
    // Neither sleeping nor waking was a change: the next one is told first.
    PROMPTS.fill(&stub, &PROMPTS.many("l", 3));
    announce(&stub, 1, &[PROMPTS], 1);
    assert_eq!(told(&mut events).await, PROMPTS.changed);
}

/// On its own path, its capabilities are not known before it is up.
#[tokio::test]
async fn a_sleeping_server_declared_what_it_has_not() {
    let (stub, eager) = (Stub::new(), Stub::new());
    stub.write("capabilities", r#"{"tools":{}}"#);
    let config = config(&stub, &eager, &[], "[timeouts]\nlist = \"2s\"\n");
    let gateway = ready(&config, &["eager"]).await;
    // Also when merged lists wait no more.
    eventually("some time", || async {
        let status = gateway.status().await.ok()?;
        (status["uptime_s"].as_u64()? > 2).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(stub.starts(), 0);
    let session = gateway
        .client_of("/mcp/lazy")
        .unwrap()
        .session()
        .await
        .unwrap();
    let declared = session.hello["capabilities"].as_object().unwrap();
    let declared: Vec<_> = declared.keys().collect();
    assert_eq!(declared, ["tools"]);
}

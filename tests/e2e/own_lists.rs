//! Lists that differ by caller: a server may list by session, and each caller has a process of its own.

use std::time::Duration;

use manifold_testkit::{Session, eventually};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    shelf::{
        Asker, LISTS, List, PROMPTS, RESOURCES, TEMPLATES, TOOLS, alive, announce, announce_only,
        at_work, everything, kill, listening, ready, stocked, three, told,
    },
    stub::{Stub, error, text},
};

/// More than the second that an announcement may take, less than what a client would notice.
const SOON: Duration = Duration::from_millis(1500);

/// Logs in on `session`'s process, which adds an entry to one list.
async fn log_in(session: &Session, list: List, key: &str) {
    let arguments = json!({ "kind": list.file, "key": key }).to_string();
    let reply = session.call(8, "s__login", &arguments).await.unwrap();
    assert_eq!(text(&reply), "logged in");
}

/// S29: a server that lists by session.
#[tokio::test]
async fn a_list_of_one_session_was_hidden_from_it_or_shown_to_all() {
    let stub = Stub::new();
    let gateway = ready(&stocked(&stub, &[]), &["s"]).await;
    let client = gateway.client().unwrap();
    let (inside, insider, mut told_inside) = at_work(&client).await;
    let (_, outsider, mut told_outside) = at_work(&client).await;
    let mut told_modern = listening(&client, everything()).await;
    let modern = Asker::Modern(client.clone());
    for (list, key, exposed, method, params) in [
        (
            TOOLS,
            "secret",
            "s__secret",
            "tools/call",
            json!({ "name": "s__secret" }),
        ),
        (
            PROMPTS,
            "secret",
            "s__secret",
            "prompts/get",
            json!({ "name": "s__secret" }),
        ),
        (
            RESOURCES,
            "secret:1",
            "secret:1",
            "resources/read",
            json!({ "uri": "secret:1" }),
        ),
        (
            TEMPLATES,
            "secret://{x}",
            "secret://{x}",
            "resources/read",
            json!({ "uri": "secret://7" }),
        ),
    ] {
        log_in(&inside, list, key).await;
        assert_eq!(told(&mut told_inside).await, list.changed);
        let exposed = exposed.to_owned();
        assert!(list.shown(&insider).await.contains(&exposed));
        let reply = insider.ask(method, params.clone()).await;
        assert!(reply.message().unwrap()["result"].is_object(), "{reply:?}");
        for other in [&outsider, &modern] {
            assert!(!list.shown(other).await.contains(&exposed));
            let reply = other.ask(method, params.clone()).await;
            let code = error(&reply)["code"].as_i64().unwrap();
            assert!(matches!(code, -32602 | -32002), "{reply:?}");
        }
    }
    assert_eq!(stub.messages("prompts/get").len(), 1);
    assert_eq!(stub.messages("resources/read").len(), 2);
    // The others hear of the next change of theirs, and of nothing before.
    PROMPTS.fill(&stub, &["help"]);
    announce(&stub, 1, &[PROMPTS], 1);
    for events in [&mut told_inside, &mut told_outside, &mut told_modern] {
        assert_eq!(told(events).await, PROMPTS.changed);
    }
    assert_eq!(PROMPTS.shown(&insider).await, ["s__help", "s__secret"]);
    assert_eq!(PROMPTS.shown(&outsider).await, ["s__help"]);
    // With its process goes what that process had.
    kill(&alive(&stub));
    let mut gone = three(&mut told_inside).await;
    gone.dedup();
    assert_eq!(gone, [PROMPTS.changed, RESOURCES.changed, TOOLS.changed]);
    for list in LISTS {
        assert_eq!(list.shown(&insider).await, list.shown(&outsider).await);
    }
    assert!(
        !TOOLS
            .shown(&insider)
            .await
            .contains(&"s__secret".to_owned())
    );
}

/// "Within a second", also for a session whose own link has only said what everybody knew.
#[tokio::test]
async fn a_change_of_ones_own_list_was_told_late() {
    let stub = Stub::new();
    let gateway = ready(&stocked(&stub, &[]), &["s"]).await;
    let (session, _, mut events) = at_work(&gateway.client().unwrap()).await;
    let processes = alive(&stub);
    let [_, own] = &processes[..] else {
        panic!("{processes:?}");
    };
    for round in 1..=4 {
        PROMPTS.fill(&stub, &PROMPTS.many("n", round));
        announce_only(&stub, own, 2 * round, PROMPTS);
        assert_eq!(told(&mut events).await, PROMPTS.changed);
        // It says so again, when it is no news.
        announce_only(&stub, own, 2 * round + 1, PROMPTS);
        stub.was_sent(PROMPTS.method, 2 + 2 * round).await;
    }
    let since = Instant::now();
    log_in(&session, TOOLS, "secret").await;
    assert_eq!(told(&mut events).await, TOOLS.changed);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
}

/// A new version of a server, which its old processes know nothing of.
#[tokio::test]
async fn a_session_was_shown_what_its_own_process_has_not() {
    let stub = Stub::new();
    let gateway = ready(&stocked(&stub, &["keeps"]), &["s"]).await;
    let client = gateway.client().unwrap();
    let (_, old, mut told_old) = at_work(&client).await;
    let fresh = Asker::Legacy(client.session().await.unwrap());
    TOOLS.fill(&stub, &["new"]);
    // The first one is the catalog's.
    kill(&alive(&stub)[..1]);
    let is_new = || async { (TOOLS.shown(&fresh).await == ["s__new"]).then_some(()) };
    eventually("the new tools", is_new).await.unwrap();
    assert_eq!(TOOLS.shown(&old).await, ["s__login", "s__pid"]);
    text(&old.ask("tools/call", json!({ "name": "s__pid" })).await);
    // When its process goes, it is a client like all others.
    kill(&alive(&stub));
    assert_eq!(told(&mut told_old).await, TOOLS.changed);
    assert_eq!(TOOLS.shown(&old).await, ["s__new"]);
}

//! `list_changed`: when a client would be shown something else, and only then.

use std::{sync::Mutex, time::Duration};

use manifold_testkit::{Gateway, HttpStub, LegacyServer, Reaction, eventually};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{
    MANIFOLD,
    shelf::{
        Asker, LISTS, PROMPTS, RESOURCES, TEMPLATES, TOOLS, alive, announce, at_work, everything,
        kill, listening, ready, stocked, three, told,
    },
    stub::{Stub, error, text},
};

/// More than the second that an announcement may take, less than what a client would notice.
const SOON: Duration = Duration::from_millis(1500);

/// S04.
#[tokio::test]
async fn a_late_server_was_never_announced() {
    let stub = Stub::new();
    let config = "[timeouts]\nlist = \"100ms\"\n".to_owned() + &stocked(&stub, &["gate=open"]);
    let gateway = ready(&config, &[]).await;
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let mut legacy = session.stream().await.unwrap();
    let mut modern = listening(&client, everything()).await;
    let askers = [Asker::Legacy(session), Asker::Modern(client)];
    for asker in &askers {
        for list in LISTS {
            assert_eq!(list.shown(asker).await, Vec::<String>::new());
        }
    }
    stub.write("open", "");
    gateway.server_is("s", "ready").await.unwrap();
    let since = Instant::now();
    let all = [PROMPTS.changed, RESOURCES.changed, TOOLS.changed];
    assert_eq!(three(&mut legacy).await, all);
    assert_eq!(three(&mut modern).await, all);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    for asker in &askers {
        for list in LISTS {
            assert_eq!(list.shown(asker).await.len(), 2, "{}", list.method);
        }
    }
    // Once: what is told next is the next change.
    PROMPTS.fill(&stub, &["another"]);
    announce(&stub, 1, &[PROMPTS], 1);
    assert_eq!(told(&mut legacy).await, PROMPTS.changed);
    assert_eq!(told(&mut modern).await, PROMPTS.changed);
}

/// S18: nobody restarts anything.
#[tokio::test]
async fn a_server_that_came_back_was_never_announced() {
    let server = LegacyServer::new("{}");
    let up = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let switch = up.clone();
    let stub = HttpStub::start(move |seen| {
        if switch.load(std::sync::atomic::Ordering::Relaxed) {
            server.react(seen)
        } else {
            Reaction::body(502, "text/html", "<html>Bad Gateway</html>")
        }
    })
    .await
    .unwrap();
    let config = format!(
        "[servers.h]\nurl = {:?}\nrestart = {{ initial = \"100ms\", max = \"200ms\" }}\n",
        stub.url()
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let mut legacy = session.stream().await.unwrap();
    let mut modern = listening(&client, json!({ "toolsListChanged": true })).await;
    up.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(told(&mut legacy).await, TOOLS.changed);
    assert_eq!(told(&mut modern).await, TOOLS.changed);
    for asker in [Asker::Legacy(session), Asker::Modern(client)] {
        assert_eq!(TOOLS.shown(&asker).await, ["h__look"]);
    }
}

/// S29, S30.
#[tokio::test]
async fn a_change_was_told_never_or_again_and_again() {
    let stub = Stub::new();
    let gateway = ready(&stocked(&stub, &[]), &["s"]).await;
    let client = gateway.client().unwrap();
    let (_, one, mut first) = at_work(&client).await;
    let (_, two, mut second) = at_work(&client).await;
    let mut modern = listening(&client, everything()).await;
    let askers = [one, two, Asker::Modern(client.clone())];
    for (round, list) in LISTS.into_iter().enumerate() {
        let asked = stub.messages(list.method).len();
        let keys = [list.many("s", 2), list.many("more", 1)].concat();
        list.fill(&stub, &keys);
        // A burst is one change. Nothing is told before the list is fresh.
        announce(&stub, round + 1, &[list], 200);
        for (asker, events) in askers.iter().zip([&mut first, &mut second, &mut modern]) {
            // Nothing but this one: the changes before were told once.
            assert_eq!(told(events).await, list.changed);
            assert_eq!(list.shown(asker).await.len(), 3, "{}", list.method);
        }
        // A few for each of the three processes, not one for each notification.
        let asked = stub.messages(list.method).len() - asked;
        assert!(asked <= 9, "{asked}");
    }
}

/// S29, S30.
#[tokio::test]
async fn an_announcement_without_a_change_was_passed_on() {
    let stub = Stub::new();
    let gateway = ready(&stocked(&stub, &[]), &["s"]).await;
    let client = gateway.client().unwrap();
    let (_, _, mut legacy) = at_work(&client).await;
    let mut modern = listening(&client, everything()).await;
    let asked = stub.messages(TOOLS.method).len();
    announce(&stub, 1, &[TOOLS, RESOURCES], 50);
    // Both processes were believed, and asked.
    stub.was_sent(TOOLS.method, asked + 2).await;
    PROMPTS.fill(&stub, &["another"]);
    announce(&stub, 2, &[TOOLS, PROMPTS, RESOURCES], 1);
    for events in [&mut legacy, &mut modern] {
        assert_eq!(told(events).await, PROMPTS.changed);
    }
    // What comes after it is the next change.
    RESOURCES.fill(&stub, &["another:1"]);
    announce(&stub, 3, &[RESOURCES], 1);
    for events in [&mut legacy, &mut modern] {
        assert_eq!(told(events).await, RESOURCES.changed);
    }
}

/// S29: on one stream, whichever.
#[tokio::test]
async fn two_streams_of_a_session_were_both_told() {
    let stub = Stub::new();
    let gateway = ready(&stocked(&stub, &[]), &["s"]).await;
    let session = gateway.client().unwrap().session().await.unwrap();
    let mut one = session.stream().await.unwrap();
    let mut two = session.stream().await.unwrap();
    let mut counts = [0, 0];
    for round in 1..=4 {
        let kinds = [TOOLS, PROMPTS];
        let list = kinds[round % 2];
        list.fill(&stub, &list.many("n", round + 3));
        announce(&stub, round, &[list], 1);
        // Had the other been told as well, it would show a change that is over.
        let which = tokio::select! {
            said = told(&mut one) => { assert_eq!(said, list.changed); 0 }
            said = told(&mut two) => { assert_eq!(said, list.changed); 1 }
        };
        counts[which] += 1;
    }
    // A stream that is left does not take the word with it.
    drop(one);
    TOOLS.fill(&stub, &["last"]);
    announce(&stub, 5, &[TOOLS], 1);
    assert_eq!(told(&mut two).await, TOOLS.changed, "{counts:?}");
}

/// A list that a client was shown in its new form need not be told of, the others must.
#[tokio::test]
async fn listing_one_kind_hid_the_change_of_another() {
    for (changed, listed) in [
        (TOOLS, PROMPTS),
        (PROMPTS, TOOLS),
        (TEMPLATES, RESOURCES),
        (RESOURCES, TEMPLATES),
    ] {
        let stub = Stub::new();
        let gateway = ready(&stocked(&stub, &[]), &["s"]).await;
        let client = gateway.client().unwrap();
        let session = client.session().await.unwrap();
        let asker = Asker::Legacy(session.clone());
        for list in LISTS {
            list.shown(&asker).await;
        }
        changed.fill(&stub, &changed.many("new", 3));
        announce(&stub, 1, &[changed], 1);
        // Another client sees that it has arrived.
        let other = Asker::Modern(client);
        let is_new = || async { (changed.shown(&other).await.len() == 3).then_some(()) };
        eventually("the change", is_new).await.unwrap();
        listed.shown(&asker).await;
        let mut events = session.stream().await.unwrap();
        // A change that comes later, so that the test ends when nothing is told.
        let later = if changed.method == TOOLS.method {
            PROMPTS
        } else {
            TOOLS
        };
        later.fill(&stub, &later.many("later", 4));
        announce(&stub, 2, &[later], 1);
        let word = told(&mut events).await;
        assert_eq!(
            word, changed.changed,
            "{} {}",
            changed.method, listed.method
        );
    }
}

/// Nobody need be told of what it has been shown already.
#[tokio::test]
async fn a_client_was_told_of_what_it_had_listed_itself() {
    let stub = Stub::new();
    let gateway = ready(&stocked(&stub, &[]), &["s"]).await;
    let session = gateway.client().unwrap().session().await.unwrap();
    let asker = Asker::Legacy(session.clone());
    for list in LISTS {
        list.fill(&stub, &list.many("new", 3));
    }
    announce(&stub, 1, &[TOOLS, PROMPTS, RESOURCES], 1);
    for list in LISTS {
        let is_new = || async { (list.shown(&asker).await.len() == 3).then_some(()) };
        eventually("the change", is_new).await.unwrap();
    }
    // Both kinds of resources are known to be there: whichever came first is listed again.
    RESOURCES.shown(&asker).await;
    let mut events = session.stream().await.unwrap();
    for (round, list) in [PROMPTS, TOOLS, TEMPLATES].into_iter().enumerate() {
        list.fill(&stub, &list.many("later", 1));
        announce(&stub, round + 2, &[list], 1);
        assert_eq!(told(&mut events).await, list.changed);
    }
}

/// A modern client hears of what it has asked for, and under its own name.
#[tokio::test]
async fn a_listener_was_told_of_other_lists() {
    let stub = Stub::new();
    let gateway = ready(&stocked(&stub, &[]), &["s"]).await;
    let client = gateway.client().unwrap();
    let mut prompts = listening(&client, json!({ "promptsListChanged": true })).await;
    let mut tools = listening(&client, json!({ "toolsListChanged": true })).await;
    TOOLS.fill(&stub, &["new"]);
    announce(&stub, 1, &[TOOLS], 1);
    let message = tools.next().await.unwrap().unwrap();
    assert_eq!(message["method"], TOOLS.changed);
    let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(id, "listen", "{message}");
    PROMPTS.fill(&stub, &["new"]);
    announce(&stub, 2, &[PROMPTS], 1);
    assert_eq!(told(&mut prompts).await, PROMPTS.changed);
    TOOLS.fill(&stub, &["newer"]);
    announce(&stub, 3, &[TOOLS], 1);
    assert_eq!(told(&mut tools).await, TOOLS.changed);
}

/// What is not acknowledged is not to be expected.
#[tokio::test]
async fn a_listener_was_promised_what_the_path_has_not() {
    let stub = Stub::new();
    stub.write("capabilities", r#"{"prompts":{}}"#);
    let gateway = ready(&stocked(&stub, &[]), &["s"]).await;
    let client = gateway.client_of("/mcp/s").unwrap();
    let mut wanted = everything();
    wanted["resourceSubscriptions"] = json!([]);
    wanted["later"] = json!(true);
    let mut events = client.listen(wanted).await.unwrap();
    let first = events.next().await.unwrap().unwrap();
    let honoured = &first["params"]["notifications"];
    assert_eq!(*honoured, json!({ "promptsListChanged": true }), "{first}");
    for wrong in [
        json!(null),
        json!("tools"),
        json!({ "toolsListChanged": 1 }),
        json!([]),
    ] {
        let params = json!({ "notifications": wrong });
        // A stream would not end.
        let reply = client.modern("subscriptions/listen", params);
        let reply = timeout(Duration::from_secs(10), reply).await;
        let reply = reply
            .unwrap_or_else(|_| panic!("{wrong} was taken"))
            .unwrap();
        assert_eq!(error(&reply)["code"], -32602, "{wrong}");
    }
}

/// S02, S29.
#[tokio::test]
async fn a_server_that_came_back_with_other_tools_went_unnoticed() {
    let stub = Stub::new();
    let gateway = ready(&stocked(&stub, &[]), &["s"]).await;
    let client = gateway.client().unwrap();
    let (_, legacy, mut session_events) = at_work(&client).await;
    let mut modern_events = listening(&client, everything()).await;
    let modern = Asker::Modern(client);
    text(&modern.ask("tools/call", json!({ "name": "s__pid" })).await);
    for list in LISTS {
        list.fill(&stub, &list.many("new", 1));
    }
    kill(&alive(&stub));
    let all = [PROMPTS.changed, RESOURCES.changed, TOOLS.changed];
    assert_eq!(three(&mut session_events).await, all);
    assert_eq!(three(&mut modern_events).await, all);
    for asker in [&legacy, &modern] {
        assert_eq!(TOOLS.shown(asker).await, ["s__new-0"]);
        assert_eq!(PROMPTS.shown(asker).await, ["s__new-0"]);
        assert_eq!(RESOURCES.shown(asker).await, RESOURCES.many("new", 1));
        assert_eq!(TEMPLATES.shown(asker).await, TEMPLATES.many("new", 1));
        let reply = asker.ask("tools/call", json!({ "name": "s__pid" })).await;
        assert_eq!(error(&reply)["code"], -32602);
    }
    // A restart without a change is none.
    let starts = stub.starts();
    kill(&alive(&stub));
    let is_started = || async { (stub.starts() > starts).then_some(()) };
    eventually("the restart", is_started).await.unwrap();
    gateway.server_is("s", "ready").await.unwrap();
    PROMPTS.fill(&stub, &["newest"]);
    announce(&stub, 1, &[PROMPTS], 1);
    assert_eq!(told(&mut session_events).await, PROMPTS.changed);
    assert_eq!(told(&mut modern_events).await, PROMPTS.changed);
}

/// Processes that die together are no crash loop.
#[tokio::test]
async fn a_server_that_was_back_refused_the_clients_it_had_lost() {
    let stub = Stub::new();
    let gateway = ready(&stocked(&stub, &[]), &["s"]).await;
    let client = gateway.client().unwrap();
    let mut sessions = Vec::new();
    for _ in 0..8 {
        let (session, ..) = at_work(&client).await;
        sessions.push(session);
    }
    let starts = stub.starts();
    kill(&alive(&stub));
    let is_started = || async { (stub.starts() > starts).then_some(()) };
    eventually("the restart", is_started).await.unwrap();
    gateway.server_is("s", "ready").await.unwrap();
    let last = Mutex::default();
    let calls = async {
        for session in &sessions {
            let call = || async {
                let reply = session.call(2, "s__pid", "{}").await.unwrap();
                *last.lock().unwrap() = reply.message().unwrap();
                reply.message().unwrap()["result"].is_object().then_some(())
            };
            eventually("a call that works", call).await.unwrap();
        }
    };
    // Eight starts, and no wait for anything.
    let done = timeout(Duration::from_secs(10), calls).await;
    assert!(done.is_ok(), "{}", last.lock().unwrap());
}

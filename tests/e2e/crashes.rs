//! Servers that die.

use std::time::Duration;

use manifold_testkit::{Gateway, Session, eventually};
use serde_json::Value;
use tokio::{process::Command, task::JoinSet, time::timeout};

use crate::{
    MANIFOLD,
    stub::{Stub, error, in_background, names, text},
};

async fn kill(pid: &str) {
    let status = Command::new("kill").args(["-KILL", pid]).status().await;
    assert!(status.unwrap().success());
}

async fn pid(session: &Session, tool: &str) -> String {
    text(&session.call(1, tool, "{}").await.unwrap())
}

/// S02.
#[tokio::test]
async fn a_crashed_server_was_never_noticed() {
    let (stub, other) = (Stub::new(), Stub::new());
    let config = stub.server("b", &[]) + &other.server("a", &[]);
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    let (victim, healthy) = (pid(&session, "b__pid").await, pid(&session, "a__pid").await);
    let calling = {
        let session = session.clone();
        in_background(async move { session.call(77, "b__wait", r#"{"file":"never"}"#).await })
    };
    stub.was_sent("tools/call", 2).await;
    kill(&victim).await;
    // At once: far sooner than the call's time is up.
    let reply = timeout(Duration::from_secs(10), calling).await.unwrap();
    let reply = reply.unwrap().unwrap();
    assert_eq!(reply.message().unwrap()["id"], 77);
    let lost = error(&reply);
    assert_eq!(lost["code"], 51012, "{lost}");
    assert_eq!(lost["data"]["server"], "b", "{lost}");
    assert_eq!(pid(&session, "a__pid").await, healthy);
    // The client has done nothing, and the next call works.
    let next = pid(&session, "b__pid").await;
    assert_ne!(next, victim);
    assert_eq!(pid(&session, "b__pid").await, next);
    assert_eq!(pid(&session, "a__pid").await, healthy);
    let exit = eventually("the exit in /status", || async {
        let status = gateway.server_is("b", "ready").await.ok()?;
        status["last_exit"]
            .is_object()
            .then(|| status["last_exit"].clone())
    })
    .await
    .unwrap();
    assert_eq!(exit["signal"], "SIGKILL", "{exit}");
    assert_eq!(exit["code"], Value::Null, "{exit}");
}

/// S02, for the child that the lists come from.
#[tokio::test]
async fn tools_stayed_dead_after_the_lister_crashed() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("b", &[]))
        .await
        .unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    let own = pid(&session, "b__pid").await;
    let status = gateway.server_is("b", "ready").await.unwrap();
    let links = status["links"].as_array().unwrap();
    let lister = links.iter().find(|link| link["use"] == "catalog").unwrap();
    let lister = lister["pid"].as_u64().unwrap();
    kill(&lister.to_string()).await;
    // Calls on the session's own child don't notice.
    assert_eq!(pid(&session, "b__pid").await, own);
    let again = eventually("a new lister", || async {
        let status = gateway.server_is("b", "ready").await.ok()?;
        let links = status["links"].as_array()?.clone();
        links
            .into_iter()
            .find(|link| link["use"] == "catalog" && link["pid"] != lister)?;
        Some(status)
    })
    .await
    .unwrap();
    assert_eq!(again["restarts"], 1, "{again}");
    assert_eq!(pid(&session, "b__pid").await, own);
    let listed = session.request(2, "tools/list", "{}").await.unwrap();
    assert!(names(&listed).contains(&"b__pid".to_owned()), "{listed:?}");
}

/// S03.
#[tokio::test]
async fn clients_made_a_dying_server_start_again_and_again() {
    const CLIENTS: u64 = 20;
    let (bad, good) = (Stub::new(), Stub::new());
    let starts = bad.path("starts");
    let line = format!("echo $$ >>'{}'; echo boom >&2; exit 1", starts.display());
    // Nothing but a client could start it again.
    let config = format!(
        "[servers.bad]\ncommand = \"sh\"\nargs = [\"-c\", {line:?}]\n\
         restart = {{ initial = \"10m\", max = \"10m\" }}\n{}",
        good.server("good", &[])
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let status = gateway.server_is("bad", "backoff").await.unwrap();
    let client = gateway.client().unwrap();
    let mut clients = JoinSet::new();
    for i in 0..CLIENTS {
        let client = client.clone();
        clients.spawn(async move {
            let session = client.session().await.unwrap();
            let listed = session.request(1, "tools/list", "{}").await.unwrap();
            assert!(names(&listed).iter().all(|name| name.starts_with("good__")));
            let message = listed.message().unwrap();
            let missing = &message["result"]["_meta"]["dev.manifold/unavailable"];
            assert_eq!(missing[0]["server"], "bad", "{missing}");
            assert_eq!(missing[0]["state"], "backoff", "{missing}");
            assert!(missing[0]["reason"].is_string(), "{missing}");
            let arguments = format!(r#"{{"i":{i}}}"#);
            let reply = session.call(2, "good__echo", &arguments).await.unwrap();
            assert_eq!(text(&reply), format!(r#"{{"i": {i}}}"#));
            let down = error(&session.call(3, "bad__anything", "{}").await.unwrap());
            assert_eq!(down["code"], 51010, "{down}");
            assert_eq!(down["data"]["server"], "bad", "{down}");
            assert_eq!(down["data"]["state"], "backoff", "{down}");
            assert!(down["data"]["reason"].is_string(), "{down}");
            assert!(down["data"]["retry_after_ms"].is_u64(), "{down}");
            // What it said is the operator's.
            assert!(!down.to_string().contains("boom"), "{down}");
        });
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    assert_eq!(bad.starts(), 1, "{}", gateway.log_text());
    assert!(
        status["last_error"].as_str().unwrap().contains("code 1"),
        "{status}"
    );
    assert_eq!(status["last_exit"]["code"], 1, "{status}");
    assert!(status["next_retry_at"].is_string(), "{status}");
    assert!(
        status["stderr_tail"].to_string().contains("boom"),
        "{status}"
    );
}

/// An operator who has repaired it need not wait for the backoff.
#[tokio::test]
async fn a_repaired_server_came_back_only_with_the_gateway() {
    let stub = Stub::new();
    let repaired = stub.path("repaired");
    let line = format!("test -e '{}' || exit 3; exec \"$@\"", repaired.display());
    let section = stub.server("s", &[]);
    let (_, rest) = section.split_once("command = ").unwrap();
    let (program, args) = rest.split_once("\nargs = [").unwrap();
    let config = format!(
        "[servers.s]\ncommand = \"sh\"\nargs = [\"-c\", {line:?}, \"sh\", {program}, {args}\
         restart = {{ initial = \"10m\", max = \"10m\" }}\n"
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    gateway.server_is("s", "backoff").await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    assert_eq!(
        error(&session.call(1, "s__echo", "{}").await.unwrap())["code"],
        51010
    );
    stub.write("repaired", "");
    let reply = gateway.admin("POST", "/servers/s/restart").await.unwrap();
    assert_eq!(reply.status, 202, "{reply:?}");
    gateway.server_is("s", "ready").await.unwrap();
    assert_eq!(text(&session.call(2, "s__echo", "{}").await.unwrap()), "{}");
}

#[tokio::test]
async fn why_a_server_dies_was_forgotten_with_each_new_try() {
    let script = "sleep 0.5; echo boom >&2; exit 3";
    let config = format!(
        "[servers.dies]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\nrestart = {{ initial = \"100ms\", max = \"100ms\" }}\n"
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    // In the middle of its third life, of which nothing is known yet.
    let third = || async {
        let status = gateway.status().await.ok()?;
        let server = status["servers"][0].clone();
        let is_third = server["restarts"].as_u64()? >= 2 && server["state"] == "starting";
        is_third.then_some(server)
    };
    let server = eventually("the third start", third).await.unwrap();
    assert_eq!(
        server["stderr_tail"],
        serde_json::json!(["boom"]),
        "{server}"
    );
    assert_eq!(server["last_exit"]["code"], 3);
}

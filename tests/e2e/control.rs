//! Cancels, timeouts and progress belong to one call.

use std::time::Duration;

use manifold_testkit::{Events, Gateway, Session, eventually};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    MANIFOLD,
    stub::{Stub, error, in_background, text},
};

const WAIT: &str = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"s__wait","arguments":{"file":"go"}}}"#;

fn cancel(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"enough"}}}}"#
    )
}

async fn cancelled(stub: &Stub, count: usize) -> Vec<Value> {
    let sent = stub.was_sent("notifications/cancelled", count).await;
    sent.iter()
        .map(|sent| sent["params"]["requestId"].clone())
        .collect()
}

fn waiting(session: &Session) -> tokio::task::JoinHandle<manifold_testkit::Reply> {
    let session = session.clone();
    in_background(async move { session.post(WAIT).await.unwrap() })
}

/// S31.
#[tokio::test]
async fn a_cancel_hit_the_call_of_another_session() {
    let stub = Stub::new();
    let config = stub.server("s", &[]) + "isolation = \"shared\"\n";
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let (one, two) = (
        client.session().await.unwrap(),
        client.session().await.unwrap(),
    );
    let first = waiting(&one);
    let downstream = stub.was_sent("tools/call", 1).await[0]["id"].clone();
    let second = waiting(&two);
    stub.was_sent("tools/call", 2).await;
    // Ids that are not it, though they look alike.
    let theirs = downstream.to_string();
    assert_ne!(theirs, "5");
    for id in ["6", "\"5\"", "5.5", theirs.as_str(), "null"] {
        assert_eq!(one.post(&cancel(id)).await.unwrap().status, 202);
    }
    text(&one.call(7, "s__pid", "{}").await.unwrap());
    assert!(!first.is_finished());
    assert!(stub.messages("notifications/cancelled").is_empty());
    assert_eq!(one.post(&cancel("5")).await.unwrap().status, 202);
    // The call's own answer ends, without an answer to it.
    let ended = timeout(Duration::from_secs(10), first)
        .await
        .unwrap()
        .unwrap();
    assert!(!ended.body.contains("\"id\":5"), "{ended:?}");
    assert_eq!(cancelled(&stub, 1).await, [downstream]);
    stub.write("go", "");
    let other = second.await.unwrap();
    assert_eq!(text(&other), "waited");
    assert_eq!(other.message().unwrap()["id"], 5);
    // Too late, and nobody is told.
    assert_eq!(two.post(&cancel("5")).await.unwrap().status, 202);
    assert_eq!(one.post(&cancel("5")).await.unwrap().status, 202);
    text(&two.call(6, "s__pid", "{}").await.unwrap());
    assert_eq!(cancelled(&stub, 1).await.len(), 1);
}

/// S31: it must not queue behind the call, and a call still on its way to a starting server is one too.
#[tokio::test]
async fn a_cancel_waited_for_the_server_to_start() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &["gate=open"]))
        .await
        .unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    let call = waiting(&session);
    eventually("the call to be there", || async {
        session.post(&cancel("5")).await.ok()?;
        call.is_finished().then_some(())
    })
    .await
    .unwrap();
    let ended = call.await.unwrap();
    assert!(!ended.body.contains("\"id\":5"), "{ended:?}");
    stub.write("open", "");
    gateway.server_is("s", "ready").await.unwrap();
    text(&session.call(6, "s__pid", "{}").await.unwrap());
    assert_eq!(stub.messages("tools/call").len(), 1);
    assert_eq!(stub.messages("notifications/cancelled").len(), 0);
}

/// S31.
#[tokio::test]
async fn a_call_that_timed_out_ran_on() {
    let stub = Stub::new();
    let config = stub.server("s", &[]) + "timeouts = { request = \"1s\" }\n";
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let reply = session.post(WAIT).await.unwrap();
    assert_eq!(reply.message().unwrap()["id"], 5);
    let late = error(&reply);
    assert_eq!(late["code"], 51013, "{late}");
    assert_eq!(late["data"]["server"], "s", "{late}");
    let call = stub.was_sent("tools/call", 1).await[0]["id"].clone();
    assert_eq!(cancelled(&stub, 1).await, [call]);
    let params = json!({ "name": "s__wait", "arguments": { "file": "go" } });
    let late = error(&client.modern("tools/call", params).await.unwrap());
    assert_eq!(late["code"], 51013, "{late}");
    assert_eq!(cancelled(&stub, 2).await.len(), 2);
    text(&session.call(6, "s__pid", "{}").await.unwrap());
}

/// S31: a modern client's going is its cancel; a legacy client's is none.
#[tokio::test]
async fn a_client_that_went_away_was_taken_for_the_wrong_thing() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &[]))
        .await
        .unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let legacy = waiting(&session);
    stub.was_sent("tools/call", 1).await;
    legacy.abort();
    assert!(legacy.await.unwrap_err().is_cancelled());
    let modern = {
        let client = client.clone();
        let params = json!({ "name": "s__wait", "arguments": { "file": "go" } });
        in_background(async move { client.modern("tools/call", params).await })
    };
    stub.was_sent("tools/call", 2).await;
    modern.abort();
    assert!(modern.await.unwrap_err().is_cancelled());
    // Only the modern one's, on the modern one's link: the other link's child has one call, and it runs on.
    cancelled(&stub, 1).await;
    let in_flight = || async {
        let status = gateway.server_is("s", "ready").await.ok()?;
        let links = status["links"].as_array()?.clone();
        let of = |kind: &str| links.iter().find(|link| link["use"] == kind)?["in_flight"].as_u64();
        (of("session") == Some(1) && of("principal") == Some(0)).then_some(())
    };
    eventually("the legacy call to run on alone", in_flight)
        .await
        .unwrap();
    stub.write("go", "");
    eventually("the end of the legacy call", || async {
        let status = gateway.server_is("s", "ready").await.ok()?;
        let links = status["links"].as_array()?.clone();
        links
            .iter()
            .all(|link| link["in_flight"] == 0)
            .then_some(())
    })
    .await
    .unwrap();
    assert_eq!(stub.messages("notifications/cancelled").len(), 1);
}

/// S32.
#[tokio::test]
async fn progress_went_to_another_client_or_under_another_token() {
    let stub = Stub::new();
    let config = stub.server("s", &[]) + "isolation = \"shared\"\n";
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let sessions = [
        client.session().await.unwrap(),
        client.session().await.unwrap(),
        client.session().await.unwrap(),
    ];
    let call = |meta: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"s__progress","arguments":{{}}{meta}}}}}"#
        )
    };
    let [one, word, none] = [
        call(r#","_meta":{"progressToken":1}"#),
        call(r#","_meta":{"progressToken":"1"}"#),
        call(""),
    ];
    // The others can hear what is not theirs.
    let mut ears = Vec::new();
    for session in &sessions {
        let headers = [
            ("mcp-session-id", session.id.as_str()),
            ("accept", "text/event-stream"),
        ];
        ears.push(Events::of(client.open("GET", &headers, "").await.unwrap()).unwrap());
    }
    let again = sessions[0].post(&one);
    let (a, b, c, d) = tokio::join!(
        sessions[0].post(&one),
        sessions[1].post(&word),
        sessions[2].post(&none),
        again
    );
    for (reply, token) in [(a, json!(1)), (b, json!("1")), (d, json!(1))] {
        let mut messages = reply.unwrap().messages().unwrap();
        let answer = messages.pop().unwrap();
        assert_eq!(answer["id"], 1, "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], "done");
        // Its own ten, in order, and none after the answer.
        let expected: Vec<_> = (1..=10)
            .map(|done| json!({ "progressToken": token, "progress": done, "total": 10 }))
            .collect();
        let seen: Vec<_> = messages
            .iter()
            .map(|message| message["params"].clone())
            .collect();
        assert_eq!(seen, expected);
    }
    let messages = c.unwrap().messages().unwrap();
    assert_eq!(messages.len(), 1, "{messages:?}");
    // Their sessions' ends: nothing was on the other streams.
    for (session, mut ear) in sessions.iter().zip(ears) {
        session.delete().await.unwrap();
        assert_eq!(ear.next().await.unwrap(), None);
    }
    let asked = stub.messages("tools/call");
    let tokens: Vec<_> = asked
        .iter()
        .map(|call| call["params"]["_meta"]["progressToken"].clone())
        .collect();
    let without = tokens.iter().filter(|token| token.is_null()).count();
    assert_eq!((tokens.len(), without), (4, 1), "{asked:?}");
}

/// S36: a client sees how far a call is while it runs.
#[tokio::test]
async fn progress_came_only_with_the_answer() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &[]))
        .await
        .unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__wait","arguments":{"file":"go"},"_meta":{"progressToken":"t"}}}"#;
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-session-id", session.id.as_str()),
    ];
    let response = client.open("POST", &headers, call).await.unwrap();
    assert_eq!(
        response.headers()["cache-control"],
        "no-cache, no-transform"
    );
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    assert!(!response.headers().contains_key("content-encoding"));
    let mut events = Events::of(response).unwrap();
    let update = events.next().await.unwrap().unwrap();
    assert_eq!(update["params"]["progressToken"], "t", "{update}");
    stub.write("go", "");
    let answer = events.next().await.unwrap().unwrap();
    assert_eq!(answer["id"], 1, "{answer}");
    assert_eq!(events.next().await.unwrap(), None);
}

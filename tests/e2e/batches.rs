//! Arrays of messages, which only sessions of 2025-03-26 may send.

use manifold_testkit::{Client, Events, Gateway, Reply, Session};
use serde_json::{Value, json};

use crate::{
    MANIFOLD,
    stub::{Stub, error, in_background, text},
};

const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
const JSON: (&str, &str) = ("accept", "application/json");
const EVENTS: (&str, &str) = ("accept", "text/event-stream");

fn ping(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

fn call(id: &str, tool: &str, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"s__{tool}","arguments":{{"file":"go"}}{more}}}}}"#
    )
}

fn batch(elements: &[&str]) -> String {
    format!("[{}]", elements.join(","))
}

/// A session of that version, opened by hand.
async fn session(client: &Client, version: &str) -> Session {
    let hello = HELLO.replace("2025-03-26", version);
    let reply = client.post(&[], &hello).await.unwrap();
    let hello = reply.message().unwrap()["result"].take();
    assert_eq!(hello["protocolVersion"], version);
    Session {
        client: client.clone(),
        id: reply.headers["mcp-session-id"].to_str().unwrap().to_owned(),
        hello,
    }
}

async fn gateway(stub: &Stub) -> (Gateway, Session) {
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &[]))
        .await
        .unwrap();
    gateway.server_is("s", "ready").await.unwrap();
    let client = gateway.client().unwrap();
    let session = session(&client, "2025-03-26").await;
    (gateway, session)
}

async fn send(session: &Session, accept: (&str, &str), body: &str) -> Reply {
    let headers = [
        ("content-type", "application/json"),
        accept,
        ("mcp-session-id", session.id.as_str()),
    ];
    session.client.send("POST", &headers, body).await.unwrap()
}

/// The answers to a batch, in whatever form, in the order of their ids.
fn answers(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let messages = reply.messages().unwrap();
    let mut answers = if reply.headers["content-type"] == "application/json" {
        let Value::Array(answers) = messages[0].clone() else {
            panic!("no array: {reply:?}");
        };
        answers
    } else {
        // Each for itself: an event is a message.
        messages
    };
    assert!(answers.iter().all(Value::is_object), "{reply:?}");
    answers.sort_by_key(|answer| answer["id"].to_string());
    answers
}

fn codes(answers: &[Value]) -> Vec<(Value, Value)> {
    let each = answers.iter();
    each.map(|answer| (answer["id"].clone(), answer["error"]["code"].clone()))
        .collect()
}

/// S41.
#[tokio::test]
async fn a_batch_of_the_revision_that_has_them_was_refused() {
    let stub = Stub::new();
    let (_gateway, session) = gateway(&stub).await;
    for accept in [JSON, EVENTS, ("accept", "*/*")] {
        let one = send(&session, accept, &batch(&[&call("1", "echo", "")])).await;
        let one = answers(&one);
        assert_eq!(one.len(), 1);
        assert_eq!(one[0]["result"]["content"][0]["text"], r#"{"file": "go"}"#);
        // Requests alone are answered, each with its own id.
        let elements = [
            &call("1", "echo", ""),
            NOTE,
            &ping("\"1\""),
            ANSWER,
            &call("2", "nope", ""),
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":null}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"no/such"}"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"tools/list","params":[]}"#,
        ];
        let mixed = send(&session, accept, &batch(&elements)).await;
        let mixed = answers(&mixed);
        let none = Value::Null;
        assert_eq!(
            codes(&mixed),
            [
                (json!("1"), none.clone()),
                (json!(1), none.clone()),
                (json!(2), json!(-32602)),
                (json!(3), none),
                (json!(4), json!(-32601)),
                (json!(5), json!(-32602)),
            ]
        );
        assert_eq!(mixed[3]["result"]["tools"][0]["name"], "s__echo");
        // Two with one id are two requests.
        let twins = format!(
            "[ {} ,\r\n{} ]",
            call("7", "pid", ""),
            call("7", "echo", "")
        );
        let twins = answers(&send(&session, accept, &twins).await);
        let ids: Vec<_> = twins.iter().map(|answer| answer["id"].clone()).collect();
        assert_eq!(ids, [json!(7), json!(7)]);
        assert_ne!(twins[0]["result"], twins[1]["result"]);
    }
    // One, one and two calls each time.
    assert_eq!(stub.messages("tools/call").len(), 3 * 4);
    for line in stub.lines() {
        assert!(line.starts_with('{'), "{line}");
    }
}

/// S35, S41.
#[tokio::test]
async fn a_batch_without_requests_was_answered() {
    let stub = Stub::new();
    let (_gateway, session) = gateway(&stub).await;
    for elements in [&[NOTE][..], &[ANSWER], &[NOTE, ANSWER, NOTE]] {
        for accept in [JSON, EVENTS] {
            let reply = send(&session, accept, &batch(elements)).await;
            assert_eq!(reply.status, 202, "{elements:?}: {reply:?}");
            assert_eq!(reply.body, "");
            assert!(!reply.headers.contains_key("content-type"), "{reply:?}");
        }
    }
}

/// S41: JSON-RPC answers each of them, and what is no request goes nowhere.
#[tokio::test]
async fn elements_that_are_no_messages_went_through_or_broke_the_others() {
    let stub = Stub::new();
    let (_gateway, session) = gateway(&stub).await;
    let nested = batch(&[&call("1", "echo", "")]);
    for (element, id) in [
        ("1", json!(null)),
        ("null", json!(null)),
        ("\"x\"", json!(null)),
        ("[]", json!(null)),
        ("{}", json!(null)),
        (nested.as_str(), json!(null)),
        (r#"{"id":8,"method":"ping"}"#, json!(8)),
        (r#"{"jsonrpc":"2.0","id":8}"#, json!(8)),
        (
            r#"{"jsonrpc":"2.0","id":8,"id":9,"method":"ping"}"#,
            json!(8),
        ),
    ] {
        let alone = answers(&send(&session, JSON, &batch(&[element])).await);
        assert_eq!(codes(&alone), [(id.clone(), json!(-32600))], "{element}");
        for accept in [JSON, EVENTS] {
            let among = batch(&[element, &ping("9"), element]);
            let mut among = answers(&send(&session, accept, &among).await);
            among.retain(|answer| answer["result"].is_null());
            let fault = (id.clone(), json!(-32600));
            assert_eq!(codes(&among), [fault.clone(), fault], "{element}");
        }
    }
    assert!(stub.messages("tools/call").is_empty());
}

/// S41.
#[tokio::test]
async fn a_batch_that_can_not_be_went_through_half() {
    let stub = Stub::new();
    let (_gateway, session) = gateway(&stub).await;
    let work = call("2", "echo", "");
    let long = vec![work.as_str(); 257];
    for (body, code) in [
        ("[]".to_owned(), -32600),
        (" [ \r\n ] ".to_owned(), -32600),
        (batch(&[&work, HELLO]), -32600),
        (batch(&[HELLO]), -32600),
        (batch(&long), -32600),
        (format!("[{work}"), -32700),
        (format!("[{work},]"), -32700),
        (format!("[{work}] {work}"), -32700),
        (format!("[{work} {work}]"), -32700),
    ] {
        let reply = session.post(&body).await.unwrap();
        assert_eq!(reply.status, 400, "{reply:?}");
        let told = error(&reply);
        assert_eq!(told["code"], code, "{reply:?}");
        assert!(reply.message().unwrap()["id"].is_null());
        assert!(!reply.headers.contains_key("mcp-session-id"));
        if body.matches("tools/call").count() == 257 {
            assert!(told["message"].to_string().contains("256"), "{told}");
        }
    }
    assert!(stub.messages("tools/call").is_empty());
    // As many as there may be.
    let pings: Vec<_> = (0..256).map(|id| ping(&id.to_string())).collect();
    let pings: Vec<_> = pings.iter().map(String::as_str).collect();
    let replies = answers(&send(&session, JSON, &batch(&pings)).await);
    assert_eq!(replies.len(), 256);
}

/// S41.
#[tokio::test]
async fn a_batch_of_another_revision_went_through() {
    let stub = Stub::new();
    let (gateway, old) = gateway(&stub).await;
    let client = gateway.client().unwrap();
    let work = call("1", "echo", "");
    let fields = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let bodies = [
        "[]".to_owned(),
        "[1]".to_owned(),
        batch(&[&work]),
        batch(&[&work, &work]),
        batch(&[NOTE]),
        batch(&[&work, NOTE, ANSWER]),
        format!("\t[{}]", batch(&[&work])),
        batch(&[HELLO, &work]),
        batch(&[&call("1", "echo", fields)]),
    ];
    let mut sessions = Vec::new();
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        sessions.push(session(&client, version).await);
    }
    let mut ways: Vec<Vec<(&str, &str)>> = vec![vec![]];
    for session in &sessions {
        ways.push(vec![("mcp-session-id", &session.id)]);
    }
    let modern = ("mcp-protocol-version", "2026-07-28");
    ways.push(vec![modern]);
    ways.push(vec![
        modern,
        ("mcp-method", "tools/call"),
        ("mcp-name", "s__echo"),
    ]);
    ways.push(vec![modern, ("mcp-session-id", &old.id)]);
    ways.push(vec![
        ("mcp-protocol-version", "foobar"),
        ("mcp-session-id", &old.id),
    ]);
    for headers in ways {
        for body in &bodies {
            let reply = client.post(&headers, body).await.unwrap();
            assert_eq!(reply.status, 400, "{headers:?} {body}: {reply:?}");
            assert_eq!(error(&reply)["code"], -32600, "{headers:?} {body}");
            assert!(reply.message().unwrap()["id"].is_null(), "{reply:?}");
            assert!(!reply.headers.contains_key("mcp-session-id"));
        }
        let reply = client.post(&headers, "[{").await.unwrap();
        assert_eq!(error(&reply)["code"], -32700, "{headers:?}");
    }
    assert!(stub.messages("tools/call").is_empty());
    // And the one that may: with its session, on its path.
    let headers = [("mcp-session-id", old.id.as_str())];
    let own = client.post(&headers, &batch(&[&work])).await.unwrap();
    assert_eq!(answers(&own).len(), 1);
}

/// S12, S41: a client that sends batches finds out that its session is gone like any other.
#[tokio::test]
async fn a_batch_of_a_session_that_is_gone_was_refused_for_being_one() {
    let stub = Stub::new();
    let (gateway, old) = gateway(&stub).await;
    let alone = gateway.client_of("/mcp/s").unwrap();
    let work = batch(&[&call("1", "echo", "")]);
    let own = [("mcp-session-id", old.id.as_str())];
    let reply = alone.post(&own, &work).await.unwrap();
    assert_eq!(reply.status, 404, "{reply:?}");
    assert_eq!(old.delete().await.unwrap().status, 204);
    for id in [
        old.id.as_str(),
        "garbage",
        "00000000-0000-4000-8000-000000000000",
    ] {
        let headers = [("mcp-session-id", id)];
        let reply = old.client.post(&headers, &work).await.unwrap();
        assert_eq!(reply.status, 404, "{id}: {reply:?}");
        error(&reply);
    }
    assert!(stub.messages("tools/call").is_empty());
}

/// S41: while a call of it runs.
#[tokio::test]
async fn the_quick_answers_of_a_batch_waited_for_the_slow_one() {
    let stub = Stub::new();
    let (_gateway, session) = gateway(&stub).await;
    let token = r#","_meta":{"progressToken":"t"}"#;
    let body = batch(&[&call("1", "wait", token), &call("2", "pid", ""), &ping("3")]);
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-session-id", session.id.as_str()),
    ];
    let stream = session.client.open("POST", &headers, &body).await.unwrap();
    let mut stream = Events::of(stream).unwrap();
    let alone = {
        let (session, body) = (session.clone(), body.clone());
        in_background(async move { send(&session, JSON, &body).await })
    };
    stub.was_sent("tools/call", 4).await;
    let mut early = Vec::new();
    for _ in 0..3 {
        early.push(stream.next().await.unwrap().unwrap());
    }
    let of = |id: u8| early.iter().filter(|message| message["id"] == id).count();
    assert_eq!((of(2), of(3)), (1, 1), "{early:?}");
    let progress = early.iter().find(|message| message["id"].is_null());
    assert_eq!(progress.unwrap()["params"]["progressToken"], "t");
    assert!(!alone.is_finished());
    stub.write("go", "");
    let last = stream.next().await.unwrap().unwrap();
    assert_eq!(last["id"], 1, "{last}");
    assert_eq!(last["result"]["content"][0]["text"], "waited");
    assert_eq!(stream.next().await.unwrap(), None);
    // Who takes JSON alone gets all answers at the end, and nothing else.
    let alone = answers(&alone.await.unwrap());
    let ids: Vec<_> = alone.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!(1), json!(2), json!(3)]);
    assert_eq!(alone[0]["result"]["content"][0]["text"], "waited");
}

/// S31, S41.
#[tokio::test]
async fn a_cancel_did_not_reach_a_call_of_a_batch() {
    let stub = Stub::new();
    let (_gateway, session) = gateway(&stub).await;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let both = batch(&[&call("1", "wait", ""), &call("2", "pid", "")]);
    let one = batch(&[&call("1", "wait", "")]);
    let mut seen = 0;
    for (accept, body, status, left) in [
        (JSON, &both, 200, vec![json!(2)]),
        (EVENTS, &both, 200, vec![json!(2)]),
        (JSON, &one, 202, vec![]),
        (EVENTS, &one, 200, vec![]),
    ] {
        let waiting = {
            let (session, body) = (session.clone(), body.clone());
            in_background(async move { send(&session, accept, &body).await })
        };
        seen += left.len() + 1;
        stub.was_sent("tools/call", seen).await;
        // As a batch, too.
        let note = match left.is_empty() {
            true => cancel.to_owned(),
            false => batch(&[cancel]),
        };
        assert_eq!(session.post(&note).await.unwrap().status, 202);
        let reply = waiting.await.unwrap();
        assert_eq!(reply.status, status, "{reply:?}");
        if left.is_empty() {
            assert_eq!(reply.body, "", "{reply:?}");
        } else {
            let ids = answers(&reply)
                .into_iter()
                .map(|answer| answer["id"].clone());
            assert_eq!(ids.collect::<Vec<_>>(), left, "{reply:?}");
        }
    }
    let waits = stub.messages("tools/call").into_iter();
    let waits: Vec<_> = waits
        .filter(|call| call["params"]["name"] == "wait")
        .map(|call| call["id"].clone())
        .collect();
    let cancelled = stub
        .was_sent("notifications/cancelled", 4)
        .await
        .into_iter();
    let cancelled: Vec<_> = cancelled
        .map(|note| note["params"]["requestId"].clone())
        .collect();
    assert_eq!(cancelled, waits);
    let reply = session.call(9, "s__pid", "{}").await.unwrap();
    assert!(!text(&reply).is_empty());
}

//! Every kind of answer in the form that its client takes, and nothing where there is no answer.

use std::time::Duration;

use manifold_testkit::{Client, DEADLINE, Gateway, Reply, Session};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    MANIFOLD,
    stub::{Stub, error, in_background, text},
    wire::{Wire, post},
};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// Of each taste, several ways to say it.
const JSON_ONLY: [&[&str]; 4] = [
    &[JSON],
    &["APPLICATION/JSON; q=0.5"],
    &["application/*"],
    &["text/event-stream;q=0", "*/*"],
];
const EVENTS_ONLY: [&[&str]; 4] = [
    &[EVENTS],
    &["Text/Event-Stream"],
    &["application/json;q=0", EVENTS],
    &["text/*, application/json;q=0.000"],
];

async fn gateway(stub: &Stub) -> (Gateway, Client, Session) {
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &[]))
        .await
        .unwrap();
    gateway.server_is("s", "ready").await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    (gateway, client, session)
}

async fn send(client: &Client, accept: &[&str], headers: &[(&str, &str)], body: &str) -> Reply {
    let mut all = vec![("content-type", JSON)];
    all.extend(accept.iter().map(|value| ("accept", *value)));
    all.extend_from_slice(headers);
    client.send("POST", &all, body).await.unwrap()
}

/// Checks the form of an answer with `notes` before it, and gives the answer.
fn answer(what: &str, reply: &Reply, kind: &str, notes: usize) -> Value {
    assert_eq!(reply.status, 200, "{what}: {reply:?}");
    assert_eq!(reply.headers["content-type"], kind, "{what}: {reply:?}");
    let mut messages = reply.messages().unwrap();
    assert_eq!(messages.len(), notes + 1, "{what}: {reply:?}");
    messages.pop().unwrap()
}

/// S34.
#[tokio::test]
async fn a_client_got_a_form_that_it_does_not_take() {
    let stub = Stub::new();
    let (_gateway, client, session) = gateway(&stub).await;
    let call = |name: &str| json!({ "name": name, "arguments": {} });
    let reports =
        json!({ "name": "s__progress", "arguments": {}, "_meta": { "progressToken": 1 } });
    let level = json!({ "level": "info" });
    let nowhere = json!({ "uri": "no:where" });
    let own = ("mcp-session-id", session.id.as_str());
    for (method, params, place, expected, notes) in [
        ("ping", json!({}), "/result", json!({}), 0),
        (
            "tools/list",
            json!({}),
            "/result/tools/0/name",
            json!("s__echo"),
            0,
        ),
        ("prompts/list", json!({}), "/result/prompts", json!([]), 0),
        ("logging/setLevel", level, "/result", json!({}), 0),
        (
            "logging/setLevel",
            json!({}),
            "/error/code",
            json!(-32602),
            0,
        ),
        (
            "tools/call",
            call("s__echo"),
            "/result/content/0/text",
            json!("{}"),
            0,
        ),
        (
            "tools/call",
            reports.clone(),
            "/result/content/0/text",
            json!("done"),
            10,
        ),
        (
            "tools/call",
            call("s__nope"),
            "/error/code",
            json!(-32602),
            0,
        ),
        ("resources/read", nowhere, "/error/code", json!(-32002), 0),
        ("no/such", json!({}), "/error/code", json!(-32601), 0),
    ] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = body.to_string();
        for accept in JSON_ONLY {
            let reply = send(&client, accept, &[own], &body).await;
            let message = answer(&body, &reply, JSON, 0);
            assert_eq!(message.pointer(place), Some(&expected), "{accept:?} {body}");
        }
        for accept in EVENTS_ONLY {
            let reply = send(&client, accept, &[own], &body).await;
            let message = answer(&body, &reply, EVENTS, notes);
            assert_eq!(message.pointer(place), Some(&expected), "{accept:?} {body}");
        }
    }
    for (method, name, params, place, expected, notes) in [
        (
            "server/discover",
            None,
            json!({}),
            "/result/resultType",
            json!("complete"),
            0,
        ),
        (
            "tools/list",
            None,
            json!({}),
            "/result/tools/0/name",
            json!("s__echo"),
            0,
        ),
        (
            "tools/call",
            Some("s__echo"),
            call("s__echo"),
            "/result/content/0/text",
            json!("{}"),
            0,
        ),
        (
            "tools/call",
            Some("s__progress"),
            reports,
            "/result/content/0/text",
            json!("done"),
            10,
        ),
        (
            "tools/call",
            Some("s__nope"),
            call("s__nope"),
            "/error/code",
            json!(-32602),
            0,
        ),
    ] {
        let mut params = params;
        let fields = [
            (
                "io.modelcontextprotocol/protocolVersion",
                json!("2026-07-28"),
            ),
            ("io.modelcontextprotocol/clientCapabilities", json!({})),
        ];
        for (key, value) in fields {
            params["_meta"][key] = value;
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = body.to_string();
        let mut headers = vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
        ];
        headers.extend(name.map(|name| ("mcp-name", name)));
        for accept in JSON_ONLY {
            let reply = send(&client, accept, &headers, &body).await;
            let message = answer(&body, &reply, JSON, 0);
            assert_eq!(message.pointer(place), Some(&expected), "{accept:?} {body}");
        }
        for accept in EVENTS_ONLY {
            let reply = send(&client, accept, &headers, &body).await;
            let message = answer(&body, &reply, EVENTS, notes);
            assert_eq!(message.pointer(place), Some(&expected), "{accept:?} {body}");
        }
    }
    // What HTTP itself refuses is told in JSON to everybody, and without either type nothing is done.
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let gone = ("mcp-session-id", "gone");
    for (headers, body, status) in [(&[own], "{", 400), (&[gone], ping, 404)] {
        let reply = send(&client, &[EVENTS], headers, body).await;
        assert_eq!(reply.status, status, "{reply:?}");
        error(&reply);
    }
    let before = stub.messages("tools/call").len();
    let pid = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__pid"}}"#;
    for accept in [
        &["text/html"][..],
        &["*/*;q=0"],
        &["text/plain", "image/*"],
        &["json"],
        &[""],
    ] {
        let reply = send(&client, accept, &[own], pid).await;
        assert_eq!(reply.status, 406, "{accept:?}: {reply:?}");
        let told = error(&reply)["message"].to_string();
        assert!(told.contains(JSON) && told.contains(EVENTS), "{told}");
    }
    assert_eq!(stub.messages("tools/call").len(), before);
}

/// S34: streams have no other form.
#[tokio::test]
async fn a_stream_was_opened_for_a_client_that_takes_none() {
    let stub = Stub::new();
    let (_gateway, client, session) = gateway(&stub).await;
    let own = ("mcp-session-id", session.id.as_str());
    for accept in [JSON, "text/event-stream;q=0", "text/html"] {
        let reply = client.open("GET", &[own, ("accept", accept)], "").await;
        let head = reply.unwrap();
        assert_eq!(head.status(), 406, "{accept}");
        assert_eq!(head.headers()["content-type"], JSON, "{accept}");
    }
    let body = r#"{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "subscriptions/listen"),
    ];
    let reply = timeout(DEADLINE, send(&client, &[JSON], &headers, body));
    let reply = reply.await.unwrap();
    assert_eq!(reply.status, 406, "{reply:?}");
    assert_eq!(reply.message().unwrap()["id"], "l");
    for accept in [&[][..], &[("accept", "*/*")], &[("accept", EVENTS)]] {
        let headers = [&[own], accept].concat();
        let stream = client.open("GET", &headers, "").await.unwrap();
        assert_eq!(stream.status(), 200, "{accept:?}");
        assert_eq!(stream.headers()["content-type"], EVENTS);
    }
}

/// S34: nor later, when everybody else is given a stream so that nothing on the way gives up.
#[tokio::test]
async fn a_slow_answer_became_a_stream_for_a_client_that_takes_none() {
    let stub = Stub::new();
    let (_gateway, client, session) = gateway(&stub).await;
    let own = ("mcp-session-id", session.id.as_str());
    let wait = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__wait","arguments":{"file":"go"}}}"#;
    let slow = {
        let (client, session) = (client.clone(), session.clone());
        in_background(async move {
            let own = ("mcp-session-id", session.id.as_str());
            send(&client, &[JSON], &[own], wait).await
        })
    };
    stub.was_sent("tools/call", 1).await;
    let headers = [("content-type", JSON), ("accept", "*/*"), own];
    let opening = client.open("POST", &headers, wait);
    let stream = timeout(Duration::from_secs(30), opening).await;
    assert_eq!(stream.unwrap().unwrap().headers()["content-type"], EVENTS);
    assert!(!slow.is_finished());
    stub.write("go", "");
    let reply = slow.await.unwrap();
    answer("slow", &reply, JSON, 0);
    assert_eq!(text(&reply), "waited");
}

/// S34: there is no answer to a call that its client has cancelled, in whatever form.
#[tokio::test]
async fn a_cancelled_call_was_answered_in_a_form_that_its_client_does_not_take() {
    let stub = Stub::new();
    let (_gateway, client, session) = gateway(&stub).await;
    let wait = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__wait","arguments":{"file":"go"}}}"#;
    for (round, (accept, status, kind)) in [(JSON, 202, None), (EVENTS, 200, Some(EVENTS))]
        .into_iter()
        .enumerate()
    {
        let call = {
            let (client, session) = (client.clone(), session.clone());
            in_background(async move {
                let own = ("mcp-session-id", session.id.as_str());
                send(&client, &[accept], &[own], wait).await
            })
        };
        stub.was_sent("tools/call", round + 1).await;
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(session.post(cancel).await.unwrap().status, 202);
        let reply = call.await.unwrap();
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (status, ""),
            "{reply:?}"
        );
        let seen = reply.headers.get("content-type").map(|kind| kind.to_str());
        assert_eq!(seen.transpose().unwrap(), kind, "{reply:?}");
    }
}

/// S35: to the byte, whatever the client takes.
#[tokio::test]
async fn a_notification_was_answered_with_a_body() {
    let stub = Stub::new();
    let (gateway, _, session) = gateway(&stub).await;
    let mut stream = session_stream(&session).await;
    let own = ("mcp-session-id", session.id.as_str());
    let modern = ("mcp-protocol-version", "2026-07-28");
    let mut wire = Wire::open(&gateway).await;
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":null}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/vendor/foo","params":{"id":1}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"s__pid"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}"#,
    ] {
        for headers in [
            vec![own],
            vec![own, ("accept", JSON)],
            vec![own, ("accept", EVENTS)],
            vec![own, ("mcp-protocol-version", "2025-11-25")],
            vec![modern],
        ] {
            let is_modern = headers.contains(&modern);
            wire.send(&post(&headers, body)).await.unwrap();
            let answer = wire.answer().await.unwrap();
            if is_modern && !body.contains("method") {
                // In that era nobody is asked anything.
                assert_eq!(answer.status, 400, "{body}: {answer:?}");
                continue;
            }
            assert_eq!(answer.status, 202, "{headers:?} {body}: {answer:?}");
            assert_eq!(answer.body, "", "{body}");
            assert_eq!(answer.header("content-type"), None, "{answer:?}");
            assert_eq!(answer.header("transfer-encoding"), None, "{answer:?}");
            assert_eq!(answer.header("content-length"), Some("0"), "{answer:?}");
        }
    }
    // Nothing on the stream either, and nothing was done.
    assert!(stub.messages("tools/call").is_empty());
    let reply = session.request(4, "ping", "{}").await.unwrap();
    assert_eq!(reply.message().unwrap()["result"], json!({}));
    session.delete().await.unwrap();
    assert_eq!(stream.next().await.unwrap(), None);
}

async fn session_stream(session: &Session) -> manifold_testkit::Events {
    let headers = [("mcp-session-id", session.id.as_str()), ("accept", EVENTS)];
    let stream = session.client.open("GET", &headers, "").await.unwrap();
    manifold_testkit::Events::of(stream).unwrap()
}

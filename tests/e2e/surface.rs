//! How HTTP clients of all habits are answered.

use manifold_testkit::{Client, Gateway, Session, exchange};
use serde_json::Value;

use crate::{
    MANIFOLD,
    stub::{Stub, error, names},
};

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn hello(version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    )
}

async fn gateway(stub: &Stub, more: &str) -> (Gateway, Client, Session) {
    let config = format!("{more}{}", stub.server("s", &[]));
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    (gateway, client, session)
}

/// S34.
#[tokio::test]
async fn clients_with_other_accept_headers_got_406() {
    let gateway = Gateway::start(MANIFOLD, "").await.unwrap();
    let client = gateway.client().unwrap();
    let (json, events) = ("application/json", "text/event-stream");
    for (accept, kind) in [
        (&[][..], json),
        (&["*/*"], json),
        (&["application/json"], json),
        (&["text/event-stream"], events),
        (&["application/*, text/event-stream"], json),
        (&["text/event-stream;q=0.9,application/json"], json),
        (&["text/event-stream,application/json"], json),
        (&["APPLICATION/JSON"], json),
        (&["application/json;q=0, text/event-stream"], events),
        (&["application/json", "text/event-stream"], json),
        (&["text/html, */*;q=0.1"], json),
    ] {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(accept.iter().map(|value| ("accept", *value)));
        let reply = client
            .send("POST", &headers, &hello("2025-11-25"))
            .await
            .unwrap();
        assert_eq!(reply.status, 200, "{accept:?}: {reply:?}");
        assert_eq!(reply.headers["content-type"], kind, "{accept:?}");
        assert!(reply.headers.contains_key("mcp-session-id"), "{accept:?}");
        let message = reply.message().unwrap();
        assert_eq!(
            message["result"]["protocolVersion"], "2025-11-25",
            "{accept:?}"
        );
    }
    let headers = [
        ("content-type", "application/json"),
        ("accept", "text/html"),
    ];
    let reply = client
        .send("POST", &headers, &hello("2025-11-25"))
        .await
        .unwrap();
    assert_eq!(reply.status, 406, "{reply:?}");
    error(&reply);
}

/// S11, S35.
#[tokio::test]
async fn notifications_were_answered() {
    let stub = Stub::new();
    let (_gateway, _, session) = gateway(&stub, "").await;
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/vendor/foo","params":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no"}}"#,
    ] {
        let reply = session.post(body).await.unwrap();
        assert_eq!(reply.status, 202, "{body}: {reply:?}");
        assert_eq!(reply.body, "", "{body}");
        assert!(
            !reply.headers.contains_key("content-type"),
            "{body}: {reply:?}"
        );
        assert!(
            !reply.headers.contains_key("transfer-encoding"),
            "{body}: {reply:?}"
        );
    }
    assert_eq!(session.request(4, "ping", "{}").await.unwrap().status, 200);
}

/// S39.
#[tokio::test]
async fn initialize_failed_on_a_version_that_is_not_known() {
    let gateway = Gateway::start(MANIFOLD, "").await.unwrap();
    let client = gateway.client().unwrap();
    let asked = |version: &'static str, header: Option<&'static str>| {
        let client = client.clone();
        async move {
            let headers: Vec<_> = header
                .map(|value| ("mcp-protocol-version", value))
                .into_iter()
                .collect();
            let reply = client.post(&headers, &hello(version)).await.unwrap();
            assert_eq!(reply.status, 200, "{version} {header:?}: {reply:?}");
            reply.message().unwrap()["result"]["protocolVersion"]
                .as_str()
                .unwrap()
                .to_owned()
        }
    };
    for version in VERSIONS {
        assert_eq!(asked(version, None).await, version);
        assert_eq!(asked(version, Some(version)).await, version);
    }
    for version in ["2099-01-01", "1999-01-01", "2026-07-28", "foobar", ""] {
        assert_eq!(asked(version, None).await, "2025-11-25", "{version}");
    }
    for header in ["2099-01-01", "2026-07-28", "foobar"] {
        assert_eq!(
            asked("2099-01-01", Some(header)).await,
            "2025-11-25",
            "{header}"
        );
    }
}

/// S39, within a session.
#[tokio::test]
async fn a_nonsense_version_header_was_taken() {
    let stub = Stub::new();
    let (gateway, client, session) = gateway(&stub, "").await;
    let list = r#"{"jsonrpc":"2.0","id":"i","method":"tools/list"}"#;
    let own = ("mcp-session-id", session.id.as_str());
    let reply = client.post(&[own], list).await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    for version in VERSIONS {
        let reply = client
            .post(&[own, ("mcp-protocol-version", version)], list)
            .await
            .unwrap();
        assert_eq!(reply.status, 200, "{version}: {reply:?}");
    }
    for version in ["1999-01-01", "foobar", ""] {
        let headers = [own, ("mcp-protocol-version", version)];
        let reply = client.post(&headers, list).await.unwrap();
        assert_eq!(reply.status, 400, "{version}: {reply:?}");
        error(&reply);
        assert_eq!(reply.message().unwrap()["id"], "i");
    }
    let twice = [
        own,
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-protocol-version", "2025-06-18"),
    ];
    assert_eq!(client.post(&twice, list).await.unwrap().status, 400);
    let mut request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nmcp-session-id: {}\r\n\
         content-length: {}\r\nmcp-protocol-version: ",
        session.id,
        list.len()
    )
    .into_bytes();
    request.extend_from_slice(b"\xe4\xff\r\n\r\n");
    request.extend_from_slice(list.as_bytes());
    let (head, body) = exchange(gateway.authority(), &request).await.unwrap();
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    let message: Value = serde_json::from_slice(&body).unwrap();
    assert!(message["error"].is_object(), "{message}");
}

/// S40.
#[tokio::test]
async fn a_large_request_was_refused_and_the_limit_not_named() {
    const LIMIT: usize = 5 << 20;
    let stub = Stub::new();
    let (gateway, _, session) = gateway(&stub, "[limits]\nrequest_body = \"5MiB\"\n").await;
    let call = |length: usize| {
        let start = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__echo","arguments":{"a":""#;
        let end = r#""}}}"#;
        let middle = "z".repeat(length - start.len() - end.len());
        format!("{start}{middle}{end}")
    };
    for length in [99_000, 1 << 20, LIMIT - 1, LIMIT] {
        let reply = session.post(&call(length)).await.unwrap();
        assert_eq!(reply.status, 200, "{length}");
        assert!(reply.body.len() > length - 200, "{length}");
    }
    let reply = session.post(&call(LIMIT + 1)).await.unwrap();
    assert_eq!(reply.status, 413, "{reply:?}");
    let told = error(&reply)["message"].as_str().unwrap().to_owned();
    assert!(
        told.contains("limits.request_body") && told.contains(&LIMIT.to_string()),
        "{told}"
    );
    // The server has not seen it, and everything else goes on.
    assert_eq!(stub.messages("tools/call").len(), 4);
    assert_eq!(session.post(&call(1000)).await.unwrap().status, 200);
    // One that is announced is not waited for; one that is not announced is counted.
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nmcp-session-id: {}\r\n",
        session.id
    );
    let announced = format!("{head}content-length: 10000000000\r\n\r\n{{");
    let (answer, _) = exchange(gateway.authority(), announced.as_bytes())
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let chunk = format!("{:x}\r\n{}\r\n", LIMIT + 1, "z".repeat(LIMIT + 1));
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n");
    let (answer, _) = exchange(gateway.authority(), chunked.as_bytes())
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

/// S41.
#[tokio::test]
async fn a_batch_crashed_or_went_through_half() {
    let stub = Stub::new();
    let (_gateway, client, session) = gateway(&stub, "").await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__echo","arguments":{}}}"#;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let before = stub.lines().len();
    for batch in [
        "[]".to_owned(),
        "[1]".to_owned(),
        " \n[[]]".to_owned(),
        format!("[{call}]"),
        format!("[{call},{call}]"),
        format!("[{note}]"),
        format!(r#"[{call},{note},{{"jsonrpc":"2.0","id":1,"result":{{}}}}]"#),
        format!("[[{call}]]"),
        format!("[{},{call}]", hello("2025-11-25")),
    ] {
        let reply = session.post(&batch).await.unwrap();
        assert_eq!(reply.status, 400, "{batch}: {reply:?}");
        assert_eq!(error(&reply)["code"], -32600, "{batch}: {reply:?}");
        assert!(reply.message().unwrap()["id"].is_null(), "{reply:?}");
        let reply = client.post(&[], &batch).await.unwrap();
        assert_eq!(reply.status, 400, "{batch}: {reply:?}");
        assert!(!reply.headers.contains_key("mcp-session-id"));
    }
    assert_eq!(session.call(9, "s__pid", "{}").await.unwrap().status, 200);
    assert_eq!(stub.messages("tools/call").len(), 1);
    assert!(stub.lines().len() > before);
}

#[tokio::test]
async fn what_is_no_message_got_the_wrong_error() {
    let stub = Stub::new();
    let (_gateway, client, session) = gateway(&stub, "").await;
    for (body, code, id) in [
        ("", -32700, Value::Null),
        ("{", -32700, Value::Null),
        ("nonsense", -32700, Value::Null),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#,
            -32700,
            Value::Null,
        ),
        ("1", -32600, Value::Null),
        ("{}", -32600, Value::Null),
        (r#"{"id":5,"method":"ping"}"#, -32600, Value::from(5)),
        (
            r#"{"jsonrpc":"1.0","id":6,"method":"ping"}"#,
            -32600,
            Value::from(6),
        ),
        (
            r#"{"jsonrpc":"2.0","id":"x","method":7}"#,
            -32600,
            Value::from("x"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
    ] {
        let reply = session.post(body).await.unwrap();
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
        assert_eq!(error(&reply)["code"], code, "{body}: {reply:?}");
        let seen = reply.message().unwrap()["id"].clone();
        assert!(seen == id || code == -32700, "{body}: {reply:?}");
    }
    let own = ("mcp-session-id", session.id.as_str());
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let plain = [("content-type", "text/plain"), own];
    assert_eq!(client.send("POST", &plain, ping).await.unwrap().status, 415);
    assert_eq!(client.send("PUT", &[own], ping).await.unwrap().status, 405);
    // Without a session, and with one that is none.
    let reply = client.post(&[], ping).await.unwrap();
    assert_eq!(
        (reply.status, reply.message().unwrap()["id"].clone()),
        (400, Value::from(1))
    );
    let long = "x".repeat(10 * 1024);
    for id in [
        "garbage",
        "with spaces",
        "00000000-0000-4000-8000-000000000000",
        long.as_str(),
    ] {
        let headers = [("mcp-session-id", id)];
        let reply = client.post(&headers, ping).await.unwrap();
        assert_eq!(reply.status, 404, "{id}: {reply:?}");
        assert_eq!(reply.message().unwrap()["id"], 1);
        let get = [("mcp-session-id", id), ("accept", "text/event-stream")];
        assert_eq!(client.send("GET", &get, "").await.unwrap().status, 404);
        assert_eq!(
            client.send("DELETE", &headers, "").await.unwrap().status,
            404
        );
        // A client that starts anew with its old id is let in, or told that it is gone.
        let reply = client.post(&headers, &hello("2025-11-25")).await.unwrap();
        assert!(matches!(reply.status, 200 | 404), "{reply:?}");
    }
    let get = [("accept", "text/event-stream")];
    assert_eq!(client.send("GET", &get, "").await.unwrap().status, 400);
}

/// S42.
#[tokio::test]
async fn params_of_other_shapes_were_refused_or_altered() {
    let stub = Stub::new();
    let (_gateway, _, session) = gateway(&stub, "").await;
    for params in [
        "",
        r#","params":{}"#,
        r#","params":null"#,
        r#","params":{"cursor":null}"#,
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list"{params}}}"#);
        let reply = session.post(&body).await.unwrap();
        assert!(
            names(&reply).contains(&"s__echo".to_owned()),
            "{params}: {reply:?}"
        );
    }
    for params in ["[]", "[1]", "42", "\"x\"", "true"] {
        let reply = session.request(2, "tools/list", params).await.unwrap();
        assert_eq!(error(&reply)["code"], -32602, "{params}: {reply:?}");
        assert_eq!(reply.message().unwrap()["id"], 2);
        assert!(matches!(reply.status, 200 | 400), "{params}: {reply:?}");
    }
    let reply = session
        .request(2, "tools/list", r#"{"cursor":"x"}"#)
        .await
        .unwrap();
    assert_eq!(error(&reply)["code"], -32602);
    for arguments in [
        "",
        r#","arguments":{}"#,
        r#","arguments":null"#,
        r#","arguments":{"a":null,"":1}"#,
        r#","arguments":{"a":1,"a":2}"#,
    ] {
        let params = format!(r#"{{"name":"s__pid"{arguments}}}"#);
        let reply = session.request(3, "tools/call", &params).await.unwrap();
        assert_eq!(reply.status, 200, "{arguments}: {reply:?}");
        let lines = stub.lines();
        let sent = lines.iter().rfind(|line| line.contains("tools/call"));
        let sent = sent.unwrap();
        let expected = format!(r#""params":{{"name":"pid"{arguments}}}}}"#);
        assert!(sent.ends_with(&expected), "{sent}");
    }
    for line in stub.lines() {
        assert!(!line.contains(r#""params":null"#), "{line}");
    }
    for params in ["{}", r#"{"name":null}"#, r#"{"name":7}"#] {
        let reply = session.request(4, "tools/call", params).await.unwrap();
        assert_eq!(error(&reply)["code"], -32602, "{params}: {reply:?}");
    }
    let reply = session.request(5, "no/such", "{}").await.unwrap();
    assert_eq!(
        (reply.status, error(&reply)["code"].clone()),
        (200, Value::from(-32601))
    );
}

//! Where the gateway is, by which verbs and which HTTP, and in which order it looks at a request.

use std::time::Duration;

use manifold_testkit::{Client, Gateway, Session};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    MANIFOLD,
    stub::{Stub, error, text},
    wire::{Headers, Wire, post, post_head},
};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn hello(version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    )
}

async fn gateway(stub: &Stub) -> (Gateway, Client, Session) {
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &[]))
        .await
        .unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    (gateway, client, session)
}

#[tokio::test]
async fn a_trailing_slash_was_another_path_or_a_redirect() {
    let stub = Stub::new();
    let (gateway, _, _) = gateway(&stub).await;
    for (here, there, tool) in [
        ("/mcp", "/mcp/", "s__pid"),
        ("/mcp/", "/mcp", "s__pid"),
        ("/mcp/s", "/mcp/s/", "pid"),
        ("/mcp/s/", "/mcp/s", "pid"),
        ("/mcp?a=b/", "/mcp/?c", "s__pid"),
    ] {
        // Opened with one of them and used with the other.
        let session = gateway.client_of(here).unwrap().session().await.unwrap();
        let session = Session {
            client: gateway.client_of(there).unwrap(),
            ..session
        };
        text(&session.call(1, tool, "{}").await.unwrap());
        let headers = [
            ("mcp-session-id", session.id.as_str()),
            ("accept", "text/event-stream"),
        ];
        let stream = session.client.open("GET", &headers, "").await.unwrap();
        assert_eq!(stream.status(), 200, "{there}");
        let modern = session.client.modern("tools/call", json!({ "name": tool }));
        text(&modern.await.unwrap());
        assert_eq!(session.delete().await.unwrap().status, 204, "{there}");
    }
}

/// Clients that look for OAuth, or for the older transport, must learn at once that there is none.
#[tokio::test]
async fn a_path_that_is_not_there_was_not_404_or_not_at_once() {
    let stub = Stub::new();
    // It is never ready, and whoever asks for its lists waits for longer than this test does.
    let config = "[timeouts]\nlist = \"10m\"\n".to_owned() + &stub.server("s", &["gate=never"]);
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let looking = async {
        for path in [
            "/",
            "/mcp/nobody",
            "/mcp/S",
            "/mcp/s/x",
            "/mcp//",
            "/mcp//s",
            "/mcp/s//",
            "/mcp/%73",
            "/mcpx",
            "/MCP",
            "//mcp",
            "/sse",
            "/messages",
            "/register",
            "/authorize",
            "/favicon.ico",
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-authorization-server",
            "/.well-known/oauth-authorization-server/mcp",
            "/.well-known/openid-configuration",
            "/mcp/.well-known/openid-configuration",
        ] {
            let client = gateway.client_of(path).unwrap();
            let mut replies = vec![client.post(&[], &hello("2025-11-25")).await.unwrap()];
            for verb in ["GET", "DELETE", "PUT", "OPTIONS"] {
                replies.push(client.send(verb, &[], "").await.unwrap());
            }
            let accept = [("accept", "text/event-stream")];
            replies.push(client.send("GET", &accept, "").await.unwrap());
            for reply in replies {
                assert_eq!(reply.status, 404, "{path}: {reply:?}");
                error(&reply);
                assert!(!reply.headers.contains_key("www-authenticate"), "{reply:?}");
            }
        }
        for path in ["/mcp", "/mcp/", "/mcp/s"] {
            let client = gateway.client_of(path).unwrap();
            for accept in [&[][..], &[("accept", "text/event-stream")]] {
                let reply = client.send("GET", accept, "").await.unwrap();
                assert_eq!(reply.status, 400, "{path}: {reply:?}");
                let told = error(&reply)["message"].to_string();
                assert!(told.contains("Mcp-Session-Id"), "{told}");
            }
            let reply = client.send("DELETE", &[], "").await.unwrap();
            assert_eq!(reply.status, 400, "{path}: {reply:?}");
        }
    };
    timeout(Duration::from_secs(30), looking).await.unwrap();
}

#[tokio::test]
async fn a_verb_that_is_not_there_was_not_405() {
    let stub = Stub::new();
    let (gateway, client, session) = gateway(&stub).await;
    let own = ("mcp-session-id", session.id.as_str());
    let verbs = |allow: &str| {
        let mut verbs: Vec<_> = allow.split(',').map(str::trim).collect();
        verbs.sort_unstable();
        verbs.join(" ")
    };
    for path in ["/mcp", "/mcp/s/"] {
        let client = gateway.client_of(path).unwrap();
        for verb in ["PUT", "PATCH", "TRACE", "PROPFIND", "post"] {
            for headers in [&[][..], &[own]] {
                let reply = client.send(verb, headers, PING).await.unwrap();
                assert_eq!(reply.status, 405, "{verb}: {reply:?}");
                let allow = reply.headers["allow"].to_str().unwrap();
                assert_eq!(verbs(allow), "DELETE GET OPTIONS POST");
                error(&reply);
            }
        }
        // What may be asked for is told to whoever asks.
        let reply = client.send("OPTIONS", &[], "").await.unwrap();
        assert_eq!((reply.status, reply.body.as_str()), (204, ""), "{reply:?}");
        let allow = reply.headers["allow"].to_str().unwrap();
        assert_eq!(verbs(allow), "DELETE GET OPTIONS POST");
    }
    // A head and nothing after it, and the connection goes on.
    let mut wire = Wire::open(&gateway).await;
    for _ in 0..2 {
        wire.send(b"HEAD /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        let head = wire.head().await.unwrap();
        assert!(head.starts_with("http/1.1 405 "), "{head}");
        assert!(head.contains("\r\nallow: "), "{head}");
        wire.send(&post(&[own], PING)).await.unwrap();
        assert_eq!(wire.answer().await.unwrap().status, 200);
    }
    // A modern client has no session to listen on or to end.
    let modern = ("mcp-protocol-version", "2026-07-28");
    for verb in ["GET", "DELETE"] {
        let reply = client.send(verb, &[modern, own], "").await.unwrap();
        assert_eq!(reply.status, 405, "{verb}: {reply:?}");
        let allow = reply.headers["allow"].to_str().unwrap();
        assert_eq!(verbs(allow), "OPTIONS POST");
    }
    assert_eq!(session.request(1, "ping", "{}").await.unwrap().status, 200);
}

/// The first that is wrong is told, in the order that users may rely on.
#[tokio::test]
async fn another_fault_was_told_than_the_first() {
    let stub = Stub::new();
    let config = "[limits]\nrequest_body = \"1KiB\"\n".to_owned() + &stub.server("s", &[]);
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let own = ("mcp-session-id", session.id.as_str());
    // Each step mends one thing.
    let long = format!("{{{}", " ".repeat(1024));
    let old = r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#;
    let (text, html) = (("content-type", "text/plain"), ("accept", "text/html"));
    let (json, any) = (("content-type", "application/json"), ("accept", "*/*"));
    let evil = ("origin", "https://evil.example");
    let gone = ("mcp-session-id", "gone");
    let odd = ("mcp-protocol-version", "foobar");
    let steps: [(u16, i64, Headers<'_>, &str); 9] = [
        (403, -32600, &[evil, text, html, odd, gone], &long),
        (413, -32600, &[text, html, odd, gone], &long),
        (415, -32600, &[text, html, odd, gone], "{"),
        (406, -32600, &[json, html, odd, gone], "{"),
        (400, -32700, &[json, any, odd, gone], "{"),
        (400, -32600, &[json, any, odd, gone], old),
        (400, -32600, &[json, any, odd, gone], PING),
        (404, -32600, &[json, any, gone], PING),
        (400, -32600, &[json, any], PING),
    ];
    for (status, code, headers, body) in steps {
        let reply = client.send("POST", headers, body).await.unwrap();
        assert_eq!(reply.status, status, "{headers:?}: {reply:?}");
        assert_eq!(error(&reply)["code"], code, "{headers:?}: {reply:?}");
        // The request's id as soon as it is known.
        let id = if body.len() > 1 && body.len() < 1024 {
            json!(1)
        } else {
            Value::Null
        };
        assert_eq!(reply.message().unwrap()["id"], id, "{headers:?}: {reply:?}");
    }
    let reply = client.send("POST", &[json, any, own], PING).await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
}

/// S39: the header of a session, on every verb.
#[tokio::test]
async fn a_version_header_of_no_session_was_taken() {
    let stub = Stub::new();
    let (gateway, client, _) = gateway(&stub).await;
    for agreed in VERSIONS {
        let reply = client.post(&[], &hello(agreed)).await.unwrap();
        let id = reply.headers["mcp-session-id"].to_str().unwrap();
        let own = ("mcp-session-id", id);
        let stream = ("accept", "text/event-stream");
        for version in VERSIONS {
            let headers = [own, ("mcp-protocol-version", version)];
            let reply = client.post(&headers, PING).await.unwrap();
            assert_eq!(reply.status, 200, "{agreed} {version}: {reply:?}");
            let headers = [own, ("mcp-protocol-version", version), stream];
            let reply = client.open("GET", &headers, "").await.unwrap();
            assert_eq!(reply.status(), 200, "{agreed} {version}");
        }
        let version = |value| ("mcp-protocol-version", value);
        let (latest, modern) = (version("2025-11-25"), version("2026-07-28"));
        for headers in [
            vec![version("1999-01-01")],
            vec![version("foobar")],
            vec![version("")],
            vec![version("2025-11-25, 2025-11-25")],
            vec![version("2025-11-2")],
            vec![latest, latest],
            vec![latest, modern],
            // Of the other era, which needs more than that.
            vec![modern],
            vec![modern, latest],
            vec![version("2099-01-01")],
        ] {
            let is_modern = headers[0] == modern || headers[0].1 == "2099-01-01";
            let headers = [&headers[..], &[own]].concat();
            let reply = client.post(&headers, PING).await.unwrap();
            assert_eq!(reply.status, 400, "{headers:?}: {reply:?}");
            error(&reply);
            assert_eq!(reply.message().unwrap()["id"], 1, "{headers:?}");
            let expected = if is_modern { 405 } else { 400 };
            for verb in ["GET", "DELETE"] {
                let headers = [&headers[..], &[stream]].concat();
                let reply = client.send(verb, &headers, "").await.unwrap();
                assert_eq!(reply.status, expected, "{verb} {headers:?}: {reply:?}");
                error(&reply);
            }
        }
        // Bytes that are no text.
        let mut wire = Wire::open(&gateway).await;
        let length = PING.len().to_string();
        let head = post_head(&[own, ("content-length", &length), version("@")]);
        let head = head.into_bytes().into_iter();
        let head = head.map(|byte| if byte == b'@' { 0xe4 } else { byte });
        wire.send(&head.collect::<Vec<_>>()).await.unwrap();
        wire.send(PING.as_bytes()).await.unwrap();
        let answer = wire.answer().await.unwrap();
        assert_eq!(answer.status, 400, "{answer:?}");
        assert_eq!(answer.message()["id"], 1, "{answer:?}");
        // None of it has touched the session.
        let reply = client.post(&[own], PING).await.unwrap();
        assert_eq!(reply.status, 200, "{agreed}: {reply:?}");
    }
}

/// S39: `initialize` negotiates by its params; a header can't spoil it.
#[tokio::test]
async fn a_version_header_spoiled_initialize() {
    let gateway = Gateway::start(MANIFOLD, "").await.unwrap();
    let client = gateway.client().unwrap();
    let version = |value| ("mcp-protocol-version", value);
    for headers in [
        vec![version("")],
        vec![version("1999-01-01")],
        vec![version("2026-07-28"), ("mcp-method", "initialize")],
        vec![version("2025-11-25"), version("2024-11-05")],
        vec![version("2099-01-01"), version("foobar")],
    ] {
        for (asked, agreed) in [
            ("2025-03-26", "2025-03-26"),
            ("2026-07-28", "2025-11-25"),
            ("2099-01-01", "2025-11-25"),
        ] {
            let reply = client.post(&headers, &hello(asked)).await.unwrap();
            assert_eq!(reply.status, 200, "{headers:?} {asked}: {reply:?}");
            let message = reply.message().unwrap();
            assert_eq!(message["result"]["protocolVersion"], agreed, "{headers:?}");
            assert!(reply.headers.contains_key("mcp-session-id"));
        }
    }
    for asked in [
        "",
        r#""protocolVersion":null"#,
        r#""protocolVersion":20251125"#,
    ] {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":3,"method":"initialize","params":{{{asked}}}}}"#);
        let reply = client.post(&[], &body).await.unwrap();
        assert_eq!(error(&reply)["code"], -32602, "{reply:?}");
        assert_eq!(reply.message().unwrap()["id"], 3);
        assert!(!reply.headers.contains_key("mcp-session-id"), "{reply:?}");
    }
}

/// As nginx speaks unless it is told otherwise.
#[tokio::test]
async fn a_proxy_that_speaks_http_1_0_was_answered_in_chunks() {
    let stub = Stub::new();
    let (gateway, _, session) = gateway(&stub).await;
    let progress = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"s__progress","_meta":{"progressToken":1}}}"#;
    for (body, kind) in [(PING, "application/json"), (progress, "text/event-stream")] {
        let request = String::from_utf8(post(&[("mcp-session-id", &session.id)], body)).unwrap();
        let request = request.replacen("HTTP/1.1", "HTTP/1.0", 1);
        let mut wire = Wire::open(&gateway).await;
        wire.send(request.as_bytes()).await.unwrap();
        let answer = wire.answer().await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some(kind), "{answer:?}");
        assert_eq!(answer.header("transfer-encoding"), None, "{answer:?}");
        if kind == "application/json" {
            assert_eq!(answer.message()["result"], json!({}));
        } else {
            let events = answer.body.matches("\n\n").count();
            assert_eq!(events, 11, "{answer:?}");
            assert!(answer.body.ends_with("}\n\n"), "{answer:?}");
        }
        assert!(wire.answer().await.is_none());
    }
}

#[tokio::test]
async fn requests_that_did_not_wait_for_answers_lost_them_or_their_order() {
    let stub = Stub::new();
    let (gateway, _, session) = gateway(&stub).await;
    let own = ("mcp-session-id", session.id.as_str());
    let mut wire = Wire::open(&gateway).await;
    let mut all = Vec::new();
    for id in 0..20 {
        let ms = if id % 5 == 0 { 50 } else { 0 };
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"s__echo","arguments":{{"up_to_ms":{ms}}}}}}}"#
        );
        all.extend(post(&[own], &body));
        // And some that are refused in between, with a body that nobody reads.
        if id % 4 == 0 {
            let nowhere = String::from_utf8(post(&[own], PING)).unwrap();
            all.extend(nowhere.replacen("/mcp", "/nowhere", 1).into_bytes());
        }
    }
    wire.send(&all).await.unwrap();
    for id in 0..20 {
        let answer = wire.answer().await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.message()["id"], id);
        if id % 4 == 0 {
            assert_eq!(wire.answer().await.unwrap().status, 404);
        }
    }
}

/// Its first bytes are what no HTTP/1 client sends.
#[tokio::test]
async fn a_client_that_begins_with_http_2_was_refused() {
    let stub = Stub::new();
    let (gateway, _, _) = gateway(&stub).await;
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    };
    let literal = |name: &str, value: &str| {
        let mut field = vec![0];
        for text in [name, value] {
            field.push(u8::try_from(text.len()).unwrap());
            field.extend(text.as_bytes());
        }
        field
    };
    let body = hello("2025-11-25");
    let mut wire = Wire::open(&gateway).await;
    let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    all.extend(frame(4, 0, 0, &[]));
    for (stream, authority) in [(1, "localhost"), (3, "evil.example")] {
        let mut head = Vec::new();
        for (name, value) in [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/mcp"),
            (":authority", authority),
            ("content-type", "application/json"),
        ] {
            head.extend(literal(name, value));
        }
        all.extend(frame(1, 4, stream, &head));
        all.extend(frame(0, 1, stream, body.as_bytes()));
    }
    wire.send(&all).await.unwrap();
    let mut answers = std::collections::BTreeMap::<u32, Vec<u8>>::new();
    let mut open = 2;
    while open > 0 {
        let head = wire.take(9).await;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let payload = wire.take(usize::try_from(length).unwrap()).await;
        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
        assert_ne!(head[3], 7, "the connection was given up: {payload:?}");
        if head[3] == 0 {
            answers.entry(stream).or_default().extend(payload);
        }
        if matches!(head[3], 0 | 1) && head[4] & 1 == 1 {
            open -= 1;
        }
    }
    let message = |stream| serde_json::from_slice::<Value>(&answers[&stream]).unwrap();
    assert_eq!(message(1)["result"]["protocolVersion"], "2025-11-25");
    let told = message(3)["error"]["message"].to_string();
    assert!(told.contains("evil.example"), "{told}");
}

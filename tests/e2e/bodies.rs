//! Bodies of requests: large, slow, announced and not sent, and with params of all shapes.

use manifold_testkit::{Client, Gateway, Session};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    MANIFOLD,
    stub::{Stub, error, text},
    wire::{Answer, Wire, post, post_head},
};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

async fn gateway(stub: &Stub, limit: &str) -> (Gateway, Client, Session) {
    let config = format!(
        "[limits]\nrequest_body = \"{limit}\"\n{}",
        stub.server("s", &[])
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    (gateway, client, session)
}

/// A call of exactly `length` bytes.
fn call(length: usize) -> String {
    let start = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__size","arguments":{"bytes":1,"a":""#;
    let end = r#""}}}"#;
    format!(
        "{start}{}{end}",
        "z".repeat(length - start.len() - end.len())
    )
}

/// The body in chunks of up to `size` bytes.
fn chunked(body: &str, size: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for chunk in body.as_bytes().chunks(size) {
        all.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        all.extend(chunk);
        all.extend(b"\r\n");
    }
    all.extend(b"0\r\n\r\n");
    all
}

fn is_too_large(answer: &Answer, limit: usize) {
    assert_eq!(answer.status, 413, "{answer:?}");
    let told = answer.message()["error"].clone();
    assert_eq!(told["code"], -32600, "{told}");
    let told = told["message"].to_string();
    assert!(told.contains("limits.request_body"), "{told}");
    assert!(told.contains(&limit.to_string()), "{told}");
}

/// S40: announced or in chunks of any size, and what comes next on the connection.
#[tokio::test]
async fn the_limit_was_another_for_a_body_in_chunks() {
    const LIMIT: usize = 256 << 10;
    let stub = Stub::new();
    let (gateway, _, session) = gateway(&stub, "256KiB").await;
    let own = ("mcp-session-id", session.id.as_str());
    let head = post_head(&[own, ("transfer-encoding", "chunked")]);
    let mut wire = Wire::open(&gateway).await;
    for size in [1009, 65_536, LIMIT * 2] {
        for length in [LIMIT - 1, LIMIT, LIMIT + 1] {
            let body = call(length);
            for request in [
                [head.as_bytes(), &chunked(&body, size)].concat(),
                post(&[own], &body),
            ] {
                wire.send(&request).await.unwrap();
                let answer = wire.answer().await.unwrap();
                if length <= LIMIT {
                    assert_eq!(answer.status, 200, "{length} in {size}: {answer:?}");
                    let text = &answer.message()["result"]["content"][0]["text"];
                    assert_eq!(*text, "x");
                    continue;
                }
                is_too_large(&answer, LIMIT);
                // Either it goes on as if nothing had been, or it was closed in order.
                wire.send(&post(&[own], PING)).await.unwrap();
                match wire.answer().await {
                    Some(answer) => assert_eq!(answer.status, 200, "{answer:?}"),
                    None => wire = Wire::open(&gateway).await,
                }
            }
        }
    }
    assert_eq!(stub.messages("tools/call").len(), 3 * 2 * 2);
}

/// S40: it would see a broken connection instead of the reason.
#[tokio::test]
async fn a_client_that_was_still_sending_was_cut_off() {
    const LIMIT: usize = 8 << 20;
    let stub = Stub::new();
    let (gateway, _, session) = gateway(&stub, "8MiB").await;
    let own = ("mcp-session-id", session.id.as_str());
    let head = post_head(&[own, ("transfer-encoding", "chunked")]);
    for length in [LIMIT + 1, LIMIT + LIMIT / 2, 2 * LIMIT] {
        let body = call(length);
        for request in [
            post(&[own], &body),
            [head.as_bytes(), &chunked(&body, 1 << 20)].concat(),
        ] {
            // Everything first: a simple client does not look before it has sent all.
            let mut wire = Wire::open(&gateway).await;
            wire.send(&request).await.unwrap();
            let answer = wire.answer().await.unwrap();
            is_too_large(&answer, LIMIT);
        }
    }
    assert!(stub.messages("tools/call").is_empty());
}

/// S40: what is announced to be too large is refused for that alone.
#[tokio::test]
async fn a_body_that_would_be_refused_was_waited_for() {
    const LIMIT: usize = 64 << 10;
    let stub = Stub::new();
    let (gateway, _, session) = gateway(&stub, "64KiB").await;
    let own = ("mcp-session-id", session.id.as_str());
    let expect = ("expect", "100-continue");
    for length in [
        "65537",
        "131072",
        "131073",
        "10000000000",
        "9999999999999999999",
    ] {
        let announced = ("content-length", length);
        let mut wire = Wire::open(&gateway).await;
        // Nothing is sent, and nothing may be asked for.
        wire.send(post_head(&[own, announced, expect]).as_bytes())
            .await
            .unwrap();
        is_too_large(&wire.answer().await.unwrap(), LIMIT);
    }
    for length in ["10000000000", "9999999999999999999"] {
        let mut wire = Wire::open(&gateway).await;
        let head = post_head(&[own, ("content-length", length)]);
        wire.send(head.as_bytes()).await.unwrap();
        is_too_large(&wire.answer().await.unwrap(), LIMIT);
    }
    // One that fits is asked for, when there is somebody who would read it.
    let body = call(LIMIT);
    let announced = body.len().to_string();
    let fits = [own, ("content-length", announced.as_str()), expect];
    let mut wire = Wire::open(&gateway).await;
    for _ in 0..2 {
        wire.send(post_head(&fits).as_bytes()).await.unwrap();
        let answer = wire.answer().await.unwrap();
        assert_eq!(answer.status, 100, "{answer:?}");
        wire.send(body.as_bytes()).await.unwrap();
        assert_eq!(wire.answer().await.unwrap().status, 200);
    }
    let nowhere = post_head(&fits).replacen("/mcp", "/nowhere", 1);
    wire.send(nowhere.as_bytes()).await.unwrap();
    assert_eq!(wire.answer().await.unwrap().status, 404);
}

/// S40.
#[tokio::test]
async fn large_bodies_filled_the_memory() {
    let stub = Stub::new();
    let (gateway, _, session) = gateway(&stub, "1MiB").await;
    let own = ("mcp-session-id", session.id.as_str());
    let head = post_head(&[own, ("transfer-encoding", "chunked")]);
    let chunk = [
        b"100000\r\n".to_vec(),
        vec![b' '; 1 << 20],
        b"\r\n".to_vec(),
    ]
    .concat();
    let before = peak(&gateway);
    let mut senders = JoinSet::new();
    for _ in 0..8 {
        let (head, chunk) = (head.clone(), chunk.clone());
        let mut wire = Wire::open(&gateway).await;
        senders.spawn(async move {
            wire.send(head.as_bytes()).await.unwrap();
            // For as long as it is taken: a gibibyte of all of them together.
            for _ in 0..128 {
                if wire.send(&chunk).await.is_err() {
                    return;
                }
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
    // And many that announce all they may.
    let mut wires = Vec::new();
    for _ in 0..64 {
        let mut wire = Wire::open(&gateway).await;
        let head = post_head(&[own, ("content-length", "1048576")]);
        wire.send(format!("{head}[").as_bytes()).await.unwrap();
        wires.push(wire);
    }
    assert_eq!(session.post(&call(1 << 20)).await.unwrap().status, 200);
    let grown = peak(&gateway) - before;
    assert!(grown < 256 << 10, "{grown} KiB");
}

/// The most memory that it has had, in KiB.
pub(crate) fn peak(gateway: &Gateway) -> u64 {
    let path = format!("/proc/{}/status", gateway.pid().unwrap());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1);
    number.unwrap().parse().unwrap()
}

/// S40: nobody waits for somebody else's body.
#[tokio::test]
async fn a_slow_body_held_up_the_others() {
    let stub = Stub::new();
    let (gateway, _, session) = gateway(&stub, "1MiB").await;
    let own = ("mcp-session-id", session.id.as_str());
    let body = call(1000);
    let mut slow = Vec::new();
    for _ in 0..50 {
        let mut wire = Wire::open(&gateway).await;
        let request = post(&[own], &body);
        let (begun, rest) = request.split_at(request.len() - 20);
        wire.send(begun).await.unwrap();
        slow.push((wire, rest.to_vec()));
    }
    // Byte by byte, and between any two of them somebody else is served.
    for at in 0..20 {
        for (wire, rest) in &mut slow {
            wire.send(&rest[at..=at]).await.unwrap();
        }
        assert_eq!(session.request(9, "ping", "{}").await.unwrap().status, 200);
        if at == 18 {
            assert!(stub.messages("tools/call").is_empty());
        }
    }
    for (mut wire, _) in slow {
        let answer = wire.answer().await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(stub.messages("tools/call").len(), 50);
}

/// S40: what is no body of HTTP is the client's fault and not a matter of time.
#[tokio::test]
async fn a_broken_body_was_called_late() {
    let stub = Stub::new();
    let (gateway, _, session) = gateway(&stub, "1MiB").await;
    let own = ("mcp-session-id", session.id.as_str());
    let head = post_head(&[own, ("transfer-encoding", "chunked")]);
    for broken in [
        "nonsense\r\n",
        "5\r\n{\"jso\r\nzz\r\n",
        "fffffffffffffffff\r\n",
    ] {
        let mut wire = Wire::open(&gateway).await;
        wire.send(format!("{head}{broken}").as_bytes())
            .await
            .unwrap();
        if let Some(answer) = wire.answer().await {
            assert_eq!(answer.status, 400, "{broken:?}: {answer:?}");
        }
    }
    assert_eq!(session.request(1, "ping", "{}").await.unwrap().status, 200);
}

/// S42.
#[tokio::test]
async fn a_list_was_refused_for_the_shape_of_its_params() {
    let stub = Stub::new();
    let (_gateway, client, session) = gateway(&stub, "1MiB").await;
    let alone = Client::new(&_gateway.url("/mcp/s")).unwrap();
    let alone = alone.session().await.unwrap();
    for (method, key) in [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        for params in [
            "",
            r#","params":{}"#,
            r#","params":null"#,
            r#","params":{"cursor":null}"#,
            r#","params":{"_meta":{}}"#,
            r#","params":{"_meta":null}"#,
            r#","params":{"_meta":{"progressToken":1}}"#,
            r#","params":{"unknown":[1]}"#,
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"{params}}}"#);
            let reply = session.post(&body).await.unwrap();
            assert_eq!(reply.status, 200, "{body}: {reply:?}");
            let message = reply.message().unwrap();
            let list = message["result"][key].as_array();
            let expected = if key == "tools" { 6 } else { 0 };
            assert_eq!(list.unwrap().len(), expected, "{body}: {reply:?}");
            if key == "tools" {
                let reply = alone.post(&body).await.unwrap();
                let tools = reply.message().unwrap()["result"]["tools"].take();
                assert_eq!(tools.as_array().unwrap().len(), 6, "{body}: {reply:?}");
            }
        }
        for params in ["[]", "[1]", "42", "1.5", "\"x\"", "true", "false"] {
            let reply = session.request(2, method, params).await.unwrap();
            assert_eq!(
                error(&reply)["code"],
                -32602,
                "{method} {params}: {reply:?}"
            );
            assert_eq!(reply.message().unwrap()["id"], 2);
            assert_eq!(reply.status, 400, "{method} {params}: {reply:?}");
            let headers = [
                ("mcp-protocol-version", "2026-07-28"),
                ("mcp-method", method),
            ];
            let body =
                format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{params}}}"#);
            let reply = client.post(&headers, &body).await.unwrap();
            assert_eq!(
                error(&reply)["code"],
                -32602,
                "{method} {params}: {reply:?}"
            );
            assert_eq!(reply.status, 400, "{method} {params}: {reply:?}");
        }
    }
}

/// S42.
#[tokio::test]
async fn params_without_what_the_method_needs_went_to_a_server() {
    let stub = Stub::new();
    let (_gateway, _, session) = gateway(&stub, "1MiB").await;
    for method in [
        "tools/call",
        "prompts/get",
        "resources/read",
        "completion/complete",
        "logging/setLevel",
    ] {
        for params in [
            "",
            r#","params":{}"#,
            r#","params":null"#,
            r#","params":[]"#,
            r#","params":[{"name":"s__pid"}]"#,
            r#","params":42"#,
            r#","params":{"name":null,"uri":null,"ref":null,"level":null}"#,
            r#","params":{"name":7,"uri":7,"ref":7,"level":7}"#,
            r#","params":{"name":{},"uri":[],"ref":{},"level":{}}"#,
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":4,"method":"{method}"{params}}}"#);
            let reply = session.post(&body).await.unwrap();
            assert_eq!(error(&reply)["code"], -32602, "{body}: {reply:?}");
            assert_eq!(reply.message().unwrap()["id"], 4, "{body}");
            assert!(matches!(reply.status, 200 | 400), "{body}: {reply:?}");
        }
    }
    // Which of two names is meant nobody knows.
    for params in [
        r#"{"name":"s__pid","name":"s__echo"}"#,
        r#"{"name":"s__pid","n\u0061me":"s__echo"}"#,
    ] {
        let reply = session.request(5, "tools/call", params).await.unwrap();
        assert_eq!(reply.status, 400, "{reply:?}");
        assert_eq!(error(&reply)["code"], -32600, "{reply:?}");
        assert_eq!(reply.message().unwrap()["id"], 5);
    }
    for method in [
        "tools/call",
        "prompts/get",
        "resources/read",
        "completion/complete",
    ] {
        assert!(stub.messages(method).is_empty(), "{method}");
    }
}

/// S42: to the byte, but for the name.
#[tokio::test]
async fn arguments_were_altered_on_the_way() {
    let stub = Stub::new();
    let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
    stub.write("tools", &json!([tool("old"), tool("new")]).to_string());
    let (_gateway, client, session) = gateway(&stub, "1MiB").await;
    let shapes = [
        "",
        r#","arguments":{}"#,
        r#","arguments":null"#,
        r#","arguments":[1]"#,
        r#","arguments":"x""#,
        r#","arguments":42"#,
        r#","arguments":{"a":null,"":1}"#,
        r#","arguments":{"":null,"a":{"b":null,"c":[null,{}]}}"#,
        r#","arguments":{"a":1,"a":2,"A":3}"#,
        r#","arguments":{"name":"s__echo","arguments":null,"_meta":{"progressToken":1}}"#,
        r#", "arguments" : { "a" : 1.0 , "b":1e2 } ,"x-vendor":null"#,
        r#","_meta":null,"arguments":{}"#,
        r#","_meta":{},"arguments":{}"#,
        r#","_meta":{"a/b":null}"#,
    ];
    for (round, shape) in shapes.iter().enumerate() {
        let params = format!(r#"{{"name":"s__old"{shape}}}"#);
        let reply = session.request(3, "tools/call", &params).await.unwrap();
        assert_eq!(text(&reply), "called as old");
        let sent = sent(&stub, "old", round);
        let expected = format!(r#""method":"tools/call","params":{{"name":"old"{shape}}}}}"#);
        assert!(sent.ends_with(&expected), "{sent}");
    }
    // From the other era: its fields go, the rest stays.
    let fields = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "s__new"),
    ];
    let shapes = shapes
        .iter()
        .filter(|shape| !shape.starts_with(r#","_meta""#));
    for (round, shape) in shapes.enumerate() {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"s__new"{shape},{fields}}}}}"#
        );
        let reply = client.post(&headers, &body).await.unwrap();
        assert_eq!(text(&reply), "called as new");
        let sent = sent(&stub, "new", round);
        let expected = format!(r#""params":{{"name":"new"{shape}"#);
        assert!(sent.contains(&expected), "{sent}");
        assert!(!sent.contains("io.modelcontextprotocol/"), "{sent}");
    }
    for method in ["ping", "logging/setLevel"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":6,"method":"{method}","params":null}}"#);
        session.post(&body).await.unwrap();
    }
    session
        .request(7, "logging/setLevel", r#"{"level":"info"}"#)
        .await
        .unwrap();
    for line in stub.lines() {
        assert!(!line.contains(r#""params":null"#), "{line}");
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], json!("2.0"), "{line}");
    }
}

/// The line of one of the calls of a tool.
fn sent(stub: &Stub, tool: &str, round: usize) -> String {
    let start = format!(r#""params":{{"name":"{tool}""#);
    let lines = stub.lines();
    let mut calls = lines.iter().filter(|line| line.contains(&start));
    calls.nth(round).unwrap().clone()
}

//! The stdio transport over an in-memory pipe, in both eras.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly, as the tests themselves do"
)]

use std::time::Duration;

use manifold_example_server::{Eras, ExampleError, MAX_MESSAGE, serve_lines};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::task::JoinHandle;

/// Far beyond what anything here takes; only a hang meets it.
const DEADLINE: Duration = Duration::from_secs(30);

struct Client {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    server: JoinHandle<Result<(), ExampleError>>,
}

impl Client {
    fn start(eras: Eras) -> Self {
        let (input, reader) = tokio::io::duplex(4096);
        let (writer, output) = tokio::io::duplex(4096);
        #[expect(
            clippy::disallowed_methods,
            reason = "the test joins this one task itself"
        )]
        let server = tokio::spawn(serve_lines(reader, writer, eras));
        Self {
            input,
            output: BufReader::new(output).lines(),
            server,
        }
    }

    async fn legacy(capabilities: Value) -> Self {
        let mut client = Self::start(Eras::Both);
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "t", "version": "1" } });
        client.request(0, "initialize", params).await;
        assert_eq!(
            client.next().await["result"]["protocolVersion"],
            "2025-11-25"
        );
        client
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        client
    }

    async fn line(&mut self, bytes: &[u8]) {
        tokio::time::timeout(DEADLINE, async {
            self.input.write_all(bytes).await.unwrap();
            self.input.write_all(b"\n").await.unwrap();
        })
        .await
        .unwrap();
    }

    async fn send(&mut self, message: &Value) {
        self.line(message.to_string().as_bytes()).await;
    }

    async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id: Value = id.into();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
    }

    async fn countdown(&mut self, id: u64, from: u32, interval_ms: u64, token: Option<&str>) {
        let mut params = json!({ "name": "countdown", "arguments": { "from": from, "interval_ms": interval_ms } });
        if let Some(token) = token {
            params["_meta"] = json!({ "progressToken": token });
        }
        self.request(id, "tools/call", params).await;
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(DEADLINE, self.output.next_line())
            .await
            .expect("an answer in time");
        serde_json::from_str(&line.unwrap().expect("the server is still there")).unwrap()
    }

    /// Closes stdin, and returns what else the server had to say before it ended.
    async fn close(self) -> Vec<Value> {
        let Self {
            input,
            mut output,
            server,
        } = self;
        drop(input);
        let mut rest = Vec::new();
        while let Some(line) = tokio::time::timeout(DEADLINE, output.next_line())
            .await
            .unwrap()
            .unwrap()
        {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        tokio::time::timeout(DEADLINE, server)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        rest
    }
}

#[tokio::test]
async fn both_eras_mix_on_one_pipe() {
    let mut client = Client::start(Eras::Both);
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    client
        .request(
            "server-discover-probe-1",
            "server/discover",
            json!({ "_meta": meta }),
        )
        .await;
    let discovered = client.next().await;
    assert_eq!(discovered["id"], "server-discover-probe-1");
    assert_eq!(
        discovered["result"]["supportedVersions"],
        json!(["2026-07-28"])
    );

    client
        .request(
            1,
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {} }),
        )
        .await;
    assert_eq!(
        client.next().await["result"]["protocolVersion"],
        "2025-06-18"
    );

    for (params, era) in [
        (json!({ "name": "whoami" }), "legacy"),
        (json!({ "name": "whoami", "_meta": meta }), "modern"),
    ] {
        client.request(2, "tools/call", params).await;
        assert_eq!(
            client.next().await["result"]["structuredContent"]["era"],
            era
        );
    }
    assert!(client.close().await.is_empty());
}

#[tokio::test]
async fn a_refused_request_keeps_its_id_and_the_connection() {
    let mut client = Client::start(Eras::Both);
    for (line, id, code) in [
        (&b"no json"[..], Value::Null, -32700),
        (b"[]", Value::Null, -32600),
        (
            br#"{"jsonrpc":"1.0","id":5,"method":"ping"}"#,
            json!(5),
            -32600,
        ),
        (
            br#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#,
            json!("a"),
            -32600,
        ),
    ] {
        client.line(line).await;
        let answer = client.next().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&id, &json!(code)),
            "{line:?}"
        );
    }
    client.line(b"").await;
    client.line(b" \r").await;
    client.request(9, "ping", json!({})).await;
    assert_eq!(
        client.next().await,
        json!({ "jsonrpc": "2.0", "id": 9, "result": {} })
    );
}

#[tokio::test]
async fn a_line_above_the_limit_is_skipped() {
    let mut client = Client::start(Eras::Both);
    let line = vec![b' '; MAX_MESSAGE + 1];
    client.line(&line).await;
    let answer = client.next().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&Value::Null, &json!(-32600))
    );
    client.request(1, "ping", json!({})).await;
    assert_eq!(client.next().await["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_countdown_reports_progress_and_lets_others_pass() {
    let mut client = Client::legacy(json!({})).await;
    client.countdown(1, 3, 1000, Some("t")).await;
    client.request(2, "ping", json!({})).await;
    assert_eq!(client.next().await["id"], 2, "the ping overtakes");
    for step in 1..=3 {
        let note = client.next().await;
        assert_eq!(note["method"], "notifications/progress");
        assert_eq!(note["params"]["progressToken"], "t");
        assert_eq!(note["params"]["progress"], step);
        assert_eq!(note["params"]["total"], 3);
    }
    let answer = client.next().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(1), &json!("Counted down from 3."))
    );
}

#[tokio::test]
async fn without_a_token_there_is_no_progress_and_debug_is_only_logged_when_asked_for() {
    let mut client = Client::legacy(json!({})).await;
    client.countdown(1, 2, 0, None).await;
    assert_eq!(client.next().await["id"], 1);
    client
        .request(2, "logging/setLevel", json!({ "level": "debug" }))
        .await;
    assert_eq!(client.next().await["id"], 2);
    client.countdown(3, 2, 0, None).await;
    let note = client.next().await;
    assert_eq!(
        (&note["method"], &note["params"]["level"]),
        (&json!("notifications/message"), &json!("debug"))
    );
    assert_eq!(client.next().await["id"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_countdown_says_nothing_more() {
    let mut client = Client::legacy(json!({})).await;
    client.countdown(1, 1000, 1000, Some("t")).await;
    assert_eq!(client.next().await["method"], "notifications/progress");
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } })).await;
    // What was said before the cancellation may still come; after the counter shows it, nothing may.
    let mut asked = 2;
    loop {
        client
            .request(asked, "tools/call", json!({ "name": "whoami" }))
            .await;
        let facts = loop {
            let message = client.next().await;
            if message["id"] == asked {
                break message["result"]["structuredContent"].clone();
            }
            assert_eq!(
                message["method"], "notifications/progress",
                "no answer to a cancelled call"
            );
        };
        if facts["cancelled"] == 1 {
            assert_eq!(facts["running"], 0);
            break;
        }
        asked += 1;
    }
    // The id is free again, and long after the next step would have come there is only this answer.
    client.countdown(1, 1, 5000, None).await;
    assert_eq!(client.next().await["id"], 1);
    assert!(client.close().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_id_in_use_is_refused() {
    let mut client = Client::legacy(json!({})).await;
    client.countdown(1, 1, 10_000, None).await;
    client.countdown(1, 1, 0, None).await;
    assert_eq!(client.next().await["error"]["code"], -32600);
    assert_eq!(client.next().await["result"]["isError"], false);
}

#[tokio::test]
async fn ask_asks_on_the_pipe() {
    let mut client = Client::legacy(json!({ "elicitation": {} })).await;
    client
        .request("call", "tools/call", json!({ "name": "ask" }))
        .await;
    let question = client.next().await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(
        question["params"]["requestedSchema"]["required"],
        json!(["name"])
    );
    client
        .send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": { "name": "Ada" } } }))
        .await;
    let answer = client.next().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!("call"), &json!("Hello, Ada!"))
    );

    client
        .request("again", "tools/call", json!({ "name": "ask" }))
        .await;
    let second = client.next().await;
    assert_ne!(second["id"], question["id"]);
    client.send(&json!({ "jsonrpc": "2.0", "id": second["id"], "error": { "code": -32603, "message": "no" } })).await;
    assert_eq!(client.next().await["result"]["isError"], true);
}

#[tokio::test]
async fn a_subscription_is_acknowledged_and_stays_open() {
    let mut client = Client::start(Eras::Modern);
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    client
        .request("listen:0", "subscriptions/listen", params)
        .await;
    let note = client.next().await;
    assert_eq!(note["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        "listen:0"
    );
    assert_eq!(note["params"]["notifications"], json!({}));
    client
        .request(1, "tools/list", json!({ "_meta": meta }))
        .await;
    assert_eq!(client.next().await["id"], 1);
    assert!(client.close().await.is_empty());
}

#[tokio::test]
async fn the_end_of_stdin_ends_the_server_in_the_middle_of_a_call() {
    let mut client = Client::legacy(json!({})).await;
    client.countdown(1, 1000, 10_000, None).await;
    client.request(2, "ping", json!({})).await;
    assert_eq!(client.next().await["id"], 2);
    assert!(client.close().await.is_empty());
}

#[tokio::test]
async fn a_last_line_without_a_newline_counts() {
    let mut client = Client::start(Eras::Both);
    client
        .input
        .write_all(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .await
        .unwrap();
    let rest = client.close().await;
    assert_eq!(rest, [json!({ "jsonrpc": "2.0", "id": 1, "result": {} })]);
}

#[tokio::test]
async fn a_client_that_stops_reading_ends_the_server() {
    let Client {
        mut input,
        output,
        server,
    } = Client::start(Eras::Both);
    drop(output);
    input
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
        .await
        .unwrap();
    let ended = tokio::time::timeout(DEADLINE, server)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(ended, Err(ExampleError::Write(_))), "{ended:?}");
}

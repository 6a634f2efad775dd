//! What both eras share: bodies, streams, protocols, the end.

use http::{Method, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use manifold_example_server::{Eras, ExampleError, HttpServer, MAX_MESSAGE};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::client::{Answer, Server, countdown, in_time, message, request};

#[tokio::test]
async fn bodies_and_headers_that_are_no_good() {
    let server = Server::start(Eras::Both).await;
    let ping = || message(json!(1), "ping", json!({}));
    for (headers, body, status, id, code) in [
        (vec![], "{".to_owned(), 400, Value::Null, -32700),
        (vec![], "[]".to_owned(), 400, Value::Null, -32600),
        (
            vec![],
            r#"{"id":3,"method":"ping"}"#.to_owned(),
            400,
            json!(3),
            -32600,
        ),
        (
            vec![("content-type", "text/plain")],
            ping(),
            415,
            Value::Null,
            -32600,
        ),
        (
            vec![("accept", "application/json")],
            ping(),
            406,
            Value::Null,
            -32600,
        ),
        (
            vec![("origin", "http://example.com")],
            ping(),
            403,
            Value::Null,
            -32600,
        ),
    ] {
        server
            .post(&headers, body)
            .await
            .error(status, id, code)
            .await;
    }
    let local = [("origin", "http://localhost:5173")];
    let initialize = message(
        json!(1),
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": {} }),
    );
    assert_eq!(server.post(&local, initialize).await.status, StatusCode::OK);
    let mut elsewhere = request(Method::POST, &[], ping());
    *elsewhere.uri_mut() = "/.well-known/oauth-authorization-server".parse().unwrap();
    assert_eq!(server.send(elsewhere).await.status, StatusCode::NOT_FOUND);
    server.stop().await;
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused_by_its_length_alone() {
    let server = Server::start(Eras::Both).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        MAX_MESSAGE + 1
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    in_time(stream.read_exact(&mut start)).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
    server.stop().await;
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused_in_chunks_too() {
    let server = Server::start(Eras::Both).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let sending = async {
        let piece = format!("100000\r\n{}\r\n", " ".repeat(0x10_0000));
        // The server may close before all is sent.
        while writer.write_all(piece.as_bytes()).await.is_ok() {}
    };
    let reading = async {
        let mut start = [0; 12];
        reader.read_exact(&mut start).await.unwrap();
        start
    };
    let start = in_time(async {
        tokio::select! {
            start = reading => start,
            never = async { sending.await; std::future::pending().await } => never,
        }
    })
    .await;
    assert_eq!(&start, b"HTTP/1.1 413");
    server.stop().await;
}

#[tokio::test]
async fn progress_comes_as_events_and_ends_with_the_answer_in_both_eras() {
    let server = Server::start(Eras::Both).await;
    let session = server.session(json!({})).await;
    for modern in [false, true] {
        let params = countdown(3, 1, true);
        let mut answer = if modern {
            server.modern("tools/call", params).await
        } else {
            server.legacy(&session, 1, "tools/call", params).await
        };
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.headers["x-accel-buffering"], "no");
        for step in 1..=3 {
            let note = answer.event().await.unwrap();
            assert_eq!(note["method"], "notifications/progress");
            assert_eq!(
                (
                    &note["params"]["progressToken"],
                    &note["params"]["progress"]
                ),
                (&json!(7), &json!(step))
            );
        }
        let last = answer.event().await.unwrap();
        assert_eq!(
            (&last["id"], &last["result"]["content"][0]["text"]),
            (&json!(1), &json!("Counted down from 3."))
        );
        assert_eq!(last["result"]["resultType"] == "complete", modern);
        assert!(answer.event().await.is_none());
    }
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_streams_nothing_is_answered_in_json() {
    let server = Server::start(Eras::Both).await;
    let session = server.session(json!({})).await;
    let legacy = server
        .legacy(&session, 1, "tools/call", countdown(2, 1, false))
        .await
        .json()
        .await;
    assert_eq!(
        legacy["result"]["content"][0]["text"],
        "Counted down from 2."
    );
    let modern = server
        .modern("tools/call", countdown(2, 1, false))
        .await
        .json()
        .await;
    assert_eq!(modern["result"]["resultType"], "complete");
    server.stop().await;
}

#[tokio::test]
async fn log_messages_come_to_those_who_want_them() {
    let server = Server::start(Eras::Both).await;
    let mut params = countdown(1, 0, false);
    params["_meta"] = json!({ "io.modelcontextprotocol/logLevel": "debug" });
    let mut modern = server.modern("tools/call", params).await;
    assert_eq!(
        modern.event().await.unwrap()["method"],
        "notifications/message"
    );
    assert_eq!(modern.event().await.unwrap()["id"], 1);

    let session = server.session(json!({})).await;
    let set = server
        .legacy(&session, 1, "logging/setLevel", json!({ "level": "debug" }))
        .await;
    assert_eq!(set.status, StatusCode::OK);
    let mut legacy = server
        .legacy(&session, 2, "tools/call", countdown(1, 0, false))
        .await;
    assert_eq!(legacy.event().await.unwrap()["params"]["level"], "debug");
    assert_eq!(legacy.event().await.unwrap()["id"], 2);
    server.stop().await;
}

#[tokio::test]
async fn a_server_of_one_era_refuses_the_other() {
    let modern = Server::start(Eras::Modern).await;
    let initialize = || {
        message(
            json!(1),
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {} }),
        )
    };
    let error = modern
        .post(&[], initialize())
        .await
        .error(400, json!(1), -32022)
        .await;
    assert_eq!(
        error["data"],
        json!({ "supported": ["2026-07-28"], "requested": "2025-11-25" })
    );
    for method in [Method::GET, Method::DELETE] {
        let answer = modern
            .send(request(method, &[("mcp-session-id", "x")], ""))
            .await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.headers["allow"], "POST");
    }
    modern.stop().await;

    let legacy = Server::start(Eras::Legacy).await;
    legacy
        .modern("server/discover", json!({}))
        .await
        .error(400, json!(1), -32601)
        .await;
    legacy
        .modern("tools/list", json!({}))
        .await
        .error(400, json!(1), -32600)
        .await;
    assert!(
        legacy
            .post(&[], initialize())
            .await
            .headers
            .contains_key("mcp-session-id")
    );
    legacy.stop().await;
}

#[tokio::test]
async fn a_shutdown_ends_subscriptions_with_their_result_and_lets_calls_finish() {
    let server = Server::start(Eras::Both).await;
    let session = server.session(json!({})).await;
    let mut get = server
        .send(request(Method::GET, &[("mcp-session-id", &session)], ""))
        .await;
    let mut listen = server
        .modern(
            "subscriptions/listen",
            json!({ "notifications": { "toolsListChanged": true } }),
        )
        .await;
    let note = listen.event().await.unwrap();
    assert_eq!(note["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        1
    );
    let mut call = server.modern("tools/call", countdown(5, 50, true)).await;
    call.event().await.unwrap();

    server.stop.cancel();
    let last = listen.event().await.unwrap();
    assert_eq!(
        (&last["id"], &last["result"]["resultType"]),
        (&json!(1), &json!("complete"))
    );
    assert_eq!(
        last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        1
    );
    assert!(listen.event().await.is_none());
    assert!(get.event().await.is_none());
    let mut last = None;
    while let Some(event) = call.event().await {
        last = Some(event);
    }
    assert_eq!(
        last.unwrap()["result"]["content"][0]["text"],
        "Counted down from 5."
    );
    server.stop().await;
}

#[tokio::test]
async fn http2_without_tls_works_on_the_same_port() {
    let server = Server::start(Eras::Both).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        connection.await.ok();
    });
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 7 });
    let mut params = countdown(1000, 20, false);
    params["_meta"] = meta;
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "countdown"),
    ];
    let mut request = request(
        Method::POST,
        &headers,
        message(json!(1), "tools/call", params),
    );
    *request.uri_mut() = format!("http://{}/mcp", server.address).parse().unwrap();
    request.headers_mut().remove("host");
    let response = in_time(sender.send_request(request)).await.unwrap();
    assert_eq!(response.version(), http::Version::HTTP_2);
    let mut answer = Answer::new(response, JoinSet::new());
    assert_eq!(answer.event().await.unwrap()["params"]["progress"], 1);
    // Only the stream ends here; the connection stays.
    drop(answer);
    server.until(0, 1).await;
    assert!(!driver.is_empty() && sender.is_ready());
    drop(sender);
    server.stop().await;
}

#[tokio::test]
async fn an_address_in_use_is_said_to_be() {
    let server = Server::start(Eras::Both).await;
    let second = HttpServer::bind(server.address, Eras::Both).await;
    assert!(matches!(second, Err(ExampleError::Bind { address, .. }) if address == server.address));
    server.stop().await;
}

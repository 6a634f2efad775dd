//! Web pages that the user opens must not reach the gateway, and everyone else must.

use manifold_testkit::{Gateway, HttpStub, LegacyServer, exchange};

use crate::{
    MANIFOLD,
    stub::{error, text},
};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"page","version":"1"}}}"#;

#[tokio::test]
async fn a_page_of_another_origin_could_use_the_gateway() {
    let gateway = Gateway::start(MANIFOLD, "").await.unwrap();
    let client = gateway.client().unwrap();
    for origin in [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
    ] {
        // Refused before anything is read.
        let reply = client.post(&[("origin", origin)], "{}").await.unwrap();
        assert_eq!(reply.status, 403, "{origin}: {reply:?}");
        let message = error(&reply)["message"].as_str().unwrap().to_owned();
        assert!(message.contains("listen.allowed_origins"), "{message}");
        let reply = client.post(&[("origin", origin)], HELLO).await.unwrap();
        assert_eq!(reply.status, 403, "{origin}: {reply:?}");
        assert!(reply.headers.get("mcp-session-id").is_none());
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "evil.example:8080",
    ] {
        let reply = client.post(&[("host", host)], "{}").await.unwrap();
        assert_eq!(reply.status, 403, "{host}: {reply:?}");
        let message = error(&reply)["message"].as_str().unwrap().to_owned();
        assert!(message.contains("listen.allowed_hosts"), "{message}");
        assert!(message.contains("localhost"), "{message}");
        // Nothing on another path or by another verb either.
        for verb in ["GET", "DELETE", "OPTIONS"] {
            let reply = client.send(verb, &[("host", host)], "").await.unwrap();
            assert_eq!(reply.status, 403, "{verb} {host}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn local_clients_and_pages_were_refused() {
    let config = "[listen]\nallowed_hosts = [\"mcp.example\"]\nallowed_origins = [\"https://app.example\"]\n";
    let gateway = Gateway::start(MANIFOLD, config).await.unwrap();
    let client = gateway.client().unwrap();
    let own = gateway.authority().to_owned();
    let reply = client.post(&[], HELLO).await.unwrap();
    assert_eq!(reply.status, 200, "no origin: {reply:?}");
    for origin in [
        "http://localhost:6274",
        "http://127.0.0.1:6274",
        "http://[::1]:6274",
        "https://app.example",
    ] {
        let reply = client.post(&[("origin", origin)], HELLO).await.unwrap();
        assert_eq!(reply.status, 200, "{origin}: {reply:?}");
    }
    for host in [
        "localhost",
        "127.0.0.1",
        "[::1]:8080",
        &own,
        "mcp.example",
        "mcp.example:443",
    ] {
        let reply = client.post(&[("host", host)], HELLO).await.unwrap();
        assert_eq!(reply.status, 200, "{host}: {reply:?}");
    }
    let reply = client
        .post(&[("host", "evil.example")], HELLO)
        .await
        .unwrap();
    let message = error(&reply)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("mcp.example"), "{message}");
}

/// A second Host header is somebody's trick.
#[tokio::test]
async fn a_good_host_header_hid_a_bad_one() {
    let gateway = Gateway::start(MANIFOLD, "").await.unwrap();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{HELLO}",
        HELLO.len()
    );
    let (head, _) = exchange(gateway.authority(), request.as_bytes())
        .await
        .unwrap();
    let status = head.split(' ').nth(1).unwrap();
    assert!(matches!(status, "400" | "403"), "{head}");
}

#[tokio::test]
async fn a_server_was_sent_the_clients_host_and_refused_it() {
    let server = LegacyServer::new(r#"{"content":[{"type":"text","text":"seen"}]}"#);
    let stub = HttpStub::start(move |seen| server.react(seen))
        .await
        .unwrap();
    let config = format!(
        "[listen]\nallowed_hosts = [\"mcp.example\"]\n[servers.web]\nurl = {:?}\n",
        stub.url()
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let host = [("host", "mcp.example"), ("mcp-session-id", &session.id)];
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"web__look"}}"#;
    let reply = client.post(&host, call).await.unwrap();
    assert_eq!(text(&reply), "seen");
    let own = stub.authority();
    for seen in stub.seen() {
        assert_eq!(seen.header("host"), Some(own.as_str()), "{seen:?}");
        assert_eq!(seen.header("origin"), None);
    }
}

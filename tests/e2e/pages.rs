//! Clients that run in a browser, and pages that have no business here.

use manifold_testkit::{Client, Events, Gateway, Reply};
use serde_json::json;

use crate::{
    MANIFOLD,
    stub::{Stub, error, names, text},
    wire::{Headers, Wire, post},
};

const INSPECTOR: (&str, &str) = ("origin", "http://localhost:6274");
/// What browser clients send, and a few that servers may ask for.
const HEADERS: [&str; 9] = [
    "authorization",
    "content-type",
    "accept",
    "mcp-protocol-version",
    "mcp-session-id",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-param-x",
];
const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"page","version":"1"}}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

async fn preflight(client: &Client, origin: &str, verb: &str) -> Reply {
    let wanted = HEADERS.join(",");
    let headers = [
        ("origin", origin),
        ("access-control-request-method", verb),
        ("access-control-request-headers", wanted.as_str()),
    ];
    client.send("OPTIONS", &headers, "").await.unwrap()
}

/// The names in a header that is a list of them.
fn listed(reply: &Reply, header: &str) -> Vec<String> {
    let values = reply.headers.get_all(header).iter();
    let names = values.flat_map(|value| value.to_str().unwrap().split(','));
    names.map(|name| name.trim().to_ascii_lowercase()).collect()
}

/// Whether a browser lets a page of `origin` have this answer.
fn is_for(reply: &Reply, origin: &str) -> bool {
    let told: Vec<_> = reply
        .headers
        .get_all("access-control-allow-origin")
        .iter()
        .collect();
    // Never for everybody, and never with what the browser keeps for our host.
    assert!(told.iter().all(|origin| *origin != "*"), "{reply:?}");
    let credentials = "access-control-allow-credentials";
    assert!(!reply.headers.contains_key(credentials), "{reply:?}");
    told == [origin]
}

/// S37.
#[tokio::test]
async fn a_preflight_was_answered_with_an_error() {
    let stub = Stub::new();
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &[]))
        .await
        .unwrap();
    for path in ["/mcp", "/mcp/", "/mcp/s"] {
        let client = gateway.client_of(path).unwrap();
        for verb in ["POST", "GET", "DELETE"] {
            for origin in [INSPECTOR.1, "http://127.0.0.1:3000", "https://[::1]"] {
                let reply = preflight(&client, origin, verb).await;
                assert!(matches!(reply.status, 200 | 204), "{path} {reply:?}");
                assert_eq!(reply.body, "");
                assert!(is_for(&reply, origin), "{reply:?}");
                let verbs = listed(&reply, "access-control-allow-methods");
                for verb in ["get", "post", "delete", "options"] {
                    assert!(verbs.contains(&verb.to_owned()), "{verb}: {reply:?}");
                }
                let allowed = listed(&reply, "access-control-allow-headers");
                for header in HEADERS {
                    assert!(allowed.contains(&header.to_owned()), "{header}: {reply:?}");
                }
                assert!(listed(&reply, "vary").contains(&"origin".to_owned()));
            }
        }
    }
}

/// S37: a page sees nothing of an answer that does not say so itself, and of its headers only those named there.
#[tokio::test]
async fn a_page_was_shown_no_errors_and_no_session_id() {
    let stub = Stub::new();
    let config = "[limits]\nrequest_body = \"1KiB\"\n[sessions]\nmax = 2\n".to_owned()
        + &stub.server("s", &[]);
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let own = ("mcp-session-id", session.id.as_str());
    let (json, both) = (
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    );
    let modern = ("mcp-protocol-version", "2026-07-28");
    let long = format!("\"{}\"", "x".repeat(1024));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let pid = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__pid"}}"#;
    let unknown = r#"{"jsonrpc":"2.0","id":1,"method":"no/such","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let cases: [(u16, &str, Headers<'_>, &str); 14] = [
        (200, "POST", &[json, both], HELLO),
        (200, "POST", &[json, both, own], pid),
        (
            200,
            "POST",
            &[json, ("accept", "text/event-stream"), own],
            PING,
        ),
        (202, "POST", &[json, both, own], note),
        (400, "POST", &[json, both, own], "{"),
        (400, "POST", &[json, both], PING),
        (400, "POST", &[json, both, modern], PING),
        (400, "GET", &[both], ""),
        (404, "POST", &[json, both, ("mcp-session-id", "gone")], PING),
        (
            404,
            "POST",
            &[json, both, modern, ("mcp-method", "no/such")],
            unknown,
        ),
        (405, "PUT", &[json, both, own], PING),
        (406, "POST", &[json, ("accept", "text/html"), own], PING),
        (413, "POST", &[json, both, own], &long),
        (
            415,
            "POST",
            &[("content-type", "text/plain"), both, own],
            PING,
        ),
    ];
    for (status, verb, headers, body) in cases {
        let headers = [headers, &[INSPECTOR]].concat();
        let reply = client.send(verb, &headers, body).await.unwrap();
        assert_eq!(reply.status, status, "{verb} {body}: {reply:?}");
        can_read(&reply);
    }
    for path in ["/", "/mcp/nobody", "/.well-known/oauth-protected-resource"] {
        let client = gateway.client_of(path).unwrap();
        let reply = client.send("GET", &[INSPECTOR], "").await.unwrap();
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
        can_read(&reply);
    }
    // Both sessions are in use.
    let other = client.session().await.unwrap();
    let mut held = Vec::new();
    for session in [&session, &other] {
        let headers = [("mcp-session-id", session.id.as_str()), both, INSPECTOR];
        let stream = client.open("GET", &headers, "").await.unwrap();
        assert_eq!(stream.status(), 200);
        let head = Reply {
            status: 200,
            headers: stream.headers().clone(),
            body: String::new(),
        };
        can_read(&head);
        held.push(Events::of(stream).unwrap());
    }
    let reply = client.post(&[INSPECTOR], HELLO).await.unwrap();
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(reply.headers.contains_key("retry-after"), "{reply:?}");
    can_read(&reply);
    let reply = client.send("DELETE", &[own, INSPECTOR], "").await.unwrap();
    assert_eq!(reply.status, 204, "{reply:?}");
    can_read(&reply);
}

fn can_read(reply: &Reply) {
    assert!(is_for(reply, INSPECTOR.1), "{reply:?}");
    let exposed = listed(reply, "access-control-expose-headers");
    for header in [
        "mcp-session-id",
        "mcp-protocol-version",
        "www-authenticate",
        "retry-after",
    ] {
        assert!(exposed.contains(&header.to_owned()), "{header}: {reply:?}");
    }
    assert!(
        listed(reply, "vary").contains(&"origin".to_owned()),
        "{reply:?}"
    );
}

/// S37.
#[tokio::test]
async fn a_foreign_page_was_told_what_is_here() {
    let gateway = Gateway::start(MANIFOLD, "").await.unwrap();
    let client = gateway.client().unwrap();
    for origin in [
        "https://evil.example",
        "http://localhost.evil.example",
        "http://evil.example:6274",
        "null",
        "",
        "file://",
        "http://localhost:6274/",
        "http://user@localhost:6274",
        "chrome-extension://abcdefgh",
    ] {
        let mut replies = Vec::new();
        for verb in ["POST", "GET", "DELETE"] {
            replies.push(preflight(&client, origin, verb).await);
        }
        let origin = ("origin", origin);
        replies.push(client.post(&[origin], HELLO).await.unwrap());
        // A form needs no preflight.
        let form = [origin, ("content-type", "text/plain")];
        replies.push(client.send("POST", &form, HELLO).await.unwrap());
        replies.push(client.send("GET", &[origin], "").await.unwrap());
        let nowhere = gateway.client_of("/nowhere").unwrap();
        replies.push(nowhere.send("GET", &[origin], "").await.unwrap());
        for reply in replies {
            assert_eq!(reply.status, 403, "{origin:?}: {reply:?}");
            error(&reply);
            let mut headers = reply.headers.keys();
            let told = headers.any(|name| name.as_str().starts_with("access-control-"));
            assert!(!told, "{origin:?}: {reply:?}");
            assert!(!reply.headers.contains_key("mcp-session-id"), "{reply:?}");
        }
    }
    // A good one does not hide a bad one.
    let two = [INSPECTOR, ("origin", "https://evil.example")];
    let reply = client.post(&two, HELLO).await.unwrap();
    assert_eq!(reply.status, 403, "{reply:?}");
    assert_eq!(gateway.status().await.unwrap()["sessions"], 0);
}

/// S37: what the Inspector does, with nothing that a page could not read.
#[tokio::test]
async fn a_browser_client_could_not_work() {
    let stub = Stub::new();
    let config = "[listen]\nallowed_origins = [\"https://app.example\"]\n".to_owned();
    let config = config + &stub.server("s", &[]);
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    gateway.server_is("s", "ready").await.unwrap();
    let client = gateway.client().unwrap();
    for origin in [INSPECTOR.1, "https://app.example", "HTTPS://APP.example"] {
        let page = ("origin", origin);
        let can = |reply: &Reply| assert!(is_for(reply, origin), "{reply:?}");
        can(&preflight(&client, origin, "POST").await);
        let hello = client.post(&[page], HELLO).await.unwrap();
        can(&hello);
        assert!(listed(&hello, "access-control-expose-headers").contains(&"mcp-session-id".into()));
        let id = hello.headers["mcp-session-id"].to_str().unwrap();
        let session = [
            page,
            ("mcp-session-id", id),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let reply = client.post(&session, note).await.unwrap();
        assert_eq!(reply.status, 202);
        can(&reply);
        let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
        let reply = client.post(&session, list).await.unwrap();
        can(&reply);
        assert!(names(&reply).contains(&"s__pid".to_owned()));
        can(&preflight(&client, origin, "GET").await);
        let accept = [&session[..], &[("accept", "text/event-stream")]].concat();
        let stream = client.open("GET", &accept, "").await.unwrap();
        assert_eq!(stream.headers()["access-control-allow-origin"], origin);
        let mut stream = Events::of(stream).unwrap();
        let call = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"s__progress","_meta":{"progressToken":7}}}"#;
        let reply = client.post(&session, call).await.unwrap();
        can(&reply);
        assert_eq!(reply.headers["content-type"], "text/event-stream");
        assert_eq!(text(&reply), "done");
        can(&preflight(&client, origin, "DELETE").await);
        let reply = client.send("DELETE", &session, "").await.unwrap();
        assert_eq!(reply.status, 204, "{reply:?}");
        can(&reply);
        assert_eq!(stream.next().await.unwrap(), None);
        // A page of the other era.
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "page", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "name": "s__echo", "arguments": {}, "_meta": meta });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let headers = [
            page,
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "s__echo"),
        ];
        let reply = client.post(&headers, &call.to_string()).await.unwrap();
        can(&reply);
        assert_eq!(text(&reply), "{}");
    }
    // One more, and none that only looks like it.
    for origin in [
        "http://app.example",
        "https://app.example:8443",
        "https://app.example.evil.example",
        "https://evil-app.example",
        "https://app.example/",
    ] {
        let reply = preflight(&client, origin, "POST").await;
        assert_eq!(reply.status, 403, "{origin}: {reply:?}");
        assert!(!is_for(&reply, origin), "{reply:?}");
    }
}

/// S38: a page whose name has come to mean this machine.
#[tokio::test]
async fn a_name_that_was_bound_again_reached_the_gateway() {
    let config = "[listen]\nallowed_hosts = [\"mcp.example\", \"other.example:8443\"]\n";
    let gateway = Gateway::start(MANIFOLD, config).await.unwrap();
    let port = gateway.authority().rsplit_once(':').unwrap().1.to_owned();
    let request = |line: &str, hosts: &[&str]| {
        let mut head = format!("POST {line}/mcp HTTP/1.1\r\n");
        for host in hosts {
            head += &format!("host: {host}\r\n");
        }
        let usual = post(&[], HELLO);
        let usual = String::from_utf8(usual).unwrap();
        head + usual.split_once("host: localhost\r\n").unwrap().1
    };
    let local = format!("[::1]:{port}");
    let numbers = format!("127.0.0.1:{port}");
    for (line, hosts, served) in [
        ("", &["localhost"][..], true),
        ("", &["LocalHost:1"], true),
        ("", &[&local], true),
        ("", &[&numbers], true),
        ("", &["MCP.example"], true),
        ("", &["mcp.example:9"], true),
        ("", &["other.example:8443"], true),
        ("http://localhost", &["localhost"], true),
        ("", &["other.example"], false),
        ("", &["evil.example"], false),
        ("", &["mcp.example.evil.example"], false),
        ("", &["localhost@evil.example"], false),
        ("", &["evil.example", "localhost"], false),
        ("", &["localhost", "evil.example"], false),
        ("", &["0.0.0.0"], false),
        ("", &[""], false),
        ("", &[], false),
        ("http://evil.example", &["localhost"], false),
    ] {
        let mut wire = Wire::open(&gateway).await;
        wire.send(request(line, hosts).as_bytes()).await.unwrap();
        let answer = wire.answer().await.unwrap();
        if served {
            assert_eq!(answer.status, 200, "{line} {hosts:?}: {answer:?}");
            continue;
        }
        assert_eq!(answer.status, 403, "{line} {hosts:?}: {answer:?}");
        assert_eq!(answer.header("mcp-session-id"), None);
        let told = answer.message()["error"]["message"].to_string();
        for name in [
            "localhost",
            "127.0.0.1",
            "[::1]",
            "mcp.example",
            "other.example:8443",
        ] {
            assert!(told.contains(name), "{name}: {told}");
        }
        assert!(told.contains("listen.allowed_hosts"), "{told}");
    }
    // What proxies say of the client's words is not the client's host.
    let client = gateway.client().unwrap();
    let proxied = [
        ("x-forwarded-host", "evil.example"),
        ("forwarded", "host=evil.example"),
    ];
    let reply = client.post(&proxied, HELLO).await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    let hidden = [("host", "evil.example"), ("x-forwarded-host", "localhost")];
    let reply = client.post(&hidden, HELLO).await.unwrap();
    assert_eq!(reply.status, 403, "{reply:?}");
}

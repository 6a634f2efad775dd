//! Servers over HTTP: their sessions, their streams, their refusals.

use std::sync::Arc;

use manifold_testkit::{Gateway, HttpStub, LegacyServer, Reaction, Seen, answer, eventually};
use tokio::task::JoinSet;

use crate::{
    MANIFOLD,
    stub::{Stub, error, names, text},
};

const SEEN: &str = r#"{"content":[{"type":"text","text":"seen"}]}"#;

/// How a stream with a progress notification and an answer is written.
type Dialect = fn(&str, &str) -> String;

async fn legacy(more: &str) -> (Arc<LegacyServer>, HttpStub, Gateway) {
    let server = Arc::new(LegacyServer::new(SEEN));
    let script = server.clone();
    let stub = HttpStub::start(move |seen| script.react(seen))
        .await
        .unwrap();
    let config = format!("[servers.h]\nurl = {:?}\n{more}", stub.url());
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    gateway.server_is("h", "ready").await.unwrap();
    (server, stub, gateway)
}

/// Answers calls as `react` says, everything else as a proper server.
async fn calls_answered(
    react: impl Fn(&Seen) -> Reaction + Send + Sync + 'static,
) -> (HttpStub, Gateway) {
    let server = LegacyServer::new(SEEN);
    let stub = HttpStub::start(move |seen| match seen.method().as_str() {
        "tools/call" => react(seen),
        _ => server.react(seen),
    })
    .await
    .unwrap();
    let gateway = Gateway::start(MANIFOLD, &format!("[servers.h]\nurl = {:?}\n", stub.url())).await;
    (stub, gateway.unwrap())
}

#[tokio::test]
async fn the_session_ids_of_the_two_sides_were_mixed() {
    let (server, stub, gateway) = legacy("").await;
    let client = gateway.client().unwrap();
    let (one, two) = (
        client.session().await.unwrap(),
        client.session().await.unwrap(),
    );
    for session in [&one, &two] {
        let reply = session.call(1, "h__look", "{}").await.unwrap();
        assert_eq!(text(&reply), "seen");
        assert!(!format!("{reply:?}").contains("downstream-"), "{reply:?}");
        assert!(
            !format!("{session:?}").contains("downstream-"),
            "{session:?}"
        );
    }
    // The lister's and one for each.
    assert_eq!(server.sessions().len(), 3);
    let of_calls: Vec<_> = stub
        .posts("tools/call")
        .iter()
        .map(|seen| seen.header("mcp-session-id").unwrap().to_owned())
        .collect();
    assert_ne!(of_calls[0], of_calls[1]);
    for seen in stub.seen() {
        for own in [&one.id, &two.id] {
            assert!(!format!("{seen:?}").contains(own.as_str()), "{seen:?}");
        }
        let version = seen.header("mcp-protocol-version");
        match seen.method().as_str() {
            "initialize" => assert_eq!(seen.header("mcp-session-id"), None),
            "server/discover" => {}
            _ => assert_eq!(version, Some("2025-11-25"), "{seen:?}"),
        }
    }
    // S15: the end of one ends its own at the server.
    one.delete().await.unwrap();
    eventually("the server's session to end", || async {
        (server.sessions().len() == 2).then_some(())
    })
    .await
    .unwrap();
    let gone: Vec<_> = stub
        .seen()
        .into_iter()
        .filter(|seen| seen.verb == "DELETE")
        .collect();
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert_eq!(gone[0].header("mcp-session-id"), Some(of_calls[0].as_str()));
    assert_eq!(text(&two.call(2, "h__look", "{}").await.unwrap()), "seen");
}

/// S13.
#[tokio::test]
async fn a_server_that_forgot_its_sessions_failed_for_ever() {
    let (server, stub, gateway) = legacy("").await;
    let session = gateway.client().unwrap().session().await.unwrap();
    assert_eq!(
        text(&session.call(1, "h__look", "{}").await.unwrap()),
        "seen"
    );
    let opened = stub.posts("initialize").len();
    server.forget();
    assert_eq!(
        text(&session.call(2, "h__look", "{}").await.unwrap()),
        "seen"
    );
    assert_eq!(stub.posts("initialize").len(), opened + 1);
    // Once in vain, once for good.
    assert_eq!(stub.posts("tools/call").len(), 3);
    server.forget();
    let mut calls = JoinSet::new();
    for id in 0..20 {
        let session = session.clone();
        calls.spawn(async move {
            let reply = session.call(id, "h__look", "{}").await.unwrap();
            assert_eq!(reply.message().unwrap()["id"], id);
            assert_eq!(text(&reply), "seen");
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    assert_eq!(stub.posts("initialize").len(), opened + 2);
    assert!(stub.posts("tools/call").len() <= 3 + 40);
}

/// S13: only a refusal to work is followed by another try, and one only.
#[tokio::test]
async fn a_call_was_sent_again_and_again() {
    for (reaction, code) in [
        (Reaction::body(404, "text/plain", "gone"), 51012),
        (Reaction::Close, 51012),
        (Reaction::status(500), 51015),
        (Reaction::status(202), 51015),
    ] {
        let always = reaction.clone();
        let (stub, gateway) = calls_answered(move |_| always.clone()).await;
        let session = gateway.client().unwrap().session().await.unwrap();
        let reply = session.call(1, "h__look", "{}").await.unwrap();
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(error(&reply)["code"], code, "{reaction:?}: {reply:?}");
        assert_eq!(reply.message().unwrap()["id"], 1);
        let expected = if matches!(reaction, Reaction::Answer { status: 404, .. }) {
            2
        } else {
            1
        };
        assert_eq!(stub.posts("tools/call").len(), expected, "{reaction:?}");
    }
}

/// S36.
#[tokio::test]
async fn an_event_stream_of_another_dialect_was_not_understood() {
    let streams: &[(&str, Dialect)] = &[
        ("LF", |progress, answer| {
            format!("data: {progress}\n\ndata: {answer}\n\n")
        }),
        ("CRLF", |progress, answer| {
            format!(
                "event: message\r\ndata: {progress}\r\n\r\nevent: message\r\ndata: {answer}\r\n\r\n"
            )
        }),
        ("CR", |progress, answer| {
            format!("data: {progress}\r\rdata: {answer}\r\r")
        }),
        ("no space", |progress, answer| {
            format!("data:{progress}\n\ndata:{answer}\n\n")
        }),
        ("comments and retry", |progress, answer| {
            format!(
                ": hi\n\nretry: 3000\n\n:\n:ping\ndata: {progress}\n: more\n\nid\nretry: x\ndata: {answer}\n\n"
            )
        }),
        ("ids without data", |progress, answer| {
            format!(
                "id: 0\ndata:\n\nid: 1\ndata: \n\nid: 2\n\nid: 3\ndata: {progress}\n\nid: 4\ndata: {answer}\n\n"
            )
        }),
        ("other events", |progress, answer| {
            format!(
                "event: ping\ndata: {{}}\n\nevent: endpoint\ndata: /x\n\ndata: {progress}\n\nfoo: bar\ndata: {answer}\n\n"
            )
        }),
        ("many lines", |progress, answer| {
            let lines = answer.replace(',', ",\ndata: ");
            format!("data: {progress}\n\ndata: {lines}\n\n")
        }),
        ("byte order mark", |progress, answer| {
            format!("\u{feff}data: {progress}\n\ndata: {answer}\n\n")
        }),
    ];
    for (name, stream) in streams {
        let (_stub, gateway) = calls_answered(move |seen| {
            let token = &seen.message()["params"]["_meta"]["progressToken"];
            let progress = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
            );
            let body = stream(&progress, &answer(seen, SEEN));
            Reaction::body(200, "text/event-stream; charset=utf-8", body)
        })
        .await;
        let session = gateway.client().unwrap().session().await.unwrap();
        let params = r#"{"name":"h__look","_meta":{"progressToken":"mine"}}"#;
        let reply = session.request(1, "tools/call", params).await.unwrap();
        assert_eq!(text(&reply), "seen", "{name}");
        let messages = reply.messages().unwrap();
        assert_eq!(messages.len(), 2, "{name}: {messages:?}");
        assert_eq!(messages[0]["params"]["progressToken"], "mine", "{name}");
        assert_eq!(messages[1]["id"], 1, "{name}");
    }
}

/// S35, toward servers.
#[tokio::test]
async fn a_server_that_answers_notifications_was_given_up() {
    for reaction in [
        Reaction::status(200),
        Reaction::body(200, "application/json", "{}"),
        Reaction::status(204),
        Reaction::body(202, "text/plain", "Accepted"),
    ] {
        let server = LegacyServer::new(SEEN);
        let odd = reaction.clone();
        let stub = HttpStub::start(move |seen| match seen.method().as_str() {
            "notifications/initialized" => odd.clone(),
            _ => server.react(seen),
        })
        .await
        .unwrap();
        let config = format!("[servers.h]\nurl = {:?}\n", stub.url());
        let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
        let session = gateway.client().unwrap().session().await.unwrap();
        let reply = session.call(1, "h__look", "{}").await.unwrap();
        assert_eq!(text(&reply), "seen", "{reaction:?}");
    }
}

/// S34, S43.
#[tokio::test]
async fn a_clients_credentials_went_to_every_server() {
    let (_, stub, gateway) =
        legacy("headers = { Authorization = \"Bearer own\", x-team = \"blue\" }\n").await;
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"h__look"}}"#;
    let headers = [
        ("mcp-session-id", session.id.as_str()),
        ("authorization", "Bearer client-secret"),
        ("cookie", "session=client-secret"),
        ("x-tenant", "client-secret"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x-team", "red"),
        ("user-agent", "client-secret/1"),
    ];
    let reply = client.post(&headers, call).await.unwrap();
    assert_eq!(text(&reply), "seen");
    for seen in stub.seen() {
        assert_eq!(seen.header("authorization"), Some("Bearer own"), "{seen:?}");
        assert_eq!(seen.header("x-team"), Some("blue"), "{seen:?}");
        assert!(!format!("{seen:?}").contains("client-secret"), "{seen:?}");
        for name in ["cookie", "x-tenant", "x-forwarded-for"] {
            assert_eq!(seen.header(name), None, "{seen:?}");
        }
        if seen.verb == "POST" {
            // In full: there are servers that refuse less.
            assert_eq!(
                seen.header("accept"),
                Some("application/json, text/event-stream")
            );
            assert_eq!(seen.header("content-type"), Some("application/json"));
        }
    }
}

/// S44: a server's refusal is not ours.
#[tokio::test]
async fn a_servers_401_sent_the_client_to_log_in_at_the_gateway() {
    let stub = Stub::new();
    let locked = HttpStub::start(|_| Reaction::Answer {
        status: 401,
        headers: vec![(
            "www-authenticate",
            "Bearer resource_metadata=\"https://x.example\"".to_owned(),
        )],
        body: "who are you?".into(),
    })
    .await
    .unwrap();
    let config = format!(
        "[servers.locked]\nurl = {:?}\n{}",
        locked.url(),
        stub.server("s", &[])
    );
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    gateway.server_is("locked", "unauthorized").await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    let listed = session.request(1, "tools/list", "{}").await.unwrap();
    assert!(names(&listed).contains(&"s__echo".to_owned()));
    let reply = session.call(2, "locked__any", "{}").await.unwrap();
    let refused = error(&reply);
    assert_eq!(refused["code"], 51014, "{refused}");
    assert_eq!(refused["data"]["state"], "unauthorized", "{refused}");
    assert!(!refused.to_string().contains("who are you"), "{refused}");
    assert_eq!(reply.status, 200);
    assert!(!reply.headers.contains_key("www-authenticate"), "{reply:?}");
    // Later on it's the call that is refused.
    for status in [401, 403] {
        let (_stub, gateway) = calls_answered(move |_| Reaction::status(status)).await;
        let session = gateway.client().unwrap().session().await.unwrap();
        let reply = session.call(3, "h__look", "{}").await.unwrap();
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(error(&reply)["code"], 51014, "{reply:?}");
        assert!(!reply.headers.contains_key("www-authenticate"), "{reply:?}");
    }
}

/// S46, S47: a modern server is told with every request who asks for what.
#[tokio::test]
async fn a_modern_server_got_the_exposed_name_in_its_header() {
    const TOOL: &str = "caf\u{e9}";
    let stub = HttpStub::start(|seen| match seen.method().as_str() {
        "server/discover" => Reaction::result(
            seen,
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}"#,
        ),
        "tools/list" => Reaction::result(
            seen,
            &format!(r#"{{"resultType":"complete","tools":[{{"name":"{TOOL}","inputSchema":{{"type":"object"}}}}]}}"#),
        ),
        "tools/call" => Reaction::result(seen, r#"{"resultType":"complete","content":[{"type":"text","text":"seen"}]}"#),
        _ => Reaction::status(404),
    })
    .await
    .unwrap();
    let gateway = Gateway::start(MANIFOLD, &format!("[servers.m]\nurl = {:?}\n", stub.url())).await;
    let gateway = gateway.unwrap();
    let client = gateway.client().unwrap();
    let session = client.session().await.unwrap();
    let listed = session.request(1, "tools/list", "{}").await.unwrap();
    let exposed = names(&listed).remove(0);
    assert_ne!(exposed, format!("m__{TOOL}"));
    assert_eq!(
        text(&session.call(2, &exposed, "{}").await.unwrap()),
        "seen"
    );
    let params = serde_json::json!({ "name": exposed, "arguments": {} });
    assert_eq!(
        text(&client.modern("tools/call", params).await.unwrap()),
        "seen"
    );
    let calls = stub.posts("tools/call");
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(call.header("mcp-method"), Some("tools/call"));
        assert_eq!(call.header("mcp-name"), Some("=?base64?Y2Fmw6k=?="));
        assert_eq!(call.header("mcp-session-id"), None);
        let message = call.message();
        assert_eq!(message["params"]["name"], TOOL);
        let meta = &message["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        assert_eq!(
            meta["io.modelcontextprotocol/clientInfo"]["name"],
            "testkit"
        );
        assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
    }
    assert!(stub.posts("initialize").is_empty());
}

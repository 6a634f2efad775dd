//! What Manifold has no business changing goes through to the byte.

use manifold_testkit::{Client, Gateway, HttpStub, LegacyServer, Reply};
use std::sync::Arc;

use crate::{MANIFOLD, stub::Stub};

/// S10, S24, S25: everything that a parser and a printer would change.
const ODD: &str = concat!(
    r#"{"big":9007199254740993.10,"huge":1E+400,"zero":-0.0,"lone":"\ud83d","slash":"\/\u0041","#,
    r#""twice":1,"twice":{"b":1,"a":2}, "spaced" : [ 1 ,2 ],"x-vendor":{"deep":[1,null,{"a":true}]},"#,
    "\"raw\":\"a\u{2028}b\u{2029}c\u{85}d\u{1F600}\",\"null\":null,\"\":\"\"",
    r#","esc":"\u000b\u000c\u2028"}"#
);

fn result() -> String {
    format!(
        r#"{{"content":[{{"type":"video3d","x":{ODD}}},{{"type":"text","text":"a","annotations":{{"z":1.50}}}}],"isError":false,"structuredContent":{ODD},"unknown":{ODD},"_meta":{{"k":1E2}}}}"#
    )
}

/// Tools with every field, and a large schema.
fn tools() -> (String, String) {
    let rest = format!(
        r#""title":"T","icons":[{{"src":"data:,"}}],"annotations":{{"readOnlyHint":true,"v":1.0}},"execution":{{"taskSupport":"optional"}},"outputSchema":{{"type":"object","additionalProperties":false}},"x-vendor":{ODD},"_meta":{{"a":-0.0}}"#
    );
    let properties: Vec<_> = (0..3000)
        .map(|n| {
            format!(
                r##""päth-{n}":{{"$ref":"#/definitions/d","description":"property number {n} of this tool, as deep as it goes"}}"##
            )
        })
        .collect();
    let schema = format!(
        r##""inputSchema":{{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{{"d":{{"default":null,"oneOf":[true,{{"if":{{}},"then":false}}],"patternProperties":{{"^x":{{}}}}}}}},"$defs":{ODD},"properties":{{{}}}}}"##,
        properties.join(",")
    );
    assert!(schema.len() > 300_000);
    (rest, schema)
}

fn tool(name: &str) -> String {
    let (rest, schema) = tools();
    format!(r#"{{{rest},"name":"{name}",{schema}}}"#)
}

/// All ways of a call through the gateway. `prefix` stands before the name.
async fn all_ways(client: &Client, prefix: &str) -> Vec<(&'static str, Reply)> {
    let session = client.session().await.unwrap();
    let name = format!("{prefix}odd");
    let call = |id: u8, meta: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{ODD}{meta}}}}}"#
        )
    };
    let modern = call(
        3,
        r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#,
    );
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", name.as_str()),
    ];
    vec![
        ("json", session.post(&call(1, "")).await.unwrap()),
        (
            "events",
            client
                .send(
                    "POST",
                    &[
                        ("content-type", "application/json"),
                        ("accept", "text/event-stream"),
                        ("mcp-session-id", &session.id),
                    ],
                    &call(2, r#","_meta":{"progressToken":"p"}"#),
                )
                .await
                .unwrap(),
        ),
        ("modern", client.post(&headers, &modern).await.unwrap()),
    ]
}

fn went_through(ways: &[(&str, Reply)], result: &str) {
    let inside = result.strip_prefix('{').unwrap();
    for (way, reply) in ways {
        let expected = match *way {
            "modern" => format!(r#""result":{{"resultType":"complete",{inside}"#),
            _ => format!(r#""result":{result}"#),
        };
        let kind = reply.headers["content-type"].to_str().unwrap();
        assert_eq!(kind == "text/event-stream", *way == "events", "{way}");
        if !reply.body.contains(&expected) {
            panic!("{way}: {}\n\nlacks\n\n{expected}", reply.body);
        }
        if *way == "events" {
            // One line for the whole message, whatever a line reader may take for a line end.
            let with_it = reply
                .body
                .split('\n')
                .filter(|line| line.contains(&expected));
            assert_eq!(with_it.count(), 1, "{}", reply.body);
        }
    }
}

async fn lists_go_through(client: &Client, prefix: &str, tool: impl Fn(&str) -> String) {
    let session = client.session().await.unwrap();
    let legacy = session.request(1, "tools/list", "{}").await.unwrap();
    let modern = client.modern("tools/list", serde_json::json!({})).await;
    let expected = tool(&format!("{prefix}odd"));
    for reply in [legacy, modern.unwrap()] {
        assert!(reply.body.contains(&expected), "{}", reply.body);
    }
}

#[tokio::test]
async fn a_stdio_servers_fields_and_numbers_were_changed() {
    let stub = Stub::new();
    let result = result();
    stub.write("result-odd", &result);
    stub.write("tools", &format!("[{}]", tool("odd")));
    let gateway = Gateway::start(MANIFOLD, &stub.server("s", &[]))
        .await
        .unwrap();
    let client = gateway.client().unwrap();
    lists_go_through(&client, "s__", tool).await;
    let ways = all_ways(&client, "s__").await;
    went_through(&ways, &result);
    let events = &ways[1].1.body;
    let (progress, _) = events.split_once("\n\n").unwrap();
    assert!(progress.contains(r#""progressToken": "p""#), "{events}");
    let alone = gateway.client_of("/mcp/s").unwrap();
    lists_go_through(&alone, "", tool).await;
    went_through(&all_ways(&alone, "").await, &result);
    // And in the other direction.
    let stdin = String::from_utf8(stub.stdin()).unwrap();
    let expected = format!(r#""arguments":{ODD}"#);
    assert_eq!(stdin.matches(&expected).count(), 6, "{stdin}");
    assert_eq!(stdin.matches("\n").count(), stub.lines().len());
    for call in stub
        .lines()
        .iter()
        .filter(|line| line.contains("tools/call"))
    {
        assert!(call.contains(r#""name":"odd""#), "{call}");
    }
}

#[tokio::test]
async fn an_http_servers_fields_and_numbers_were_changed() {
    let result = result();
    let mut server = LegacyServer::new(&result);
    server.tools = format!("[{}]", tool("odd"));
    let stub = HttpStub::start(move |seen| server.react(seen))
        .await
        .unwrap();
    let config = format!("[servers.h]\nurl = {:?}\n", stub.url());
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let client = gateway.client().unwrap();
    lists_go_through(&client, "h__", tool).await;
    went_through(&all_ways(&client, "h__").await, &result);
    let expected = format!(r#""arguments":{ODD}"#);
    let calls = stub.posts("tools/call");
    assert_eq!(calls.len(), 3);
    for call in calls {
        assert!(call.body.contains(&expected), "{}", call.body);
        assert!(call.body.contains(r#""name":"odd""#), "{}", call.body);
    }
}

/// The errors of a server are its own words too.
#[tokio::test]
async fn a_servers_error_was_replaced() {
    let server = Arc::new(LegacyServer::new("{}"));
    let own = r#"{"code":-32099,"message":"no \ud83d","data":{"n":1E400,"a":1,"a":2},"x":-0.0}"#;
    let stub = HttpStub::start(move |seen| {
        if seen.body.contains("tools/call") {
            let id = seen.member("id");
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{own}}}"#);
            return manifold_testkit::Reaction::body(200, "application/json", body);
        }
        server.react(seen)
    })
    .await
    .unwrap();
    let config = format!("[servers.h]\nurl = {:?}\n", stub.url());
    let gateway = Gateway::start(MANIFOLD, &config).await.unwrap();
    let session = gateway.client().unwrap().session().await.unwrap();
    let reply = session.call(4, "h__look", "{}").await.unwrap();
    assert!(
        reply.body.contains(&format!(r#""id":4,"error":{own}"#)),
        "{reply:?}"
    );
    assert!(!reply.body.contains("51015"));
}

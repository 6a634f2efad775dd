//! URIs: whatever a client is shown it can read, and completions.

use manifold_testkit::{Gateway, Reply, eventually};
use serde_json::{Value, json};

use crate::{
    shelf::{Asker, LISTS, PROMPTS, RESOURCES, TEMPLATES, TOOLS, announce, ready, result},
    stub::{Stub, error},
};

const RESOURCE: [&str; 2] = ["file:///a.txt", "ui://x/y.html"];
const TEMPLATE: &str = "db://{table}/{id}";

/// Two servers with the same resources and templates, and one more of each of their own.
async fn twins() -> (Stub, Stub, Gateway) {
    let (one, two) = (Stub::new(), Stub::new());
    let mut config = String::new();
    for (stub, name) in [(&one, "one"), (&two, "two")] {
        let own = format!("{name}:own");
        RESOURCES.fill(stub, &[RESOURCE[0], &own, RESOURCE[1]]);
        TEMPLATES.fill(stub, &[TEMPLATE.to_owned(), format!("{name}://{{+path}}")]);
        config += &stub.server(name, &["shelf", &format!("named={name}")]);
    }
    let gateway = ready(&config, &["one", "two"]).await;
    (one, two, gateway)
}

/// Reads a URI and returns the URI and the text of what came.
async fn read(asker: &Asker, uri: &str) -> (String, String) {
    let reply = asker.ask("resources/read", json!({ "uri": uri })).await;
    let contents = result(&reply)["contents"][0].take();
    let text = |key: &str| contents[key].as_str().unwrap().to_owned();
    (text("uri"), text("text"))
}

/// RFC 3986, section 3.1, and nothing that may not stand in one.
fn is_uri(uri: &str) -> bool {
    let (scheme, rest) = uri.split_once(':').unwrap();
    let mut chars = scheme.chars();
    let first = chars.next().is_some_and(|char| char.is_ascii_alphabetic());
    let of_scheme = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
    let of_uri = |char: char| char.is_ascii_graphic() && !"\"<>\\^`{|}".contains(char);
    first && chars.all(of_scheme) && rest.chars().all(of_uri)
}

/// S28.
#[tokio::test]
async fn the_resources_of_a_second_server_could_not_be_read() {
    let (one, two, gateway) = twins().await;
    let mut reads = 0;
    for asker in Asker::both(&gateway.client().unwrap()).await {
        let listed = RESOURCES.shown(&asker).await;
        let expected = [
            ("file:///a.txt", "one", "file:///a.txt"),
            ("one:own", "one", "one:own"),
            ("ui://x/y.html", "one", "ui://x/y.html"),
            ("two+file:///a.txt", "two", "file:///a.txt"),
            ("two:own", "two", "two:own"),
            ("ui://two/x/y.html", "two", "ui://x/y.html"),
        ];
        assert_eq!(listed, expected.map(|(exposed, ..)| exposed));
        let templates = TEMPLATES.shown(&asker).await;
        assert_eq!(
            templates,
            [
                TEMPLATE,
                "one://{+path}",
                "two+db://{table}/{id}",
                "two://{+path}"
            ]
        );
        let expanded = [
            ("db://users/7", "one", "db://users/7"),
            ("one://a/b.txt", "one", "one://a/b.txt"),
            ("two+db://users/7", "two", "db://users/7"),
            ("two://a/b%20c?d=e#f", "two", "two://a/b%20c?d=e#f"),
        ];
        for (exposed, server, original) in expected.into_iter().chain(expanded) {
            assert!(is_uri(exposed), "{exposed}");
            let (uri, text) = read(&asker, exposed).await;
            assert_eq!(text, format!("{server} has {original}"));
            assert_eq!(uri, exposed, "the client knows it by that");
            reads += 1;
        }
    }
    let seen = one.messages("resources/read").len() + two.messages("resources/read").len();
    assert_eq!(seen, reads);
}

/// S28.
#[tokio::test]
async fn a_marked_uri_of_the_first_server_was_unknown() {
    let (one, two, gateway) = twins().await;
    for asker in Asker::both(&gateway.client().unwrap()).await {
        for (marked, server, original) in [
            ("one+file:///a.txt", "one", "file:///a.txt"),
            ("ui://one/x/y.html", "one", "ui://x/y.html"),
            ("one+db://users/7", "one", "db://users/7"),
            ("two+two:own", "two", "two:own"),
            ("two+two://a/b", "two", "two://a/b"),
        ] {
            let (_, text) = read(&asker, marked).await;
            assert_eq!(text, format!("{server} has {original}"));
        }
    }
    assert_eq!(one.messages("resources/read").len(), 6);
    assert_eq!(two.messages("resources/read").len(), 4);
}

/// S28: a client looks in the answer for what it has asked for.
#[tokio::test]
async fn a_marked_uri_was_answered_with_another() {
    let (_one, _two, gateway) = twins().await;
    for asker in Asker::both(&gateway.client().unwrap()).await {
        for marked in [
            "one+file:///a.txt",
            "ui://one/x/y.html",
            "one+db://users/7",
            "two+two:own",
        ] {
            let (uri, _) = read(&asker, marked).await;
            assert_eq!(uri, marked);
        }
    }
}

/// What a tool or prompt shows: `(place, original)` of everything that is a link, and one of everything that is none.
fn linked(server: &str) -> (Value, Value) {
    let own = format!("{server}:own");
    let result = json!({
        "content": [
            { "type": "text", "text": "see file:///a.txt and two+file:///a.txt" },
            { "type": "resource_link", "uri": "file:///a.txt", "name": "a" },
            { "uri": own, "name": "own", "type": "resource_link" },
            { "type": "resource", "resource": { "uri": "db://users/7", "text": "db://users/7" } },
            { "type": "resource_link", "uri": "mem://nowhere/listed", "name": "m" },
            { "type": "video3d", "uri": "file:///a.txt" },
        ],
        "structuredContent": { "uri": "file:///a.txt", "content": [{ "type": "resource_link", "uri": "file:///a.txt" }] },
        "_meta": { "ui": { "resourceUri": "ui://x/y.html" }, "ui/resourceUri": "ui://x/y.html", "uri": "file:///a.txt" },
    });
    let prompt = json!({
        "description": "file:///a.txt",
        "messages": [
            { "role": "user", "content": { "type": "resource_link", "uri": "file:///a.txt", "name": "a" } },
            { "role": "user", "content": { "type": "resource", "resource": { "uri": "db://users/7", "text": "x" } } },
            { "role": "assistant", "content": { "type": "text", "text": "file:///a.txt" } },
        ],
    });
    (result, prompt)
}

/// S28.
#[tokio::test]
async fn links_in_results_led_to_another_server() {
    let (one, two, gateway) = twins().await;
    for (stub, name) in [(&one, "one"), (&two, "two")] {
        let (result, prompt) = linked(name);
        stub.write("result-links", &result.to_string());
        stub.write("result-prompt-links", &prompt.to_string());
        let page =
            json!({ "ui": { "resourceUri": "ui://x/y.html" }, "ui/resourceUri": "ui://x/y.html" });
        let tool = json!([{ "name": "links", "description": "ui://x/y.html", "inputSchema": {}, "_meta": page }]);
        stub.write("tools", &tool.to_string());
        PROMPTS.fill(stub, &["links"]);
        // What is unlisted can be read nevertheless.
        let unlisted = json!({ "contents": [{ "uri": "mem://nowhere/listed", "text": format!("{name} has mem://nowhere/listed") }] });
        stub.write("result-read-mem:%%nowhere%listed", &unlisted.to_string());
        announce(stub, 1, &[TOOLS, PROMPTS], 1);
    }
    for asker in Asker::both(&gateway.client().unwrap()).await {
        let look = || async {
            let tools = TOOLS.shown(&asker).await.len() == 2;
            (tools && PROMPTS.shown(&asker).await.len() == 2).then_some(())
        };
        eventually("the tools", look).await.unwrap();
        let tools = asker.ask("tools/list", json!({})).await;
        for (n, name) in ["one", "two"].into_iter().enumerate() {
            let (original, prompt) = linked(name);
            let call = asker
                .ask("tools/call", json!({ "name": format!("{name}__links") }))
                .await;
            let called = result(&call);
            let get = asker
                .ask("prompts/get", json!({ "name": format!("{name}__links") }))
                .await;
            let got = result(&get);
            let tool = result(&tools)["tools"][n].take();
            // Whatever is a link leads to this very server when it is read.
            for (place, original) in [
                (&called["content"][1]["uri"], "file:///a.txt"),
                (&called["content"][2]["uri"], &*format!("{name}:own")),
                (&called["content"][3]["resource"]["uri"], "db://users/7"),
                (&called["content"][4]["uri"], "mem://nowhere/listed"),
                (&called["_meta"]["ui"]["resourceUri"], "ui://x/y.html"),
                (&called["_meta"]["ui/resourceUri"], "ui://x/y.html"),
                (&got["messages"][0]["content"]["uri"], "file:///a.txt"),
                (
                    &got["messages"][1]["content"]["resource"]["uri"],
                    "db://users/7",
                ),
                (&tool["_meta"]["ui"]["resourceUri"], "ui://x/y.html"),
                (&tool["_meta"]["ui/resourceUri"], "ui://x/y.html"),
            ] {
                let exposed = place.as_str().unwrap();
                assert!(is_uri(exposed), "{exposed}");
                let (uri, text) = read(&asker, exposed).await;
                assert_eq!(text, format!("{name} has {original}"), "{exposed}");
                assert_eq!(uri, exposed);
                if original.starts_with("ui:") {
                    assert!(
                        exposed.starts_with("ui://"),
                        "hosts look at the scheme: {exposed}"
                    );
                }
            }
            // Everything else is the server's own.
            for (now, before) in [
                (&called["content"][0], &original["content"][0]),
                (
                    &called["content"][3]["resource"]["text"],
                    &original["content"][3]["resource"]["text"],
                ),
                (&called["content"][5], &original["content"][5]),
                (&called["structuredContent"], &original["structuredContent"]),
                (&called["_meta"]["uri"], &original["_meta"]["uri"]),
                (&got["description"], &prompt["description"]),
                (&got["messages"][2], &prompt["messages"][2]),
                (&tool["description"], &json!("ui://x/y.html")),
            ] {
                assert_eq!(now, before);
            }
        }
    }
}

/// S28: the URIs of a page that is read are the client's too.
#[tokio::test]
async fn a_read_showed_uris_that_only_the_server_knows() {
    let (_one, two, gateway) = twins().await;
    let contents = json!({ "contents": [
        { "uri": "file:///a.txt", "text": "file:///a.txt" },
        { "uri": "file:///a.txt/part", "blob": "AA==" },
        { "uri": "two:own", "text": "" },
    ] });
    two.write("result-read-file:%%%a.txt", &contents.to_string());
    for asker in Asker::both(&gateway.client().unwrap()).await {
        let params = json!({ "uri": "two+file:///a.txt" });
        let reply = asker.ask("resources/read", params).await;
        let contents = result(&reply)["contents"].take();
        let uris: Vec<_> = (0..3).map(|n| &contents[n]["uri"]).collect();
        assert_eq!(
            uris,
            ["two+file:///a.txt", "two+file:///a.txt/part", "two:own"]
        );
        assert_eq!(contents[0]["text"], "file:///a.txt");
    }
}

/// S28.
#[tokio::test]
async fn an_unknown_uri_got_the_error_of_another_era_or_of_nobody() {
    let (one, two, gateway) = twins().await;
    for (asker, expected) in Asker::both(&gateway.client().unwrap())
        .await
        .iter()
        .zip([-32002, -32602])
    {
        // Those that nobody has, and those that the server itself does not know.
        for uri in [
            "nobody:1",
            "file:///b.txt",
            "two+nobody:1",
            "one+file:///b.txt",
            "ui://two/none",
            "no uri",
        ] {
            let reply = asker.ask("resources/read", json!({ "uri": uri })).await;
            assert_eq!(reply.status, 200, "{uri}: {reply:?}");
            let unknown = error(&reply);
            assert_eq!(unknown["code"], expected, "{uri}: {unknown}");
            assert_eq!(unknown["data"]["uri"], uri, "{unknown}");
        }
        for params in [json!({}), json!({ "uri": 7 }), json!({ "uri": null })] {
            let reply = asker.ask("resources/read", params).await;
            assert_eq!(error(&reply)["code"], -32602);
        }
    }
    // A marked one is a question to its server, the others are nobody's.
    assert_eq!(one.messages("resources/read").len(), 2);
    assert_eq!(two.messages("resources/read").len(), 4);
}

/// The text of a member of a message, and not what a parser makes of it.
fn member<'a>(reply: &'a Reply, name: &str) -> &'a str {
    let (_, rest) = reply.body.split_once(&format!("\"{name}\":")).unwrap();
    rest.strip_suffix('}').unwrap()
}

/// S24, S28: a path of one server shows what it has, to the byte.
#[tokio::test]
async fn a_path_of_one_server_rewrote_what_it_showed() {
    let (one, two) = (Stub::new(), Stub::new());
    let odd =
        r#""x-odd":{ "n" : 1.50, "big":9007199254740993, "esc":"\u00e9\/", "twice":1, "twice":2 }"#;
    let mut config = String::new();
    for (stub, name) in [(&one, "one"), (&two, "two")] {
        let link = r#""_meta":{"ui":{"resourceUri":"ui://x/y.html"}}"#;
        stub.write(
            "tools",
            &format!(r#"[ {{"name":"odd.name/","inputSchema":{{}},{odd},{link}}} ]"#),
        );
        stub.write(
            "prompts",
            &format!(r#"[{{"name":"odd.name/","arguments":[{{"name":"a",{odd}}}],{odd}}}]"#),
        );
        stub.write(
            "resources",
            &format!(r#"[{{"uri":"file:///a.txt","name":"a",{odd}}}]"#),
        );
        stub.write(
            "templates",
            &format!(r#"[{{"uriTemplate":"db://{{table}}/{{id}}","name":"t",{odd}}}]"#),
        );
        let content = r#""content":[{"type":"resource_link","uri":"file:///a.txt","name":"a"},{"type":"resource_link","uri":"mem:1"}]"#;
        stub.write(
            "result-odd.name%",
            &format!(r#"{{{content},{link},{odd}}}"#),
        );
        stub.write(
            "result-prompt-odd.name%",
            &format!(r#"{{"messages":[{{"role":"user","content":{{"type":"resource_link","uri":"mem:1"}}}}],{odd}}}"#),
        );
        stub.write(
            "result-read-file:%%%a.txt",
            &format!(r#"{{"contents":[{{"uri":"mem:1","text":"",{odd}}}],{odd}}}"#),
        );
        config += &stub.server(name, &["shelf"]);
    }
    let gateway = ready(&config, &["one", "two"]).await;
    for (stub, path) in [(&one, "/mcp/one"), (&two, "/mcp/two")] {
        let client = gateway.client_of(path).unwrap();
        let session = client.session().await.unwrap();
        for list in LISTS {
            let direct = std::fs::read_to_string(stub.path(list.file)).unwrap();
            let direct = direct.trim_matches(['[', ']', ' ']);
            let reply = session.request(1, list.method, "{}").await.unwrap();
            let expected = format!(r#"{{"{}":[{direct}]}}"#, list.member);
            assert_eq!(member(&reply, "result"), expected);
            let reply = client.modern(list.method, json!({})).await.unwrap();
            assert!(
                reply
                    .body
                    .contains(&format!(r#""{}":[{direct}]"#, list.member)),
                "{reply:?}"
            );
        }
        for (method, params, file) in [
            (
                "tools/call",
                json!({ "name": "odd.name/" }),
                "result-odd.name%",
            ),
            (
                "prompts/get",
                json!({ "name": "odd.name/" }),
                "result-prompt-odd.name%",
            ),
            (
                "resources/read",
                json!({ "uri": "file:///a.txt" }),
                "result-read-file:%%%a.txt",
            ),
        ] {
            let direct = std::fs::read_to_string(stub.path(file)).unwrap();
            let reply = session
                .request(2, method, &params.to_string())
                .await
                .unwrap();
            assert_eq!(member(&reply, "result"), direct);
            let reply = client.modern(method, params).await.unwrap();
            let inside = direct.strip_prefix('{').unwrap();
            let head = member(&reply, "result").strip_suffix(inside).unwrap();
            // Before it stands what the era asks for, and nothing else.
            let head: Value = serde_json::from_str(&format!("{head}\"\":0}}")).unwrap();
            for key in head.as_object().unwrap().keys() {
                let of_the_era = ["", "resultType", "ttlMs", "cacheScope"];
                assert!(of_the_era.contains(&key.as_str()), "{head}");
            }
        }
        // A mark is no part of a URI here, and the server's own error is its own.
        let params = r#"{"uri":"two+file:///a.txt"}"#;
        let reply = session.request(3, "resources/read", params).await.unwrap();
        let own = r#"{"code": -32002, "message": "Resource not found", "data": {"uri": "two+file:///a.txt"}}"#;
        assert_eq!(member(&reply, "error"), own);
    }
}

fn completion(kind: &str, key: &str, value: &str) -> Value {
    let argument = json!({ "name": "table", "value": value });
    json!({ "ref": { "type": kind, key: value }, "argument": argument, "context": { "arguments": { "a": "b" } } })
}

async fn completed(asker: &Asker, params: Value) -> Vec<String> {
    let reply = asker.ask("completion/complete", params).await;
    let values = result(&reply)["completion"]["values"].take();
    let values = values
        .as_array()
        .unwrap_or_else(|| panic!("{reply:?}"))
        .iter();
    values
        .map(|value| value.as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_completion_went_to_the_wrong_server_or_nowhere() {
    let (one, two, quiet) = (Stub::new(), Stub::new(), Stub::new());
    quiet.write(
        "capabilities",
        r#"{"tools":{},"prompts":{},"resources":{}}"#,
    );
    let mut config = String::new();
    for (stub, name) in [(&one, "one"), (&two, "two"), (&quiet, "quiet")] {
        PROMPTS.fill(stub, &["help", "with.dot"]);
        // The second is no URI that was made from it.
        TEMPLATES.fill(stub, &[TEMPLATE, "q://a{?x,y}"]);
        config += &stub.server(name, &["shelf", &format!("named={name}")]);
    }
    let gateway = ready(&config, &["one", "two", "quiet"]).await;
    for asker in Asker::both(&gateway.client().unwrap()).await {
        let prompts = PROMPTS.shown(&asker).await;
        let templates = TEMPLATES.shown(&asker).await;
        assert_eq!(templates[2], "two+db://{table}/{id}");
        for (n, server) in ["one", "two"].into_iter().enumerate() {
            for (place, original) in [(2 * n, "help"), (2 * n + 1, "with.dot")] {
                let name = &prompts[place];
                let values = completed(&asker, completion("ref/prompt", "name", name)).await;
                // The name is the server's, the value is the client's.
                assert_eq!(values, [server, original, name]);
            }
            for (place, original) in [(2 * n, TEMPLATE), (2 * n + 1, "q://a{?x,y}")] {
                let template = &templates[place];
                let values = completed(&asker, completion("ref/resource", "uri", template)).await;
                assert_eq!(values, [server, original, template]);
            }
        }
        let marked = "one+db://{table}/{id}";
        let values = completed(&asker, completion("ref/resource", "uri", marked)).await;
        assert_eq!(values, ["one", TEMPLATE, marked]);
        for params in [
            completion("ref/prompt", "name", "quiet__help"),
            completion("ref/resource", "uri", "quiet+db://{table}/{id}"),
        ] {
            assert_eq!(completed(&asker, params).await, Vec::<String>::new());
        }
    }
    assert!(quiet.messages("completion/complete").is_empty());
    let contexts = one.messages("completion/complete");
    assert_eq!(contexts.len(), 10);
    for sent in contexts {
        assert_eq!(sent["params"]["context"]["arguments"]["a"], "b");
    }
    let alone = gateway.client_of("/mcp/two").unwrap();
    for asker in Asker::both(&alone).await {
        let values = completed(&asker, completion("ref/prompt", "name", "with.dot")).await;
        assert_eq!(values, ["two", "with.dot", "with.dot"]);
        let values = completed(&asker, completion("ref/resource", "uri", TEMPLATE)).await;
        assert_eq!(values, ["two", TEMPLATE, TEMPLATE]);
    }
}

#[tokio::test]
async fn a_completion_of_what_nobody_has_was_no_invalid_param() {
    let (one, _two, gateway) = twins().await;
    let mut faults = Vec::new();
    for asker in Asker::both(&gateway.client().unwrap()).await {
        for params in [
            completion("ref/prompt", "name", "one__nothing"),
            completion("ref/prompt", "name", "help"),
            completion("ref/resource", "uri", "nobody://{x}"),
            completion("ref/tool", "name", "one__pid"),
            json!({ "argument": { "name": "a", "value": "" } }),
            json!({ "ref": { "type": "ref/prompt" }, "argument": { "name": "a", "value": "" } }),
            json!({ "ref": "help", "argument": { "name": "a", "value": "" } }),
        ] {
            let reply = asker.ask("completion/complete", params.clone()).await;
            let code = error(&reply)["code"].take();
            if (reply.status, &code) != (200, &json!(-32602)) {
                faults.push(format!("{params}: {reply:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(one.messages("completion/complete").is_empty());
}

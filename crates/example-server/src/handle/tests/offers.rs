//! What the server offers, through the same door.

use super::*;

#[test]
fn every_tool_says_all_about_itself() {
    let list = Talk::legacy(json!({})).answer("tools/list", json!({}));
    let tools = list["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["echo", "add", "countdown", "whoami", "ask"]);
    for tool in tools {
        assert!(
            tool["title"].is_string()
                && tool["description"].is_string()
                && tool["annotations"].is_object()
        );
        assert_eq!(
            tool["inputSchema"]["$schema"],
            "https://json-schema.org/draft/2020-12/schema"
        );
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(
            tool.get("outputSchema").is_some(),
            tool["name"] != "countdown"
        );
    }
}

#[test]
fn echo_returns_the_very_bytes() {
    for (message, text) in [
        (r#""plain""#, "plain"),
        (r#""line\nbreak é \u00e9""#, "line\nbreak é é"),
        (r#""half \ud800""#, r#""half \ud800""#),
        ("null", "null"),
        ("9007199254740993.10", "9007199254740993.10"),
        ("1e400", "1e400"),
        (
            r#"{"b": 1,  "a" :[ 2 ],"b":3}"#,
            r#"{"b": 1,  "a" :[ 2 ],"b":3}"#,
        ),
        (r#"{"ünï":"\u0041"}"#, r#"{"ünï":"\u0041"}"#),
    ] {
        for meta in [
            String::new(),
            format!(r#","_meta":{{"{V}":"2026-07-28","{C}":{{}}}}"#),
        ] {
            let mut talk = Talk::legacy(json!({}));
            let Action::Reply(reply) = talk.act(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"message":{message}}}{meta}}}}}"#
            )) else {
                panic!("echo answers at once");
            };
            let sent = reply.to_json();
            assert!(
                sent.contains(&format!(r#""structuredContent":{{"message":{message}}}"#)),
                "{message} in {sent}"
            );
            assert!(
                sent.contains(&format!(r#""text":{}"#, json!(text))),
                "{text} in {sent}"
            );
        }
    }
}

#[test]
fn add_is_exact_where_it_can_be() {
    for (a, b, sum) in [
        ("1", "2", "3"),
        ("-5", "5", "0"),
        ("9007199254740993", "1", "9007199254740994"),
        ("0.5", "1", "1.5"),
        ("9223372036854775807", "1", "9.223372036854776e+18"),
    ] {
        let arguments: Value = serde_json::from_str(&format!(r#"{{"a":{a},"b":{b}}}"#)).unwrap();
        let result = Talk::legacy(json!({})).call(json!({ "name": "add", "arguments": arguments }));
        assert_eq!(result["content"][0]["text"], sum);
        assert_eq!(result["structuredContent"]["sum"].to_string(), sum);
        assert_eq!(result["isError"], false);
    }
}

#[test]
fn arguments_that_do_not_fit_are_results_for_the_model() {
    for (name, arguments) in [
        ("echo", json!({})),
        ("add", json!({ "a": 1 })),
        ("add", json!({ "a": "1", "b": 2 })),
        ("add", json!({ "a": 1.7e308, "b": 1.7e308 })),
        ("countdown", json!({})),
        ("countdown", json!({ "from": 0 })),
        ("countdown", json!({ "from": 1001 })),
        ("countdown", json!({ "from": 1, "interval_ms": 10001 })),
        ("countdown", json!({ "from": -1 })),
    ] {
        let result = Talk::legacy(json!({})).call(json!({ "name": name, "arguments": arguments }));
        assert_eq!(result["isError"], true, "{name} {arguments}: {result}");
        assert!(result.get("structuredContent").is_none());
    }
}

#[test]
fn whoami_tells_the_era_the_version_the_client_and_the_count() {
    let mut talk = Talk::legacy(json!({}));
    talk.call(json!({ "name": "add", "arguments": { "a": 1, "b": 2 } }));
    talk.call(json!({ "name": "nothing" }));
    let legacy = talk.call(json!({ "name": "whoami" }));
    assert_eq!(
        legacy["structuredContent"],
        json!({
            "pid": std::process::id(), "calls": 2, "running": 0, "cancelled": 0,
            "era": "legacy", "protocolVersion": "2025-06-18", "client": "table",
        })
    );
    let text = legacy["content"][0]["text"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(text).unwrap(),
        legacy["structuredContent"]
    );
    let mut params = modern(json!({ "name": "whoami" }));
    params["_meta"][META_CLIENT] = json!({ "name": "new", "version": "2" });
    let now = talk.call(params);
    assert_eq!(now["structuredContent"]["era"], "modern");
    assert_eq!(now["structuredContent"]["protocolVersion"], "2026-07-28");
    assert_eq!(now["structuredContent"]["client"], "new");
    assert_eq!(now["structuredContent"]["calls"], 3);
    assert!(
        talk.call(modern(json!({ "name": "whoami" })))["structuredContent"]
            .get("client")
            .is_none()
    );
}

#[test]
fn who_can_be_asked() {
    for (capabilities, can) in [
        (json!({}), false),
        (json!({ "elicitation": {} }), true),
        (json!({ "elicitation": { "form": {} } }), true),
        (json!({ "elicitation": { "form": {}, "url": {} } }), true),
        (json!({ "elicitation": { "url": {} } }), false),
    ] {
        let action =
            Talk::legacy(capabilities.clone()).request("tools/call", json!({ "name": "ask" }));
        match action {
            Action::Run(Job {
                work: Work::Ask, ..
            }) => assert!(can, "{capabilities}"),
            Action::Reply(reply) => {
                assert!(!can, "{capabilities}");
                assert!(reply.to_json().contains(r#""isError":true"#));
            }
            other @ (Action::Run(_)
            | Action::Cancel(_)
            | Action::Deliver { .. }
            | Action::Ignore) => {
                panic!("{other:?}")
            }
        }
        let params = json!({ "name": "ask", "_meta": { V: "2026-07-28", C: capabilities } });
        let answer = Talk::new(Eras::Both).call(params);
        assert_eq!(answer["resultType"] == "input_required", can);
        if !can {
            assert_eq!(answer["code"], -32021);
            assert_eq!(
                answer["data"],
                json!({ "requiredCapabilities": { "elicitation": { "form": {} } } })
            );
        }
    }
}

#[test]
fn a_modern_question_takes_rounds() {
    let mut talk = Talk::new(Eras::Modern);
    let first = talk.call(asking(json!({ "name": "ask" })));
    assert_eq!(first["resultType"], "input_required");
    assert!(first.get("ttlMs").is_none());
    assert_eq!(
        first["inputRequests"]["name"]["method"],
        "elicitation/create"
    );
    assert_eq!(first["inputRequests"]["name"]["params"]["mode"], "form");
    let state = first["requestState"].clone();

    // Without the answer the question comes again, with a new state.
    let second = talk.call(asking(
        json!({ "name": "ask", "requestState": state, "inputResponses": { "other": {} } }),
    ));
    assert_eq!(second["resultType"], "input_required");
    assert_ne!(second["requestState"], state);

    let answer = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    let retry = || json!({ "name": "ask", "requestState": second["requestState"], "inputResponses": answer });
    let last = talk.call(asking(retry()));
    assert_eq!(last["resultType"], "complete");
    assert_eq!(
        last["structuredContent"],
        json!({ "action": "accept", "name": "Ada" })
    );
    assert_eq!(last["content"][0]["text"], "Hello, Ada!");
    assert_eq!(
        talk.call(asking(retry()))["code"],
        -32602,
        "a state is good once"
    );

    let unasked = talk.call(asking(json!({ "name": "ask", "inputResponses": answer })));
    assert_eq!(unasked["resultType"], "input_required");
}

#[test]
fn answers_to_the_question() {
    for (answer, error, text) in [
        (
            json!({ "action": "accept", "content": { "name": "Ada" } }),
            false,
            "Hello, Ada!",
        ),
        (
            json!({ "action": "decline" }),
            false,
            "No name was given (decline).",
        ),
        (
            json!({ "action": "cancel" }),
            false,
            "No name was given (cancel).",
        ),
        (json!({ "action": "accept" }), true, ""),
        (json!({ "action": "accept", "content": {} }), true, ""),
        (json!({ "action": "shrug" }), true, ""),
        (json!("yes"), true, ""),
    ] {
        let mut talk = Talk::new(Eras::Modern);
        let state = talk.call(asking(json!({ "name": "ask" })))["requestState"].clone();
        let retry =
            json!({ "name": "ask", "requestState": state, "inputResponses": { "name": answer } });
        let result = talk.call(asking(retry));
        assert_eq!(result["isError"], error, "{answer}");
        if !error {
            assert_eq!(result["content"][0]["text"], text);
        }
    }
}

#[test]
fn completion_filters_by_prefix() {
    for (value, names) in [
        ("", json!(["Ada", "Alan", "Grace"])),
        ("A", json!(["Ada", "Alan"])),
        ("al", json!(["Alan"])),
        ("x", json!([])),
    ] {
        let params = json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": "name", "value": value } });
        let result = Talk::legacy(json!({})).answer("completion/complete", params);
        assert_eq!(result["completion"]["values"], names);
        assert_eq!(
            result["completion"]["total"],
            names.as_array().unwrap().len()
        );
        assert_eq!(result["completion"]["hasMore"], false);
    }
}

#[test]
fn resources_and_the_prompt() {
    let mut talk = Talk::legacy(json!({}));
    for (uri, text) in [
        ("example://greeting", "Hello from the example server."),
        ("example://item/7", "This is item 7."),
    ] {
        let result = talk.answer("resources/read", json!({ "uri": uri }));
        assert_eq!(
            result["contents"],
            json!([{ "uri": uri, "mimeType": "text/plain", "text": text }])
        );
    }
    let prompt = talk.answer(
        "prompts/get",
        json!({ "name": "greet", "arguments": { "name": "Ada" } }),
    );
    assert_eq!(
        prompt["messages"][0]["content"]["text"],
        "Greet Ada in one friendly sentence."
    );
}

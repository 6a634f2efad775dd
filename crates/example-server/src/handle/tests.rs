//! The decisions by table, without a transport.

use serde_json::{Value, json};

use super::*;
use crate::message::parse;

mod offers;

const V: &str = META_VERSION;
const C: &str = META_CAPABILITIES;

/// One end of a conversation with a server of the given eras.
struct Talk {
    process: std::sync::Arc<Process>,
    peer: Peer,
}

impl Talk {
    fn new(eras: Eras) -> Self {
        Self {
            process: Process::new(eras),
            peer: Peer::default(),
        }
    }

    fn legacy(capabilities: Value) -> Self {
        let mut talk = Self::new(Eras::Both);
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": { "name": "table", "version": "1" },
        });
        talk.answer("initialize", params);
        talk
    }

    fn act(&mut self, text: &str) -> Action {
        let message = parse(text.as_bytes()).unwrap();
        let era = era_of(self.process.eras, &message, None);
        handle(&self.process, &mut self.peer, era, message)
    }

    fn request(&mut self, method: &str, params: Value) -> Action {
        self.act(
            &json!({ "jsonrpc": "2.0", "id": "q", "method": method, "params": params }).to_string(),
        )
    }

    /// The answer's `result`, or its `error`.
    fn answer(&mut self, method: &str, params: Value) -> Value {
        let Action::Reply(reply) = self.request(method, params) else {
            panic!("{method} has no immediate answer");
        };
        let mut answer: Value = serde_json::from_str(&reply.to_json()).unwrap();
        assert_eq!(answer["id"], "q");
        assert_eq!(answer["jsonrpc"], "2.0");
        let (result, error) = (answer["result"].take(), answer["error"].take());
        if error.is_null() { result } else { error }
    }

    fn call(&mut self, params: Value) -> Value {
        self.answer("tools/call", params)
    }
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({ V: "2026-07-28", C: {} });
    params
}

fn asking(mut params: Value) -> Value {
    params["_meta"] = json!({ V: "2026-07-28", C: { "elicitation": {} } });
    params
}

#[test]
fn initialize_is_answered_by_the_eras_spoken() {
    for (eras, asked, version, code) in [
        (Eras::Both, "2024-11-05", json!("2024-11-05"), Value::Null),
        (Eras::Both, "2026-07-28", json!("2025-11-25"), Value::Null),
        (Eras::Legacy, "2025-11-25", json!("2025-11-25"), Value::Null),
        (Eras::Modern, "2025-11-25", Value::Null, json!(-32022)),
    ] {
        let answer = Talk::new(eras).answer(
            "initialize",
            json!({ "protocolVersion": asked, "capabilities": {} }),
        );
        assert_eq!(answer["protocolVersion"], version, "{eras:?} {asked}");
        assert_eq!(answer["code"], code, "{eras:?} {asked}");
        if eras == Eras::Modern {
            assert_eq!(
                answer["data"],
                json!({ "supported": ["2026-07-28"], "requested": asked })
            );
        } else {
            assert_eq!(answer["serverInfo"]["name"], "manifold-example-server");
            assert!(
                answer["capabilities"]["tools"].is_object() && answer.get("resultType").is_none()
            );
        }
    }
}

#[test]
fn what_a_stranger_may_ask() {
    let list = || json!({});
    for (eras, method, params, code) in [
        (Eras::Both, "ping", list(), None),
        (Eras::Legacy, "ping", list(), None),
        (Eras::Both, "tools/list", list(), Some(-32600)),
        (Eras::Legacy, "tools/list", modern(list()), Some(-32600)),
        (
            Eras::Legacy,
            "server/discover",
            modern(list()),
            Some(-32601),
        ),
        (Eras::Both, "server/discover", modern(list()), None),
        (Eras::Both, "server/discover", list(), Some(-32602)),
        (Eras::Modern, "server/discover", modern(list()), None),
        (Eras::Modern, "tools/list", list(), Some(-32602)),
        (Eras::Both, "tools/list", modern(list()), None),
        (
            Eras::Both,
            "tools/list",
            json!({ "_meta": { V: "2026-07-28" } }),
            Some(-32602),
        ),
        (
            Eras::Both,
            "tools/list",
            json!({ "_meta": { C: {} } }),
            Some(-32602),
        ),
        (
            Eras::Both,
            "tools/list",
            json!({ "_meta": { V: "2026-07-28", C: 1 } }),
            Some(-32602),
        ),
        (
            Eras::Both,
            "tools/list",
            json!({ "_meta": { V: "1900-01-01" } }),
            Some(-32022),
        ),
        (
            Eras::Both,
            "tools/list",
            json!({ "_meta": { V: "2025-11-25", C: {} } }),
            Some(-32022),
        ),
        (Eras::Both, "ping", modern(list()), Some(-32601)),
        (
            Eras::Both,
            "logging/setLevel",
            modern(json!({ "level": "debug" })),
            Some(-32601),
        ),
        (Eras::Both, "nonsense", modern(list()), Some(-32601)),
        (Eras::Both, "initialize", json!({}), Some(-32602)),
    ] {
        let answer = Talk::new(eras).answer(method, params.clone());
        assert_eq!(
            answer["code"].as_i64(),
            code,
            "{eras:?} {method} {params}: {answer}"
        );
    }
}

#[test]
fn an_unknown_modern_version_is_told_what_there_is() {
    let answer =
        Talk::new(Eras::Both).answer("tools/list", json!({ "_meta": { V: "1900-01-01", C: {} } }));
    assert_eq!(
        answer["data"],
        json!({ "supported": ["2026-07-28"], "requested": "1900-01-01" })
    );
}

#[test]
fn legacy_and_modern_errors_after_the_handshake() {
    let uri = || json!({ "uri": "example://nothing" });
    for (method, params, code) in [
        (
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {} }),
            -32600,
        ),
        ("nonsense", json!({}), -32601),
        ("resources/subscribe", uri(), -32601),
        ("tools/call", json!({ "name": "nothing" }), -32602),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!([]), -32602),
        ("tools/list", json!({ "cursor": "x" }), -32602),
        ("tools/list", modern(json!({ "cursor": "x" })), -32602),
        ("resources/read", uri(), -32002),
        ("resources/read", modern(uri()), -32602),
        (
            "resources/read",
            json!({ "uri": "example://item/" }),
            -32002,
        ),
        (
            "resources/read",
            json!({ "uri": "example://item/a/b" }),
            -32002,
        ),
        ("prompts/get", json!({ "name": "nothing" }), -32602),
        ("prompts/get", json!({ "name": "greet" }), -32602),
        ("logging/setLevel", json!({ "level": "loud" }), -32602),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "x" }, "argument": { "name": "name", "value": "" } }),
            -32602,
        ),
        ("subscriptions/listen", json!({}), -32601),
        ("subscriptions/listen", modern(json!({})), -32602),
        (
            "tools/call",
            asking(json!({ "name": "ask", "requestState": "forged" })),
            -32602,
        ),
        ("tools/call", modern(json!({ "name": "ask" })), -32021),
    ] {
        let answer = Talk::legacy(json!({})).answer(method, params.clone());
        assert_eq!(answer["code"], code, "{method} {params}: {answer}");
        if method == "resources/read" {
            assert_eq!(answer["data"]["uri"], params["uri"]);
        }
    }
}

#[test]
fn an_unknown_log_level_in_an_envelope_is_refused() {
    let mut params = modern(json!({}));
    params["_meta"][META_LOG_LEVEL] = json!("loud");
    assert_eq!(
        Talk::new(Eras::Both).answer("tools/list", params)["code"],
        -32602
    );
}

#[test]
fn modern_results_carry_type_server_and_cache_hints() {
    let mut talk = Talk::new(Eras::Both);
    for (method, params, cached) in [
        ("server/discover", json!({}), true),
        ("tools/list", json!({}), true),
        ("resources/list", json!({}), true),
        ("resources/templates/list", json!({}), true),
        ("prompts/list", json!({}), true),
        (
            "resources/read",
            json!({ "uri": "example://greeting" }),
            true,
        ),
        (
            "prompts/get",
            json!({ "name": "greet", "arguments": { "name": "Ada" } }),
            false,
        ),
        (
            "tools/call",
            json!({ "name": "add", "arguments": { "a": 1, "b": 2 } }),
            false,
        ),
    ] {
        let result = talk.answer(method, modern(params.clone()));
        assert_eq!(result["resultType"], "complete", "{method}: {result}");
        assert_eq!(
            result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
            "manifold-example-server"
        );
        assert_eq!(result["ttlMs"].is_u64(), cached, "{method}");
        assert_eq!(result["cacheScope"] == "public", cached, "{method}");
    }
    assert_eq!(
        talk.answer("server/discover", modern(json!({})))["supportedVersions"],
        json!(["2026-07-28"])
    );
}

#[test]
fn the_legacy_lists_are_those_of_the_modern_era_without_the_envelope() {
    let mut talk = Talk::legacy(json!({}));
    for method in [
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
    ] {
        let legacy = talk.answer(method, json!({}));
        let mut with_envelope = talk.answer(method, modern(json!({})));
        for member in ["resultType", "_meta", "ttlMs", "cacheScope"] {
            assert!(
                with_envelope
                    .as_object_mut()
                    .unwrap()
                    .remove(member)
                    .is_some()
            );
        }
        assert_eq!(legacy, with_envelope);
    }
}

#[test]
fn notifications_and_responses_ask_for_little() {
    let mut talk = Talk::new(Eras::Both);
    for (text, expected) in [
        (
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "ignore",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"nonsense","params":[]}"#,
            "ignore",
        ),
        (r#"{"jsonrpc":"2.0","method":"tools/call"}"#, "ignore"),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
            "ignore",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}"#,
            "ignore",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
            "cancel 7",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}"#,
            r#"cancel "7""#,
        ),
        (r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, "deliver 3 true"),
        (
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":""}}"#,
            "deliver 3 false",
        ),
        (r#"{"jsonrpc":"2.0","id":"3","result":{}}"#, "ignore"),
        (r#"{"jsonrpc":"2.0","id":-3,"result":{}}"#, "ignore"),
    ] {
        let seen = match talk.act(text) {
            Action::Ignore => "ignore".to_owned(),
            Action::Cancel(id) => format!("cancel {}", json!(id)),
            Action::Deliver { question, answer } => {
                format!("deliver {question} {}", answer.is_some())
            }
            other @ (Action::Reply(_) | Action::Run(_)) => panic!("{text}: {other:?}"),
        };
        assert_eq!(seen, expected, "{text}");
    }
}

#[test]
fn a_version_header_makes_any_request_but_initialize_modern() {
    for (method, header, era) in [
        ("tools/list", None, Era::Legacy),
        ("tools/list", Some("2025-11-25"), Era::Legacy),
        ("tools/list", Some("2026-07-28"), Era::Modern),
        ("tools/list", Some("2030-01-01"), Era::Modern),
        ("initialize", Some("2026-07-28"), Era::Legacy),
        ("server/discover", None, Era::Modern),
    ] {
        let message =
            parse(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#).as_bytes()).unwrap();
        assert_eq!(
            era_of(Eras::Both, &message, header),
            era,
            "{method} {header:?}"
        );
        assert_eq!(era_of(Eras::Legacy, &message, header), Era::Legacy);
        assert_eq!(era_of(Eras::Modern, &message, header), Era::Modern);
    }
}

#[test]
fn a_notification_never_initializes_anything() {
    let mut talk = Talk::new(Eras::Both);
    talk.act(r#"{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#);
    assert_eq!(talk.answer("tools/list", json!({}))["code"], -32600);
}

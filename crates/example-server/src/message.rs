//! What a client may send: JSON-RPC requests, notifications and responses, read without loss.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::reply::Fault;

/// A request id or a progress token: the protocol allows a string or an integer for either, and both are echoed as they came.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Id {
    Integer(#[serde(deserialize_with = "integer")] Number),
    Text(String),
}

/// One message from the client.
#[derive(Debug)]
pub(crate) enum Message {
    Request(Request),
    Notification(Notification),
    /// An answer to a question of ours; legacy era only.
    Response(Response),
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: Id,
    pub(crate) method: String,
    pub(crate) params: Params,
}

#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) method: String,
    pub(crate) params: Params,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) id: Id,
    /// The result, or nothing when the client answered with an error.
    pub(crate) result: Option<Box<RawValue>>,
}

/// The parameters of a request, still as text: `echo` gives part of them back byte for byte.
#[derive(Debug, Default)]
pub(crate) struct Params(Option<Box<RawValue>>);

/// Why bytes are no message, and the id to answer under if one could be made out.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub(crate) id: Option<Id>,
    pub(crate) fault: Fault,
}

/// Reads one message.
///
/// # Errors
/// [`Malformed`] with -32700 for bytes that are not JSON, and with -32600 for JSON that is no single JSON-RPC message;
/// batches, which only 2025-03-26 knew, are among the latter.
pub(crate) fn parse(bytes: &[u8]) -> Result<Message, Malformed> {
    let json: &RawValue = serde_json::from_slice(bytes).map_err(|_| Malformed {
        id: None,
        fault: Fault::NotJson,
    })?;
    let malformed = |why: &str| Malformed {
        id: known_id(json),
        fault: Fault::NotJsonRpc(why.to_owned()),
    };
    let envelope: Envelope<'_> = serde_json::from_str(json.get())
        .map_err(|_| malformed("a message is one JSON object, with no member twice"))?;
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return Err(malformed("`jsonrpc` must be \"2.0\""));
    }
    let id = match envelope.id {
        None => None,
        Some(raw) => {
            let id = serde_json::from_str(raw.get())
                .map_err(|_| malformed("`id` must be a string or an integer"))?;
            Some(id)
        }
    };
    let params = Params(envelope.params.map(ToOwned::to_owned));
    match (envelope.method, id) {
        (Some(_), _) if envelope.result.is_some() || envelope.error.is_some() => Err(malformed(
            "a message with a `method` has no `result` or `error`",
        )),
        (Some(method), Some(id)) => Ok(Message::Request(Request {
            id,
            method: method.into_owned(),
            params,
        })),
        (Some(method), None) => Ok(Message::Notification(Notification {
            method: method.into_owned(),
            params,
        })),
        (None, Some(id)) if envelope.result.is_some() != envelope.error.is_some() => {
            Ok(Message::Response(Response {
                id,
                result: envelope.result.map(ToOwned::to_owned),
            }))
        }
        (None, _) => Err(malformed(
            "neither a request, a notification nor a response: no `method`, and not an `id` with one of `result` and `error`",
        )),
    }
}

// === impl Params ===

impl Params {
    /// Reads the members that `T` names; absent parameters read as an empty object.
    ///
    /// # Errors
    /// [`Fault::InvalidParams`], with the reader's words, when they do not fit.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        let text = self.0.as_deref().map_or("{}", RawValue::get);
        serde_json::from_str(text).map_err(|error| Fault::InvalidParams(error.to_string()))
    }

    /// The `_meta` object, empty when there is none.
    ///
    /// # Errors
    /// [`Fault::InvalidParams`] when the parameters or `_meta` are not objects.
    pub(crate) fn meta(&self) -> Result<Map<String, Value>, Fault> {
        #[derive(Deserialize)]
        struct WithMeta {
            #[serde(default, rename = "_meta")]
            meta: Map<String, Value>,
        }
        self.read().map(|WithMeta { meta }| meta)
    }
}

/// The members of every kind of message. Raw slices, so that depth and numbers do not matter here.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Keeps a `null` that is there apart from a member that is not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A JSON number without a fraction or an exponent.
fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
    let number = Number::deserialize(deserializer)?;
    if number.is_f64() {
        return Err(serde::de::Error::custom("not an integer"));
    }
    Ok(number)
}

/// The id of something that is no proper message, so that the error at least finds its request.
fn known_id(json: &RawValue) -> Option<Id> {
    #[derive(Deserialize)]
    struct OnlyId {
        id: Option<Id>,
    }
    serde_json::from_str(json.get())
        .ok()
        .and_then(|OnlyId { id }| id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kind(text: &str) -> String {
        match parse(text.as_bytes()) {
            Ok(Message::Request(request)) => format!(
                "request {} {}",
                serde_json::to_string(&request.id).unwrap(),
                request.method
            ),
            Ok(Message::Notification(note)) => format!("notification {}", note.method),
            Ok(Message::Response(response)) => {
                format!("response ok={}", response.result.is_some())
            }
            Err(malformed) => format!(
                "{} {}",
                malformed.fault.code(crate::eras::Era::Legacy),
                serde_json::to_string(&malformed.id).unwrap()
            ),
        }
    }

    #[test]
    fn messages_are_told_apart() {
        for (text, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#,
                "request 0 ping",
            ),
            (
                r#"{"jsonrpc":"2.0","id":"server-discover-probe-1","method":"x"}"#,
                r#"request "server-discover-probe-1" x"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"x"}"#,
                "request 18446744073709551615 x",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call"}"#,
                "request 1 tools/call",
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
                "notification notifications/initialized",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
                "response ok=true",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
                "response ok=true",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#,
                "response ok=false",
            ),
            ("{", "-32700 null"),
            ("", "-32700 null"),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"x"} trailing"#,
                "-32700 null",
            ),
            ("\"\u{0}\"", "-32700 null"),
            ("[]", "-32600 null"),
            (
                r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
                "-32600 null",
            ),
            ("1", "-32600 null"),
            (r#"{"id":7,"method":"ping"}"#, "-32600 7"),
            (
                r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#,
                r#"-32600 "a""#,
            ),
            (r#"{"jsonrpc":"2.0","id":7}"#, "-32600 7"),
            (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, "-32600 7"),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                "-32600 null",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
                "-32600 null",
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
                "-32600 null",
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"id":4,"method":"ping"}"#,
                "-32600 null",
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":"ping","result":{}}"#,
                "-32600 3",
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"result":{},"error":{}}"#,
                "-32600 3",
            ),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_not_json() {
        let malformed = parse(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}").unwrap_err();
        assert_eq!(malformed.fault, Fault::NotJson);
    }

    #[test]
    fn deep_nesting_is_read_without_recursion() {
        let depth = 100_000;
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"deep":{}{}}}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        );
        assert_eq!(kind(&text), "request 1 x");
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(malformed) = parse(&bytes) {
                prop_assert!(matches!(malformed.fault, Fault::NotJson | Fault::NotJsonRpc(_)));
            }
        }

        #[test]
        fn ids_survive(number in any::<i64>(), text in ".*") {
            for id in [Id::Integer(number.into()), Id::Text(text)] {
                let id_text = serde_json::to_string(&id).unwrap();
                let line = format!(r#"{{"jsonrpc":"2.0","id":{id_text},"method":"x"}}"#);
                let Ok(Message::Request(request)) = parse(line.as_bytes()) else {
                    panic!("{line} is a request");
                };
                prop_assert_eq!(request.id, id);
            }
        }
    }
}

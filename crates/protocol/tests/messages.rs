//! Messages go through without a byte changed but at the splice points.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't read its own input has failed"
)]

use bytes::Bytes;
use manifold_protocol::{
    EnvelopeFault, IdField, LinkRequestId, Message, MetaEdit, Method, Outcome, Params, ParamsEdit,
    Raw, Request, ResultObject, ResultType, code, meta, wire,
};
use proptest::prelude::*;

fn parse(text: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn request(text: &str) -> Request {
    match parse(text) {
        Message::Request(request) => request,
        Message::Notification(_) | Message::Response(_) => panic!("not a request"),
    }
}

fn params(text: &str) -> Params {
    Params::parse(&Raw::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()).unwrap()
}

fn fault(text: &str) -> (EnvelopeFault, IdField) {
    let error = Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap_err();
    (error.fault, error.id)
}

#[test]
fn the_three_kinds_of_message() {
    let request = request(
        r#" {"method":"tools\/call","id":"x","jsonrpc":"2.0","params":{"name":"\u0061"}} "#,
    );
    assert_eq!(request.method, Method::ToolsCall);
    assert_eq!(request.id.as_raw().as_str(), "\"x\"");
    assert_eq!(request.params.name().unwrap(), "a");
    let Message::Notification(note) =
        parse(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#)
    else {
        panic!();
    };
    assert_eq!(note.params.request_id().unwrap().as_str(), "5");
    let Message::Response(response) =
        parse(r#"{"jsonrpc":"2.0","id":1,"error":null,"result":{"isError":true}}"#)
    else {
        panic!();
    };
    let Outcome::Result(result) = response.outcome else {
        panic!();
    };
    assert!(result.is_error());
    let Message::Response(response) =
        parse(r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"x","data":[1]}}"#)
    else {
        panic!();
    };
    assert_eq!(response.id, IdField::Absent);
    let Outcome::Error(error) = response.outcome else {
        panic!();
    };
    assert_eq!(
        (error.code(), error.message().as_str()),
        (code::METHOD_NOT_FOUND, "x")
    );
    assert_eq!(error.data().unwrap().as_str(), "[1]");
}

#[test]
fn what_is_no_message_is_refused_with_the_id_where_it_is_known() {
    for text in ["", "{", "nonsense", "{\"a\":\"\n\"}"] {
        assert!(matches!(fault(text).0, EnvelopeFault::Json(_)), "{text}");
    }
    for text in [
        "{}",
        "1",
        "null",
        "\"x\"",
        r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#,
    ] {
        assert!(matches!(fault(text).0, EnvelopeFault::Shape(_)), "{text}");
    }
    assert_eq!(fault("[]").0, EnvelopeFault::Batch);
    let (fault_, id) = fault(r#"{"jsonrpc":"2.0","id":7,"method":"x","params":[1]}"#);
    assert_eq!(fault_, EnvelopeFault::Params);
    assert_eq!(id.known().unwrap().as_raw().as_str(), "7");
    for id in ["null", "{}", "true", "[1]"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#);
        assert!(matches!(fault(&text).0, EnvelopeFault::Shape(_)), "{id}");
    }
}

#[test]
fn members_that_stand_twice_are_refused_however_they_are_escaped() {
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","m\u0065thod":"y"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{},"params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","n\u0061me":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{},"_meta":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":1,"progressToken":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
    ] {
        assert!(matches!(fault(text).0, EnvelopeFault::Shape(_)), "{text}");
    }
    // Not ours to judge.
    parse(
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"arguments":{"a":1,"a":2},"x":1,"x":2}}"#,
    );
    parse(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2,"isError":false,"isError":false}}"#);
}

#[test]
fn absent_null_and_empty_params_are_read_alike_and_written_as_they_were() {
    for (text, written) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#, ""),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":null}"#, ""),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{}}"#, "{}"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{ }}"#,
            "{ }",
        ),
    ] {
        assert_eq!(request(text).params.edited(&ParamsEdit::default()), written);
    }
}

#[test]
fn name_token_and_meta_are_spliced_and_every_other_byte_stays() {
    let text = "{ \"arguments\" : {\"n\":9007199254740993.10, \"e\":1E+400,\"z\":-0.0,\"s\":\"\\ud83d\",\"d\":1,\"d\":2},\t\"name\":\"files__read\" ,\
        \"_meta\":{ \"progressToken\":\"t\", \"x\": 1.0 ,\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"y\":{ } }, \"more\":[ 1 ]}";
    let params = params(text);
    let token = Raw::of(&77);
    let edited = params.edited(&ParamsEdit {
        name: Some("read \"x\""),
        progress_token: None,
        meta: MetaEdit {
            drop: &meta::HOP_BY_HOP,
            set: &[(meta::PROGRESS_TOKEN, token)],
        },
        ..ParamsEdit::default()
    });
    assert_eq!(
        std::str::from_utf8(&edited).unwrap(),
        "{ \"arguments\" : {\"n\":9007199254740993.10, \"e\":1E+400,\"z\":-0.0,\"s\":\"\\ud83d\",\"d\":1,\"d\":2},\t\"name\":\"read \\\"x\\\"\" ,\
        \"_meta\":{\"x\": 1.0,\"y\":{ },\"progressToken\":77}, \"more\":[ 1 ]}"
    );
}

#[test]
fn uris_and_references_are_spliced_and_a_task_is_taken_out() {
    let edit = ParamsEdit {
        uri: Some("a:1"),
        reference: Some("b"),
        drop_task: true,
        ..ParamsEdit::default()
    };
    for (text, edited) in [
        (r#"{"uri":"s+a:1","x":1}"#, r#"{"uri":"a:1","x":1}"#),
        (
            r#"{"ref":{"type":"ref/prompt","name":"s__b"},"argument":{"name":"n"}}"#,
            r#"{"ref":{"type":"ref/prompt","name":"b"},"argument":{"name":"n"}}"#,
        ),
        (
            r#"{"ref":{"uri":"s+b","name":"n","type":"ref/resource"}}"#,
            r#"{"ref":{"uri":"b","name":"n","type":"ref/resource"}}"#,
        ),
        (
            r#"{"ref":{"type":"other","name":"n"}}"#,
            r#"{"ref":{"type":"other","name":"n"}}"#,
        ),
        (r#"{"ref":7}"#, r#"{"ref":7}"#),
        (r#"{"task":{"ttl":1}}"#, "{}"),
        (r#"{"task":{"ttl":1} , "x":1}"#, r#"{ "x":1}"#),
        (r#"{"x":1 , "task":{"ttl":1}}"#, r#"{"x":1 }"#),
        (r#"{"x":1,"task":null,"y":2}"#, r#"{"x":1,"y":2}"#),
    ] {
        assert_eq!(params(text).edited(&edit), edited);
    }
    let with_meta = ParamsEdit {
        drop_task: true,
        meta: MetaEdit {
            drop: &[],
            set: &[("a", Raw::of(&1))],
        },
        ..ParamsEdit::default()
    };
    assert_eq!(
        params(r#"{"task":1}"#).edited(&with_meta),
        r#"{"_meta":{"a":1}}"#
    );
    assert_eq!(
        params(r#"{"x":1,"task":1}"#).edited(&with_meta),
        r#"{"x":1,"_meta":{"a":1}}"#
    );
}

#[test]
fn meta_is_put_in_where_there_was_none() {
    let edit = ParamsEdit {
        meta: MetaEdit {
            drop: &[],
            set: &[("a/b", Raw::of(&1)), ("c", Raw::of("d"))],
        },
        ..ParamsEdit::default()
    };
    for (text, edited) in [
        ("{}", r#"{"_meta":{"a/b":1,"c":"d"}}"#),
        (r#"{"x":1 }"#, r#"{"x":1 ,"_meta":{"a/b":1,"c":"d"}}"#),
        (
            r#"{"_meta":{},"x":1}"#,
            r#"{"_meta":{"a/b":1,"c":"d"},"x":1}"#,
        ),
    ] {
        assert_eq!(params(text).edited(&edit), edited);
    }
    assert_eq!(
        Params::absent().edited(&edit),
        r#"{"_meta":{"a/b":1,"c":"d"}}"#
    );
}

#[test]
fn a_member_of_meta_that_is_no_unicode_survives_a_splice() {
    let edited = params(r#"{"_meta":{"\ud83d":1,"progressToken":2}}"#).edited(&ParamsEdit {
        meta: MetaEdit {
            drop: &[meta::PROGRESS_TOKEN],
            set: &[],
        },
        ..ParamsEdit::default()
    });
    assert_eq!(edited, r#"{"_meta":{"\ud83d":1}}"#);
}

#[test]
fn too_many_members_of_meta_are_refused() {
    let members: Vec<String> = (0..65).map(|n| format!("\"k{n}\":0")).collect();
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"_meta":{{{}}}}}}}"#,
        members.join(",")
    );
    assert!(matches!(fault(&text).0, EnvelopeFault::Shape(_)));
}

#[test]
fn what_may_be_kept_says_for_how_long() {
    for (text, hinted) in [
        (
            r#"{"contents":[]}"#,
            r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[]}"#,
        ),
        (
            r#"{"ttlMs":5,"contents":[],"resultType":"complete"}"#,
            r#"{"cacheScope":"private","ttlMs":5,"contents":[],"resultType":"complete"}"#,
        ),
        (
            r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public"}"#,
            r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public"}"#,
        ),
    ] {
        let raw = Raw::parse(text.as_bytes().into()).unwrap();
        let result = ResultObject::parse(&raw).unwrap();
        assert_eq!(result.with_result_type_and_hint().as_str(), hinted);
    }
}

#[test]
fn results_get_a_type_only_where_they_have_none() {
    for (text, typed) in [
        ("{}", r#"{"resultType":"complete"}"#),
        (
            r#"{ "content":[]}"#,
            r#"{"resultType":"complete", "content":[]}"#,
        ),
        (
            r#"{"resultType":"input_required"}"#,
            r#"{"resultType":"input_required"}"#,
        ),
    ] {
        let message = parse(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#));
        let Message::Response(response) = message else {
            panic!();
        };
        let Outcome::Result(result) = response.outcome else {
            panic!();
        };
        assert_eq!(result.with_result_type().as_str(), typed);
        assert_eq!(result.raw().as_str(), text);
        assert_eq!(
            result.result_type() == ResultType::InputRequired,
            text.contains("input_required")
        );
    }
}

#[test]
fn the_id_of_a_broken_message_is_found_when_it_is_its_own() {
    for (text, id) in [
        (r#"{"jsonrpc":"2.0","id":12,"result":{"#, Some("12")),
        (r#"{"jsonrpc":"2.0","id" : "a" ,"x"#, Some("\"a\"")),
        (r#"{"jsonrpc":"2.0","result":{"id":3"#, None),
        (r#"{"jsonrpc":"2.0","result":{"id":3},"id":4,"#, Some("4")),
        (r#"{"id":{},"#, None),
        ("{\"id\":5,\"x\":\"\u{e9}", Some("5")),
    ] {
        let mut bytes = text.as_bytes().to_vec();
        if text.ends_with('\u{e9}') {
            bytes.pop();
        }
        let found = manifold_protocol::message::id_of(&bytes);
        assert_eq!(found.known().map(|id| id.as_raw().as_str()), id, "{text}");
    }
    // Whoever sent it waits for an answer with this id.
    let (_, id) = fault(r#"{"jsonrpc":"2.0","id":9,"method":"x","method":"y"}"#);
    assert_eq!(id.known().unwrap().as_raw().as_str(), "9");
}

#[test]
fn a_null_meta_is_replaced_and_not_doubled() {
    let params = params(r#"{"_meta":null,"x":1}"#);
    assert_eq!(
        params.edited(&ParamsEdit::default()),
        r#"{"_meta":null,"x":1}"#
    );
    let edited = params.edited(&ParamsEdit {
        meta: MetaEdit {
            drop: &[],
            set: &[("a", Raw::of(&1))],
        },
        ..ParamsEdit::default()
    });
    assert_eq!(edited, r#"{"_meta":{"a":1},"x":1}"#);
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        ".*".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            proptest::collection::btree_map(".*", inner, 0..6)
                .prop_map(serde_json::Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn requests_come_out_byte_equal(
        before in any_json(), after in any_json(), name in ".*", pretty in any::<bool>(), new_name in ".*",
    ) {
        let write = |value: &serde_json::Value| {
            if pretty { serde_json::to_string_pretty(value).unwrap() } else { value.to_string() }
        };
        let with_name = |name: &str| [
            "{\"before\":", &write(&before), ", \"name\" :", Raw::of(name).as_str(), ",\"after\": ", &write(&after), "}",
        ].concat();
        let text = with_name(&name);
        let message = ["{\"jsonrpc\":\"2.0\",\"params\":", &text, ",\"id\":1,\"method\":\"tools/call\"}"].concat();
        let request = request(&message);
        let untouched = request.params.edited(&ParamsEdit::default());
        prop_assert_eq!(&untouched[..], text.as_bytes());
        let edited = request.params.edited(&ParamsEdit { name: Some(&new_name), ..ParamsEdit::default() });
        let expected = with_name(&new_name);
        prop_assert_eq!(&edited[..], expected.as_bytes());
        let written = wire::request(LinkRequestId(9), "tools/call", &edited);
        let expected = ["{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":", &with_name(&new_name), "}"].concat();
        prop_assert_eq!(&written[..], expected.as_bytes());
    }

    #[test]
    fn results_come_out_byte_equal(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let text = ["{\"value\":", &text, "}"].concat();
        let Message::Response(response) = parse(&["{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":", &text, "}"].concat()) else {
            return Err(TestCaseError::fail("no response"));
        };
        let Outcome::Result(result) = response.outcome else {
            return Err(TestCaseError::fail("no result"));
        };
        let raw = result.raw();
        prop_assert_eq!(raw.as_str(), text.as_str());
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(text in proptest::collection::vec(any::<u8>(), 0..64)) {
        drop(Message::parse(text.into()));
    }
}

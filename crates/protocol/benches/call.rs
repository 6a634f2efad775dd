//! What one `tools/call` costs inside the process: envelope, splice, look-up.
//!
//! `cargo bench -p manifold-protocol`

use std::{borrow::Cow, collections::HashMap};

use bytes::Bytes;
use divan::{Bencher, black_box, counter::BytesCount};
use manifold_protocol::{
    ExposedName, LinkRequestId, Message, MetaEdit, Naming, OriginalName, Outcome, Params,
    ParamsEdit, Raw, RequestId, meta, wire,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Payload sizes, in bytes.
const SIZES: [usize; 3] = [100, 10_240, 1_048_576];

fn main() {
    divan::main();
}

fn request(size: usize) -> Bytes {
    let text = "x".repeat(size);
    format!(
        r#"{{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{{"name":"files__echo","arguments":{{"message":"{text}"}},"_meta":{{"progressToken":5}}}}}}"#
    )
    .into()
}

fn response(size: usize) -> Bytes {
    let text = "x".repeat(size);
    format!(
        r#"{{"jsonrpc":"2.0","id":17,"result":{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}}}"#
    )
    .into()
}

/// One pass that finds everything routing depends on.
#[divan::bench(args = SIZES)]
fn envelope_scan(bencher: Bencher<'_, '_>, size: usize) {
    let text = request(size);
    bencher
        .counter(BytesCount::new(text.len()))
        .bench(|| Message::parse(black_box(text.clone())));
}

/// The same places by `RawValue`: the envelope, then `params`, then `_meta`. Without the depth limit and the
/// check for members that stand twice.
#[divan::bench(args = SIZES)]
fn envelope_rawvalue(bencher: Bencher<'_, '_>, size: usize) {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        _id: Option<&'a RawValue>,
        #[serde(borrow)]
        _method: Option<Cow<'a, str>>,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow)]
        _name: Option<&'a RawValue>,
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow, rename = "progressToken")]
        _token: Option<&'a RawValue>,
    }
    let text = request(size);
    bencher.counter(BytesCount::new(text.len())).bench(|| {
        let envelope: Envelope<'_> = serde_json::from_slice(black_box(&text)).ok()?;
        let inner: Inner<'_> = serde_json::from_str(envelope.params?.get()).ok()?;
        let fields: Fields<'_> = serde_json::from_str(inner.meta?.get()).ok()?;
        Some(fields._token.is_some())
    });
}

/// The request as the server gets it.
#[divan::bench(args = SIZES)]
fn splice_request(bencher: Bencher<'_, '_>, size: usize) {
    let params = match Message::parse(request(size)) {
        Ok(Message::Request(request)) => request.params,
        _ => Params::absent(),
    };
    bencher.counter(BytesCount::new(size)).bench(|| {
        let params = params.edited(&ParamsEdit {
            name: Some("echo"),
            meta: MetaEdit {
                drop: &meta::HOP_BY_HOP,
                set: &[(meta::PROGRESS_TOKEN, Raw::of(&7))],
            },
            ..ParamsEdit::default()
        });
        wire::request(LinkRequestId(7), "tools/call", &params)
    });
}

/// The answer from the server's bytes to the client's.
#[divan::bench(args = SIZES)]
fn answer(bencher: Bencher<'_, '_>, size: usize) {
    let text = response(size);
    let id = RequestId::from("\"client\"");
    bencher.counter(BytesCount::new(text.len())).bench(|| {
        let Ok(Message::Response(response)) = Message::parse(black_box(text.clone())) else {
            return None;
        };
        match response.outcome {
            Outcome::Result(result) => Some(wire::result(&id, &result.raw())),
            Outcome::Error(_) => None,
        }
    });
}

/// An exposed name among 500.
#[divan::bench]
fn look_up(bencher: Bencher<'_, '_>) {
    let naming = Naming::Prefixed {
        prefix: "files".into(),
        separator: "__".into(),
        max_length: 48,
    };
    let table: HashMap<ExposedName, usize> = (0..500)
        .map(|n| (naming.expose(&OriginalName::new(&format!("tool_{n}"))), n))
        .collect();
    bencher.bench(|| table.get(black_box("files__tool_250")).copied());
}

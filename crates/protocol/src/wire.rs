//! Writing messages: the envelope is ours, params and results are put in as they are.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    id::{LinkRequestId, RequestId},
    raw::Raw,
};

/// A request to a server. `params` are an object's text, or empty for none: `"params": null` is never
/// written.
#[must_use]
pub fn request(id: LinkRequestId, method: &str, params: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(64 + method.len() + params.len());
    out.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.put_slice(id.to_string().as_bytes());
    put_method(&mut out, method, params);
    out.freeze()
}

/// A notification, to a server or a client.
#[must_use]
pub fn notification(method: &str, params: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(48 + method.len() + params.len());
    out.put_slice(b"{\"jsonrpc\":\"2.0\"");
    put_method(&mut out, method, params);
    out.freeze()
}

/// A client's answer.
#[must_use]
pub fn result(id: &RequestId, result: &Raw) -> Bytes {
    response(id.as_raw(), b"result", result)
}

/// An error. Without an `id` (the request could not be read) none is written.
#[must_use]
pub fn error(id: Option<&RequestId>, error: &Raw) -> Bytes {
    match id {
        Some(id) => response(id.as_raw(), b"error", error),
        None => {
            let mut out = BytesMut::with_capacity(32 + error.as_bytes().len());
            out.put_slice(b"{\"jsonrpc\":\"2.0\",\"error\":");
            out.put_slice(error.as_bytes());
            out.put_slice(b"}");
            out.freeze()
        }
    }
}

fn response(id: &Raw, member: &[u8], value: &Raw) -> Bytes {
    let mut out = BytesMut::with_capacity(40 + id.as_bytes().len() + value.as_bytes().len());
    out.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.put_slice(id.as_bytes());
    out.put_slice(b",\"");
    out.put_slice(member);
    out.put_slice(b"\":");
    out.put_slice(value.as_bytes());
    out.put_slice(b"}");
    out.freeze()
}

fn put_method(out: &mut BytesMut, method: &str, params: &[u8]) {
    out.put_slice(b",\"method\":");
    out.put_slice(Raw::of(method).as_bytes());
    if !params.is_empty() {
        out.put_slice(b",\"params\":");
        out.put_slice(params);
    }
    out.put_slice(b"}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_params_stay_absent() {
        assert_eq!(
            request(LinkRequestId(3), "tools/list", b""),
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#
        );
        assert_eq!(
            notification("notifications/x", b"{}"),
            r#"{"jsonrpc":"2.0","method":"notifications/x","params":{}}"#
        );
    }

    #[test]
    fn answers_carry_the_clients_own_id() {
        let id = RequestId::from("\"a\\u0062\"");
        assert_eq!(
            result(&id, &Raw::of(&[1])),
            r#"{"jsonrpc":"2.0","id":"a\u0062","result":[1]}"#
        );
        assert_eq!(error(None, &Raw::of(&1)), r#"{"jsonrpc":"2.0","error":1}"#);
    }
}

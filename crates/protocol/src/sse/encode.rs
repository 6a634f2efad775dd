//! Writing events.

use bytes::{BufMut, Bytes, BytesMut};

/// One message as an event with exactly one `data:` line. Raw line breaks, which are white space in JSON,
/// become spaces.
#[must_use]
pub fn message(json: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(json.len() + 24);
    out.put_slice(b"event: message\ndata: ");
    if memchr::memchr2(b'\n', b'\r', json).is_none() {
        out.put_slice(json);
    } else {
        out.extend(json.iter().map(|byte| match byte {
            b'\n' | b'\r' => b' ',
            other => *other,
        }));
    }
    out.put_slice(b"\n\n");
    out.freeze()
}

/// A comment, which readers ignore and proxies take for traffic.
#[must_use]
pub fn comment() -> Bytes {
    Bytes::from_static(b":\n\n")
}

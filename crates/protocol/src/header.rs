//! Values of the `Mcp-Name` and `Mcp-Param-*` headers (2026-07-28 streamable-http, "Value Encoding").

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// The header value for `value`: itself where that is safe, else base64 between the marks.
#[must_use]
pub fn encode(value: &str) -> Cow<'_, str> {
    let plain = value
        .bytes()
        .all(|byte| matches!(byte, 0x20..=0x7e | b'\t'))
        && !value.starts_with([' ', '\t'])
        && !value.ends_with([' ', '\t'])
        && !is_marked(value);
    if plain {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{OPEN}{}{CLOSE}", STANDARD.encode(value)))
}

/// The value that a header stands for; `None` when it has the marks but is not base64 of UTF-8 between
/// them.
#[must_use]
pub fn decode(header: &str) -> Option<Cow<'_, str>> {
    if !is_marked(header) {
        return Some(Cow::Borrowed(header));
    }
    let inner = header.get(OPEN.len()..header.len() - CLOSE.len())?;
    let bytes = STANDARD.decode(inner).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn is_marked(value: &str) -> bool {
    value.len() >= OPEN.len() + CLOSE.len() && value.starts_with(OPEN) && value.ends_with(CLOSE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_of_the_specification() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encode(value), header);
            assert_eq!(decode(header).unwrap(), value);
        }
        assert_eq!(decode("=?base64?!?="), None);
        assert_eq!(decode("=?base64?/w==?="), None);
        assert_eq!(decode("=?base64?=").unwrap(), "=?base64?=");
    }

    proptest! {
        #[test]
        fn every_value_comes_back_from_visible_ascii(value in ".*") {
            let header = encode(&value);
            prop_assert!(header.bytes().all(|byte| matches!(byte, 0x20..=0x7e | b'\t')));
            prop_assert_eq!(decode(&header).unwrap(), value.as_str());
        }
    }
}

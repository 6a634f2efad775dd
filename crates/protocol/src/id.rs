//! Request ids of both sides. They never mix: a client's id is its own bytes, ours is a number.

use std::fmt;

use bytes::Bytes;

use crate::raw::Raw;

/// A client's request id, with its exact bytes: `1`, `"1"` and `1.0` are three ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Raw);

/// The id of a request of ours to a server: a counter of the link.
///
/// Small integers only: some servers drop ids above 2^53 without a word, or round them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkRequestId(pub u64);

/// What stands where an id should be (JSON-RPC 2.0, section 5; MCP adds that a request's is never null).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdField {
    /// There is no `id` member: a notification.
    Absent,
    /// `"id": null`, which JSON-RPC uses in errors about requests it could not read.
    Null,
    /// A string or a number.
    Id(RequestId),
    /// Anything else.
    Invalid,
}

impl RequestId {
    /// The id in `raw`, if a string or number stands there.
    #[must_use]
    pub fn from_raw(raw: Raw) -> Option<Self> {
        match raw.as_bytes().first() {
            Some(b'"' | b'-' | b'0'..=b'9') => Some(Self(raw)),
            _ => None,
        }
    }

    /// The id as JSON, as the client wrote it.
    #[must_use]
    pub fn as_raw(&self) -> &Raw {
        &self.0
    }
}

impl LinkRequestId {
    /// The id that a server's answer carries, if it can be one of ours. Servers that turn our number into
    /// a string of the same digits are understood.
    #[must_use]
    pub fn from_raw(raw: &Raw) -> Option<Self> {
        let text = raw.as_str();
        let digits = text
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(text);
        digits.parse().ok().map(Self)
    }
}

impl fmt::Display for LinkRequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl IdField {
    pub(crate) fn from_raw(raw: Raw) -> Self {
        if raw.is_null() {
            return Self::Null;
        }
        RequestId::from_raw(raw).map_or(Self::Invalid, Self::Id)
    }

    /// The id, if there is a valid one.
    #[must_use]
    pub fn known(&self) -> Option<&RequestId> {
        match self {
            Self::Id(id) => Some(id),
            Self::Absent | Self::Null | Self::Invalid => None,
        }
    }
}

impl From<&'static str> for RequestId {
    /// For tests and fixed ids: `text` must be the JSON of a string or number.
    fn from(text: &'static str) -> Self {
        Self(Raw::parse(Bytes::from_static(text.as_bytes())).unwrap_or_else(|_| Raw::of(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &'static str) -> Raw {
        Raw::parse(Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[test]
    fn ids_have_three_states_and_keep_their_bytes() {
        assert_eq!(IdField::from_raw(raw("null")), IdField::Null);
        assert_eq!(IdField::from_raw(raw("{}")), IdField::Invalid);
        assert_eq!(IdField::from_raw(raw("true")), IdField::Invalid);
        for text in [
            "0",
            "-1",
            "1.0",
            "\"1\"",
            "\"a\\u0062\"",
            "123456789012345678901234",
        ] {
            let IdField::Id(id) = IdField::from_raw(raw(text)) else {
                panic!("{text}");
            };
            assert_eq!(id.as_raw().as_str(), text);
        }
    }

    #[test]
    fn our_ids_come_back_from_servers_that_quote_them() {
        assert_eq!(LinkRequestId::from_raw(&raw("7")), Some(LinkRequestId(7)));
        assert_eq!(
            LinkRequestId::from_raw(&raw("\"7\"")),
            Some(LinkRequestId(7))
        );
        for text in ["7.0", "-7", "\"server-error\"", "\"\"", "null", "1e3"] {
            assert_eq!(LinkRequestId::from_raw(&raw(text)), None, "{text}");
        }
    }
}

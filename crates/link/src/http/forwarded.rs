//! Headers of a client's request that go on to a server.

use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// The names that belong to one hop, or to the message that carries them, and never go on.
const OWN: [HeaderName; 16] = [
    header::ACCEPT,
    // Answers are not unpacked.
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::RANGE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("proxy-connection"),
];

/// The families of names that never go on: the body's, and the protocol's.
const OWN_FAMILIES: [&str; 2] = ["content-", "mcp-"];

/// Headers of a client's request that a server wants. Cheap to clone.
///
/// Whatever it is made of, it never holds what belongs to one hop or one message (RFC 9110, section 7.6.1), nor the
/// protocol's own headers. `Debug` shows no values: they may be secrets.
#[derive(Clone, Default)]
pub struct ForwardedHeaders(Arc<HeaderMap>);

impl ForwardedHeaders {
    /// Takes names and values; a name may come more than once. What can't be a header is dropped, like what may not
    /// go on.
    pub fn new<N: AsRef<[u8]>, V: AsRef<[u8]>>(headers: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_ref());
            let value = HeaderValue::from_bytes(value.as_ref());
            if let (Ok(name), Ok(value)) = (name, value) {
                all.append(name, value);
            }
        }
        Self(Arc::new(goes_on(&all)))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds them to `headers`, except for the names that are there already.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        for name in self.0.keys() {
            if headers.contains_key(name) {
                continue;
            }
            for value in self.0.get_all(name) {
                headers.append(name, value.clone());
            }
        }
    }
}

impl fmt::Debug for ForwardedHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// Those of the headers that may go on to the next hop.
fn goes_on(headers: &HeaderMap) -> HeaderMap {
    let connection: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let stays = |name: &HeaderName| {
        OWN.contains(name)
            || OWN_FAMILIES
                .iter()
                .any(|family| name.as_str().starts_with(family))
            || connection.iter().any(|named| named == name.as_str())
    };
    headers
        .iter()
        .filter(|(name, _)| !stays(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(headers: &[(&str, &str)]) -> Vec<String> {
        let forwarded = ForwardedHeaders::new(headers.iter().copied());
        let names = forwarded.0.keys().map(ToString::to_string);
        names.collect()
    }

    #[test]
    fn what_belongs_to_one_hop_never_goes_on() {
        for (name, goes_on) in [
            ("x-tenant", true),
            ("X-Tenant", true),
            ("authorization", true),
            ("cookie", true),
            ("traceparent", true),
            ("x-mcp-tenant", true),
            ("Host", false),
            ("content-length", false),
            ("Content-Type", false),
            ("content-encoding", false),
            ("accept", false),
            ("Accept-Encoding", false),
            ("accept-language", true),
            ("connection", false),
            ("keep-alive", false),
            ("proxy-connection", false),
            ("proxy-authorization", false),
            ("TE", false),
            ("trailer", false),
            ("transfer-encoding", false),
            ("upgrade", false),
            ("expect", false),
            ("range", false),
            ("http2-settings", false),
            ("Mcp-Session-Id", false),
            ("mcp-protocol-version", false),
            ("mcp-method", false),
            ("mcp-param-region", false),
            ("Last-Event-ID", false),
            ("no name", false),
            ("", false),
        ] {
            let expected: &[String] = if goes_on {
                &[name.to_ascii_lowercase()]
            } else {
                &[]
            };
            assert_eq!(names(&[(name, "v")]), expected, "{name}");
        }
        // What a connection names is its own.
        let named = [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("x-on", "2"),
        ];
        assert_eq!(names(&named), ["x-on"]);
        assert!(names(&[("x-broken", "a\r\nb: c")]).is_empty());
    }

    #[test]
    fn what_is_configured_comes_first() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("ours"));
        let forwarded = ForwardedHeaders::new([
            ("Authorization", "theirs"),
            ("x-tag", "one"),
            ("x-tag", "two"),
        ]);
        forwarded.add_to(&mut headers);
        assert_eq!(headers["authorization"], "ours");
        let tags: Vec<_> = headers.get_all("x-tag").iter().collect();
        assert_eq!(tags, ["one", "two"]);
    }

    #[test]
    fn debug_shows_no_secret() {
        let forwarded = ForwardedHeaders::new([("authorization", "hunter2")]);
        let shown = format!("{forwarded:?}");
        assert!(
            shown.contains("authorization") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
}

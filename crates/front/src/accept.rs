//! Which of the two answer types a client takes (RFC 9110, section 12.5.1).

use http::{HeaderMap, header};

/// What a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) json: bool,
    pub(crate) events: bool,
}

impl Accepted {
    /// Reads all Accept headers. Without one everything is accepted: real clients forget it.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::ACCEPT).iter().peekable();
        if values.peek().is_none() {
            return Self {
                json: true,
                events: true,
            };
        }
        let ranges: Vec<Range<'_>> = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(Range::parse)
            .collect();
        Self {
            json: takes(&ranges, "application", "json"),
            events: takes(&ranges, "text", "event-stream"),
        }
    }

    pub(crate) fn is_none(self) -> bool {
        !self.json && !self.events
    }
}

#[derive(Debug)]
struct Range<'a> {
    kind: &'a str,
    subkind: &'a str,
    refused: bool,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subkind) = parts.next()?.split_once('/')?;
        let refused = parts.any(|parameter| {
            parameter
                .split_once('=')
                .filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
                .and_then(|(_, value)| value.trim().parse::<f32>().ok())
                .is_some_and(|quality| quality <= 0.0)
        });
        Some(Self {
            kind,
            subkind,
            refused,
        })
    }

    /// How precisely the range names the type; `None` when it does not.
    fn precision(&self, kind: &str, subkind: &str) -> Option<u8> {
        match (self.kind, self.subkind) {
            ("*", "*") => Some(0),
            (k, "*") if k.eq_ignore_ascii_case(kind) => Some(1),
            (k, s) if k.eq_ignore_ascii_case(kind) && s.eq_ignore_ascii_case(subkind) => Some(2),
            _ => None,
        }
    }
}

/// The most precise range decides.
fn takes(ranges: &[Range<'_>], kind: &str, subkind: &str) -> bool {
    ranges
        .iter()
        .filter_map(|range| Some((range.precision(kind, subkind)?, range.refused)))
        .max_by_key(|(precision, refused)| (*precision, *refused))
        .is_some_and(|(_, refused)| !refused)
}

/// Whether the Content-Type is JSON. A missing one is not: a page can send a request without one to any
/// host without asking first.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(|value| value.split(';').next().unwrap_or_default().trim())
        .is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn ranges_are_matched_as_media_types() {
        for (accept, json, events) in [
            (&["*/*"][..], true, true),
            (&["application/json"], true, false),
            (&["text/event-stream"], false, true),
            (&["application/json, text/event-stream"], true, true),
            (&["application/*, text/event-stream"], true, true),
            (&["text/event-stream;q=0.9,application/json"], true, true),
            (&["APPLICATION/JSON"], true, false),
            (&["application/json;q=0, text/event-stream"], false, true),
            (&["*/*, application/json; q=0.0"], false, true),
            (&["application/json", "text/event-stream"], true, true),
            (&["text/html"], false, false),
            (&[""], false, false),
            (&["json"], false, false),
        ] {
            let mut headers = HeaderMap::new();
            for value in accept {
                headers.append(header::ACCEPT, HeaderValue::from_static(value));
            }
            assert_eq!(
                Accepted::of(&headers),
                Accepted { json, events },
                "{accept:?}"
            );
        }
        let all = Accepted {
            json: true,
            events: true,
        };
        assert_eq!(Accepted::of(&HeaderMap::new()), all);
    }

    #[test]
    fn a_body_must_say_that_it_is_json() {
        for (kind, expected) in [
            (Some("application/json"), true),
            (Some("Application/JSON ; charset=utf-8"), true),
            (Some("text/plain"), false),
            (Some("application/jsonx"), false),
            (None, false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(kind) = kind {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            }
            assert_eq!(is_json(&headers), expected, "{kind:?}");
        }
    }
}

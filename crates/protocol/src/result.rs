//! The `result` or `error` of a response: raw, with the places that Manifold may change.

use bytes::{Bytes, BytesMut};

use crate::{
    error::code,
    json::{Key, ScanError, Scanner, Span},
    links,
    message::once,
    raw::Raw,
    splice::Splice,
};

/// A result on its way from a server to a client.
#[derive(Debug, Clone)]
pub struct ResultObject {
    text: Bytes,
    spans: ResultSpans,
}

/// An error on its way from a server to a client.
#[derive(Debug, Clone)]
pub struct ErrorObject {
    text: Bytes,
    spans: ErrorSpans,
}

/// Places inside a result object.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResultSpans {
    whole: Span,
    members: u32,
    /// The last of several, as most readers take it: duplicates in a result are the server's affair.
    result_type: Option<Span>,
    is_error: Option<Span>,
    next_cursor: Option<Span>,
    ttl_ms: Option<Span>,
    cache_scope: Option<Span>,
    /// URIs of the server's resources.
    links: Vec<Span>,
}

/// Places inside an error object.
#[derive(Debug, Clone, Default)]
pub(crate) struct ErrorSpans {
    whole: Span,
    code: Option<Span>,
    message: Option<Span>,
    data: Option<Span>,
}

/// `resultType` of a result (2026-07-28 basic, "ResultType").
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultType {
    /// The final answer; also meant by results that have no type.
    Complete,
    /// The server needs input first.
    InputRequired,
    /// An extension's.
    Other(String),
}

/// The member that says that a result is final.
const RESULT_TYPE: &str = "\"resultType\":\"complete\"";

// === impl ResultSpans ===

impl ResultSpans {
    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<Self, ScanError> {
        let mut spans = Self::default();
        spans.whole = scanner.object(|scanner, key| spans.member(scanner, key))?;
        Ok(spans)
    }

    fn member(&mut self, scanner: &mut Scanner<'_>, key: Key<'_>) -> Result<(), ScanError> {
        self.members = self.members.saturating_add(1);
        let place = if key.is("resultType") {
            &mut self.result_type
        } else if key.is("isError") {
            &mut self.is_error
        } else if key.is("nextCursor") {
            &mut self.next_cursor
        } else if key.is("ttlMs") {
            &mut self.ttl_ms
        } else if key.is("cacheScope") {
            &mut self.cache_scope
        } else {
            links::member(scanner, key, &mut self.links)?;
            return Ok(());
        };
        *place = Some(scanner.skip()?);
        Ok(())
    }
}

// === impl ErrorSpans ===

impl ErrorSpans {
    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<Self, ScanError> {
        let mut spans = Self::default();
        spans.whole = scanner.object(|scanner, key| {
            if key.is("code") {
                once(scanner, &mut spans.code)
            } else if key.is("message") {
                once(scanner, &mut spans.message)
            } else if key.is("data") {
                once(scanner, &mut spans.data)
            } else {
                Ok(())
            }
        })?;
        Ok(spans)
    }
}

// === impl ResultObject ===

impl ResultObject {
    pub(crate) fn new(text: &Bytes, spans: ResultSpans) -> Self {
        Self {
            text: text.clone(),
            spans,
        }
    }

    /// A result of our own.
    ///
    /// # Errors
    /// When `raw` is not an object.
    pub fn parse(raw: &Raw) -> Result<Self, ScanError> {
        let mut scanner = Scanner::new(raw.as_bytes())?;
        let spans = ResultSpans::scan(&mut scanner)?;
        Ok(Self::new(raw.bytes(), spans))
    }

    /// The object as the server wrote it.
    #[must_use]
    pub fn raw(&self) -> Raw {
        Raw::scanned(&self.text, self.spans.whole.clone())
    }

    /// The type of the result.
    #[must_use]
    pub fn result_type(&self) -> ResultType {
        let Some(span) = &self.spans.result_type else {
            return ResultType::Complete;
        };
        match Raw::scanned(&self.text, span.clone()).to_text().as_deref() {
            Some("complete") => ResultType::Complete,
            Some("input_required") => ResultType::InputRequired,
            Some(other) => ResultType::Other(other.to_owned()),
            None => ResultType::Other(String::new()),
        }
    }

    /// Whether a tool says that it failed (`isError`).
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.spans
            .is_error
            .as_ref()
            .is_some_and(|span| self.text.get(span.clone()) == Some(b"true"))
    }

    /// `nextCursor` of a list.
    #[must_use]
    pub fn next_cursor(&self) -> Option<Raw> {
        let span = self.spans.next_cursor.as_ref()?;
        Some(Raw::scanned(&self.text, span.clone())).filter(|cursor| !cursor.is_null())
    }

    /// The result with the URIs of the server's resources translated by `link`; those it says nothing of, and
    /// all other bytes, stay as they were.
    #[must_use]
    pub fn with_links(self, link: &dyn Fn(&str) -> Option<String>) -> Self {
        if self.spans.links.is_empty() {
            return self;
        }
        let mut splice = Splice::new(&self.text, self.spans.whole.clone());
        links::translate(&mut splice, &self.text, &self.spans.links, link);
        let text = splice.finish();
        // What was spliced is what it was: an object.
        let Ok(spans) = Scanner::new(&text).and_then(|mut scanner| ResultSpans::scan(&mut scanner))
        else {
            return self;
        };
        Self { text, spans }
    }

    /// The result with `members` put in front, all other bytes as they were. `members` are JSON members
    /// joined by commas; the caller sees to it that none stands there already.
    #[must_use]
    pub fn with_members(&self, members: &[u8]) -> Raw {
        let mut splice = Splice::new(&self.text, self.spans.whole.clone());
        let at = self.spans.whole.start + 1;
        let mut addition = BytesMut::from(members);
        if self.spans.members > 0 {
            addition.extend_from_slice(b",");
        }
        splice.replace(at..at, addition.freeze());
        let out = splice.finish();
        let length = out.len();
        Raw::scanned(&out, 0..length)
    }

    /// The result as a modern client must get it: with a `resultType`.
    #[must_use]
    pub fn with_result_type(&self) -> Raw {
        self.completed(&[(self.spans.result_type.is_none(), RESULT_TYPE)])
    }

    /// The same for a result that may be kept: what does not say for how long, and by whom, may not be kept
    /// (2026-07-28 caching).
    #[must_use]
    pub fn with_result_type_and_hint(&self) -> Raw {
        self.completed(&[
            (self.spans.result_type.is_none(), RESULT_TYPE),
            (self.spans.ttl_ms.is_none(), "\"ttlMs\":0"),
            (
                self.spans.cache_scope.is_none(),
                "\"cacheScope\":\"private\"",
            ),
        ])
    }

    /// The result with those members that are missing.
    fn completed(&self, members: &[(bool, &str)]) -> Raw {
        let missing = members.iter().filter(|(missing, _)| *missing);
        let missing: Vec<&str> = missing.map(|(_, member)| *member).collect();
        if missing.is_empty() {
            return self.raw();
        }
        self.with_members(missing.join(",").as_bytes())
    }
}

// === impl ErrorObject ===

impl ErrorObject {
    pub(crate) fn new(text: &Bytes, spans: ErrorSpans) -> Self {
        Self {
            text: text.clone(),
            spans,
        }
    }

    /// The object as the server wrote it.
    #[must_use]
    pub fn raw(&self) -> Raw {
        Raw::scanned(&self.text, self.spans.whole.clone())
    }

    /// The error's code; -32603 where there is none that is an integer.
    #[must_use]
    pub fn code(&self) -> i64 {
        self.member(self.spans.code.as_ref())
            .and_then(|raw| raw.read())
            .unwrap_or(code::INTERNAL)
    }

    /// The error's message, empty where there is none.
    #[must_use]
    pub fn message(&self) -> String {
        self.member(self.spans.message.as_ref())
            .and_then(|raw| raw.to_text())
            .unwrap_or_default()
    }

    /// The error's data.
    #[must_use]
    pub fn data(&self) -> Option<Raw> {
        self.member(self.spans.data.as_ref())
    }

    fn member(&self, span: Option<&Span>) -> Option<Raw> {
        span.map(|span| Raw::scanned(&self.text, span.clone()))
    }
}

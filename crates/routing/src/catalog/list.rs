//! A list as clients get it: ready-made results, and pages of it for those who want them.

use std::hash::{DefaultHasher, Hash, Hasher};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::{BufMut, Bytes, BytesMut};
use manifold_protocol::{Era, Kind, Raw, json::Span, meta};

use super::server_info;
use crate::lists::CacheHint;

/// How many entries before the next page a cursor names.
const LANDMARKS: usize = 8;

/// A list of one kind on one path.
#[derive(Debug)]
pub(super) struct ReadyList {
    kind: Kind,
    /// `"tools":[…]`.
    text: Bytes,
    entries: Vec<Entry>,
    /// The whole result for each era.
    legacy: Raw,
    modern: Raw,
    ending: Ending,
    fingerprint: u64,
}

/// What tells an entry from its neighbours, and where it stands.
#[derive(Debug)]
struct Entry {
    key: u64,
    span: Span,
}

/// Gathers the entries of a list.
#[derive(Debug)]
pub(super) struct ListBuilder {
    kind: Kind,
    text: BytesMut,
    entries: Vec<Entry>,
}

/// What stands in every result beside the entries.
#[derive(Debug)]
struct Ending {
    hint: CacheHint,
    /// `_meta["dev.manifold/unavailable"]`.
    missing: Option<Raw>,
}

/// A cursor that was not given out for this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownCursor;

// === impl ListBuilder ===

impl ListBuilder {
    pub(super) fn new(kind: Kind) -> Self {
        let mut text = BytesMut::new();
        text.put_slice(b"\"");
        text.put_slice(kind.list().as_bytes());
        text.put_slice(b"\":[");
        Self {
            kind,
            text,
            entries: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, key: &str, object: &[u8]) {
        if !self.entries.is_empty() {
            self.text.put_slice(b",");
        }
        let start = self.text.len();
        self.text.put_slice(object);
        self.entries.push(Entry {
            key: hash(key),
            span: start..self.text.len(),
        });
    }

    pub(super) fn finish(mut self, hint: CacheHint, missing: Option<Raw>) -> ReadyList {
        self.text.put_slice(b"]");
        let ending = Ending { hint, missing };
        let legacy = ending.result(Era::Legacy, &self.text, None);
        ReadyList {
            modern: ending.result(Era::Modern, &self.text, None),
            fingerprint: hash(&self.text),
            kind: self.kind,
            entries: self.entries,
            // Behind the opening brace, the result has the same bytes.
            text: legacy.bytes().slice(1..=self.text.len()),
            legacy,
            ending,
        }
    }
}

// === impl ReadyList ===

impl ReadyList {
    /// The result of a list request. Without `size` everything is on the first page.
    pub(super) fn page(
        &self,
        era: Era,
        cursor: Option<&Raw>,
        size: Option<usize>,
    ) -> Result<Raw, UnknownCursor> {
        let Some(size) = size else {
            return match (cursor, era) {
                (Some(_), _) => Err(UnknownCursor),
                (None, Era::Legacy) => Ok(self.legacy.clone()),
                (None, Era::Modern) => Ok(self.modern.clone()),
            };
        };
        let start = match cursor {
            Some(cursor) => self.after(cursor)?,
            None => 0,
        };
        let page = self.entries.get(start..).unwrap_or_default();
        let page = page.get(..size).unwrap_or(page);
        let mut list = BytesMut::new();
        list.put_slice(format!("\"{}\":[", self.kind.list()).as_bytes());
        if let (Some(first), Some(last)) = (page.first(), page.last()) {
            let span = first.span.start..last.span.end;
            list.put_slice(self.text.get(span).unwrap_or_default());
        }
        list.put_slice(b"]");
        let end = start + page.len();
        let next = (end < self.entries.len()).then(|| self.cursor(end));
        Ok(self.ending.result(era, &list, next.as_deref()))
    }

    /// What tells this list from another: equal ones have equal fingerprints.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// A cursor names the entry to go on with and those before it, so that it keeps its meaning when the list changes,
    /// and its place, for when all of them go.
    fn cursor(&self, place: usize) -> String {
        let before = self.entries.get(..place).unwrap_or_default();
        let next = self.entries.get(place);
        let known = next.into_iter().chain(before.iter().rev().take(LANDMARKS));
        let known: Vec<String> = known.map(|entry| format!("{:x}", entry.key)).collect();
        URL_SAFE_NO_PAD.encode(format!(
            "{}:{place:x}:{}",
            self.kind.list(),
            known.join(",")
        ))
    }

    fn after(&self, cursor: &Raw) -> Result<usize, UnknownCursor> {
        let text = cursor.to_text().ok_or(UnknownCursor)?;
        let text = URL_SAFE_NO_PAD.decode(text).map_err(|_| UnknownCursor)?;
        let text = String::from_utf8(text).map_err(|_| UnknownCursor)?;
        let mut parts = text.split(':');
        let (kind, place, known) = (parts.next(), parts.next(), parts.next());
        if kind != Some(self.kind.list()) || parts.next().is_some() {
            return Err(UnknownCursor);
        }
        let place = place.and_then(|place| usize::from_str_radix(place, 16).ok());
        let known: Option<Vec<u64>> = known.and_then(|known| {
            let known = known.split(',').take(LANDMARKS + 1);
            known.map(|key| u64::from_str_radix(key, 16).ok()).collect()
        });
        let (place, known) = place.zip(known).ok_or(UnknownCursor)?;
        let find = |key| self.entries.iter().position(|entry| entry.key == key);
        let mut found = known.into_iter().enumerate().filter_map(|(index, key)| {
            // The first is the one to go on with.
            Some(find(key)? + usize::from(index > 0))
        });
        Ok(found.next().unwrap_or(place))
    }
}

// === impl Ending ===

impl Ending {
    /// A list result: the list, an era's own members, and `_meta` where there is something to say.
    fn result(&self, era: Era, list: &[u8], next: Option<&str>) -> Raw {
        let mut members: Vec<String> = Vec::new();
        let mut metas: Vec<String> = Vec::new();
        if let Some(next) = next {
            members.push(format!("\"nextCursor\":{}", Raw::of(next).as_str()));
        }
        if era == Era::Modern {
            let scope = if self.hint.public {
                "public"
            } else {
                "private"
            };
            members.push(format!(
                r#""resultType":"complete","ttlMs":{},"cacheScope":"{scope}""#,
                self.hint.ttl_ms
            ));
            metas.push(member(meta::SERVER_INFO, &server_info()));
        }
        metas.extend(
            self.missing
                .as_ref()
                .map(|missing| member(meta::UNAVAILABLE, missing)),
        );
        if !metas.is_empty() {
            members.push(format!("\"_meta\":{{{}}}", metas.join(",")));
        }
        let mut out = BytesMut::with_capacity(list.len() + 256);
        out.put_slice(b"{");
        out.put_slice(list);
        for member in members {
            out.put_slice(b",");
            out.put_slice(member.as_bytes());
        }
        out.put_slice(b"}");
        Raw::parse(out.freeze()).unwrap_or_else(|_| Raw::of(&serde_json::Map::new()))
    }
}

fn member(key: &str, value: &Raw) -> String {
    format!("{}:{}", Raw::of(key).as_str(), value.as_str())
}

fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

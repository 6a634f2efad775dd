//! The params of a request or notification: raw, with the places that Manifold may change.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::{
    json::{Key, ScanError, ScanErrorKind, Scanner, Span},
    message::once,
    meta::{Meta, MetaEdit},
    raw::Raw,
    splice::Splice,
};

/// The most members of a `_meta` that are kept track of.
const META_MEMBERS: usize = 64;

/// The params of one message. Cheap to clone: the bytes are shared.
#[derive(Debug, Clone)]
pub struct Params {
    text: Bytes,
    spans: Arc<ParamsSpans>,
}

/// Places inside a params object, relative to its start.
#[derive(Debug, Clone, Default)]
pub(crate) struct ParamsSpans {
    /// The object itself, in the message.
    whole: Span,
    members: u32,
    name: Option<Span>,
    uri: Option<Span>,
    cursor: Option<Span>,
    level: Option<Span>,
    protocol_version: Option<Span>,
    capabilities: Option<Span>,
    client_info: Option<Span>,
    progress_token: Option<Span>,
    request_id: Option<Span>,
    meta: Option<MetaSpans>,
}

#[derive(Debug, Clone)]
struct MetaSpans {
    whole: Span,
    members: Vec<MetaMember>,
}

#[derive(Debug, Clone)]
pub(crate) struct MetaMember {
    pub(crate) key: Box<str>,
    /// The member with its name, without the comma.
    pub(crate) whole: Span,
    pub(crate) value: Span,
}

/// What is changed in params on their way.
#[derive(Debug, Clone, Default)]
pub struct ParamsEdit<'a> {
    /// The value of `name`, replaced.
    pub name: Option<&'a str>,
    /// The value of `progressToken` (of a progress notification), replaced.
    pub progress_token: Option<&'a Raw>,
    /// Changes in `_meta`.
    pub meta: MetaEdit<'a>,
}

// === impl ParamsSpans ===

impl ParamsSpans {
    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<Self, ScanError> {
        let mut spans = Self::default();
        spans.whole = scanner.object(|scanner, key| spans.member(scanner, key))?;
        Ok(spans)
    }

    fn member(&mut self, scanner: &mut Scanner<'_>, key: Key<'_>) -> Result<(), ScanError> {
        self.members = self.members.saturating_add(1);
        if key.is("_meta") {
            if self.meta.is_some() {
                return Err(scanner.error(ScanErrorKind::Duplicate));
            }
            self.meta = Some(MetaSpans::scan(scanner)?);
            return Ok(());
        }
        let place = if key.is("name") {
            &mut self.name
        } else if key.is("uri") {
            &mut self.uri
        } else if key.is("cursor") {
            &mut self.cursor
        } else if key.is("level") {
            &mut self.level
        } else if key.is("protocolVersion") {
            &mut self.protocol_version
        } else if key.is("capabilities") {
            &mut self.capabilities
        } else if key.is("clientInfo") {
            &mut self.client_info
        } else if key.is("progressToken") {
            &mut self.progress_token
        } else if key.is("requestId") {
            &mut self.request_id
        } else {
            return Ok(());
        };
        once(scanner, place)
    }
}

// === impl MetaSpans ===

impl MetaSpans {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, ScanError> {
        let mut members: Vec<MetaMember> = Vec::new();
        // `"_meta": null` has no members; it is replaced when some must be added.
        if scanner.peek() == Some(b'n') {
            let whole = scanner.skip()?;
            return Ok(Self { whole, members });
        }
        let whole = scanner.object(|scanner, key| {
            if members.len() == META_MEMBERS {
                return Err(scanner.error(ScanErrorKind::Members));
            }
            // A name that is no Unicode string is nobody's to look up, but it is kept.
            let name = key
                .decoded()
                .unwrap_or_else(|| String::from_utf8_lossy(key.quoted()).into_owned());
            if members.iter().any(|member| *member.key == *name) {
                return Err(scanner.error(ScanErrorKind::Duplicate));
            }
            let start = key.start();
            let value = scanner.skip()?;
            members.push(MetaMember {
                key: name.into(),
                whole: start..value.end,
                value,
            });
            Ok(())
        })?;
        Ok(Self { whole, members })
    }
}

// === impl Params ===

impl Params {
    /// No params at all.
    #[must_use]
    pub fn absent() -> Self {
        Self {
            text: Bytes::new(),
            spans: Arc::default(),
        }
    }

    /// Params of our own.
    ///
    /// # Errors
    /// When `raw` is not an object or has one of the known members twice.
    pub fn parse(raw: &Raw) -> Result<Self, ScanError> {
        let mut scanner = Scanner::new(raw.as_bytes())?;
        let spans = ParamsSpans::scan(&mut scanner)?;
        Ok(Self::new(raw.bytes(), spans))
    }

    pub(crate) fn new(message: &Bytes, spans: ParamsSpans) -> Self {
        Self {
            text: message.clone(),
            spans: Arc::new(spans),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.text.is_empty()
    }

    /// The object's length in bytes; none for absent ones.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.is_absent() {
            return 0;
        }
        self.spans.whole.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_absent()
    }

    /// The object as it was sent, `{}` if there was none.
    #[must_use]
    pub fn raw(&self) -> Raw {
        if self.is_absent() {
            return Raw::scanned(&Bytes::from_static(b"{}"), 0..2);
        }
        Raw::scanned(&self.text, self.spans.whole.clone())
    }

    /// The string in `name`: a tool's or a prompt's.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.text_of(self.spans.name.as_ref())
    }

    /// The string in `uri`.
    #[must_use]
    pub fn uri(&self) -> Option<String> {
        self.text_of(self.spans.uri.as_ref())
    }

    /// `cursor` of a list request.
    #[must_use]
    pub fn cursor(&self) -> Option<Raw> {
        self.raw_of(self.spans.cursor.as_ref())
    }

    /// `level` of `logging/setLevel`.
    #[must_use]
    pub fn level(&self) -> Option<Raw> {
        self.raw_of(self.spans.level.as_ref())
    }

    /// The string in `protocolVersion` of `initialize`.
    #[must_use]
    pub fn protocol_version(&self) -> Option<String> {
        self.text_of(self.spans.protocol_version.as_ref())
    }

    /// `capabilities` of `initialize`.
    #[must_use]
    pub fn capabilities(&self) -> Option<Raw> {
        self.raw_of(self.spans.capabilities.as_ref())
    }

    /// `clientInfo` of `initialize`.
    #[must_use]
    pub fn client_info(&self) -> Option<Raw> {
        self.raw_of(self.spans.client_info.as_ref())
    }

    /// `progressToken` of a progress notification.
    #[must_use]
    pub fn progress_token(&self) -> Option<Raw> {
        self.raw_of(self.spans.progress_token.as_ref())
    }

    /// `requestId` of a cancellation.
    #[must_use]
    pub fn request_id(&self) -> Option<Raw> {
        self.raw_of(self.spans.request_id.as_ref())
    }

    /// The `_meta` object, if there is one.
    #[must_use]
    pub fn meta(&self) -> Option<Meta<'_>> {
        let spans = self.spans.meta.as_ref()?;
        Some(Meta::new(&self.text, &spans.members))
    }

    /// The params with `edit` applied, all other bytes as they were. Absent params stay absent (empty
    /// bytes) unless something must be added.
    #[must_use]
    pub fn edited(&self, edit: &ParamsEdit<'_>) -> Bytes {
        let add = edit.meta.addition();
        if self.is_absent() {
            return match add {
                Some(members) => wrap(&[b"{\"_meta\":{", members.as_slice(), b"}}"]),
                None => Bytes::new(),
            };
        }
        let mut splice = Splice::new(&self.text, self.spans.whole.clone());
        if let (Some(name), Some(span)) = (edit.name, &self.spans.name) {
            splice.replace(span.clone(), Raw::of(name).bytes().clone());
        }
        if let (Some(token), Some(span)) = (edit.progress_token, &self.spans.progress_token) {
            splice.replace(span.clone(), token.bytes().clone());
        }
        match (&self.spans.meta, add) {
            (Some(meta), add) => {
                if add.is_some()
                    || meta
                        .members
                        .iter()
                        .any(|member| edit.meta.drops(&member.key))
                {
                    splice.replace(
                        meta.whole.clone(),
                        edit.meta.rebuilt(&self.text, &meta.members, add),
                    );
                }
            }
            (None, Some(members)) => {
                let end = self.spans.whole.end - 1;
                let comma: &[u8] = if self.spans.members == 0 { b"" } else { b"," };
                splice.replace(
                    end..end,
                    wrap(&[comma, b"\"_meta\":{", members.as_slice(), b"}"]),
                );
            }
            (None, None) => {}
        }
        splice.finish()
    }

    fn raw_of(&self, span: Option<&Span>) -> Option<Raw> {
        span.map(|span| Raw::scanned(&self.text, span.clone()))
    }

    fn text_of(&self, span: Option<&Span>) -> Option<String> {
        self.raw_of(span)?.to_text()
    }
}

fn wrap(parts: &[&[u8]]) -> Bytes {
    let mut out = BytesMut::with_capacity(parts.iter().map(|part| part.len()).sum());
    for part in parts {
        out.extend_from_slice(part);
    }
    out.freeze()
}

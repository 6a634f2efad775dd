//! The params of a request or notification: raw, with the places that Manifold may change.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::{
    json::{Key, ScanError, ScanErrorKind, Scanner, Span},
    message::once,
    meta::{Meta, MetaEdit, MetaSpans},
    raw::Raw,
    splice::Splice,
};

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
    /// The member with its name, without the comma.
    task: Option<Span>,
    reference: Option<Box<ReferenceSpans>>,
    meta: Option<MetaSpans>,
}

/// Places inside `ref` of `completion/complete`.
#[derive(Debug, Clone, Default)]
struct ReferenceSpans {
    kind: Option<Span>,
    name: Option<Span>,
    uri: Option<Span>,
}

/// What a completion is for (2025-11-25 completion, "Reference Types").
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// `ref/prompt`, by its name.
    Prompt(String),
    /// `ref/resource`, by its URI or template.
    Resource(String),
}

/// What is changed in params on their way.
#[derive(Debug, Clone, Default)]
pub struct ParamsEdit<'a> {
    /// The value of `name`, replaced.
    pub name: Option<&'a str>,
    /// The value of `uri`, replaced.
    pub uri: Option<&'a str>,
    /// The name or URI inside `ref`, replaced.
    pub reference: Option<&'a str>,
    /// Whether `task` is taken out.
    pub drop_task: bool,
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
        if key.is("ref") {
            if self.reference.is_some() {
                return Err(scanner.error(ScanErrorKind::Duplicate));
            }
            self.reference = Some(Box::new(ReferenceSpans::scan(scanner)?));
            return Ok(());
        }
        if key.is("task") {
            let mut value = self.task.take();
            once(scanner, &mut value)?;
            self.task = value.map(|value| key.start()..value.end);
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

// === impl ReferenceSpans ===

impl ReferenceSpans {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, ScanError> {
        let mut spans = Self::default();
        if scanner.peek() != Some(b'{') {
            scanner.skip()?;
            return Ok(spans);
        }
        scanner.object(|scanner, key| {
            if key.is("type") {
                once(scanner, &mut spans.kind)
            } else if key.is("name") {
                once(scanner, &mut spans.name)
            } else if key.is("uri") {
                once(scanner, &mut spans.uri)
            } else {
                Ok(())
            }
        })?;
        Ok(spans)
    }

    /// Where the name or URI stands.
    fn target(&self, text: &Bytes) -> Option<Span> {
        let kind = Raw::scanned(text, self.kind.clone()?).to_text()?;
        match kind.as_str() {
            "ref/prompt" => self.name.clone(),
            "ref/resource" => self.uri.clone(),
            _ => None,
        }
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

    /// `ref` of `completion/complete`, if it is one that the protocol has.
    #[must_use]
    pub fn reference(&self) -> Option<Reference> {
        let spans = self.spans.reference.as_ref()?;
        match self.text_of(spans.kind.as_ref())?.as_str() {
            "ref/prompt" => self.text_of(spans.name.as_ref()).map(Reference::Prompt),
            "ref/resource" => self.text_of(spans.uri.as_ref()).map(Reference::Resource),
            _ => None,
        }
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
        if let (Some(uri), Some(span)) = (edit.uri, &self.spans.uri) {
            splice.replace(span.clone(), Raw::of(uri).bytes().clone());
        }
        if let (Some(target), Some(spans)) = (edit.reference, &self.spans.reference)
            && let Some(span) = spans.target(&self.text)
        {
            splice.replace(span, Raw::of(target).bytes().clone());
        }
        if let (true, Some(span)) = (edit.drop_task, &self.spans.task) {
            splice.remove_member(span.clone());
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
                let dropped = u32::from(edit.drop_task && self.spans.task.is_some());
                let others = self.spans.members.saturating_sub(dropped);
                let comma: &[u8] = if others == 0 { b"" } else { b"," };
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

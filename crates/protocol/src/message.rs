//! The JSON-RPC envelope, read in one pass over the bytes of a message.
//!
//! Reading finds the places that routing depends on: the id, the method, and the members of `params` and
//! `result` that Manifold may have to change. Nothing else is looked at, and nothing is copied.

use bytes::Bytes;
use thiserror::Error;

use crate::{
    id::{IdField, RequestId},
    json::{Key, ScanError, ScanErrorKind, Scanner, Span},
    method::Method,
    params::{Params, ParamsSpans},
    raw::Raw,
    result::{ErrorObject, ErrorSpans, ResultObject, ResultSpans},
};

/// One JSON-RPC message (2025-11-25 and 2026-07-28, basic, "Messages").
#[derive(Debug, Clone)]
pub enum Message {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification(Notification),
    /// Answers a request.
    Response(Response),
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its sender's id.
    pub id: RequestId,
    /// The method.
    pub method: Method,
    /// The params; absent and `null` are the same.
    pub params: Params,
}

/// A notification.
#[derive(Debug, Clone)]
pub struct Notification {
    /// The method.
    pub method: Method,
    /// The params; absent and `null` are the same.
    pub params: Params,
}

/// A response.
#[derive(Debug, Clone)]
pub struct Response {
    /// The id that is answered; null and absent ones are said by servers that could not read ours.
    pub id: IdField,
    /// The answer.
    pub outcome: Outcome,
}

/// What a response says.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// `result`.
    Result(ResultObject),
    /// `error`.
    Error(ErrorObject),
}

/// A text that is no message, and the id that an error about it should carry.
#[derive(Debug, Clone, Error)]
#[error("{fault}")]
pub struct EnvelopeError {
    /// What is wrong.
    pub fault: EnvelopeFault,
    /// The id, when it could be read.
    pub id: IdField,
}

/// The kinds of [`EnvelopeError`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnvelopeFault {
    /// Not JSON.
    #[error("Parse error: {0}")]
    Json(ScanError),
    /// A batch. Only revision 2025-03-26 has them.
    #[error("Invalid Request: batches are not supported")]
    Batch,
    /// JSON, but not JSON-RPC.
    #[error("Invalid Request: {0}")]
    Shape(&'static str),
    /// `params` is an array or a scalar.
    #[error("Invalid params: params must be an object")]
    Params,
}

/// Everything the pass has found, before it is decided what kind of message it is.
#[derive(Debug)]
struct Found {
    version: Option<Span>,
    id: Option<Span>,
    method: Option<Span>,
    params: Field<ParamsSpans>,
    result: Field<ResultSpans>,
    error: Field<ErrorSpans>,
}

/// A member that should be an object.
#[derive(Debug)]
enum Field<T> {
    Absent,
    Null,
    Other,
    Object(T),
}

// === impl Message ===

impl Message {
    /// Reads one message.
    ///
    /// # Errors
    /// When the text is not JSON, nests deeper than [`crate::json::MAX_DEPTH`], has an envelope member or
    /// a member that is spliced twice, or is not JSON-RPC 2.0.
    pub fn parse(text: Bytes) -> Result<Self, EnvelopeError> {
        let mut scanner = Scanner::new(&text).map_err(EnvelopeError::json)?;
        match scanner.peek() {
            Some(b'{') => {}
            Some(b'[') => {
                scanner
                    .skip()
                    .and_then(|_| scanner.end())
                    .map_err(EnvelopeError::json)?;
                return Err(EnvelopeFault::Batch.into());
            }
            _ => {
                scanner
                    .skip()
                    .and_then(|_| scanner.end())
                    .map_err(EnvelopeError::json)?;
                return Err(EnvelopeFault::Shape("a message is a JSON object").into());
            }
        }
        match Found::scan(&mut scanner) {
            Ok(found) => found.message(text),
            Err(error) => {
                let mut error = EnvelopeError::json(error);
                error.id = id_of(&text);
                Err(error)
            }
        }
    }
}

// === impl EnvelopeError ===

impl EnvelopeError {
    fn json(error: ScanError) -> Self {
        let fault = match error.kind {
            ScanErrorKind::Duplicate => {
                EnvelopeFault::Shape("a member that routing depends on stands twice")
            }
            ScanErrorKind::Members => EnvelopeFault::Shape("too many members in _meta"),
            ScanErrorKind::Type => EnvelopeFault::Shape("a member is of the wrong type"),
            ScanErrorKind::End
            | ScanErrorKind::Unexpected
            | ScanErrorKind::String
            | ScanErrorKind::Number
            | ScanErrorKind::Depth
            | ScanErrorKind::Utf8
            | ScanErrorKind::Trailing => EnvelopeFault::Json(error),
        };
        fault.into()
    }
}

impl From<EnvelopeFault> for EnvelopeError {
    fn from(fault: EnvelopeFault) -> Self {
        Self {
            fault,
            id: IdField::Absent,
        }
    }
}

// === impl Found ===

impl Found {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, ScanError> {
        let mut found = Self {
            version: None,
            id: None,
            method: None,
            params: Field::Absent,
            result: Field::Absent,
            error: Field::Absent,
        };
        scanner.object(|scanner, key| found.member(scanner, key))?;
        scanner.end()?;
        Ok(found)
    }

    fn member(&mut self, scanner: &mut Scanner<'_>, key: Key<'_>) -> Result<(), ScanError> {
        if key.is("jsonrpc") {
            once(scanner, &mut self.version)
        } else if key.is("id") {
            once(scanner, &mut self.id)
        } else if key.is("method") {
            once(scanner, &mut self.method)
        } else if key.is("params") {
            self.params.fill(scanner, ParamsSpans::scan)
        } else if key.is("result") {
            self.result.fill(scanner, ResultSpans::scan)
        } else if key.is("error") {
            self.error.fill(scanner, ErrorSpans::scan)
        } else {
            Ok(())
        }
    }

    fn message(self, text: Bytes) -> Result<Message, EnvelopeError> {
        let id = match &self.id {
            None => IdField::Absent,
            Some(span) => IdField::from_raw(Raw::scanned(&text, span.clone())),
        };
        let refuse = |fault, id| Err(EnvelopeError { fault, id });
        if self
            .version
            .is_none_or(|span| text.get(span) != Some(b"\"2.0\""))
        {
            return refuse(EnvelopeFault::Shape("\"jsonrpc\": \"2.0\" is missing"), id);
        }
        let Some(method) = self.method else {
            return match outcome(&text, self.result, self.error) {
                Ok(outcome) => Ok(Message::Response(Response { id, outcome })),
                Err(why) => refuse(EnvelopeFault::Shape(why), id),
            };
        };
        let Some(method) = Raw::scanned(&text, method).to_text() else {
            return refuse(EnvelopeFault::Shape("method must be a string"), id);
        };
        let method = Method::from(method.as_str());
        let params = match self.params {
            Field::Absent | Field::Null => Params::absent(),
            Field::Other => return refuse(EnvelopeFault::Params, id),
            Field::Object(spans) => Params::new(&text, spans),
        };
        match id {
            IdField::Absent => Ok(Message::Notification(Notification { method, params })),
            IdField::Id(id) => Ok(Message::Request(Request { id, method, params })),
            IdField::Null => refuse(EnvelopeFault::Shape("id must not be null"), id),
            IdField::Invalid => refuse(EnvelopeFault::Shape("id must be a string or a number"), id),
        }
    }
}

fn outcome(
    text: &Bytes,
    result: Field<ResultSpans>,
    error: Field<ErrorSpans>,
) -> Result<Outcome, &'static str> {
    // `"error": null` beside a result, and the other way round, is what some servers write for "none".
    match (result, error) {
        (Field::Object(spans), Field::Absent | Field::Null) => {
            Ok(Outcome::Result(ResultObject::new(text, spans)))
        }
        (Field::Absent | Field::Null, Field::Object(spans)) => {
            Ok(Outcome::Error(ErrorObject::new(text, spans)))
        }
        (Field::Absent | Field::Null, Field::Absent | Field::Null) => {
            Err("a message has a method, a result or an error")
        }
        (Field::Object(_), Field::Object(_)) => Err("both result and error are given"),
        (Field::Other, _) => Err("result must be an object"),
        (_, Field::Other) => Err("error must be an object"),
    }
}

impl<T> Field<T> {
    fn fill(
        &mut self,
        scanner: &mut Scanner<'_>,
        scan: impl FnOnce(&mut Scanner<'_>) -> Result<T, ScanError>,
    ) -> Result<(), ScanError> {
        if !matches!(self, Self::Absent) {
            return Err(scanner.error(ScanErrorKind::Duplicate));
        }
        *self = match scanner.peek() {
            Some(b'{') => Self::Object(scan(scanner)?),
            Some(b'n') => {
                scanner.skip()?;
                Self::Null
            }
            _ => {
                scanner.skip()?;
                Self::Other
            }
        };
        Ok(())
    }
}

/// The id of a message that is not one, or of which only the beginning is there: the first `id` member of the
/// outermost object, so that whoever waits for it can be told.
#[must_use]
pub fn id_of(text: &[u8]) -> IdField {
    let mut id = None;
    if let Ok(mut scanner) = Scanner::new(valid_start(text)) {
        // What follows the id may be broken: that is why we are here.
        drop(scanner.object(|scanner, key| {
            if id.is_none() && key.is("id") {
                id = Some(scanner.skip()?);
            }
            Ok(())
        }));
    }
    let raw = id
        .and_then(|span| text.get(span))
        .map(Bytes::copy_from_slice);
    raw.and_then(|raw| Raw::parse(raw).ok())
        .map_or(IdField::Absent, IdField::from_raw)
}

/// The longest beginning that is UTF-8.
fn valid_start(text: &[u8]) -> &[u8] {
    match std::str::from_utf8(text) {
        Ok(_) => text,
        Err(error) => text.get(..error.valid_up_to()).unwrap_or_default(),
    }
}

/// The elements of a batch, each of which should be a message (2025-03-26 basic, "Batching").
///
/// # Errors
/// When the text is no array.
pub fn elements(text: &Bytes) -> Result<Vec<Bytes>, ScanError> {
    let mut spans = Vec::new();
    let mut scanner = Scanner::new(text)?;
    scanner.array(|scanner| {
        spans.push(scanner.skip()?);
        Ok(())
    })?;
    scanner.end()?;
    Ok(spans.into_iter().map(|span| text.slice(span)).collect())
}

/// Takes the value of a member that may stand only once.
pub(crate) fn once(scanner: &mut Scanner<'_>, place: &mut Option<Span>) -> Result<(), ScanError> {
    if place.is_some() {
        return Err(scanner.error(ScanErrorKind::Duplicate));
    }
    *place = Some(scanner.skip()?);
    Ok(())
}

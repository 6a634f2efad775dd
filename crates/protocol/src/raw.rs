//! A JSON value that has been checked and is never looked into again: bytes, shared and not copied.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;

use crate::json::{ScanError, Scanner, Span};

/// One valid JSON value, exactly as somebody wrote it.
///
/// `serde_json::value::RawValue` would say the same of a `str`; this one says it of [`Bytes`], so that a
/// part of a message can outlive the function that read it without a copy.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Raw(Bytes);

impl Raw {
    /// Checks `text`; white space around the value is cut off.
    ///
    /// # Errors
    /// When it is not one JSON value.
    pub fn parse(text: Bytes) -> Result<Self, ScanError> {
        let mut scanner = Scanner::new(&text)?;
        let span = scanner.skip()?;
        scanner.end()?;
        Ok(Self(text.slice(span)))
    }

    /// The JSON of a value of ours. What can't be written as JSON (a map with keys that are no strings)
    /// becomes `null`.
    #[must_use]
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(text) => Self(text.into()),
            Err(_) => Self(Bytes::from_static(b"null")),
        }
    }

    /// A part of a text that a scanner has just walked over.
    pub(crate) fn scanned(text: &Bytes, span: Span) -> Self {
        Self(if span.end <= text.len() && span.start <= span.end {
            text.slice(span)
        } else {
            Bytes::from_static(b"null")
        })
    }

    /// The text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, shared.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The text as a string. It is UTF-8, since it has been checked.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The same value in memory of its own. What is kept for long must not keep the message alive that it
    /// was a part of.
    #[must_use]
    pub fn compact(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// The string this value is, without its escapes; `None` for other types, and for strings that are
    /// not Unicode (lone surrogates).
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        // Most strings have no escapes.
        if let [b'"', text @ .., b'"'] = self.as_bytes()
            && memchr::memchr(b'\\', text).is_none()
        {
            return std::str::from_utf8(text).ok().map(str::to_owned);
        }
        serde_json::from_slice(&self.0).ok()
    }

    /// Reads it as a small typed value. Not for params or results on their way through.
    #[must_use]
    pub fn read<'a, T: serde::Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_slice(&self.0).ok()
    }

    /// Whether it is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.0.as_ref() == b"null"
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_slice::<&serde_json::value::RawValue>(&self.0)
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

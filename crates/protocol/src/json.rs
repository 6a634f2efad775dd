//! One pass over a JSON text: checks it, and hands out the places of the members somebody asked for.
//!
//! It builds no tree and copies nothing, so its cost does not depend on the shape of a message, and
//! nesting costs no stack. Everything it accepts, `serde_json` accepts, and the other way round, but for
//! two deliberate differences: more than [`MAX_DEPTH`] levels are refused, to protect recursive parsers
//! behind us, and a number of any size or precision is fine, since numbers are never converted.

use std::ops::Range;

use thiserror::Error;

/// The deepest nesting of arrays and objects that is let through.
pub const MAX_DEPTH: u32 = 128;

/// A range of bytes in the scanned text.
pub type Span = Range<usize>;

/// Why a text is not the JSON that was expected, and at which byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{kind} at byte {at}")]
pub struct ScanError {
    /// What is wrong.
    pub kind: ScanErrorKind,
    /// Where, in bytes from the start.
    pub at: usize,
}

/// The kinds of [`ScanError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ScanErrorKind {
    /// The text ends in the middle of a value.
    #[error("unexpected end of JSON")]
    End,
    /// A byte that can't stand here.
    #[error("unexpected character in JSON")]
    Unexpected,
    /// A raw control character or a bad escape in a string.
    #[error("invalid string in JSON")]
    String,
    /// Something that looks like a number and is none.
    #[error("invalid number in JSON")]
    Number,
    /// More levels than [`MAX_DEPTH`].
    #[error("JSON nested deeper than 128 levels")]
    Depth,
    /// The text is not UTF-8.
    #[error("JSON is not valid UTF-8")]
    Utf8,
    /// Something follows the value.
    #[error("unexpected text after JSON")]
    Trailing,
    /// A member that routing depends on stands twice: two readers could see two different messages.
    #[error("duplicate member in JSON")]
    Duplicate,
    /// A value of another type was needed.
    #[error("JSON value of the wrong type")]
    Type,
    /// More members than are ever needed in a place that is kept in memory.
    #[error("too many members in a JSON object")]
    Members,
}

/// An object's member name, as it stands in the text.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    quoted: &'a [u8],
    /// Without the quotes.
    name: &'a [u8],
    start: usize,
    escaped: bool,
}

/// A cursor over one JSON text.
#[derive(Debug, Clone)]
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
}

// === impl Key ===

impl Key<'_> {
    /// Whether the name is `name`, however it is escaped.
    #[must_use]
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        if self.escaped {
            return self.decoded().is_some_and(|decoded| decoded == name);
        }
        self.name == name.as_bytes()
    }

    /// The name without escapes; `None` when it is no Unicode string (a lone surrogate).
    #[must_use]
    pub fn decoded(&self) -> Option<String> {
        if !self.escaped {
            return std::str::from_utf8(self.name).ok().map(str::to_owned);
        }
        serde_json::from_slice(self.quoted).ok()
    }

    /// The name with its quotes, as it stands in the text.
    #[must_use]
    pub fn quoted(&self) -> &[u8] {
        self.quoted
    }

    /// Where the name's opening quote stands.
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }
}

// === impl Scanner ===

impl<'a> Scanner<'a> {
    /// Starts at the first byte of `text`.
    ///
    /// # Errors
    /// When `text` is not UTF-8.
    pub fn new(text: &'a [u8]) -> Result<Self, ScanError> {
        match std::str::from_utf8(text) {
            Ok(_) => Ok(Self {
                text,
                at: 0,
                depth: 0,
            }),
            Err(error) => Err(ScanError {
                kind: ScanErrorKind::Utf8,
                at: error.valid_up_to(),
            }),
        }
    }

    /// The next byte that is not white space, without taking it.
    pub fn peek(&mut self) -> Option<u8> {
        self.whitespace();
        self.byte()
    }

    /// Takes one value of any type and returns its text.
    ///
    /// # Errors
    /// When there is no valid value.
    pub fn value(&mut self) -> Result<&'a [u8], ScanError> {
        let span = self.skip()?;
        Ok(self.text.get(span).unwrap_or_default())
    }

    /// Takes one value of any type and says where it stood.
    ///
    /// # Errors
    /// When there is no valid value.
    pub fn skip(&mut self) -> Result<Span, ScanError> {
        self.whitespace();
        let start = self.at;
        // One bit per open container: 1 for an object. MAX_DEPTH levels fit exactly.
        let mut open: u128 = 0;
        let base = self.depth;
        loop {
            self.whitespace();
            match self.byte().ok_or_else(|| self.error(ScanErrorKind::End))? {
                b'{' => {
                    self.enter()?;
                    self.at += 1;
                    open = (open << 1) | 1;
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                        open >>= 1;
                        self.depth -= 1;
                    } else {
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.enter()?;
                    self.at += 1;
                    open <<= 1;
                    if self.peek() == Some(b']') {
                        self.at += 1;
                        open >>= 1;
                        self.depth -= 1;
                    } else {
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            // A value has ended: close what closes with it.
            loop {
                if self.depth == base {
                    return Ok(start..self.at);
                }
                let in_object = open & 1 == 1;
                match self.peek().ok_or_else(|| self.error(ScanErrorKind::End))? {
                    b',' => {
                        self.at += 1;
                        if in_object {
                            self.key()?;
                        }
                        break;
                    }
                    b'}' if in_object => {
                        self.at += 1;
                        open >>= 1;
                        self.depth -= 1;
                    }
                    b']' if !in_object => {
                        self.at += 1;
                        open >>= 1;
                        self.depth -= 1;
                    }
                    _ => return Err(self.error(ScanErrorKind::Unexpected)),
                }
            }
        }
    }

    /// Takes one object. `member` is called for each member, with the cursor before the value; a value
    /// that it leaves alone is skipped.
    ///
    /// # Errors
    /// When there is no valid object, and what `member` returns.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Key<'a>) -> Result<(), ScanError>,
    ) -> Result<Span, ScanError> {
        let start = self.open(b'{')?;
        if self.peek() != Some(b'}') {
            loop {
                let key = self.key()?;
                self.whitespace();
                let before = self.at;
                member(self, key)?;
                if self.at == before {
                    self.skip()?;
                }
                if !self.comma(b'}')? {
                    break;
                }
            }
        }
        self.close(start)
    }

    /// Takes one array. `element` is called for each element, with the cursor before it; an element that
    /// it leaves alone is skipped.
    ///
    /// # Errors
    /// When there is no valid array, and what `element` returns.
    pub fn array(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), ScanError>,
    ) -> Result<Span, ScanError> {
        let start = self.open(b'[')?;
        if self.peek() != Some(b']') {
            loop {
                self.whitespace();
                let before = self.at;
                element(self)?;
                if self.at == before {
                    self.skip()?;
                }
                if !self.comma(b']')? {
                    break;
                }
            }
        }
        self.close(start)
    }

    /// Checks that nothing but white space is left.
    ///
    /// # Errors
    /// When something is.
    pub fn end(&mut self) -> Result<(), ScanError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error(ScanErrorKind::Trailing)),
        }
    }

    /// An error of `kind` at the cursor.
    #[must_use]
    pub fn error(&self, kind: ScanErrorKind) -> ScanError {
        ScanError { kind, at: self.at }
    }

    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn whitespace(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.at += 1;
        }
    }

    fn enter(&mut self) -> Result<(), ScanError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(ScanErrorKind::Depth));
        }
        self.depth += 1;
        Ok(())
    }

    fn open(&mut self, bracket: u8) -> Result<usize, ScanError> {
        match self.peek() {
            Some(byte) if byte == bracket => {}
            Some(_) => return Err(self.error(ScanErrorKind::Type)),
            None => return Err(self.error(ScanErrorKind::End)),
        }
        self.enter()?;
        let start = self.at;
        self.at += 1;
        Ok(start)
    }

    /// After a value: true at a comma, false at the closing `bracket`, which is left in place.
    fn comma(&mut self, bracket: u8) -> Result<bool, ScanError> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == bracket => Ok(false),
            Some(_) => Err(self.error(ScanErrorKind::Unexpected)),
            None => Err(self.error(ScanErrorKind::End)),
        }
    }

    fn close(&mut self, start: usize) -> Result<Span, ScanError> {
        self.at += 1;
        self.depth -= 1;
        Ok(start..self.at)
    }

    /// Takes a member's name and the colon after it.
    fn key(&mut self) -> Result<Key<'a>, ScanError> {
        self.whitespace();
        let start = self.at;
        match self.byte() {
            Some(b'"') => {}
            Some(_) => return Err(self.error(ScanErrorKind::Unexpected)),
            None => return Err(self.error(ScanErrorKind::End)),
        }
        let escaped = self.string()?;
        let quoted = self.text.get(start..self.at).unwrap_or_default();
        match self.peek() {
            Some(b':') => self.at += 1,
            Some(_) => return Err(self.error(ScanErrorKind::Unexpected)),
            None => return Err(self.error(ScanErrorKind::End)),
        }
        let name = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        Ok(Key {
            name,
            quoted,
            start,
            escaped,
        })
    }

    fn scalar(&mut self) -> Result<(), ScanError> {
        match self.byte() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            Some(_) => Err(self.error(ScanErrorKind::Unexpected)),
            None => Err(self.error(ScanErrorKind::End)),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), ScanError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        let kind = if word.starts_with(rest) {
            ScanErrorKind::End
        } else {
            ScanErrorKind::Unexpected
        };
        Err(self.error(kind))
    }

    /// Takes a string, both quotes included; says whether it has escapes.
    fn string(&mut self) -> Result<bool, ScanError> {
        self.at += 1;
        let mut escaped = false;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let found = memchr::memchr2(b'"', b'\\', rest);
            let plain = rest.get(..found.unwrap_or(rest.len())).unwrap_or_default();
            // The smallest byte tells whether there is a control character, many bytes at a time.
            if plain.iter().copied().fold(u8::MAX, u8::min) < 0x20 {
                let before = plain.iter().take_while(|byte| **byte >= 0x20).count();
                self.at += before;
                return Err(self.error(ScanErrorKind::String));
            }
            self.at += plain.len();
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(self.error(ScanErrorKind::End)),
            }
        }
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        match rest.get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            // A lone surrogate is passed on as it stands: it is the reader's to judge.
            Some(b'u') => match rest.get(2..6) {
                Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => {
                    self.at += 6;
                    Ok(())
                }
                Some(_) => Err(self.error(ScanErrorKind::String)),
                None => Err(self.error(ScanErrorKind::End)),
            },
            Some(_) => Err(self.error(ScanErrorKind::String)),
            None => Err(self.error(ScanErrorKind::End)),
        }
    }

    fn number(&mut self) -> Result<(), ScanError> {
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        match self.byte() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.error(ScanErrorKind::Number)),
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.some_digits()?;
        }
        // "01" and "1x" end here; what follows is then an unexpected character for whoever comes next.
        match self.byte() {
            Some(b'0'..=b'9') => Err(self.error(ScanErrorKind::Number)),
            _ => Ok(()),
        }
    }

    fn some_digits(&mut self) -> Result<(), ScanError> {
        match self.byte() {
            Some(b'0'..=b'9') => {
                self.digits();
                Ok(())
            }
            _ => Err(self.error(ScanErrorKind::Number)),
        }
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn accepts(text: &[u8]) -> Result<Span, ScanError> {
        let mut scanner = Scanner::new(text)?;
        let span = scanner.skip()?;
        scanner.end()?;
        Ok(span)
    }

    #[test]
    fn takes_what_is_json() {
        for text in [
            "0",
            "-0.0",
            "9007199254740993.10",
            "1E+400",
            "[]",
            "{}",
            "[ ]",
            "{ }",
            "[1,[2,[]],{}]",
            r#"{"a":{"a":1,"a":2}}"#,
            r#""\ud83d""#,
            r#""\u2028\"\\\/""#,
            " true ",
            "\t[false , null]\r\n",
            "\"\u{2028}\u{85}\"",
        ] {
            assert_eq!(
                accepts(text.as_bytes()),
                Ok(text.len() - text.trim_start_matches([' ', '\t']).len()
                    ..text.trim_end_matches([' ', '\t', '\r', '\n']).len()),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_what_is_not() {
        for text in [
            "",
            " ",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "tru",
            "nul",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{'a':1}",
            "[",
            "{",
            "[}",
            "{]",
            "\"",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "1 2",
            "[]]",
            "NaN",
            "\u{feff}1",
        ] {
            assert!(accepts(text.as_bytes()).is_err(), "{text:?}");
        }
        assert_eq!(accepts(b"\"\xff\"").unwrap_err().kind, ScanErrorKind::Utf8);
    }

    #[test]
    fn depth_is_capped_without_using_the_stack() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(accepts(nested(128).as_bytes()).is_ok());
        assert_eq!(
            accepts(nested(129).as_bytes()).unwrap_err().kind,
            ScanErrorKind::Depth
        );
        assert_eq!(
            accepts("[".repeat(10_000_000).as_bytes()).unwrap_err().kind,
            ScanErrorKind::Depth
        );
        // Levels entered by name count as well.
        let text = format!("{{\"params\":{}}}", nested(128));
        let mut scanner = Scanner::new(text.as_bytes()).unwrap();
        assert_eq!(
            scanner.object(|_, _| Ok(())).unwrap_err().kind,
            ScanErrorKind::Depth
        );
    }

    #[test]
    fn members_are_found_however_they_are_escaped() {
        let text = br#"{"n\u0061me":1, "other" : [ {"name":2} ] }"#;
        let mut found = Vec::new();
        let mut scanner = Scanner::new(text).unwrap();
        scanner
            .object(|scanner, key| {
                if key.is("name") {
                    found.push(scanner.skip()?);
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(&text[found[0].clone()], b"1");
    }

    fn json_like() -> impl Strategy<Value = String> {
        // Pieces of JSON in any order: mostly invalid, often nearly valid.
        proptest::collection::vec(
            prop_oneof![
                Just("{"),
                Just("}"),
                Just("["),
                Just("]"),
                Just(","),
                Just(":"),
                Just("\"a\""),
                Just("\"\\u0041\""),
                Just("1"),
                Just("-1.5e3"),
                Just("0"),
                Just("true"),
                Just("null"),
                Just(" "),
                Just("\n"),
                Just("\""),
                Just("\\"),
                Just("e"),
                Just("."),
                Just("\u{1}"),
            ],
            0..12,
        )
        .prop_map(|pieces| pieces.concat())
    }

    pub(crate) fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            any::<f64>().prop_map(serde_json::Value::from),
            ".*".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(serde_json::Value::from),
                proptest::collection::btree_map(".*", inner, 0..8)
                    .prop_map(serde_json::Value::from_iter),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn agrees_with_serde_json(text in json_like()) {
            let theirs = serde_json::from_str::<&RawValue>(&text).is_ok();
            prop_assert_eq!(accepts(text.as_bytes()).is_ok(), theirs, "{}", text);
        }
    }

    proptest! {
        #[test]
        fn accepts_all_json(value in any_json()) {
            let text = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(accepts(text.as_bytes()), Ok(0..text.len()));
        }

        #[test]
        fn never_panics(text in proptest::collection::vec(any::<u8>(), 0..64)) {
            drop(accepts(&text));
        }
    }
}

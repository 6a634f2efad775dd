//! Splicing: some places of a text replaced, every other byte kept.

use bytes::{BufMut, Bytes, BytesMut};

use crate::json::Span;

/// A part of a text and the replacements to make in it. Replacements may not overlap; they may be given in
/// any order.
#[derive(Debug)]
pub struct Splice<'a> {
    text: &'a Bytes,
    whole: Span,
    edits: Vec<(Span, Bytes)>,
}

impl<'a> Splice<'a> {
    /// Starts with the part `whole` of `text` as it is.
    #[must_use]
    pub fn new(text: &'a Bytes, whole: Span) -> Self {
        Self {
            text,
            whole,
            edits: Vec::new(),
        }
    }

    /// Replaces `span` (in coordinates of the whole text); an empty span inserts.
    pub fn replace(&mut self, span: Span, by: Bytes) {
        self.edits.push((span, by));
    }

    /// Takes an object's member out, with the comma that goes with it. `member` spans its name and value.
    pub fn remove_member(&mut self, member: Span) {
        let mut span = member;
        let after = self.text.get(span.end..self.whole.end).unwrap_or_default();
        let gap = after.iter().take_while(|byte| byte.is_ascii_whitespace());
        let gap = gap.count();
        if after.get(gap) == Some(&b',') {
            span.end += gap + 1;
        } else {
            let before = self.text.get(self.whole.start..span.start);
            let before = before.unwrap_or_default().iter().rev();
            let gap = before.clone().take_while(|byte| byte.is_ascii_whitespace());
            let gap = gap.count();
            if before.clone().nth(gap) == Some(&b',') {
                span.start -= gap + 1;
            }
        }
        self.edits.push((span, Bytes::new()));
    }

    /// The result. Without replacements it shares the text's bytes.
    #[must_use]
    pub fn finish(mut self) -> Bytes {
        if self.edits.is_empty() {
            return self.text.slice(self.whole);
        }
        self.edits.sort_by_key(|(span, _)| (span.start, span.end));
        let grown: usize = self.edits.iter().map(|(_, by)| by.len()).sum();
        let mut out = BytesMut::with_capacity(self.whole.len() + grown);
        self.write(&mut out);
        out.freeze()
    }

    fn write(&self, out: &mut BytesMut) {
        let mut at = self.whole.start;
        for (span, by) in &self.edits {
            out.put_slice(self.text.get(at..span.start).unwrap_or_default());
            out.put_slice(by);
            at = span.end;
        }
        out.put_slice(self.text.get(at..self.whole.end).unwrap_or_default());
    }
}

/// Makes a text fit on one line: a raw line break in JSON is white space, and can stand nowhere else.
#[must_use]
pub fn one_line(text: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &text).is_none() {
        return text;
    }
    text.iter()
        .map(|byte| match byte {
            b'\n' | b'\r' => b' ',
            other => *other,
        })
        .collect()
}

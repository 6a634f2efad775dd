//! Which bytes of the file must not be shown, because they may be secrets.

use std::ops::Range;

use crate::substitute::{self, Piece};

/// The parts of the `guarded` string values to star out, in order: all of their text but the names of references.
///
/// `guarded` are places of values as written, with their quotes.
pub(crate) fn hidden(text: &str, mut guarded: Vec<Range<usize>>) -> Vec<Range<usize>> {
    guarded.sort_by_key(|span| (span.start, span.end));
    guarded.dedup();
    let mut parts: Vec<Range<usize>> = Vec::new();
    for span in guarded {
        let Some(written) = text.get(span.clone()) else {
            continue;
        };
        let inner = unquoted(written);
        let start = span.start + inner.start;
        for piece in substitute::pieces(written.get(inner).unwrap_or_default()) {
            if let Some(part) = secret_part(&piece) {
                parts.push(start + part.start..start + part.end);
            }
        }
    }
    parts
}

/// The insides of all quotes in the line of `text` around `offset`.
///
/// Where the syntax is broken, nobody can tell what a string belongs to, so all of them in that line are guarded.
pub(crate) fn quoted_parts_around(text: &str, offset: usize) -> Vec<Range<usize>> {
    let (before, after) = text.split_at_checked(offset).unwrap_or((text, ""));
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let end = after.find('\n').map_or(text.len(), |at| offset + at);
    let mut parts = Vec::new();
    let mut open: Option<(usize, char)> = None;
    for (at, character) in text.get(start..end).unwrap_or_default().char_indices() {
        let at = start + at;
        match open {
            None if matches!(character, '"' | '\'') => open = Some((at, character)),
            Some((from, quote)) if quote == character => {
                parts.push(from..at + 1);
                open = None;
            }
            None | Some(_) => {}
        }
    }
    parts.extend(open.map(|(from, _)| from..end));
    parts
}

/// The part of a string as written that lies between its quotes, if it has any.
fn unquoted(written: &str) -> Range<usize> {
    for quotes in ["\"\"\"", "'''", "\"", "'"] {
        if let Some(inner) = written.strip_prefix(quotes) {
            let closing = if inner.ends_with(quotes) {
                quotes.len()
            } else {
                0
            };
            return quotes.len()..written.len() - closing;
        }
    }
    0..written.len()
}

fn secret_part(piece: &Piece<'_>) -> Option<Range<usize>> {
    match piece {
        Piece::Literal { range, .. } | Piece::Malformed { range, .. } => Some(range.clone()),
        Piece::Variable { default, .. } => default.as_ref().map(|(range, _)| range.clone()),
        Piece::File { .. } => None,
    }
}

//! Substitution in parsed strings: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${file:/path}`, and `$${` for a
//! literal `${`.
//!
//! It works on values that are already parsed, never on the text of the file, so what is put in cannot change the
//! structure. What was put in is not looked at again.

use std::ops::Range;

use crate::Surroundings;
use crate::fault::{Refusal, quoted};

/// One part of a string, with its bytes in that string.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// Text that stands for itself.
    Literal { range: Range<usize>, text: &'t str },
    /// `${VAR}` or `${env:VAR}`, with `:-default` or without.
    Variable {
        range: Range<usize>,
        name: &'t str,
        default: Option<(Range<usize>, &'t str)>,
    },
    /// `${file:/path}`.
    File { range: Range<usize>, path: &'t str },
    /// It begins like a reference and is none.
    Malformed {
        range: Range<usize>,
        why: &'static str,
    },
}

/// A reference that could not be resolved: its bytes in the string, and why.
pub(crate) type Unresolved = (Range<usize>, Refusal);

/// Replaces every reference in `text`.
///
/// A variable that is empty takes the default too, as in a shell. One newline at the end of a file is left out.
///
/// # Errors
/// All references that could not be resolved.
pub(crate) fn expand(
    text: &str,
    surroundings: &dyn Surroundings,
) -> Result<String, Vec<Unresolved>> {
    let mut expanded = String::with_capacity(text.len());
    let mut unresolved = Vec::new();
    for piece in pieces(text) {
        match piece {
            Piece::Literal { text, .. } => expanded.push_str(text),
            Piece::Variable {
                range,
                name,
                default,
            } => {
                let value = surroundings.variable(name);
                match (value, default) {
                    (Some(value), None) => expanded.push_str(&value),
                    (Some(value), Some(_)) if !value.is_empty() => expanded.push_str(&value),
                    (_, Some((_, default))) => expanded.push_str(default),
                    (None, None) => unresolved.push((range, unset(name))),
                }
            }
            Piece::File { range, path } => match surroundings.file(path) {
                Ok(content) => {
                    let content = content.strip_suffix('\n').unwrap_or(&content);
                    expanded.push_str(content.strip_suffix('\r').unwrap_or(content));
                }
                // Only the kind: the rest of an error may hold anything.
                Err(error) => unresolved.push((range, unreadable(path, error.kind()))),
            },
            Piece::Malformed { range, why } => unresolved.push((
                range,
                Refusal::new(why).remedy("write `$${` for a literal `${`"),
            )),
        }
    }
    if unresolved.is_empty() {
        Ok(expanded)
    } else {
        Err(unresolved)
    }
}

/// Cuts `text` into its parts; together they cover it.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(open) = rest.find("${").map(|found| at + found) else {
            literal(&mut pieces, text, at..text.len());
            break;
        };
        if text.get(..open).is_some_and(|before| before.ends_with('$')) && open > at {
            // `$${`: the first dollar is dropped, the rest stands for itself.
            literal(&mut pieces, text, at..open - 1);
            literal(&mut pieces, text, open..open + 2);
            at = open + 2;
            continue;
        }
        literal(&mut pieces, text, at..open);
        let Some(close) = text.get(open..).and_then(|rest| rest.find('}')) else {
            pieces.push(Piece::Malformed {
                range: open..text.len(),
                why: "a `${` is not closed by `}`",
            });
            break;
        };
        let end = open + close + 1;
        let inside = text.get(open + 2..end - 1).unwrap_or_default();
        pieces.push(reference(open..end, inside));
        at = end;
    }
    pieces
}

fn literal<'t>(pieces: &mut Vec<Piece<'t>>, text: &'t str, range: Range<usize>) {
    if let Some(text) = text.get(range.clone()).filter(|text| !text.is_empty()) {
        pieces.push(Piece::Literal { range, text });
    }
}

/// Reads what stands between `${` and `}`.
fn reference(range: Range<usize>, inside: &str) -> Piece<'_> {
    let malformed = |why| Piece::Malformed {
        range: range.clone(),
        why,
    };
    if let Some(path) = inside.strip_prefix("file:") {
        return if path.is_empty() {
            malformed("`${file:}` names no file")
        } else {
            Piece::File { range, path }
        };
    }
    let variable = inside.strip_prefix("env:").unwrap_or(inside);
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    if default.is_some_and(|default| default.contains("${")) {
        return malformed("a default in `${VAR:-default}` cannot hold another reference");
    }
    if name.contains(':') {
        return malformed("a reference can be `${VAR}`, `${env:VAR}` or `${file:/path}` only");
    }
    if !is_variable_name(name) {
        return malformed("between `${` and `}` stands no name of a variable");
    }
    let default = default.map(|text| (range.end - 1 - text.len()..range.end - 1, text));
    Piece::Variable {
        range,
        name,
        default,
    }
}

fn is_variable_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn unset(name: &str) -> Refusal {
    Refusal::new(format!(
        "the environment variable {} is not set",
        quoted(name)
    ))
    .remedy(format!("set it, or give a default: `${{{name}:-default}}`"))
}

fn unreadable(path: &str, kind: std::io::ErrorKind) -> Refusal {
    Refusal::new(format!("the file {} cannot be read: {kind}", quoted(path)))
}

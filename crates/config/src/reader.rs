//! Reads single values of the document and gathers what is wrong with them.
//!
//! Reading never stops at a fault: it notes it, and the caller goes on with a default. So one pass finds everything.

use std::cell::RefCell;
use std::ops::Range;

use serde_spanned::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Surroundings;
use crate::fault::{Refusal, quoted};
use crate::mask;
use crate::not_yet::Keys;
use crate::substitute;

/// A place in the file, in bytes.
pub(crate) type Span = Range<usize>;

/// A value as the parser gives it, with its place.
pub(crate) type Value<'t> = Spanned<DeValue<'t>>;

/// The context of one pass over a document, and the sink of its faults.
pub(crate) struct Reader<'a> {
    text: &'a str,
    surroundings: &'a dyn Surroundings,
    /// What is known but refused, see [`crate::not_yet`].
    pub(crate) not_yet: Keys,
    // Cells, so that a table can be read while the table around it is.
    faults: RefCell<Vec<(Span, Refusal)>>,
    guarded: RefCell<Vec<Span>>,
}

/// What a pass has found.
pub(crate) struct Findings {
    /// What is wrong, in the order of reading.
    pub(crate) faults: Vec<(Span, Refusal)>,
    /// Values, with their quotes, that may be secrets.
    pub(crate) guarded: Vec<Span>,
}

/// Something read, and the place of it.
#[derive(Clone)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

/// A key of a table with its value.
#[derive(Clone)]
pub(crate) struct Entry<'t> {
    pub(crate) key: &'t str,
    pub(crate) key_span: Span,
    pub(crate) value: &'t Value<'t>,
    /// Dotted, from the document down; for messages.
    pub(crate) path: String,
}

/// Whether the text of a value may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It may.
    Yes,
    /// It may be a secret.
    Never,
}

// === impl Placed ===

/// The values of a list without their places; none when the list is missing.
pub(crate) fn without_places<T>(list: Option<Vec<Placed<T>>>) -> Vec<T> {
    let list = list.unwrap_or_default();
    list.into_iter().map(|placed| placed.value).collect()
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str, surroundings: &'a dyn Surroundings, not_yet: Keys) -> Self {
        Self {
            text,
            surroundings,
            not_yet,
            faults: RefCell::default(),
            guarded: RefCell::default(),
        }
    }

    pub(crate) fn into_findings(self) -> Findings {
        Findings {
            faults: self.faults.into_inner(),
            guarded: self.guarded.into_inner(),
        }
    }

    /// Notes a fault.
    pub(crate) fn refuse(&self, at: &Span, refusal: Refusal) {
        self.faults.borrow_mut().push((at.clone(), refusal));
    }

    /// The line that holds the byte at `offset`, from 1; for messages that name a second place.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or(self.text);
        before.matches('\n').count() + 1
    }

    /// Keeps everything in `value` but keys from being shown.
    pub(crate) fn guard(&self, value: &Value<'_>) {
        match value.get_ref() {
            DeValue::Array(items) => items.iter().for_each(|item| self.guard(item)),
            DeValue::Table(table) => table.values().for_each(|value| self.guard(value)),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_) => self.guarded.borrow_mut().push(value.span()),
        }
    }

    /// A string, with its references replaced.
    pub(crate) fn text(&self, entry: &Entry<'_>, shown: Shown) -> Option<Placed<String>> {
        if shown == Shown::Never {
            self.guard(entry.value);
        }
        let DeValue::String(text) = entry.value.get_ref() else {
            self.refuse_type(entry, "a string");
            return None;
        };
        let span = entry.value.span();
        match substitute::expand(text, self.surroundings) {
            Ok(value) => Some(Placed { value, span }),
            Err(unresolved) => {
                for (range, refusal) in unresolved {
                    self.refuse(&part_of(&span, text, &range), refusal);
                }
                None
            }
        }
    }

    /// An array of strings, with their references replaced. What is wrong with one does not hide the others.
    pub(crate) fn texts(&self, entry: &Entry<'_>, shown: Shown) -> Option<Vec<Placed<String>>> {
        let DeValue::Array(items) = entry.value.get_ref() else {
            if shown == Shown::Never {
                self.guard(entry.value);
            }
            self.refuse_type(entry, "an array of strings");
            return None;
        };
        let texts = items.iter().enumerate().filter_map(|(index, value)| {
            let item = Entry {
                key: entry.key,
                key_span: entry.key_span.clone(),
                value,
                path: format!("{}[{index}]", entry.path),
            };
            self.text(&item, shown)
        });
        Some(texts.collect())
    }

    /// The entries of a table, in the order of the file; notes a fault if it is no table.
    pub(crate) fn entries<'t>(&self, entry: &Entry<'t>) -> Option<Vec<Entry<'t>>> {
        let DeValue::Table(table) = entry.value.get_ref() else {
            self.guard(entry.value);
            self.refuse_type(entry, "a table");
            return None;
        };
        Some(entries(&entry.path, table))
    }

    /// Notes that a value is of the wrong type.
    pub(crate) fn refuse_type(&self, entry: &Entry<'_>, expected: &str) {
        let found = match entry.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        let message = format!("{} must be {expected}, not {found}", quoted(&entry.path));
        self.refuse(&entry.value.span(), Refusal::new(message));
    }
}

// === impl Findings ===

impl Findings {
    /// The findings for a text that is not TOML: the faults of syntax instead of those of meaning, and more guarded,
    /// since what could not be parsed was not read.
    pub(crate) fn replaced_by_syntax(self, text: &str, syntax: &[toml::de::Error]) -> Self {
        let mut guarded = self.guarded;
        let mut faults: Vec<(Span, Refusal)> = Vec::with_capacity(syntax.len());
        for error in syntax {
            let span = error.span().unwrap_or(0..0);
            guarded.extend(mask::quoted_parts_around(text, span.start));
            let fault = (
                span,
                Refusal::new(format!("not valid TOML: {}", error.message())),
            );
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        Self { faults, guarded }
    }
}

/// The entries of a table at `path`, in the order of the file: the parser sorts them by name.
pub(crate) fn entries<'t>(path: &str, table: &'t DeTable<'t>) -> Vec<Entry<'t>> {
    let mut entries: Vec<Entry<'t>> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref(),
            key_span: key.span(),
            value,
            path: if path.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{path}.{}", key.get_ref())
            },
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    entries
}

/// The place in the file of `range` of a parsed string, or that of the whole string when escapes make it unclear.
fn part_of(whole: &Span, text: &str, range: &Range<usize>) -> Span {
    // One quote on either side: neither escapes nor the long quotes, whose first newline is dropped.
    if whole.len() == text.len() + 2 {
        let start = whole.start + 1;
        start + range.start..start + range.end
    } else {
        whole.clone()
    }
}

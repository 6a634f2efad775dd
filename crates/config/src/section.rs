//! One table of the document, read key by key.
//!
//! What is asked for is what is known: the keys left over at the end are the unknown ones, and the keys asked for
//! are what a mistyped one is compared with. So there is no second list of keys to keep in step.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use crate::fault::{Refusal, quoted};
use crate::nearest::nearest;
use crate::not_yet::{self, RESERVED};
use crate::quantity;
use crate::reader::{self, Entry, Placed, Reader, Shown, Span};

/// A table that is being read.
pub(crate) struct Section<'r, 't> {
    pub(crate) reader: &'r Reader<'r>,
    path: String,
    /// The path with `*` for names that the user chose.
    pattern: String,
    left: Vec<Entry<'t>>,
    known: Vec<&'static str>,
}

// === impl Section ===

impl<'r, 't> Section<'r, 't> {
    /// Reads the whole document.
    pub(crate) fn document<T>(
        reader: &'r Reader<'r>,
        document: &'t DeTable<'t>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let left = reader::entries("", document);
        Self::open(reader, String::new(), String::new(), left).read(read)
    }

    /// Reads the table that stands under a name which the user chose; notes a fault if it is no table.
    pub(crate) fn named<T>(
        &self,
        entry: &Entry<'t>,
        pattern: &str,
        read: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        let left = self.reader.entries(entry)?;
        Some(Self::open(self.reader, entry.path.clone(), pattern.to_owned(), left).read(read))
    }

    /// Reads the table under `key`. One that is missing is read like one that is empty.
    pub(crate) fn table<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Self) -> T) -> T {
        let left = self.entries(key);
        let path = self.path_of(key);
        let pattern = join(&self.pattern, key);
        Self::open(self.reader, path, pattern, left).read(read)
    }

    /// The entries of the table under `key`, whose keys the user chose.
    pub(crate) fn entries(&mut self, key: &'static str) -> Vec<Entry<'t>> {
        self.take(key)
            .and_then(|entry| self.reader.entries(&entry))
            .unwrap_or_default()
    }

    /// The entry of `key`, if there is one and it may be used.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Entry<'t>> {
        let at = self.left.iter().position(|entry| entry.key == key);
        if !not_yet::names(self.reader.not_yet, &self.pattern, key) {
            self.known.push(key);
            return at.map(|at| self.left.remove(at));
        }
        let entry = self.left.remove(at?);
        let message = format!("{} is not built yet", quoted(&entry.path));
        self.reader.guard(entry.value);
        self.reader.refuse(
            &entry.key_span,
            Refusal::new(message).remedy("take it out: this version would not act on it"),
        );
        None
    }

    /// Where `key` stands, unless it was read already or is not there.
    pub(crate) fn place_of(&self, key: &str) -> Option<Span> {
        self.peek(key).map(|entry| entry.key_span.clone())
    }

    /// Keeps the string under `key` from being shown if it looks like one that holds a secret.
    pub(crate) fn guard_if(&self, key: &str, is_secret: impl Fn(&str) -> bool) {
        if let Some(entry) = self.peek(key)
            && let DeValue::String(text) = entry.value.get_ref()
            && is_secret(text)
        {
            self.reader.guard(entry.value);
        }
    }

    /// The dotted path of `key` in this table.
    pub(crate) fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// A string.
    pub(crate) fn text(&mut self, key: &'static str) -> Option<Placed<String>> {
        let entry = self.take(key)?;
        self.reader.text(&entry, Shown::Yes)
    }

    /// A string that may be a secret, as `parse` reads it.
    pub(crate) fn secret<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(String) -> Result<T, Refusal>,
    ) -> Option<T> {
        let entry = self.take(key)?;
        let text = self.reader.text(&entry, Shown::Never)?;
        match parse(text.value) {
            Ok(value) => Some(value),
            Err(refusal) => {
                self.reader.refuse(&text.span, refusal.about(&entry.path));
                None
            }
        }
    }

    /// A string, as `parse` reads it.
    pub(crate) fn parsed<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Option<Placed<T>> {
        let text = self.text(key)?;
        match parse(&text.value) {
            Ok(value) => Some(Placed {
                value,
                span: text.span,
            }),
            Err(refusal) => {
                let path = self.path_of(key);
                self.reader.refuse(&text.span, refusal.about(&path));
                None
            }
        }
    }

    /// An array of strings, each as `parse` reads it.
    pub(crate) fn list<T>(
        &mut self,
        key: &'static str,
        shown: Shown,
        parse: impl Fn(&str) -> Result<T, Refusal>,
    ) -> Option<Vec<Placed<T>>> {
        let entry = self.take(key)?;
        self.list_in(&entry, shown, parse)
    }

    /// The array of strings in `entry`, each as `parse` reads it.
    pub(crate) fn list_in<T>(
        &self,
        entry: &Entry<'_>,
        shown: Shown,
        parse: impl Fn(&str) -> Result<T, Refusal>,
    ) -> Option<Vec<Placed<T>>> {
        let mut values = Vec::new();
        for text in self.reader.texts(entry, shown)? {
            match parse(&text.value) {
                Ok(value) => values.push(Placed {
                    value,
                    span: text.span,
                }),
                Err(refusal) => self.reader.refuse(&text.span, refusal.about(&entry.path)),
            }
        }
        Some(values)
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        let Some(entry) = self.take(key) else {
            return default;
        };
        let DeValue::Boolean(flag) = entry.value.get_ref() else {
            self.reader.guard(entry.value);
            self.reader.refuse_type(&entry, "true or false");
            return default;
        };
        *flag
    }

    /// A whole number within `range`.
    pub(crate) fn count(
        &mut self,
        key: &'static str,
        range: RangeInclusive<usize>,
        default: usize,
    ) -> Placed<usize> {
        let Some(entry) = self.take(key) else {
            return Placed {
                value: default,
                span: 0..0,
            };
        };
        let span = entry.value.span();
        let value = if let DeValue::Integer(integer) = entry.value.get_ref() {
            let number = usize::from_str_radix(integer.as_str(), integer.radix());
            number
                .ok()
                .filter(|number| range.contains(number))
                .unwrap_or_else(|| {
                    let message = format!("must be from {} to {}", range.start(), range.end());
                    self.reader
                        .refuse(&span, Refusal::new(message).about(&entry.path));
                    default
                })
        } else {
            self.reader.guard(entry.value);
            self.reader.refuse_type(&entry, "a whole number");
            default
        };
        Placed { value, span }
    }

    /// A duration longer than zero.
    pub(crate) fn duration(&mut self, key: &'static str, default: Duration) -> Duration {
        self.placed_duration(key)
            .map_or(default, |placed| placed.value)
    }

    /// A duration longer than zero, with its place.
    pub(crate) fn placed_duration(&mut self, key: &'static str) -> Option<Placed<Duration>> {
        self.quantity(key, quantity::not_a_duration, |text| {
            let duration = quantity::duration(text)?;
            if duration.is_zero() {
                return Err(Refusal::new("must be longer than zero"));
            }
            Ok(duration)
        })
    }

    /// A duration, or zero.
    pub(crate) fn duration_or_zero(&mut self, key: &'static str, default: Duration) -> Duration {
        self.quantity(key, quantity::not_a_duration, quantity::duration)
            .map_or(default, |placed| placed.value)
    }

    /// A size in bytes.
    pub(crate) fn size(&mut self, key: &'static str, default: usize) -> usize {
        self.quantity(key, quantity::not_a_size, quantity::size)
            .map_or(default, |placed| placed.value)
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&'static str, T)],
        default: T,
    ) -> T {
        let Some(text) = self.text(key) else {
            return default;
        };
        let path = self.path_of(key);
        let Some((word, choice)) = choices.iter().find(|(word, _)| *word == text.value) else {
            let words: Vec<String> = choices.iter().map(|(word, _)| quoted(word)).collect();
            let message = format!("must be one of {}", words.join(", "));
            let mut refusal = Refusal::new(message).about(&path);
            if let Some(word) = nearest(&text.value, choices.iter().map(|(word, _)| *word)) {
                refusal = refusal.remedy(format!("did you mean {}?", quoted(word)));
            }
            self.reader.refuse(&text.span, refusal);
            return default;
        };
        if not_yet::names(
            self.reader.not_yet,
            &self.pattern,
            &format!("{key} = \"{word}\""),
        ) {
            let refusal = Refusal::new(format!("the value {} is not built yet", quoted(word)));
            self.reader.refuse(&text.span, refusal.about(&path));
        }
        *choice
    }

    fn quantity<T>(
        &mut self,
        key: &'static str,
        refusal: fn() -> Refusal,
        parse: impl FnOnce(&str) -> Result<T, Refusal>,
    ) -> Option<Placed<T>> {
        let is_number = self.peek(key).is_some_and(|entry| {
            matches!(
                entry.value.get_ref(),
                DeValue::Integer(_) | DeValue::Float(_)
            )
        });
        if is_number {
            let entry = self.take(key)?;
            self.reader
                .refuse(&entry.value.span(), refusal().about(&entry.path));
            return None;
        }
        self.parsed(key, parse)
    }

    fn peek(&self, key: &str) -> Option<&Entry<'t>> {
        self.left.iter().find(|entry| entry.key == key)
    }

    fn open(reader: &'r Reader<'r>, path: String, pattern: String, left: Vec<Entry<'t>>) -> Self {
        Self {
            reader,
            path,
            pattern,
            left,
            known: Vec::new(),
        }
    }

    fn read<T>(mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let value = read(&mut self);
        for entry in &self.left {
            // Nobody knows what it is, so it may be a secret.
            self.reader.guard(entry.value);
            self.reader
                .refuse(&entry.key_span, self.refusal_of(entry.key));
        }
        value
    }

    fn refusal_of(&self, key: &str) -> Refusal {
        if not_yet::names(RESERVED, &self.pattern, key) {
            let message = format!("{} is reserved: not built yet", quoted(&self.path_of(key)));
            return Refusal::new(message).remedy("take it out: this version would not act on it");
        }
        let place = if self.path.is_empty() {
            "the document".to_owned()
        } else {
            quoted(&self.path)
        };
        let refusal = Refusal::new(format!("unknown key {} in {place}", quoted(key)));
        match nearest(key, self.known.iter().copied()) {
            Some(known) => refusal.remedy(format!("did you mean {}?", quoted(known))),
            None => refusal,
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

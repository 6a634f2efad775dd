//! What is wrong with a file: where, why, and what to do about it.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::mask;
use crate::reader::Findings;

/// Above this a source line is not shown, only its place. Bytes.
const LONGEST_SHOWN_LINE: usize = 2000;

/// Why a value is refused, before it is known where it stands. Never contains the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What is wrong. From a parser of single values it is a predicate, to read after the name of what was given:
    /// "must be …".
    pub message: String,
    /// What to do about it, where there is something to say.
    pub remedy: Option<String>,
}

/// One thing that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to do about it, where there is something to say.
    pub remedy: Option<String>,
    /// The line it begins in, from 1.
    pub line: usize,
    /// The column it begins at, from 1, in characters.
    pub column: usize,
    /// The bytes of the file it is about; may be empty.
    pub span: Range<usize>,
    excerpt: Option<Excerpt>,
}

/// Everything that is wrong with a file: at least one fault, in the order of their places.
///
/// `Display` shows each with its source line, without colour; what may be a secret is starred out there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    file_name: String,
    faults: Vec<Fault>,
}

/// The source line of a fault as it may be shown, and the part of it that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Excerpt {
    line: String,
    mark: Range<usize>,
}

/// The lines of a text, for going from byte offsets to lines and columns.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

// === impl Refusal ===

impl Refusal {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            remedy: None,
        }
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Turns the predicate of a parser into a sentence about the key at `path`.
    pub(crate) fn about(mut self, path: &str) -> Self {
        self.message = format!("{} {}", quoted(path), self.message);
        self
    }
}

/// `name` in backquotes, harmless to a terminal and of a bounded length.
pub(crate) fn quoted(name: &str) -> String {
    const LONGEST: usize = 80;
    let mut shown: String = name
        .chars()
        .take(LONGEST)
        .map(|c| {
            if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect();
    if shown.len() < name.len() && name.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

// === impl Faults ===

impl Faults {
    /// `findings` must hold at least one fault.
    pub(crate) fn new(file_name: &str, text: &str, findings: Findings) -> Self {
        let lines = Lines::of(text);
        let hidden = mask::hidden(text, findings.guarded);
        let mut faults: Vec<Fault> = findings
            .faults
            .into_iter()
            .map(|(span, refusal)| {
                let line = lines.holding(span.start);
                Fault {
                    message: refusal.message,
                    remedy: refusal.remedy,
                    line: line + 1,
                    column: lines.column(line, span.start),
                    excerpt: lines.excerpt(line, &span, &hidden),
                    span,
                }
            })
            .collect();
        faults.sort_by_key(|fault| (fault.span.start, fault.span.end));
        Self {
            file_name: file_name.to_owned(),
            faults,
        }
    }

    /// The faults, in the order of their places. Never empty.
    #[must_use]
    pub fn as_slice(&self) -> &[Fault] {
        &self.faults
    }

    /// Iterates over the faults, in the order of their places.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.faults.iter()
    }

    /// All faults as text for a person: message, file, line, column, source line and remedy of each. `colour` adds
    /// ANSI escapes, for a terminal.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let shown: Vec<String> = self
            .faults
            .iter()
            .map(|fault| fault.render(&self.file_name, &renderer))
            .collect();
        shown.join("\n\n")
    }
}

impl<'f> IntoIterator for &'f Faults {
    type Item = &'f Fault;
    type IntoIter = std::slice::Iter<'f, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Faults {}

// === impl Fault ===

impl Fault {
    fn render(&self, file_name: &str, renderer: &Renderer) -> String {
        let title = Level::ERROR.primary_title(self.message.as_str());
        let group = Group::with_title(title);
        let mut group = match &self.excerpt {
            Some(excerpt) => group.element(
                Snippet::source(excerpt.line.as_str())
                    .line_start(self.line)
                    .path(file_name)
                    .annotation(AnnotationKind::Primary.span(excerpt.mark.clone())),
            ),
            None => group.element(
                Origin::path(file_name)
                    .line(self.line)
                    .char_column(self.column),
            ),
        };
        if let Some(remedy) = &self.remedy {
            group = group.element(Level::HELP.message(remedy.as_str()));
        }
        renderer.render(&[group])
    }
}

// === impl Lines ===

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        let newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            starts: std::iter::once(0).chain(newlines).collect(),
        }
    }

    /// The index of the line that holds the byte at `offset`.
    fn holding(&self, offset: usize) -> usize {
        self.starts
            .partition_point(|start| *start <= offset)
            .saturating_sub(1)
    }

    /// The bytes of a line, without its end.
    fn range(&self, line: usize) -> Range<usize> {
        let start = self.starts.get(line).copied().unwrap_or(self.text.len());
        let end = self
            .starts
            .get(line + 1)
            .copied()
            .unwrap_or(self.text.len());
        let content = self.text.get(start..end).unwrap_or_default();
        start..start + content.trim_end_matches(['\n', '\r']).len()
    }

    fn column(&self, line: usize, offset: usize) -> usize {
        let before = self.range(line).start..offset;
        self.text
            .get(before)
            .map_or(1, |text| text.chars().count() + 1)
    }

    fn excerpt(
        &self,
        line: usize,
        span: &Range<usize>,
        hidden: &[Range<usize>],
    ) -> Option<Excerpt> {
        let range = self.range(line);
        let text = self.text.get(range.clone())?;
        if text.len() > LONGEST_SHOWN_LINE {
            return None;
        }
        let from = hidden.partition_point(|part| part.end <= range.start);
        let here: Vec<&Range<usize>> = hidden
            .iter()
            .skip(from)
            .take_while(|part| part.start < range.end)
            .collect();
        let mut shown = String::with_capacity(text.len());
        let (mut start, mut end) = (None, None);
        for (at, character) in text.char_indices() {
            let offset = range.start + at;
            if offset >= span.start {
                start.get_or_insert(shown.len());
            }
            if offset >= span.end {
                end.get_or_insert(shown.len());
            }
            let starred = here.iter().any(|part| part.contains(&offset));
            shown.push(if starred { '*' } else { character });
        }
        let (start, end) = (start.unwrap_or(shown.len()), end.unwrap_or(shown.len()));
        Some(Excerpt {
            line: shown,
            mark: start..end.max(start),
        })
    }
}

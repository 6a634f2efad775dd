//! The URIs that clients see, made from the URIs that servers use, and URI templates as far as routing needs them.

use std::fmt;

use regex_lite::Regex;

/// What tells a server's resources from those of an earlier server with the same URIs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriPrefix(Box<str>);

/// A URI template (RFC 6570), as a test of which URIs may have been made from it.
#[derive(Debug, Clone)]
pub struct Template(Regex);

/// The longest template that is matched, in bytes.
const LONGEST: usize = 2048;
/// The scheme of pages that tools come with: hosts look at it, so it stays.
const UI: &str = "ui://";

// === impl UriPrefix ===

impl UriPrefix {
    /// Takes a prefix of letters, digits, `_` and `-`; empty for a server that has none.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self(prefix.into())
    }

    /// The URI, or template, marked as this server's. Without a prefix there is no such form: `None`.
    #[must_use]
    pub fn mark(&self, uri: &str) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        Some(match uri.strip_prefix(UI) {
            Some(rest) => format!("{UI}{}/{rest}", self.0),
            // `_` may stand in a prefix and not in a scheme (RFC 3986, section 3.1).
            None => format!("{}+{uri}", self.0.replace('_', "-")),
        })
    }

    /// The URI without the mark, if it has this server's.
    #[must_use]
    pub fn unmark(&self, uri: &str) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        if let Some(rest) = uri.strip_prefix(UI) {
            let rest = rest.strip_prefix(&*self.0)?.strip_prefix('/')?;
            return Some(format!("{UI}{rest}"));
        }
        let rest = uri.strip_prefix(&*self.0.replace('_', "-"))?;
        rest.strip_prefix('+').map(str::to_owned)
    }
}

// === impl Template ===

impl Template {
    /// Reads a template. One that is too long, or has an unclosed brace, matches nothing but itself: `None`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let mut pattern = String::from("^");
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once('{') {
            let (expression, after) = after.split_once('}')?;
            pattern.push_str(&regex_lite::escape(literal));
            pattern.push_str(values(expression));
            rest = after;
        }
        pattern.push_str(&regex_lite::escape(rest));
        pattern.push('$');
        Regex::new(&pattern).ok().map(Self)
    }

    /// Whether the URI may have been made from the template.
    #[must_use]
    pub fn matches(&self, uri: &str) -> bool {
        self.0.is_match(uri)
    }
}

/// What an expression may expand to (RFC 6570, section 3.2). Servers read them more loosely than they are written:
/// a plain variable takes everything but the characters that part a URI.
fn values(expression: &str) -> &'static str {
    match expression.chars().next() {
        Some('+') => ".+",
        Some('#') => "(?:#.*)?",
        Some('.') => r"(?:\.[^/?#]*)?",
        Some('/') => "(?:/[^?#]*)?",
        Some(';') => "(?:;[^/?#]*)?",
        Some('?') => r"(?:\?[^#]*)?",
        Some('&') => "(?:&[^#]*)?",
        Some(_) if expression.ends_with('*') => ".+",
        Some(_) | None => "[^/?#]+",
    }
}

impl fmt::Display for UriPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mark_keeps_a_uri_a_uri() {
        for (prefix, uri, marked) in [
            ("files", "file:///a.txt", "files+file:///a.txt"),
            ("a_b", "db://{t}/{id}", "a-b+db://{t}/{id}"),
            ("charts", "ui://x/y.html", "ui://charts/x/y.html"),
            ("a_b", "ui://x", "ui://a_b/x"),
        ] {
            let prefix = UriPrefix::new(prefix);
            assert_eq!(prefix.mark(uri).as_deref(), Some(marked));
            assert_eq!(prefix.unmark(marked).as_deref(), Some(uri));
            assert_eq!(prefix.unmark(uri), None);
        }
        assert_eq!(UriPrefix::new("").mark("x:y"), None);
        assert_eq!(UriPrefix::new("").unmark("+x:y"), None);
    }

    #[test]
    fn templates_tell_whose_a_uri_is() {
        for (template, yes, no) in [
            (
                "test://template/{id}/data",
                "test://template/123/data",
                "test://template/1/2/data",
            ),
            ("db://{table}/{id}", "db://users/7", "db://users"),
            ("file:///{+path}", "file:///a/b.txt", "file:///"),
            ("file:///{path*}", "file:///a/b.txt", "file:///"),
            ("x://a{?q,r}", "x://a?q=1", "x://b"),
            ("x://a{?q,r}", "x://a", "x://ab"),
            ("x://a{/b}", "x://a/1", "x://ab"),
            ("a.b://{x}", "a.b://1", "a-b://1"),
        ] {
            let parsed = Template::parse(template).unwrap();
            assert!(parsed.matches(yes), "{template} {yes}");
            assert!(!parsed.matches(no), "{template} {no}");
        }
        assert!(Template::parse("x://{open").is_none());
        assert!(Template::parse(&"x".repeat(LONGEST + 1)).is_none());
    }

    proptest! {
        #[test]
        fn what_is_marked_comes_back(prefix in "[a-z][a-z0-9_-]{0,20}", uri in ".{0,60}") {
            let prefix = UriPrefix::new(&prefix);
            let marked = prefix.mark(&uri).unwrap();
            let back = prefix.unmark(&marked);
            prop_assert_eq!(back.as_deref(), Some(&*uri));
        }

        #[test]
        fn any_template_is_read_without_a_fault(text in ".{0,80}", uri in ".{0,80}") {
            // No variable: only the template itself matches.
            if let Some(template) = Template::parse(&text).filter(|_| !text.contains('{')) {
                prop_assert_eq!(template.matches(&uri), uri == text);
            }
        }
    }
}

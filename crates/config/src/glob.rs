//! Patterns on names: `*` stands for any run of characters, `?` for one, everything else for itself.

use std::fmt;
use std::str::Chars;

use crate::fault::Refusal;

/// A pattern on names, such as `read_*`. Case matters; there are no classes and no escapes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Glob {
    /// Without runs of stars, which would say no more than one.
    pattern: String,
}

/// Longest pattern accepted, in bytes: a bound on the time of a match.
const LONGEST: usize = 256;

// === impl Glob ===

impl Glob {
    /// # Errors
    /// Refuses an empty pattern, which would match no name, and one longer than 256 bytes.
    pub fn new(pattern: &str) -> Result<Self, Refusal> {
        if pattern.is_empty() {
            return Err(Refusal::new("must not be empty: it would match no name")
                .remedy("write \"*\" for every name"));
        }
        if pattern.len() > LONGEST {
            return Err(Refusal::new(format!(
                "must not be longer than {LONGEST} bytes"
            )));
        }
        let mut kept = String::with_capacity(pattern.len());
        for character in pattern.chars() {
            if character != '*' || !kept.ends_with('*') {
                kept.push(character);
            }
        }
        Ok(Self { pattern: kept })
    }

    /// The pattern that every name matches.
    #[must_use]
    pub fn any() -> Self {
        Self {
            pattern: "*".to_owned(),
        }
    }

    /// The pattern, with runs of stars written as one.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// Whether the pattern stands for the whole of `name`.
    ///
    /// Takes at most (length of the pattern) × (length of the name) steps: only the last star is ever taken back,
    /// since what an earlier one could give, the last one can take as well.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut pattern = self.pattern.chars();
        let mut rest = name.chars();
        // Behind the last star: the pattern, and the first character that star has not taken.
        let mut retry: Option<(Chars<'_>, Chars<'_>)> = None;
        loop {
            let stuck = match pattern.next() {
                Some('*') if pattern.as_str().is_empty() => return true,
                Some('*') => {
                    retry = Some((pattern.clone(), rest.clone()));
                    false
                }
                Some(wanted) => match rest.next() {
                    Some(character) => wanted != '?' && wanted != character,
                    // A star that took more would leave even less.
                    None => return false,
                },
                None if rest.as_str().is_empty() => return true,
                None => true,
            };
            if stuck {
                let Some((after_star, taken_up_to)) = &mut retry else {
                    return false;
                };
                if taken_up_to.next().is_none() {
                    return false;
                }
                pattern = after_star.clone();
                rest = taken_up_to.clone();
            }
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pattern)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Says the same by the definition, in exponential time.
    fn by_definition(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => (0..=name.len()).any(|taken| by_definition(rest, &name[taken..])),
            Some((wanted, rest)) => name.split_first().is_some_and(|(c, name)| {
                (*wanted == '?' || wanted == c) && by_definition(rest, name)
            }),
        }
    }

    #[test]
    fn table() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "anything", true),
            ("?", "", false),
            ("?", "é", true),
            ("read_*", "read_", true),
            ("read_*", "read_file", true),
            ("read_*", "thread_file", false),
            ("*_file", "read_file", true),
            ("*_file", "read_files", false),
            ("a*b*c", "aXbXbXc", true),
            ("a*b?c", "abbbc", true),
            ("a*b?c", "abc", false),
            ("name", "Name", false),
            ("[a]", "a", false),
            ("[a]", "[a]", true),
        ] {
            let glob = Glob::new(pattern).unwrap();
            assert_eq!(glob.matches(name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn refuses_what_cannot_be_meant() {
        assert!(Glob::new("").is_err());
        assert!(Glob::new(&"a".repeat(257)).is_err());
        assert_eq!(Glob::new("a***b").unwrap().as_str(), "a*b");
        assert!(Glob::any().matches("x"));
    }

    #[test]
    fn many_stars_against_a_long_name_end_in_time() {
        // By the definition this would take longer than the age of the world.
        let glob = Glob::new(&"*a".repeat(100)).unwrap();
        assert!(!glob.matches(&format!("{}b", "a".repeat(20_000))));
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab*?é]{1,8}", name in "[abé]{0,10}") {
            let expected = by_definition(
                &pattern.chars().collect::<Vec<_>>(),
                &name.chars().collect::<Vec<_>>(),
            );
            prop_assert_eq!(Glob::new(&pattern).unwrap().matches(&name), expected);
        }
    }
}

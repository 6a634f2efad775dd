//! Names of servers and views, prefixes, and `[names]`: how exposed names are built.

use std::fmt;

use crate::fault::Refusal;
use crate::section::Section;

/// The name of a server: 1 to 24 of a-z 0-9 -, a letter first, no - at the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(String);

/// The name of a view. It is made like that of a server, since both stand in the same place of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewName(String);

/// What exposed names of a server begin with: any number of A-Z a-z 0-9 _ -, also none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prefix(String);

/// `[names]`: how exposed names are built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// What stands between prefix and name.
    pub separator: Separator,
    /// The longest exposed name of a tool or prompt, in bytes: 16 to 128. Leaves room for every prefix.
    pub max_length: usize,
}

/// What stands between the prefix and the name of a tool or prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separator {
    /// `__`
    DoubleUnderscore,
    /// `_`; no prefix has one.
    Underscore,
    /// `-`; no prefix has one.
    Hyphen,
}

// === impl ServerName ===

impl ServerName {
    /// # Errors
    /// A predicate that says what a name must look like.
    pub fn new(name: &str) -> Result<Self, Refusal> {
        check_name(name).map(|()| Self(name.to_owned()))
    }

    /// The name as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl ViewName ===

impl ViewName {
    /// # Errors
    /// A predicate that says what a name must look like.
    pub fn new(name: &str) -> Result<Self, Refusal> {
        check_name(name).map(|()| Self(name.to_owned()))
    }

    /// The name as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Prefix ===

impl Prefix {
    /// # Errors
    /// A predicate that says what a prefix may hold.
    pub fn new(prefix: &str) -> Result<Self, Refusal> {
        let valid = prefix
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if valid {
            Ok(Self(prefix.to_owned()))
        } else {
            Err(Refusal::new("must hold only A-Z a-z 0-9 _ -"))
        }
    }

    /// The prefix as written; empty for none.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether names of this server are exposed as they are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&ServerName> for Prefix {
    fn from(name: &ServerName) -> Self {
        Self(name.0.clone())
    }
}

// === impl Separator ===

impl Separator {
    /// The separator itself.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DoubleUnderscore => "__",
            Self::Underscore => "_",
            Self::Hyphen => "-",
        }
    }

    fn parse(text: &str) -> Result<Self, Refusal> {
        match text {
            "__" => Ok(Self::DoubleUnderscore),
            "_" => Ok(Self::Underscore),
            "-" => Ok(Self::Hyphen),
            "." | "/" => Err(Refusal::new(
                "cannot be `.` or `/`: many clients and model APIs accept only A-Z a-z 0-9 _ - in names",
            )
            .remedy("use \"__\"")),
            _ => Err(Refusal::new("must be one of `__`, `_`, `-`")),
        }
    }
}

// === impl Names ===

impl Names {
    /// Whether exposed names can be built with `prefix`; a predicate about the prefix if not.
    pub(crate) fn check(&self, prefix: &Prefix) -> Result<(), Refusal> {
        // Room for a letter of the name, and for `_` and the six characters that keep shortened names apart.
        const ROOM: usize = 8;
        if prefix.is_empty() {
            return Ok(());
        }
        let separator = self.separator.as_str();
        // Two underscores in a prefix are legal: names are looked up, not split. With a single character every
        // other name would look split in the wrong place.
        if self.separator != Separator::DoubleUnderscore && prefix.as_str().contains(separator) {
            return Err(Refusal::new(format!(
                "contains the separator `{separator}`, so exposed names could be read in two ways"
            ))
            .remedy(format!(
                "set a `prefix` without `{separator}`, or use the separator \"__\""
            )));
        }
        let needed = prefix.as_str().len() + separator.len() + ROOM;
        if needed > self.max_length {
            return Err(Refusal::new(format!(
                "leaves no room for names: names.max_length would have to be {needed}, and is {}",
                self.max_length
            )));
        }
        Ok(())
    }
}

pub(crate) fn read(section: &mut Section<'_, '_>) -> Names {
    Names {
        separator: section
            .parsed("separator", Separator::parse)
            .map_or(Separator::DoubleUnderscore, |separator| separator.value),
        max_length: section.count("max_length", 16..=128, 48).value,
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    let valid = (1..=24).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if valid {
        Ok(())
    } else {
        Err(Refusal::new(
            "must have a name of 1 to 24 of a-z 0-9 -, with a letter first and no - at the end",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_names() {
        for name in ["a", "files", "a1", "a-b", "abcdefghijklmnopqrstuvwx"] {
            assert_eq!(ServerName::new(name).unwrap().as_str(), name);
            assert_eq!(ViewName::new(name).unwrap().to_string(), name);
        }
        for name in [
            "",
            "1a",
            "-a",
            "a-",
            "A",
            "a_b",
            "a b",
            "é",
            "abcdefghijklmnopqrstuvwxy",
        ] {
            assert!(ServerName::new(name).is_err(), "{name}");
            assert!(ViewName::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn prefixes() {
        for prefix in ["", "files", "A_b-9"] {
            assert!(Prefix::new(prefix).is_ok(), "{prefix}");
        }
        for prefix in ["a.b", "a b", "é"] {
            assert!(Prefix::new(prefix).is_err(), "{prefix}");
        }
    }

    #[test]
    fn prefixes_and_separators() {
        let names = |separator, max_length| Names {
            separator,
            max_length,
        };
        let check = |names: Names, prefix| names.check(&Prefix::new(prefix).unwrap()).is_ok();
        assert!(check(names(Separator::DoubleUnderscore, 48), "a__b"));
        assert!(check(names(Separator::Underscore, 48), "a-b"));
        assert!(!check(names(Separator::Underscore, 48), "a_b"));
        assert!(check(names(Separator::Hyphen, 48), "a_b"));
        assert!(!check(names(Separator::Hyphen, 48), "a-b"));
        assert!(check(names(Separator::DoubleUnderscore, 16), "abcdef"));
        assert!(!check(names(Separator::DoubleUnderscore, 16), "abcdefg"));
        assert!(check(names(Separator::DoubleUnderscore, 16), ""));
    }
}

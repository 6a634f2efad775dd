//! The names that clients see, made from the names that servers use.
//!
//! An exposed name is a function of the server's own configuration and the original name, and of nothing
//! else: it stays the same when other servers come and go.

use std::fmt;

use sha2::{Digest, Sha256};

/// The name of a server: `[servers.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(std::sync::Arc<str>);

/// The name of a tool or prompt as its server has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OriginalName(std::sync::Arc<str>);

/// The name of a tool or prompt as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExposedName(std::sync::Arc<str>);

/// How a server's names are exposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Naming {
    /// As they are: the server stands alone on its own path.
    Verbatim,
    /// With a prefix (which may be empty), within the limits that model APIs set.
    Prefixed {
        /// The prefix: letters, digits, `_`, `-`.
        prefix: Box<str>,
        /// What stands between prefix and name, unless the prefix is empty.
        separator: Box<str>,
        /// The greatest length in characters.
        max_length: usize,
    },
}

/// How many characters of the hash mark an altered name.
const HASH_LENGTH: usize = 6;

// === impl names ===

impl ServerName {
    /// Takes a name that the configuration has checked.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl OriginalName {
    /// Takes a server's name for something.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ExposedName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ExposedName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for OriginalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ExposedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Naming ===

impl Naming {
    /// The exposed name of `original`.
    #[must_use]
    pub fn expose(&self, original: &OriginalName) -> ExposedName {
        let Self::Prefixed {
            prefix,
            separator,
            max_length,
        } = self
        else {
            return ExposedName(original.0.clone());
        };
        let plain = join(prefix, separator, original.as_str());
        if plain.chars().all(is_safe) && !original.as_str().is_empty() && plain.len() <= *max_length
        {
            return ExposedName(plain.into());
        }
        let name = cleaned(original.as_str());
        let fixed = join(prefix, separator, "").len() + 1 + HASH_LENGTH;
        let name = shortened(&name, max_length.saturating_sub(fixed));
        let hash = hash(original.as_str());
        ExposedName(join(prefix, separator, &format!("{name}_{hash}")).into())
    }

    /// Whether the name had to be altered by more than its prefix.
    #[must_use]
    pub fn alters(&self, original: &OriginalName, exposed: &ExposedName) -> bool {
        match self {
            Self::Verbatim => false,
            Self::Prefixed {
                prefix, separator, ..
            } => *join(prefix, separator, original.as_str()) != *exposed.0,
        }
    }

    /// Whether an exposed name may be one of this naming: whether it has the prefix.
    #[must_use]
    pub fn could_expose(&self, exposed: &str) -> bool {
        match self {
            Self::Verbatim => true,
            Self::Prefixed {
                prefix, separator, ..
            } => {
                prefix.is_empty()
                    || exposed
                        .strip_prefix(&**prefix)
                        .is_some_and(|rest| rest.starts_with(&**separator))
            }
        }
    }

    /// Whether names get no prefix. They lose to prefixed ones.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        match self {
            Self::Verbatim => true,
            Self::Prefixed { prefix, .. } => prefix.is_empty(),
        }
    }
}

/// The first 8 hexadecimal digits of SHA-256: tells secrets apart in logs and status without showing them.
#[must_use]
pub fn fingerprint(secret: &str) -> String {
    Sha256::digest(secret.as_bytes())
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn join(prefix: &str, separator: &str, name: &str) -> String {
    if prefix.is_empty() {
        return name.to_owned();
    }
    format!("{prefix}{separator}{name}")
}

/// Letters, digits, `_` and `-`: what every model API takes in a tool's name.
fn is_safe(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

/// Runs of other characters become one `_`.
fn cleaned(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut in_run = false;
    for character in name.chars() {
        if is_safe(character) {
            out.push(character);
            in_run = false;
        } else if !in_run {
            out.push('_');
            in_run = true;
        }
    }
    out
}

/// Cuts the middle out: the beginning says what a name is about, the end tells it from its neighbours.
fn shortened(name: &str, room: usize) -> String {
    if name.len() <= room {
        return name.to_owned();
    }
    let tail = room / 2;
    let head = room - tail;
    let bytes = name.as_bytes();
    let start = bytes.get(..head).unwrap_or_default();
    let end = bytes.get(bytes.len() - tail..).unwrap_or_default();
    start
        .iter()
        .chain(end)
        .map(|byte| char::from(*byte))
        .collect()
}

/// The first characters of SHA-256 in base32 (RFC 4648, lower case).
fn hash(name: &str) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let digest = Sha256::digest(name.as_bytes());
    let bits = digest
        .iter()
        .take(8)
        .fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
    (0..HASH_LENGTH)
        .filter_map(|index| {
            let shift = 64 - 5 * (index + 1);
            let digit = usize::try_from((bits >> shift) & 31).ok()?;
            ALPHABET.get(digit).copied().map(char::from)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn naming(prefix: &str, max_length: usize) -> Naming {
        Naming::Prefixed {
            prefix: prefix.into(),
            separator: "__".into(),
            max_length,
        }
    }

    fn expose(naming: &Naming, name: &str) -> String {
        naming.expose(&OriginalName::new(name)).as_str().to_owned()
    }

    #[test]
    fn safe_names_only_get_the_prefix() {
        assert_eq!(
            expose(&naming("files", 48), "read_file"),
            "files__read_file"
        );
        assert_eq!(expose(&naming("", 48), "read_file"), "read_file");
        assert_eq!(expose(&Naming::Verbatim, "a b/ü"), "a b/ü");
    }

    #[test]
    fn unsafe_and_long_names_are_made_safe_and_marked() {
        // printf %s "dotted.name/with spaces" | sha256sum, first 30 bits in base32
        let exposed = expose(&naming("x", 48), "dotted.name/with spaces");
        assert!(
            exposed.starts_with("x__dotted_name_with_spaces_"),
            "{exposed}"
        );
        assert_eq!(exposed.len(), "x__dotted_name_with_spaces_".len() + 6);
        let long = expose(&naming("server", 48), &"abcdefghij".repeat(13));
        assert_eq!(long.len(), 48);
        assert!(long.starts_with("server__abcdefghij"), "{long}");
        assert_eq!(hash(""), "4oymiq"); // SHA-256 of nothing: e3b0c442…
    }

    #[test]
    fn long_names_that_differ_in_one_character_stay_apart() {
        let naming = naming("a-server-name-of-24-chars", 48);
        let names: HashSet<_> = ('a'..='z')
            .map(|last| expose(&naming, &format!("{}{last}", "x".repeat(127))))
            .collect();
        assert_eq!(names.len(), 26);
    }

    proptest! {
        #[test]
        fn exposed_names_are_safe_and_short(
            prefix in "[a-z][a-z0-9-]{0,22}[a-z0-9]",
            name in ".{0,200}",
        ) {
            let naming = naming(&prefix, 48);
            let exposed = expose(&naming, &name);
            prop_assert!(exposed.len() <= 48);
            prop_assert!(exposed.chars().all(is_safe));
            let start = [prefix.as_str(), "__"].concat();
            prop_assert!(exposed.starts_with(&start));
            // A function of configuration and name alone.
            prop_assert_eq!(expose(&naming, &name), exposed);
        }
    }
}

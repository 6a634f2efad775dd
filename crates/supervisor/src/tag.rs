//! The mark by which everything a child starts is recognised.
//!
//! An environment variable is inherited over fork, exec, setsid and double fork, and cannot be
//! taken off a running process by its launcher. Nothing else a process has lasts as well.

use std::ffi::OsStr;
use std::fmt;

/// The variable in every child's environment that says whose child it is: `RANDOM-NUMBER`, where
/// RANDOM is one per supervisor and NUMBER one per child.
pub const TAG_VARIABLE: &str = "MANIFOLD_CHILD";

/// What all tags of one supervisor begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Family(String);

/// The tag of one child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag(String);

/// What to look for in the environment of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    One(Tag),
    Any(Family),
}

// === impl Family ===

impl Family {
    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// A family named by another process; `None` when that cannot be a name of ours.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let ours = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        ours.then(|| Self(name.to_owned()))
    }

    pub(crate) fn tag(&self, number: u64) -> Tag {
        Tag(format!("{}-{number}", self.0))
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Tag ===

impl AsRef<OsStr> for Tag {
    fn as_ref(&self) -> &OsStr {
        OsStr::new(&self.0)
    }
}

// === impl Mark ===

impl Mark {
    /// Whether an environment, as the kernel shows it (`NAME=value`, each ended by a zero byte),
    /// carries this mark.
    pub(crate) fn is_in(&self, environ: &[u8]) -> bool {
        environ
            .split(|byte| *byte == 0)
            .filter_map(value)
            .any(|value| match self {
                Self::One(tag) => value == tag.0.as_bytes(),
                Self::Any(family) => value
                    .strip_prefix(family.0.as_bytes())
                    .is_some_and(|number| number.starts_with(b"-")),
            })
    }
}

fn value(variable: &[u8]) -> Option<&[u8]> {
    variable
        .strip_prefix(TAG_VARIABLE.as_bytes())?
        .strip_prefix(b"=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_matched_whole_and_a_family_by_its_name() {
        let family = Family("abc".to_owned());
        let one = Mark::One(family.tag(1));
        let any = Mark::Any(family);
        for (environ, is_one, is_any) in [
            (&b"A=1\0MANIFOLD_CHILD=abc-1\0B=2\0"[..], true, true),
            (b"MANIFOLD_CHILD=abc-1", true, true),
            (b"MANIFOLD_CHILD=abc-12\0", false, true),
            (b"MANIFOLD_CHILD=abcd-1\0", false, false),
            (b"MANIFOLD_CHILD=abc\0", false, false),
            (b"XMANIFOLD_CHILD=abc-1\0", false, false),
            (b"X=MANIFOLD_CHILD=abc-1\0", false, false),
            (b"", false, false),
        ] {
            let shown = String::from_utf8_lossy(environ);
            assert_eq!(one.is_in(environ), is_one, "{shown}");
            assert_eq!(any.is_in(environ), is_any, "{shown}");
        }
    }

    #[test]
    fn families_are_random_and_survive_their_text() {
        let family = Family::random();
        assert_ne!(family, Family::random());
        assert_eq!(Family::parse(&family.to_string()), Some(family));
        assert_eq!(Family::parse(""), None);
        assert_eq!(Family::parse("no"), None);
    }
}

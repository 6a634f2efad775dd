//! The protocol's two eras and the versions in them.

/// The eras that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eras {
    /// Only 2024-11-05 to 2025-11-25: `initialize`, then a session. `server/discover` is an unknown method.
    Legacy,
    /// Only 2026-07-28: every request carries its own `_meta` envelope. `initialize` is refused with -32022.
    Modern,
    /// Both, request by request: one connection may mix them freely.
    #[default]
    Both,
}

impl Eras {
    /// Whether the legacy era is spoken.
    #[must_use]
    pub const fn legacy(self) -> bool {
        matches!(self, Self::Legacy | Self::Both)
    }

    /// Whether the modern era is spoken.
    #[must_use]
    pub const fn modern(self) -> bool {
        matches!(self, Self::Modern | Self::Both)
    }
}

/// The era of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    /// The era's name as users write it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// The one modern version.
pub(crate) const MODERN: &str = "2026-07-28";

/// What an `initialize` that asks for something unknown is answered with.
const NEWEST_LEGACY: &str = "2025-11-25";

/// The legacy versions, oldest first.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY];

/// The legacy version of this name, if there is one.
pub(crate) fn legacy_version(name: &str) -> Option<&'static str> {
    LEGACY.into_iter().find(|version| *version == name)
}

/// The answer to an `initialize` for `asked`: that version if it is a legacy one, else the newest legacy one.
///
/// A modern version is never echoed: a client that then mixed the eras could not be served (2025-11-25, lifecycle,
/// "Version Negotiation").
pub(crate) fn negotiate(asked: &str) -> &'static str {
    legacy_version(asked).unwrap_or(NEWEST_LEGACY)
}

/// Whether a version string is of the modern era. Versions are dates, which sort as text.
pub(crate) fn is_modern(version: &str) -> bool {
    version >= MODERN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialize_never_gets_an_unknown_or_modern_version() {
        for (asked, answer) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("2030-01-01", "2025-11-25"),
            ("1.0", "2025-11-25"),
            ("", "2025-11-25"),
        ] {
            assert_eq!(negotiate(asked), answer, "asked for {asked:?}");
        }
    }

    #[test]
    fn later_dates_are_modern() {
        assert!(is_modern("2026-07-28") && is_modern("2030-01-01"));
        assert!(!is_modern("2025-11-25") && !is_modern(""));
    }
}

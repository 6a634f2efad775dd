//! Protocol revisions and the two eras they fall into.

use std::fmt;

/// A revision of the protocol that Manifold speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// 2024-11-05: HTTP+SSE.
    V2024_11_05,
    /// 2025-03-26: Streamable HTTP, batches.
    V2025_03_26,
    /// 2025-06-18: no batches, the version header.
    V2025_06_18,
    /// 2025-11-25: the last revision with sessions.
    V2025_11_25,
    /// 2026-07-28: stateless.
    V2026_07_28,
}

/// Sessions opened by `initialize`, or metadata on every request (2026-07-28 versioning, "Terminology").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25.
    Legacy,
    /// 2026-07-28 and later.
    Modern,
}

impl ProtocolVersion {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// The newest legacy revision: what `initialize` asks for, and answers when it does not know the one
    /// asked for (2025-11-25 lifecycle, "Version Negotiation").
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest modern revision.
    pub const LATEST_MODERN: Self = Self::V2026_07_28;

    /// The revision of that date, if Manifold speaks it.
    #[must_use]
    pub fn parse(date: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|version| version.as_str() == date)
    }

    /// The date that names the revision on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era of the revision.
    #[must_use]
    pub fn era(self) -> Era {
        if self >= Self::V2026_07_28 {
            Era::Modern
        } else {
            Era::Legacy
        }
    }

    /// What `initialize` answers to a client that asks for `date`: that revision if it is a legacy one we
    /// speak, else the latest legacy one. Never an echo of something unknown or modern.
    #[must_use]
    pub fn negotiate(date: &str) -> Self {
        match Self::parse(date) {
            Some(version) if version.era() == Era::Legacy => version,
            _ => Self::LATEST_LEGACY,
        }
    }

    /// Whether a version header of this text asks for modern treatment: a date of 2026-07-28 or later,
    /// known to us or not.
    #[must_use]
    pub fn is_modern_date(date: &str) -> bool {
        let shape = date.len() == 10
            && date.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        shape && date >= Self::V2026_07_28.as_str()
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Era {
    /// The word for it in status and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiation_never_echoes_what_it_does_not_speak() {
        for (asked, answered) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("2099-01-01", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
            ("", "2025-11-25"),
        ] {
            assert_eq!(ProtocolVersion::negotiate(asked).as_str(), answered);
        }
    }

    #[test]
    fn modern_dates() {
        for (date, modern) in [
            ("2026-07-28", true),
            ("2099-01-01", true),
            ("2025-11-25", false),
            ("foobar", false),
            ("zzzz-zz-zz", false),
            ("", false),
        ] {
            assert_eq!(ProtocolVersion::is_modern_date(date), modern, "{date}");
        }
    }
}

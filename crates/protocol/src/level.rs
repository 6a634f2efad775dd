//! The levels of log messages (RFC 5424, as 2025-11-25 logging, "Log Levels", has them).

use crate::raw::Raw;

/// A level, from the least important on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are RFC 5424's")]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    /// The words for them, from the least important on.
    pub const NAMES: [&str; 8] = [
        "debug",
        "info",
        "notice",
        "warning",
        "error",
        "critical",
        "alert",
        "emergency",
    ];

    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// Reads a JSON string.
    #[must_use]
    pub fn parse(raw: &Raw) -> Option<Self> {
        let text = raw.to_text()?;
        let place = Self::NAMES.iter().position(|name| *name == text)?;
        Self::ALL.get(place).copied()
    }

    /// The level as JSON.
    #[must_use]
    pub fn to_raw(self) -> Raw {
        let mut all = Self::ALL.iter().zip(Self::NAMES);
        let name = all.find(|(level, _)| **level == self);
        Raw::of(name.map_or("info", |(_, name)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_their_names_and_their_order() {
        for (level, name) in LogLevel::ALL.into_iter().zip(LogLevel::NAMES) {
            assert_eq!(LogLevel::parse(&Raw::of(name)), Some(level));
            assert_eq!(level.to_raw(), Raw::of(name));
        }
        assert!(LogLevel::Debug < LogLevel::Emergency);
        for wrong in ["\"Debug\"", "\"trace\"", "1", "null"] {
            let raw = Raw::parse(wrong.as_bytes().into()).unwrap();
            assert_eq!(LogLevel::parse(&raw), None);
        }
    }
}

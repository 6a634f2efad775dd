//! What a file may not use yet: keys that are reserved, and keys that parse but have no behaviour so far.
//!
//! Both are refused by name, never ignored: a setting that does nothing would be believed.

/// Keys by the table they stand in (`*` for any name in a table of names, empty for the document) and their name.
/// A single value of a key is written `key = "value"`.
pub(crate) type Keys = &'static [(&'static str, &'static str)];

/// Names kept for later. Nothing reads them.
pub(crate) const RESERVED: Keys = &[
    ("", "auth"),
    ("", "policy"),
    ("listen", "tls"),
    ("listen", "trusted_proxies"),
    ("servers.*", "memory_max"),
    ("servers.*", "nice"),
    ("servers.*", "umask"),
    ("servers.*", "user"),
    ("servers.*", "group"),
    ("servers.*", "pinned"),
    ("servers.*", "oauth"),
];

/// Keys and values which this crate reads and checks, but which the gateway does not act on yet. Taking a line out
/// is all it needs to let one through.
pub(crate) const NOT_YET: Keys = &[
    ("sessions", "max_age"),
    ("sessions", "key"),
    ("servers.*", "transport = \"sse\""),
];

/// Whether `keys` name `key` in the table `pattern`.
pub(crate) fn names(keys: Keys, pattern: &str, key: &str) -> bool {
    keys.iter()
        .any(|(table, name)| *table == pattern && *name == key)
}

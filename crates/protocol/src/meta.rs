//! The `_meta` object of a request: protocol fields that belong to one hop, and everything else, which
//! passes.

use bytes::{Bytes, BytesMut};

use crate::{
    json::{ScanError, ScanErrorKind, Scanner, Span},
    raw::Raw,
};

/// The protocol version of a request (2026-07-28 basic, "`_meta`").
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Who the client is.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// What the client can do for this request.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The least log level the client wants for this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Who the server is, in a result.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Which subscription a notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Asks for progress.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// Where an altered name or URI comes from; ours.
pub const ORIGIN: &str = "dev.manifold/origin";
/// Which servers a merged list misses; ours.
pub const UNAVAILABLE: &str = "dev.manifold/unavailable";

/// The members that belong to one hop: a modern link writes its own, a legacy one none.
pub const HOP_BY_HOP: [&str; 5] = [
    PROTOCOL_VERSION,
    CLIENT_INFO,
    CLIENT_CAPABILITIES,
    LOG_LEVEL,
    PROGRESS_TOKEN,
];

/// The most members of a `_meta` that are kept track of.
const META_MEMBERS: usize = 64;

/// Places inside a `_meta` object.
#[derive(Debug, Clone)]
pub(crate) struct MetaSpans {
    pub(crate) whole: Span,
    pub(crate) members: Vec<MetaMember>,
}

#[derive(Debug, Clone)]
pub(crate) struct MetaMember {
    pub(crate) key: Box<str>,
    /// The member with its name, without the comma.
    pub(crate) whole: Span,
    pub(crate) value: Span,
}

/// A view of a `_meta` object.
#[derive(Debug, Clone, Copy)]
pub struct Meta<'a> {
    text: &'a Bytes,
    members: &'a [MetaMember],
}

/// Changes to a `_meta` object. Members that are neither dropped nor set keep their bytes.
#[derive(Debug, Clone, Default)]
pub struct MetaEdit<'a> {
    /// Members to take out.
    pub drop: &'a [&'a str],
    /// Members to put in; what was there under the same name goes.
    pub set: &'a [(&'a str, Raw)],
}

// === impl MetaSpans ===

impl MetaSpans {
    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<Self, ScanError> {
        let mut members: Vec<MetaMember> = Vec::new();
        // `"_meta": null` has no members; it is replaced when some must be added.
        if scanner.peek() == Some(b'n') {
            let whole = scanner.skip()?;
            return Ok(Self { whole, members });
        }
        let whole = scanner.object(|scanner, key| {
            if members.len() == META_MEMBERS {
                return Err(scanner.error(ScanErrorKind::Members));
            }
            // A name that is no Unicode string is nobody's to look up, but it is kept.
            let name = key
                .decoded()
                .unwrap_or_else(|| String::from_utf8_lossy(key.quoted()).into_owned());
            if members.iter().any(|member| *member.key == *name) {
                return Err(scanner.error(ScanErrorKind::Duplicate));
            }
            let start = key.start();
            let value = scanner.skip()?;
            members.push(MetaMember {
                key: name.into(),
                whole: start..value.end,
                value,
            });
            Ok(())
        })?;
        Ok(Self { whole, members })
    }
}

// === impl Meta ===

impl<'a> Meta<'a> {
    pub(crate) fn new(text: &'a Bytes, members: &'a [MetaMember]) -> Self {
        Self { text, members }
    }

    /// The value of a member.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Raw> {
        self.members
            .iter()
            .find(|member| *member.key == *key)
            .map(|member| Raw::scanned(self.text, member.value.clone()))
    }
}

// === impl MetaEdit ===

impl MetaEdit<'_> {
    pub(crate) fn drops(&self, key: &str) -> bool {
        self.drop.contains(&key) || self.set.iter().any(|(name, _)| *name == key)
    }

    /// The members to add, joined by commas.
    pub(crate) fn addition(&self) -> Option<Vec<u8>> {
        if self.set.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(256);
        for (index, (name, value)) in self.set.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(Raw::of(*name).as_bytes());
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
        Some(out)
    }

    /// The whole new object: what is kept, then what is added.
    pub(crate) fn rebuilt(
        &self,
        text: &[u8],
        members: &[MetaMember],
        addition: Option<Vec<u8>>,
    ) -> Bytes {
        let kept = members
            .iter()
            .filter(|member| !self.drops(&member.key))
            .filter_map(|member| text.get(member.whole.clone()));
        let mut out = BytesMut::with_capacity(256);
        out.extend_from_slice(b"{");
        for (index, part) in kept.chain(addition.as_deref()).enumerate() {
            if index > 0 {
                out.extend_from_slice(b",");
            }
            out.extend_from_slice(part);
        }
        out.extend_from_slice(b"}");
        out.freeze()
    }
}

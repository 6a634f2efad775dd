//! The `_meta` object of a request: protocol fields that belong to one hop, and everything else, which
//! passes.

use bytes::{Bytes, BytesMut};

use crate::{params::MetaMember, raw::Raw};

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

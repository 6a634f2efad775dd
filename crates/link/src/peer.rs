//! Who is at the other end: what a server said of itself when the link was made.

use manifold_protocol::{Era, Kind, ProtocolVersion, Raw};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A server's self-description, from `initialize` or `server/discover`.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The revision that this link speaks.
    pub version: ProtocolVersion,
    /// `serverInfo`, if given.
    pub server_info: Option<Raw>,
    /// `instructions`, if given.
    pub instructions: Option<String>,
    /// `capabilities` as the server wrote them.
    pub capabilities: Raw,
    /// The ones that routing asks for.
    pub serves: Serves,
}

/// Which features a server declares. One that it does not declare is never asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Serves {
    /// `tools`.
    pub tools: bool,
    /// `prompts`.
    pub prompts: bool,
    /// `resources`.
    pub resources: bool,
    /// `completions`.
    pub completions: bool,
    /// `logging`.
    pub logging: bool,
}

impl Serves {
    /// Whether it has lists of that kind.
    #[must_use]
    pub fn lists(self, kind: Kind) -> bool {
        match kind {
            Kind::Tool => self.tools,
            Kind::Prompt => self.prompts,
            Kind::Resource | Kind::Template => self.resources,
        }
    }
}

/// The parts of `InitializeResult` and `DiscoverResult` that are read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hello<'a> {
    protocol_version: Option<String>,
    supported_versions: Option<Vec<String>>,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    server_info: Option<&'a RawValue>,
    instructions: Option<String>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<HelloMeta<'a>>,
}

#[derive(Debug, Deserialize)]
struct HelloMeta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct Declared<'a> {
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    prompts: Option<&'a RawValue>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
    #[serde(borrow)]
    completions: Option<&'a RawValue>,
    #[serde(borrow)]
    logging: Option<&'a RawValue>,
}

/// Why a self-description can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HelloFault {
    /// It is not the result that the method has.
    Malformed,
    /// It names no revision that we speak; these it names.
    Versions(String),
}

impl Peer {
    /// The era of the link.
    #[must_use]
    pub fn era(&self) -> Era {
        self.version.era()
    }

    /// Reads an `InitializeResult` (2025-11-25 lifecycle, "Initialization").
    pub(crate) fn from_initialize(result: &Raw) -> Result<Self, HelloFault> {
        let hello: Hello<'_> = result.read().ok_or(HelloFault::Malformed)?;
        let named = hello
            .protocol_version
            .clone()
            .ok_or(HelloFault::Malformed)?;
        match ProtocolVersion::parse(&named) {
            Some(version) if version.era() == Era::Legacy => Ok(hello.peer(version)),
            _ => Err(HelloFault::Versions(named)),
        }
    }

    /// Reads a `DiscoverResult` (2026-07-28 discover).
    pub(crate) fn from_discover(result: &Raw) -> Result<Self, HelloFault> {
        let hello: Hello<'_> = result.read().ok_or(HelloFault::Malformed)?;
        let versions = hello
            .supported_versions
            .clone()
            .ok_or(HelloFault::Malformed)?;
        if versions
            .iter()
            .any(|date| date == ProtocolVersion::LATEST_MODERN.as_str())
        {
            return Ok(hello.peer(ProtocolVersion::LATEST_MODERN));
        }
        Err(HelloFault::Versions(versions.join(", ")))
    }
}

impl Hello<'_> {
    fn peer(self, version: ProtocolVersion) -> Peer {
        let meta_info = self.meta.and_then(|meta| meta.server_info);
        let declared: Declared<'_> = self
            .capabilities
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        Peer {
            version,
            server_info: self.server_info.or(meta_info).map(Raw::of),
            instructions: self.instructions,
            capabilities: self
                .capabilities
                .map_or_else(|| Raw::of(&serde_json::Map::new()), Raw::of),
            serves: Serves {
                tools: declared.tools.is_some(),
                prompts: declared.prompts.is_some(),
                resources: declared.resources.is_some(),
                completions: declared.completions.is_some(),
                logging: declared.logging.is_some(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &'static str) -> Raw {
        Raw::parse(bytes::Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[test]
    fn both_eras_describe_themselves() {
        let peer = Peer::from_initialize(&raw(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}},
                "serverInfo":{"name":"a","version":"1"},"instructions":"hi"}"#,
        ))
        .unwrap();
        assert_eq!(peer.era(), Era::Legacy);
        assert!(peer.serves.tools && peer.serves.logging && !peer.serves.prompts);
        assert_eq!(peer.instructions.as_deref(), Some("hi"));
        let peer = Peer::from_discover(&raw(
            r#"{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{},
                "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"b","version":"2"}}}"#,
        ))
        .unwrap();
        assert_eq!(peer.era(), Era::Modern);
        assert_eq!(
            peer.server_info.unwrap().as_str(),
            r#"{"name":"b","version":"2"}"#
        );
    }

    #[test]
    fn a_version_that_is_echoed_or_invented_is_not_believed() {
        for date in ["2026-07-28", "2030-01-01", ""] {
            let text = format!(r#"{{"protocolVersion":"{date}","capabilities":{{}}}}"#);
            let raw = Raw::parse(text.into()).unwrap();
            assert_eq!(
                Peer::from_initialize(&raw).unwrap_err(),
                HelloFault::Versions(date.to_owned())
            );
        }
        assert_eq!(
            Peer::from_discover(&raw(r#"{"supportedVersions":["2099-01-01"]}"#)).unwrap_err(),
            HelloFault::Versions("2099-01-01".to_owned())
        );
        assert_eq!(
            Peer::from_discover(&raw("{}")).unwrap_err(),
            HelloFault::Malformed
        );
    }
}

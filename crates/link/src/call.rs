//! A call as the core hands it to a link, neutral of era, and how each era writes it.

use std::{sync::LazyLock, time::Duration};

use bytes::Bytes;
use manifold_protocol::{
    Era, LinkRequestId, MetaEdit, Method, OriginalName, Params, ParamsEdit, ProtocolVersion, Raw,
    meta,
};

/// One request to a server.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The client's params, as they came.
    pub params: Params,
    /// What the call is about, as the server has it.
    pub subject: Subject,
    /// Who asks: a modern server is told with every request.
    pub origin: Origin,
    /// Whether the client wants progress. The token toward the server is ours.
    pub progress: bool,
    /// How long the answer may take.
    pub patience: Patience,
}

/// What a call is about, where the client has another name for it than the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Nothing that has two names: params pass as they are.
    Plain,
    /// A tool or prompt, by `name`.
    Name(OriginalName),
    /// A resource, by `uri`.
    Uri(Box<str>),
    /// What is completed, by the name or URI in `ref`.
    Reference(Box<str>),
}

/// What a modern request says of its client (2026-07-28 basic, "Per-request protocol fields").
#[derive(Debug, Clone)]
pub struct Origin {
    /// Name and version.
    pub client_info: Raw,
    /// What it can do for this request.
    pub capabilities: Raw,
    /// The least log level it wants, if any.
    pub log_level: Option<Raw>,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Without a sign of life; progress counts as one.
    pub silence: Duration,
    /// In all.
    pub max: Duration,
}

impl Call {
    /// A request of Manifold's own.
    #[must_use]
    pub fn own(method: Method, params: Params, patience: Patience) -> Self {
        Self {
            method,
            params,
            subject: Subject::Plain,
            origin: Origin::manifold(),
            progress: false,
            patience,
        }
    }

    /// The params as a server of `era` must get them. Progress is asked for under the request's own id,
    /// which is unique on the link.
    #[must_use]
    pub fn params_for(&self, era: Era, id: LinkRequestId) -> Bytes {
        let mut set: Vec<(&str, Raw)> = Vec::with_capacity(5);
        if self.progress {
            set.push((meta::PROGRESS_TOKEN, Raw::of(&id.0)));
        }
        if era == Era::Modern {
            set.push((
                meta::PROTOCOL_VERSION,
                Raw::of(ProtocolVersion::LATEST_MODERN.as_str()),
            ));
            set.push((meta::CLIENT_INFO, self.origin.client_info.clone()));
            set.push((meta::CLIENT_CAPABILITIES, self.origin.capabilities.clone()));
            if let Some(level) = &self.origin.log_level {
                set.push((meta::LOG_LEVEL, level.clone()));
            }
        }
        self.params.edited(&ParamsEdit {
            name: self.subject.name(),
            uri: self.subject.uri(),
            reference: self.subject.reference(),
            // Tasks are taken out in both directions.
            drop_task: self.method == Method::ToolsCall,
            progress_token: None,
            meta: MetaEdit {
                drop: &meta::HOP_BY_HOP,
                set: &set,
            },
        })
    }

    /// The value of the `Mcp-Name` header, where the method has one.
    #[must_use]
    pub fn header_name(&self) -> Option<String> {
        if matches!(self.method, Method::ToolsCall | Method::PromptsGet) {
            return self
                .subject
                .name()
                .map(str::to_owned)
                .or_else(|| self.params.name());
        }
        if self.method == Method::ResourcesRead {
            return self
                .subject
                .uri()
                .map(str::to_owned)
                .or_else(|| self.params.uri());
        }
        None
    }
}

impl Subject {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name.as_str()),
            Self::Plain | Self::Uri(_) | Self::Reference(_) => None,
        }
    }

    fn uri(&self) -> Option<&str> {
        match self {
            Self::Uri(uri) => Some(uri),
            Self::Plain | Self::Name(_) | Self::Reference(_) => None,
        }
    }

    fn reference(&self) -> Option<&str> {
        match self {
            Self::Reference(target) => Some(target),
            Self::Plain | Self::Name(_) | Self::Uri(_) => None,
        }
    }
}

impl Origin {
    /// Manifold itself, which can do nothing for a server.
    #[must_use]
    pub fn manifold() -> Self {
        static MANIFOLD: LazyLock<Origin> = LazyLock::new(|| Origin {
            client_info: Raw::of(&serde_json::json!({
                "name": "manifold",
                "version": env!("CARGO_PKG_VERSION"),
            })),
            capabilities: Raw::of(&serde_json::Map::new()),
            log_level: None,
        });
        MANIFOLD.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(params: &'static str) -> Call {
        let raw = Raw::parse(Bytes::from_static(params.as_bytes())).unwrap();
        Call {
            subject: Subject::Name(OriginalName::new("echo")),
            progress: true,
            ..Call::own(
                Method::ToolsCall,
                Params::parse(&raw).unwrap(),
                Patience {
                    silence: Duration::from_secs(1),
                    max: Duration::from_secs(1),
                },
            )
        }
    }

    #[test]
    fn a_legacy_server_gets_no_modern_field_and_our_token() {
        let call = call(
            r#"{"name":"s__echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"mine","traceparent":"00-1"}}"#,
        );
        assert_eq!(
            call.params_for(Era::Legacy, LinkRequestId(7)),
            r#"{"name":"echo","arguments":{},"_meta":{"traceparent":"00-1","progressToken":7}}"#
        );
        assert_eq!(call.header_name().unwrap(), "echo");
    }

    #[test]
    fn a_modern_server_is_told_who_asks() {
        let mut call = call(r#"{"name":"s__echo","arguments":{}}"#);
        call.origin = Origin {
            client_info: Raw::of("c"),
            capabilities: Raw::of(&1),
            log_level: None,
        };
        call.progress = false;
        assert_eq!(
            call.params_for(Era::Modern, LinkRequestId(7)),
            r#"{"name":"echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":"c","io.modelcontextprotocol/clientCapabilities":1}}"#
        );
    }
}

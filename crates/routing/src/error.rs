//! Why a request leads nowhere.

use std::time::Duration;

use manifold_link::LinkError;
use manifold_protocol::{Kind, Method, ServerName};
use thiserror::Error;

use crate::events::CallOutcome;

/// Why a request has no answer from a server.
#[derive(Debug, Clone, Error)]
pub enum RouteError {
    /// Nobody has a tool or prompt of that name.
    #[error("unknown {} {name:?}", kind.word())]
    UnknownName {
        /// What was asked for.
        kind: Kind,
        /// By which name.
        name: String,
        /// The names that look like it.
        nearest: Vec<String>,
    },
    /// The path declares nothing that could answer.
    #[error("method not found: {0}")]
    UnknownMethod(Method),
    /// Nobody has a resource of that URI.
    #[error("unknown resource {uri:?}")]
    UnknownResource {
        /// The URI that was asked for.
        uri: String,
    },
    /// The request lacks the name of what it is about.
    #[error("{0}")]
    InvalidParams(&'static str),
    /// The server is down.
    #[error("server {server} is down")]
    Down {
        /// The server.
        server: ServerName,
        /// Its state.
        state: &'static str,
        /// What is known of the reason.
        reason: Option<LinkError>,
        /// When it is tried again.
        retry_after: Option<Duration>,
    },
    /// The server was still starting when the request's own time was up.
    #[error("server {server} is still starting")]
    Starting {
        /// The server.
        server: ServerName,
    },
    /// A cap is reached.
    #[error("server {server} has no link to spare")]
    Busy {
        /// The server.
        server: ServerName,
    },
    /// The link or the server failed.
    #[error("server {server} {error}")]
    Link {
        /// The server.
        server: ServerName,
        /// How.
        error: LinkError,
        /// The state of the server then.
        state: &'static str,
    },
}

impl RouteError {
    /// The server it is about.
    #[must_use]
    pub fn server(&self) -> Option<&ServerName> {
        match self {
            Self::UnknownName { .. }
            | Self::UnknownResource { .. }
            | Self::UnknownMethod(_)
            | Self::InvalidParams(_) => None,
            Self::Down { server, .. }
            | Self::Starting { server }
            | Self::Busy { server }
            | Self::Link { server, .. } => Some(server),
        }
    }

    /// How the call counts.
    #[must_use]
    pub fn outcome(&self) -> CallOutcome {
        match self {
            Self::UnknownName { .. }
            | Self::UnknownResource { .. }
            | Self::UnknownMethod(_)
            | Self::InvalidParams(_) => CallOutcome::Rejected,
            Self::Down { .. } | Self::Starting { .. } => CallOutcome::ServerDown,
            Self::Busy { .. } => CallOutcome::Busy,
            Self::Link { error, .. } => CallOutcome::of_link(error),
        }
    }
}

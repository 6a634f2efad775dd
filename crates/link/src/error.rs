//! What can go wrong between Manifold and a server.

use std::{fmt, time::Duration};

use manifold_protocol::RpcError;
use manifold_supervisor::Exit;
use thiserror::Error;

/// Why a link could not be made, or a call on it has no answer.
///
/// The texts are for clients and operators alike: they name no path and no secret.
#[derive(Debug, Clone, Error)]
pub enum LinkError {
    /// The child could not be started.
    #[error("could not be started: {0}")]
    Spawn(String),
    /// The child ended, or closed its stdout.
    #[error("{}", describe_exit(.exit.as_ref()))]
    Exited {
        /// How, if it has ended.
        exit: Option<Exit>,
        /// The last line it wrote on stderr.
        last_stderr: Option<String>,
    },
    /// No connection could be made. Nothing was sent.
    #[error("could not be reached: {0}")]
    Unreachable(String),
    /// The connection ended while a call was in flight. The server may have worked on it.
    #[error("the connection ended before the answer: {0}")]
    Broken(Break),
    /// The server does not know our session any more. It has not worked on the call.
    #[error("the server has lost the session")]
    SessionLost,
    /// The start took too long.
    #[error("did not finish starting within {}", seconds(*.0))]
    StartTimeout(Duration),
    /// Nothing was heard of a call for too long. The cancel was sent on.
    #[error("nothing was heard for {}", seconds(*.0))]
    Silence(Duration),
    /// A call took too long, progress or not. The cancel was sent on.
    #[error("no answer within {}", seconds(*.0))]
    Deadline(Duration),
    /// The server wants credentials that it was not given.
    #[error("refused the credentials (HTTP {0})")]
    Unauthorized(u16),
    /// An error status with a body that is not JSON-RPC, or a status that is never the protocol's.
    #[error("answered something that is not MCP: HTTP {0}")]
    Status(u16),
    /// The answer is not the protocol's.
    #[error("answered something that is not MCP: {0}")]
    NotMcp(String),
    /// The answer is over the limit.
    #[error("sent a message of more than {limit} bytes")]
    TooLarge {
        /// `limits.message`, in bytes.
        limit: usize,
    },
    /// The server refuses the handshake.
    #[error("refused the handshake: {} ({})", .0.message, .0.code)]
    Refused(RpcError),
    /// The server speaks no revision that Manifold speaks.
    #[error("speaks no common protocol version, only {0}")]
    Incompatible(String),
    /// The link was closed by us.
    #[error("the link was closed")]
    Closed,
}

/// How a connection ended while a call was in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    reason: String,
    answer_began: bool,
}

// === impl LinkError ===

impl LinkError {
    /// A connection that ended before any part of an answer.
    pub(crate) fn broken_before(reason: impl Into<String>) -> Self {
        Self::Broken(Break {
            reason: reason.into(),
            answer_began: false,
        })
    }

    /// A connection that ended within an answer.
    pub(crate) fn broken_within(reason: impl Into<String>) -> Self {
        Self::Broken(Break {
            reason: reason.into(),
            answer_began: true,
        })
    }

    /// A subscription that the server has cancelled.
    pub(crate) fn cancelled() -> Self {
        Self::broken_within("the server has cancelled it")
    }

    /// Whether an HTTP server has said nothing at all: no connection could be made, or it ended before the
    /// head of a response. What does no harm twice may be sent once more then. False for everything else, the
    /// end of a child included.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Broken(how) => !how.answer_began,
            Self::Spawn(_)
            | Self::Exited { .. }
            | Self::SessionLost
            | Self::StartTimeout(_)
            | Self::Silence(_)
            | Self::Deadline(_)
            | Self::Unauthorized(_)
            | Self::Status(_)
            | Self::NotMcp(_)
            | Self::TooLarge { .. }
            | Self::Refused(_)
            | Self::Incompatible(_)
            | Self::Closed => false,
        }
    }

    /// The text for clients: whose fault, without what the system said and without stderr.
    #[must_use]
    pub fn public(&self) -> String {
        if matches!(self, Self::Spawn(_)) {
            return "could not be started".to_owned();
        }
        if matches!(self, Self::Unreachable(_)) {
            return "could not be reached".to_owned();
        }
        if matches!(self, Self::Broken(_)) {
            return "ended the connection before the answer".to_owned();
        }
        self.to_string()
    }

    /// The last line on stderr of a child that ended.
    #[must_use]
    pub fn last_stderr(&self) -> Option<&str> {
        if let Self::Exited { last_stderr, .. } = self {
            return last_stderr.as_deref();
        }
        None
    }
}

// === impl Break ===

impl Break {
    /// Whether the server had begun to answer.
    #[must_use]
    pub fn answer_began(&self) -> bool {
        self.answer_began
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

fn describe_exit(exit: Option<&Exit>) -> String {
    match exit {
        None => "closed its stdout".to_owned(),
        Some(exit) => match (exit.code, exit.signal_name()) {
            (Some(code), _) => format!("exited with code {code}"),
            (None, Some(signal)) => format!("was ended by {signal}"),
            (None, None) => "ended".to_owned(),
        },
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

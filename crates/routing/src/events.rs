//! What happens, for whoever counts it. Routing itself has no counter and no metric.

use std::{fmt, time::Duration};

use manifold_link::LinkError;
use manifold_protocol::{Kind, Method, ServerName};
use manifold_supervisor::Exit;

/// Something that an operator may want to count.
#[derive(Debug)]
pub enum Event<'a> {
    /// A call was handed to a server.
    CallStarted {
        /// The server.
        server: &'a ServerName,
    },
    /// A call ended, however it ended.
    CallEnded {
        /// The server; none when the name led nowhere.
        server: Option<&'a ServerName>,
        /// The method.
        method: &'a Method,
        /// How it ended.
        outcome: CallOutcome,
        /// How long it took in all.
        took: Duration,
    },
    /// A link is about to be made.
    LinkStarted {
        /// The server.
        server: &'a ServerName,
        /// Why.
        reason: StartReason,
    },
    /// A link was made.
    LinkOpened {
        /// The server.
        server: &'a ServerName,
        /// How long that took, from the decision to the end of the handshake.
        took: Duration,
    },
    /// A child ended.
    ChildExited {
        /// The server.
        server: &'a ServerName,
        /// How.
        exit: Exit,
        /// Lines it wrote on stderr in its life.
        stderr_lines: u64,
        /// Lines it wrote on stdout that were no messages.
        noise_lines: u64,
    },
    /// A server's catalog link came up or went down.
    ServerTurned {
        /// The server.
        server: &'a ServerName,
        /// Whether it is up now.
        up: bool,
    },
    /// A list of a server is known anew.
    Listed {
        /// The server.
        server: &'a ServerName,
        /// Which list.
        kind: Kind,
        /// How many entries it has.
        items: usize,
    },
    /// The merged catalog was built anew.
    Merged {
        /// Of which kind.
        kind: Kind,
        /// How many names or URIs collide.
        conflicts: usize,
    },
    /// A client session ended.
    SessionEnded {
        /// How long it lasted.
        lasted: Duration,
    },
}

/// Why a link was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartReason {
    /// The catalog's, for the first time.
    First,
    /// The catalog's, after the one before was lost.
    Crash,
    /// A caller needed it.
    Lease,
    /// An operator asked for it.
    Admin,
    /// A lazy server is needed again.
    Idle,
    /// It waits for a caller to come.
    Spare,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    /// With a result.
    Ok,
    /// With a result that says `isError`.
    ToolError,
    /// With the server's error.
    Error,
    /// The server was down or still starting.
    ServerDown,
    /// It was lost in flight.
    Lost,
    /// It timed out.
    Timeout,
    /// The client cancelled it, or went away.
    Cancelled,
    /// The server refused us.
    Unauthorized,
    /// The answer was not MCP.
    BadResponse,
    /// The answer was too large.
    TooLarge,
    /// A cap was reached.
    Busy,
    /// It named nothing we know.
    Rejected,
}

/// Whoever counts. Called on the path of calls: it must be quick and must not wait.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Something has happened.
    fn observe(&self, event: &Event<'_>);
}

impl StartReason {
    /// The word for it in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Crash => "crash",
            Self::Lease => "lease",
            Self::Admin => "admin",
            Self::Idle => "idle",
            Self::Spare => "spare",
        }
    }
}

impl CallOutcome {
    /// The word for it in metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::Error => "error",
            Self::ServerDown => "server_down",
            Self::Lost => "lost",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Unauthorized => "unauthorized",
            Self::BadResponse => "bad_response",
            Self::TooLarge => "too_large",
            Self::Busy => "busy",
            Self::Rejected => "rejected",
        }
    }

    pub(crate) fn of_link(error: &LinkError) -> Self {
        match error {
            LinkError::Spawn(_)
            | LinkError::Unreachable(_)
            | LinkError::StartTimeout(_)
            | LinkError::Refused(_)
            | LinkError::Incompatible(_) => Self::ServerDown,
            LinkError::Exited { .. }
            | LinkError::Broken(_)
            | LinkError::SessionLost
            | LinkError::Closed => Self::Lost,
            LinkError::Silence(_) | LinkError::Deadline(_) => Self::Timeout,
            LinkError::Unauthorized(_) => Self::Unauthorized,
            LinkError::Status(_) | LinkError::NotMcp(_) => Self::BadResponse,
            LinkError::TooLarge { .. } => Self::TooLarge,
        }
    }
}

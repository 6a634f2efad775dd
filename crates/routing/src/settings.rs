//! What the configuration says of a server.

use std::{fmt, sync::Arc, time::Duration};

use manifold_link::Patience;
use manifold_protocol::{Naming, ServerName, uri::UriPrefix};
use manifold_supervisor::RestartPolicy;

use crate::lists::CacheHint;

/// What the configuration says of a server, beside how it is reached.
#[derive(Clone)]
pub struct ServerSettings {
    /// Its name.
    pub name: ServerName,
    /// How its names are exposed on the merged path.
    pub naming: Arc<Naming>,
    /// How its URIs are exposed there when an earlier server has the same ones.
    pub mark: UriPrefix,
    /// Switched off servers are only shown.
    pub enabled: bool,
    /// Readiness waits for it.
    pub required: bool,
    /// Who gets a link of their own.
    pub isolation: Isolation,
    /// How restarts are spaced.
    pub restart: RestartPolicy,
    /// How long its answers may take.
    pub patience: Patience,
    /// How long its first lists are waited for before what is known of it is shown.
    pub list: Duration,
    /// The most links at a time, beside the catalog's.
    pub max_links: usize,
    /// How long a caller waits for a link when all are busy.
    pub seat_wait: Duration,
    /// A caller's link that is not used for so long is closed.
    pub link_idle: Duration,
    /// Whether clients may see the last line of stderr.
    pub expose_stderr: bool,
    /// Which of its tools are exposed.
    pub permits: ToolFilter,
    /// Whether it is started only when somebody needs it.
    pub lazy: bool,
    /// How many started processes wait for callers.
    pub spare: usize,
    /// Headers of clients' requests that it gets, by lower-case names.
    pub forward_headers: Vec<Box<str>>,
    /// How long its lists may be kept when it does not say so itself.
    pub hint: CacheHint,
}

/// Says whether a tool is exposed, by its original name.
pub type ToolFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Who gets a link of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Every caller.
    Session,
    /// Nobody: one link serves all.
    Shared,
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings")
            .field("name", &self.name)
            .field("isolation", &self.isolation)
            .finish_non_exhaustive()
    }
}

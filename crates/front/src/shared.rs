//! What the endpoint and both faces share.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName};
use manifold_protocol::Raw;
use manifold_routing::{Forwarded, RouteError, Router, Scope, server_info};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The bounds and the path of the front.
#[derive(Debug, Clone)]
pub struct FrontSettings {
    /// The path of the merged endpoint; a server alone is at `PATH/NAME`.
    pub path: String,
    /// The largest request body, in bytes.
    pub request_body: usize,
    /// Requests at a time of one session or modern caller.
    pub concurrent_requests: usize,
    /// The time between two comments on an open stream.
    pub keepalive: Duration,
    /// The most entries on one page of a list; all on one page, if none.
    pub page_size: Option<usize>,
}

/// The greatest `clientInfo` that is kept and passed on, in bytes.
const CLIENT_INFO: usize = 4096;

/// What a client says of itself, as it is kept and told to servers: an object of a sensible size, in memory of its
/// own. Anything else is not worth a refusal, and not worth passing on.
pub(crate) fn client_info(given: Option<Raw>) -> Raw {
    given
        .filter(|info| info.is_object() && info.as_bytes().len() <= CLIENT_INFO)
        .map_or_else(
            || Raw::of(&serde_json::json!({ "name": "unknown", "version": "unknown" })),
            |info| info.compact(),
        )
}

/// The most `subscriptions/listen` streams at a time.
const LISTENERS: usize = 4096;

/// The front's state.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: FrontSettings,
    pub(crate) router: Arc<Router>,
    pub(crate) tasks: TaskTracker,
    /// No new sessions and calls; streams without a call end.
    pub(crate) draining: CancellationToken,
    /// The requests of modern callers, who are all one while there is no authentication.
    pub(crate) anonymous: Arc<Semaphore>,
    /// Their open `subscriptions/listen` streams.
    pub(crate) listeners: Arc<Semaphore>,
    /// Headers of requests that some server wants.
    forward_headers: Vec<HeaderName>,
    pub(crate) server_info: Raw,
}

impl Shared {
    pub(crate) fn new(
        settings: FrontSettings,
        router: Arc<Router>,
        tasks: TaskTracker,
        draining: CancellationToken,
    ) -> Self {
        Self {
            anonymous: Arc::new(Semaphore::new(settings.concurrent_requests)),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
            forward_headers: router
                .forward_headers()
                .iter()
                .filter_map(|name| name.parse().ok())
                .collect(),
            settings,
            router,
            tasks,
            draining,
            server_info: server_info(),
        }
    }

    /// What a path shows. A trailing slash is the same path.
    pub(crate) fn scope(&self, path: &str) -> Option<Scope> {
        let rest = path.strip_prefix(self.settings.path.trim_end_matches('/'))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.is_empty() {
            return Some(Scope::Merged);
        }
        let name = rest.strip_prefix('/')?;
        self.router.scope(name)
    }

    /// What of a request's headers goes on to servers that want it, and nothing else.
    pub(crate) fn forwarded(&self, head: &HeaderMap) -> Forwarded {
        if self.forward_headers.is_empty() {
            return Forwarded::default();
        }
        let wanted = self.forward_headers.iter();
        let values = wanted.flat_map(|name| {
            let values = head.get_all(name).iter();
            values.map(|value| (name.as_str().into(), value.as_bytes().into()))
        });
        Forwarded::new(values.collect())
    }

    /// Whether a server lets clients see its last words.
    pub(crate) fn expose_stderr(&self, error: &RouteError) -> bool {
        error.server().is_some_and(|name| {
            self.router
                .servers()
                .iter()
                .any(|server| server.name() == name && server.settings().expose_stderr)
        })
    }
}

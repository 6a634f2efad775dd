//! Making a link: start or reach the server, find out its era, shake hands.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, Uri};
use manifold_protocol::{Era, Method, Outcome, Params, ProtocolVersion, Raw};
use manifold_supervisor::{Child, ChildSpec, Supervisor};
use tokio_util::task::TaskTracker;

use crate::{
    Link, LinkError, LinkId,
    call::{Call, Origin, Patience},
    exchange::Event,
    http::{Http, HttpClient},
    link::Wire,
    peer::Peer,
    probe::{self, Discovered, Initialized},
    stdio::{Stdio, StdioExchange},
};

/// How long a child may be silent after `server/discover` before `initialize` is written as well.
const PROBE_SILENCE: Duration = Duration::from_secs(10);

/// How a server is reached.
#[derive(Debug)]
pub enum Target {
    /// A child process.
    Child {
        /// Who starts it.
        supervisor: Supervisor,
        /// What is started.
        spec: Box<ChildSpec>,
    },
    /// Streamable HTTP.
    Http(Box<HttpTarget>),
}

/// Where an HTTP server is.
#[derive(Debug)]
pub struct HttpTarget {
    /// The shared client.
    pub client: HttpClient,
    /// The endpoint, exactly as configured.
    pub uri: Uri,
    /// Headers that every request carries.
    pub headers: HeaderMap,
}

/// The bounds of a server's links.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From spawn, or the first byte sent, to the end of the handshake.
    pub start: Duration,
    /// The largest message taken from the server, in bytes.
    pub message: usize,
}

/// Makes links to one server.
#[derive(Debug)]
pub struct Connector {
    target: Target,
    limits: Limits,
    tasks: TaskTracker,
    next: AtomicU64,
    /// What the last handshake has shown. A hint only: it is corrected when it proves wrong.
    era: Mutex<Option<Era>>,
}

impl Connector {
    /// A connector whose links run their tasks on `tasks`.
    #[must_use]
    pub fn new(target: Target, limits: Limits, tasks: TaskTracker) -> Self {
        Self {
            target,
            limits,
            tasks,
            next: AtomicU64::new(1),
            era: Mutex::new(None),
        }
    }

    /// How the server is reached.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Makes a link that speaks for `origin`. Takes up to [`Limits::start`], after waiting for its turn
    /// among the children that are starting.
    ///
    /// Dropping the future stops a child that was started. `on_spawn` sees a child as soon as there is one,
    /// whatever becomes of it.
    ///
    /// # Errors
    /// When the server can't be started or reached, refuses, or is not ready in time.
    pub async fn connect(
        &self,
        origin: &Origin,
        on_spawn: impl FnOnce(&Child),
    ) -> Result<Link, LinkError> {
        let made = self.make(origin, on_spawn).await;
        // What was seen before does not hold for a server that has changed.
        self.remember(made.as_ref().ok().map(|link| link.peer().era()));
        made
    }

    async fn make(
        &self,
        origin: &Origin,
        on_spawn: impl FnOnce(&Child),
    ) -> Result<Link, LinkError> {
        let id = LinkId(self.next.fetch_add(1, Ordering::Relaxed));
        let limit = self.limits.message;
        let start = self.limits.start;
        let (wire, peer) = match &self.target {
            Target::Child { supervisor, spec } => {
                let spawned = supervisor
                    .spawn(spec)
                    .await
                    .map_err(|error| LinkError::Spawn(error.to_string()))?;
                on_spawn(&spawned.child);
                let (stdio, turn) = Stdio::of(spawned, &self.tasks, &spec.label, limit);
                let peer = tokio::time::timeout(start, self.greet_child(&stdio, origin))
                    .await
                    .map_err(|_| LinkError::StartTimeout(start))??;
                drop(turn);
                (Wire::Stdio(stdio), peer)
            }
            Target::Http(target) => {
                let http = Http::new(target, limit, self.tasks.clone());
                let peer = tokio::time::timeout(start, self.greet_http(&http, origin))
                    .await
                    .map_err(|_| LinkError::StartTimeout(start))??;
                (Wire::Http(http), peer)
            }
        };
        Ok(Link::new(id, peer, wire))
    }

    fn remembered(&self) -> Option<Era> {
        *self.era.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, era: Option<Era>) {
        *self.era.lock().unwrap_or_else(PoisonError::into_inner) = era;
    }

    // --- over a child's pipes ---

    async fn greet_child(&self, stdio: &Stdio, origin: &Origin) -> Result<Peer, LinkError> {
        if self.remembered() == Some(Era::Legacy) {
            return greet_legacy_child(stdio, origin).await;
        }
        let mut probing = ask_child(stdio, Method::ServerDiscover, discover(origin)).await?;
        let answer = tokio::time::timeout(PROBE_SILENCE, stdio_outcome(&mut probing)).await;
        let Ok(outcome) = answer else {
            return greet_silent_child(stdio, probing, origin).await;
        };
        match probe::discovered(&outcome?) {
            Discovered::Modern(peer) => Ok(*peer),
            Discovered::Fault(error) => Err(error),
            Discovered::Legacy => greet_legacy_child(stdio, origin).await,
        }
    }

    // --- over HTTP ---

    async fn greet_http(&self, http: &Http, origin: &Origin) -> Result<Peer, LinkError> {
        if self.remembered() == Some(Era::Legacy) {
            return match initialize_http(http, origin).await? {
                Initialized::Legacy(peer) => Ok(*peer),
                Initialized::Modern => match discover_http(http, origin).await? {
                    Discovered::Modern(peer) => Ok(*peer),
                    Discovered::Legacy => Err(contradiction()),
                    Discovered::Fault(error) => Err(error),
                },
                Initialized::Fault(error) => Err(error),
            };
        }
        match discover_http(http, origin).await? {
            Discovered::Modern(peer) => Ok(*peer),
            Discovered::Fault(error) => Err(error),
            Discovered::Legacy => match initialize_http(http, origin).await? {
                Initialized::Legacy(peer) => Ok(*peer),
                Initialized::Modern => Err(contradiction()),
                Initialized::Fault(error) => Err(error),
            },
        }
    }
}

async fn greet_legacy_child(stdio: &Stdio, origin: &Origin) -> Result<Peer, LinkError> {
    let mut hello = initialize_child(stdio, origin).await?;
    let outcome = stdio_outcome(&mut hello).await?;
    settle_child(stdio, origin, &outcome).await
}

/// Goes on after the answer to `initialize`.
async fn settle_child(
    stdio: &Stdio,
    origin: &Origin,
    outcome: &Outcome,
) -> Result<Peer, LinkError> {
    match probe::initialized(outcome) {
        Initialized::Legacy(peer) => initialized_child(stdio, *peer).await,
        Initialized::Modern => discover_child(stdio, origin).await,
        Initialized::Fault(error) => Err(error),
    }
}

/// The child has not answered the probe. It may be slow, or deaf to methods it does not know: write
/// `initialize` as well, and believe whichever is answered with sense.
async fn greet_silent_child(
    stdio: &Stdio,
    mut probing: StdioExchange,
    origin: &Origin,
) -> Result<Peer, LinkError> {
    let mut hello = initialize_child(stdio, origin).await?;
    let mut probe_open = true;
    loop {
        tokio::select! {
            biased;
            outcome = stdio_outcome(&mut probing), if probe_open => {
                match probe::discovered(&outcome?) {
                    Discovered::Modern(peer) => return Ok(*peer),
                    Discovered::Fault(error) => return Err(error),
                    Discovered::Legacy => probe_open = false,
                }
            }
            outcome = stdio_outcome(&mut hello) => {
                return settle_child(stdio, origin, &outcome?).await;
            }
        }
    }
}

async fn ask_child(stdio: &Stdio, method: Method, call: Call) -> Result<StdioExchange, LinkError> {
    let era = if method == Method::ServerDiscover {
        Era::Modern
    } else {
        Era::Legacy
    };
    stdio.request(&method, |id| call.params_for(era, id)).await
}

async fn initialize_child(stdio: &Stdio, origin: &Origin) -> Result<StdioExchange, LinkError> {
    ask_child(stdio, Method::Initialize, initialize(origin)).await
}

async fn initialized_child(stdio: &Stdio, peer: Peer) -> Result<Peer, LinkError> {
    stdio.notify(&Method::Initialized, b"").await?;
    Ok(peer)
}

async fn discover_child(stdio: &Stdio, origin: &Origin) -> Result<Peer, LinkError> {
    let mut probing = ask_child(stdio, Method::ServerDiscover, discover(origin)).await?;
    match probe::discovered(&stdio_outcome(&mut probing).await?) {
        Discovered::Modern(peer) => Ok(*peer),
        Discovered::Legacy => Err(contradiction()),
        Discovered::Fault(error) => Err(error),
    }
}

/// The answer of an exchange; what a server asks during the handshake is declined.
async fn stdio_outcome(exchange: &mut StdioExchange) -> Result<Outcome, LinkError> {
    loop {
        if let Event::Done(outcome) = exchange.next().await {
            return outcome;
        }
    }
}

async fn discover_http(http: &Http, origin: &Origin) -> Result<Discovered, LinkError> {
    let call = discover(origin);
    let mut exchange = http.request(
        ProtocolVersion::LATEST_MODERN,
        &Method::ServerDiscover,
        None,
        |id| call.params_for(Era::Modern, id),
    );
    loop {
        if let Event::Done(outcome) = exchange.next().await {
            return match outcome {
                Ok(outcome) => Ok(probe::discovered(&outcome)),
                // Legacy servers refuse the probe in many ways, also in plain text.
                Err(LinkError::Status(400..=499)) => Ok(Discovered::Legacy),
                Err(error) => Err(error),
            };
        }
    }
}

async fn initialize_http(http: &Http, origin: &Origin) -> Result<Initialized, LinkError> {
    let call = initialize(origin);
    let mut exchange = http.request(
        ProtocolVersion::LATEST_LEGACY,
        &Method::Initialize,
        None,
        |id| call.params_for(Era::Legacy, id),
    );
    let outcome = loop {
        if let Event::Done(outcome) = exchange.next().await {
            break outcome?;
        }
    };
    let initialized = probe::initialized(&outcome);
    if let Initialized::Legacy(peer) = &initialized {
        if let Some(session) = exchange.session() {
            http.set_session(session.clone());
        }
        http.notify(peer.version, &Method::Initialized, b"").await?;
    }
    Ok(initialized)
}

/// `InitializeRequest` (2025-11-25 lifecycle, "Initialization").
fn initialize(origin: &Origin) -> Call {
    let params = Raw::of(&serde_json::json!({
        "protocolVersion": ProtocolVersion::LATEST_LEGACY.as_str(),
        "capabilities": &origin.capabilities,
        "clientInfo": &origin.client_info,
    }));
    handshake(Method::Initialize, params, origin)
}

/// `DiscoverRequest` (2026-07-28 discover).
fn discover(origin: &Origin) -> Call {
    handshake(
        Method::ServerDiscover,
        Raw::of(&serde_json::Map::new()),
        origin,
    )
}

fn handshake(method: Method, params: Raw, origin: &Origin) -> Call {
    Call {
        origin: origin.clone(),
        ..Call::own(
            method,
            Params::parse(&params).unwrap_or_else(|_| Params::absent()),
            Patience {
                silence: Duration::MAX,
                max: Duration::MAX,
            },
        )
    }
}

fn contradiction() -> LinkError {
    LinkError::NotMcp("server/discover and initialize refer to each other".to_owned())
}

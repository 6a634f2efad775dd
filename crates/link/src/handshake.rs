//! The handshake: which era the server is of, and who it says it is. What answers mean is decided in
//! [`crate::probe`]; here is the sending and the waiting.

use std::{sync::Arc, time::Duration};

use manifold_protocol::{Era, Method, Outcome, Params, ProtocolVersion, Raw};

use crate::{
    LinkError,
    call::{Call, Origin, Patience},
    exchange::Event,
    http::Http,
    peer::Peer,
    probe::{self, Discovered, Initialized},
    stdio::{Pipes, StdioExchange},
};

/// How long a child may be silent after `server/discover` before `initialize` is written as well.
const PROBE_SILENCE: Duration = Duration::from_secs(10);

/// Greets a child. `hint` is the era that the last handshake has shown.
pub(crate) async fn greet_child(
    pipes: &Arc<Pipes>,
    hint: Option<Era>,
    origin: &Origin,
) -> Result<Peer, LinkError> {
    if hint == Some(Era::Legacy) {
        return greet_legacy_child(pipes, origin).await;
    }
    let mut probing = ask_child(pipes, Method::ServerDiscover, discover(origin)).await?;
    let answer = tokio::time::timeout(PROBE_SILENCE, stdio_outcome(&mut probing)).await;
    let Ok(outcome) = answer else {
        return greet_silent_child(pipes, probing, origin).await;
    };
    match probe::discovered(&outcome?) {
        Discovered::Modern(peer) => Ok(*peer),
        Discovered::Fault(error) => Err(error),
        Discovered::Legacy => greet_legacy_child(pipes, origin).await,
    }
}

/// Greets an HTTP server. `hint` is the era that the last handshake has shown.
pub(crate) async fn greet_http(
    http: &Http,
    hint: Option<Era>,
    origin: &Origin,
) -> Result<Peer, LinkError> {
    if hint == Some(Era::Legacy) {
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

// --- over a child's pipes ---

async fn greet_legacy_child(pipes: &Arc<Pipes>, origin: &Origin) -> Result<Peer, LinkError> {
    let mut hello = initialize_child(pipes, origin).await?;
    let outcome = stdio_outcome(&mut hello).await?;
    settle_child(pipes, origin, &outcome).await
}

/// Goes on after the answer to `initialize`.
async fn settle_child(
    pipes: &Arc<Pipes>,
    origin: &Origin,
    outcome: &Outcome,
) -> Result<Peer, LinkError> {
    match probe::initialized(outcome) {
        Initialized::Legacy(peer) => initialized_child(pipes, *peer).await,
        Initialized::Modern => discover_child(pipes, origin).await,
        Initialized::Fault(error) => Err(error),
    }
}

/// The child has not answered the probe. It may be slow, or deaf to methods it does not know: write
/// `initialize` as well, and believe whichever is answered with sense.
async fn greet_silent_child(
    pipes: &Arc<Pipes>,
    mut probing: StdioExchange,
    origin: &Origin,
) -> Result<Peer, LinkError> {
    let mut hello = initialize_child(pipes, origin).await?;
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
                return settle_child(pipes, origin, &outcome?).await;
            }
        }
    }
}

async fn ask_child(
    pipes: &Arc<Pipes>,
    method: Method,
    call: Call,
) -> Result<StdioExchange, LinkError> {
    let era = if method == Method::ServerDiscover {
        Era::Modern
    } else {
        Era::Legacy
    };
    pipes.request(&method, |id| call.params_for(era, id)).await
}

async fn initialize_child(pipes: &Arc<Pipes>, origin: &Origin) -> Result<StdioExchange, LinkError> {
    ask_child(pipes, Method::Initialize, initialize(origin)).await
}

async fn initialized_child(pipes: &Arc<Pipes>, peer: Peer) -> Result<Peer, LinkError> {
    pipes.notify(&Method::Initialized, b"").await?;
    Ok(peer)
}

async fn discover_child(pipes: &Arc<Pipes>, origin: &Origin) -> Result<Peer, LinkError> {
    let mut probing = ask_child(pipes, Method::ServerDiscover, discover(origin)).await?;
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

// --- over HTTP ---

async fn discover_http(http: &Http, origin: &Origin) -> Result<Discovered, LinkError> {
    let call = discover(origin);
    let mut exchange = http.relation().exchange(
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
    let mut exchange = http.relation().exchange(
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

// --- what is sent ---

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

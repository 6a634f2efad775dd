//! `/status` and `/status/sessions`.

use std::time::SystemTime;

use manifold_link::{Connector, Target};
use manifold_protocol::Kind;
use manifold_routing::{HeldLink, Principal, Router, Server, Session};
use serde::Serialize;

/// How many lines of stderr are shown.
const TAIL: usize = 20;

#[derive(Debug, Serialize)]
pub(crate) struct Status {
    version: &'static str,
    uptime_s: u64,
    draining: bool,
    sessions: usize,
    parked: usize,
    servers: Vec<ServerStatus>,
}

#[derive(Debug, Serialize)]
struct ServerStatus {
    name: String,
    transport: &'static str,
    state: &'static str,
    since: String,
    era: Option<&'static str>,
    protocol_version: Option<&'static str>,
    links: Vec<LinkStatus>,
    restarts: u64,
    next_retry_at: Option<String>,
    last_exit: Option<ExitStatus>,
    last_error: Option<String>,
    counts: Counts,
    stderr_tail: Vec<String>,
}

#[derive(Debug, Serialize)]
struct LinkStatus {
    id: u64,
    pid: Option<u32>,
    r#use: &'static str,
    in_flight: usize,
    started_at: String,
}

#[derive(Debug, Serialize)]
struct ExitStatus {
    code: Option<i32>,
    signal: Option<&'static str>,
    at: String,
}

#[derive(Debug, Serialize)]
struct Counts {
    tools: usize,
    prompts: usize,
    resources: usize,
    templates: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct SessionStatus {
    id: String,
    principal: Option<String>,
    protocol_version: &'static str,
    client: serde_json::Value,
    path: String,
    idle_s: u64,
    streams: usize,
    links: Vec<SessionLink>,
}

#[derive(Debug, Serialize)]
struct SessionLink {
    server: String,
    link: u64,
    downstream_session: Option<String>,
}

impl Counts {
    fn of(server: &Server) -> Self {
        let count = |kind| server.known().map_or(0, |known| known.lists.count(kind));
        Self {
            tools: count(Kind::Tool),
            prompts: count(Kind::Prompt),
            resources: count(Kind::Resource),
            templates: count(Kind::Template),
        }
    }
}

/// The state of everything.
pub(crate) fn status(router: &Router, uptime_s: u64, draining: bool) -> Status {
    Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_s,
        draining,
        sessions: router.sessions().len(),
        parked: 0,
        servers: router
            .servers()
            .iter()
            .map(|server| server_status(server))
            .collect(),
    }
}

/// The live client sessions.
pub(crate) fn sessions(router: &Router, path: &str) -> Vec<SessionStatus> {
    router
        .sessions()
        .all()
        .iter()
        .map(|session| session_status(router, session, path))
        .collect()
}

fn server_status(server: &Server) -> ServerStatus {
    let report = server.report();
    let links = server.links();
    let failure = report.health.failure();
    let spares = server.spares().waiting().into_iter();
    let spares = spares.map(|(id, pid, started)| LinkStatus {
        id: id.0,
        pid: Some(pid),
        r#use: "spare",
        in_flight: 0,
        started_at: time(started),
    });
    ServerStatus {
        name: server.name().to_string(),
        transport: transport(server.connector()),
        state: report.health.word(),
        since: time(report.since),
        era: report.version.map(|version| version.era().as_str()),
        protocol_version: report
            .version
            .map(manifold_protocol::ProtocolVersion::as_str),
        restarts: report.restarts,
        next_retry_at: failure.map(|failure| time(failure.until_time)),
        last_exit: server.last_exit().map(|exit| ExitStatus {
            code: exit.code,
            signal: exit.signal_name(),
            at: time(exit.at),
        }),
        last_error: report.last_error.map(|error| error.to_string()),
        counts: Counts::of(server),
        stderr_tail: server
            .log_tail(TAIL)
            .into_iter()
            .map(|line| line.text)
            .collect(),
        links: links
            .iter()
            .map(|(link, used)| LinkStatus {
                id: link.id().0,
                pid: link.child().map(|child| child.pid().get()),
                r#use: used.word(),
                in_flight: link.in_flight(),
                started_at: time(link.opened()),
            })
            .chain(spares)
            .collect(),
    }
}

fn transport(connector: &Connector) -> &'static str {
    match connector.target() {
        Target::Child { .. } => "stdio",
        Target::Http(_) => "streamable-http",
    }
}

fn session_status(router: &Router, session: &Session, path: &str) -> SessionStatus {
    let now = tokio::time::Instant::now();
    SessionStatus {
        // Never the id itself: whoever reads this could use it.
        id: manifold_protocol::names::fingerprint(&session.id().to_string()),
        principal: match session.principal() {
            Principal::Anonymous => None,
        },
        protocol_version: session.version().as_str(),
        client: serde_json::from_slice(session.client_info().as_bytes()).unwrap_or_default(),
        path: match router.scope_name(session.scope()) {
            None => path.to_owned(),
            Some(name) => format!("{path}/{name}"),
        },
        idle_s: session.idle_for(now).unwrap_or_default().as_secs(),
        streams: session.streams(),
        links: session
            .callers()
            .links()
            .iter()
            .filter_map(|(index, held)| {
                let server = router.servers().get(index.0)?;
                Some(session_link(server, held))
            })
            .collect(),
    }
}

fn session_link(server: &Server, held: &HeldLink) -> SessionLink {
    let link = held.link();
    SessionLink {
        server: server.name().to_string(),
        link: link.id().0,
        downstream_session: link.child().map(|child| child.pid().get().to_string()),
    }
}

fn time(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

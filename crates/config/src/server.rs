//! One server: `[servers.NAME]`.

use std::time::Duration;

use crate::fault::Refusal;
use crate::glob::Glob;
use crate::names::{Prefix, ServerName};
use crate::reader::{Entry, Placed, Shown, Span, without_places};
use crate::section::Section;
use crate::timeouts::{self, Timeouts};
use crate::transport::{self, Transport};

/// One server behind the gateway.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its name, unique.
    pub name: ServerName,
    /// Whether it is used at all.
    pub enabled: bool,
    /// What its exposed names begin with. Not shared with another enabled server, unless empty.
    pub prefix: Prefix,
    /// Who shares a link to it.
    pub isolation: Isolation,
    /// When it is started.
    pub start: Start,
    /// Whether readiness waits until it has been up once.
    pub required: bool,
    /// Links at once. At least 1.
    pub max_links: usize,
    /// Processes started ahead of need, at most `max_links`. 0 for an HTTP server.
    pub spare: usize,
    /// After how long without use a link is closed. Longer than zero.
    pub link_idle: Duration,
    /// How it is started again.
    pub restart: Restart,
    /// How a child is stopped. The defaults for an HTTP server, which has no use for it.
    pub stop: Stop,
    /// Whether errors that clients see carry the last line of stderr.
    pub expose_stderr: bool,
    /// Which of its tools are offered.
    pub tools: ToolFilter,
    /// The gateway's timeouts with this server's own applied.
    pub timeouts: Timeouts,
    /// What its lists say to modern clients where it says nothing itself.
    pub cache: Cache,
    /// How it is reached.
    pub transport: Transport,
}

/// Who shares a link to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Each client session and each principal has its own.
    Session,
    /// Everybody shares one.
    Shared,
}

/// When a server is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the gateway.
    Eager,
    /// When it is first needed.
    Lazy,
}

/// How long to wait before a server is started again. All are longer than zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// The first wait; each further one is longer.
    pub initial: Duration,
    /// The longest wait; not shorter than `initial`.
    pub max: Duration,
    /// After how long up the next wait is `initial` again.
    pub stable_after: Duration,
}

/// The ladder on which a child is stopped. Zero skips a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// From closing stdin to SIGTERM.
    pub close: Duration,
    /// From SIGTERM to SIGKILL.
    pub term: Duration,
}

/// Which tools of a server are offered, by their original names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFilter {
    /// A tool must match one of these …
    pub allow: Vec<Glob>,
    /// … and none of these.
    pub deny: Vec<Glob>,
}

/// What modern clients are told about keeping a server's lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// For how long a list may be kept; zero for not at all.
    pub ttl: Duration,
    /// By whom.
    pub scope: CacheScope,
}

/// Who may keep a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// The one who asked.
    Private,
    /// Anybody on the way.
    Public,
}

/// A server as read, with the places that rules about several servers need.
pub(crate) struct Read {
    /// `None` only where a fault was noted.
    pub(crate) server: Option<Server>,
    pub(crate) enabled: bool,
    /// The prefix, at its own place or at the name it comes from. `None` where a fault was noted.
    pub(crate) prefix: Option<Placed<Prefix>>,
    /// The ladder of a child, at the place of its key if it has one. `None` for an HTTP server.
    pub(crate) stop: Option<Placed<Stop>>,
    /// What holds for this server's shutdown, and where it is set, if anywhere.
    pub(crate) shutdown: (Duration, Option<Span>),
}

// === impl ToolFilter ===

impl ToolFilter {
    /// Whether the tool that its server calls `name` is offered.
    #[must_use]
    pub fn permits(&self, name: &str) -> bool {
        let matches = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(name));
        matches(&self.allow) && !matches(&self.deny)
    }
}

/// Reads the table of one server. `base` are the timeouts it inherits, `base_shutdown` is the place of the last of
/// them.
pub(crate) fn read(
    section: &mut Section<'_, '_>,
    entry: &Entry<'_>,
    base: &Timeouts,
    base_shutdown: Option<&Span>,
) -> Read {
    const ISOLATIONS: [(&str, Isolation); 2] = [
        ("session", Isolation::Session),
        ("shared", Isolation::Shared),
    ];
    const STARTS: [(&str, Start); 2] = [("eager", Start::Eager), ("lazy", Start::Lazy)];

    let name = ServerName::new(entry.key);
    if let Err(refusal) = &name {
        let refusal = refusal.clone().about(&entry.path);
        section.reader.refuse(&entry.key_span, refusal);
    }
    let transport = transport::read(section, entry.key, &entry.key_span);
    let stop_place = section.place_of("stop").unwrap_or(0..0);
    let stop = section.table("stop", read_stop);
    let prefix_is_set = section.place_of("prefix").is_some();
    let prefix = match section.parsed("prefix", Prefix::new) {
        None if prefix_is_set => None,
        None => name.as_ref().ok().map(|name| Placed {
            value: Prefix::from(name),
            span: entry.key_span.clone(),
        }),
        set => set,
    };
    let max_links = section.count("max_links", 1..=1_000_000, 64);
    let spare = section.count("spare", 0..=1_000_000, 0);
    if spare.value > max_links.value {
        let refusal = Refusal::new(format!(
            "must not be above max_links, which is {}",
            max_links.value
        ));
        section
            .reader
            .refuse(&spare.span, refusal.about(&section.path_of("spare")));
    }
    let (timeouts, own_shutdown) = section.table("timeouts", |table| timeouts::read(table, base));
    let enabled = section.flag("enabled", true);
    let isolation = section.choice("isolation", &ISOLATIONS, Isolation::Session);
    let start = section.choice("start", &STARTS, Start::Eager);
    let required = section.flag("required", false);
    let link_idle = section.duration("link_idle", Duration::from_secs(30 * 60));
    let restart = section.table("restart", read_restart);
    let expose_stderr = section.flag("expose_stderr", false);
    let tools = section.table("tools", read_tools);
    let cache = section.table("cache", read_cache);

    Read {
        enabled,
        prefix: prefix.clone(),
        stop: (!matches!(transport, Some(Transport::Http { .. }))).then(|| Placed {
            value: stop.clone(),
            span: stop_place,
        }),
        shutdown: (
            timeouts.shutdown,
            own_shutdown.or_else(|| base_shutdown.cloned()),
        ),
        server: name
            .ok()
            .zip(prefix)
            .zip(transport)
            .map(|((name, prefix), transport)| Server {
                name,
                enabled,
                prefix: prefix.value,
                isolation,
                start,
                required,
                max_links: max_links.value,
                spare: spare.value,
                link_idle,
                restart,
                stop,
                expose_stderr,
                tools,
                timeouts,
                cache,
                transport,
            }),
    }
}

fn read_restart(section: &mut Section<'_, '_>) -> Restart {
    let place = section
        .place_of("max")
        .or_else(|| section.place_of("initial"));
    let restart = Restart {
        initial: section.duration("initial", Duration::from_millis(500)),
        max: section.duration("max", Duration::from_secs(60)),
        stable_after: section.duration("stable_after", Duration::from_secs(60)),
    };
    if restart.max < restart.initial
        && let Some(place) = place
    {
        let refusal = Refusal::new("must not be shorter than `initial`");
        section
            .reader
            .refuse(&place, refusal.about(&section.path_of("max")));
    }
    restart
}

fn read_stop(section: &mut Section<'_, '_>) -> Stop {
    Stop {
        close: section.duration_or_zero("close", Duration::from_secs(2)),
        term: section.duration_or_zero("term", Duration::from_secs(3)),
    }
}

fn read_tools(section: &mut Section<'_, '_>) -> ToolFilter {
    let allow = section.list("allow", Shown::Yes, Glob::new);
    ToolFilter {
        // An empty list allows nothing; a missing one everything.
        allow: allow.map_or_else(|| vec![Glob::any()], |allow| without_places(Some(allow))),
        deny: without_places(section.list("deny", Shown::Yes, Glob::new)),
    }
}

fn read_cache(section: &mut Section<'_, '_>) -> Cache {
    const SCOPES: [(&str, CacheScope); 2] = [
        ("private", CacheScope::Private),
        ("public", CacheScope::Public),
    ];
    Cache {
        ttl: section.duration_or_zero("ttl", Duration::ZERO),
        scope: section.choice("scope", &SCOPES, CacheScope::Private),
    }
}

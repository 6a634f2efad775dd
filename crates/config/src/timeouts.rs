//! `[timeouts]`, for the gateway and for one server.

use std::time::Duration;

use crate::reader::Span;
use crate::section::Section;

/// How long things may take. Each is longer than zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP and TLS to an HTTP server.
    pub connect: Duration,
    /// From spawn to initialized, absolute.
    pub start: Duration,
    /// What a merged list waits for servers that are not listed yet, counted from start or reload.
    pub list: Duration,
    /// Silence on a request; progress resets it.
    pub request: Duration,
    /// A whole request, whatever happens.
    pub request_max: Duration,
    /// Between comment lines on an open SSE stream.
    pub keepalive: Duration,
    /// The whole of a shutdown. Longer than the stop ladder of any child, by more than a second.
    pub shutdown: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            start: Duration::from_secs(120),
            list: Duration::from_secs(5),
            request: Duration::from_secs(120),
            request_max: Duration::from_secs(15 * 60),
            keepalive: Duration::from_secs(15),
            shutdown: Duration::from_secs(25),
        }
    }
}

/// Reads the table on top of `base`; also gives the place of `shutdown`, if it is set here.
pub(crate) fn read(section: &mut Section<'_, '_>, base: &Timeouts) -> (Timeouts, Option<Span>) {
    let shutdown = section.placed_duration("shutdown");
    let timeouts = Timeouts {
        connect: section.duration("connect", base.connect),
        start: section.duration("start", base.start),
        list: section.duration("list", base.list),
        request: section.duration("request", base.request),
        request_max: section.duration("request_max", base.request_max),
        keepalive: section.duration("keepalive", base.keepalive),
        shutdown: shutdown
            .as_ref()
            .map_or(base.shutdown, |shutdown| shutdown.value),
    };
    (timeouts, shutdown.map(|shutdown| shutdown.span))
}

//! From what happens to what is counted.

use std::sync::Arc;

use manifold_front::{HttpEvent, HttpObserver};
use manifold_routing::events::{Event, Observer};
use manifold_telemetry::Metrics;

/// Feeds the metrics.
#[derive(Debug, Clone)]
pub(crate) struct Counting(pub(crate) Arc<Metrics>);

impl Observer for Counting {
    fn observe(&self, event: &Event<'_>) {
        let metrics = &self.0;
        match event {
            Event::CallStarted { server } => metrics.call_started(server.as_str()),
            Event::CallEnded {
                server,
                method,
                outcome,
                took,
            } => metrics.call_ended(
                server.map(manifold_protocol::ServerName::as_str),
                method.label(),
                outcome.word(),
                *took,
            ),
            Event::LinkStarted { server, reason } => {
                metrics.link_started(server.as_str(), reason.word());
            }
            Event::LinkOpened { server, took } => metrics.link_opened(server.as_str(), *took),
            Event::ChildExited {
                server,
                exit,
                stderr_lines,
                noise_lines,
            } => {
                let code = exit.code.map(|code| code.to_string()).unwrap_or_default();
                metrics.child_exited(
                    server.as_str(),
                    &code,
                    exit.signal_name().unwrap_or_default(),
                    *stderr_lines,
                    *noise_lines,
                );
            }
            Event::ServerTurned { server, up } => metrics.server_turned(server.as_str(), *up),
            Event::Listed {
                server,
                kind,
                items,
            } => metrics.listed(server.as_str(), kind.word(), *items),
            Event::Merged { kind, conflicts } => metrics.merged(kind.word(), *conflicts),
            Event::SessionEnded { lasted } => metrics.session_ended(*lasted),
        }
    }
}

impl HttpObserver for Counting {
    fn observe(&self, event: &HttpEvent) {
        match event {
            HttpEvent::Answered { verb, status } => self.0.http_answered(verb, status.as_str()),
        }
    }
}

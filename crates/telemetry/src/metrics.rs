//! All metrics, under the names of the contract. Labels come from the configuration and from fixed sets: no
//! client can make a series.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use prometheus::{
    Encoder, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder, process_collector::ProcessCollector,
};

use crate::TelemetryError;

/// From 50 µs to 15 min: a look-up in memory, and the longest call there may be.
const BUCKETS: [f64; 18] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 5.0, 30.0, 120.0, 900.0,
];
/// From a minute to a week.
const SESSION_BUCKETS: [f64; 8] = [
    1.0, 60.0, 300.0, 1_800.0, 7_200.0, 28_800.0, 86_400.0, 604_800.0,
];

/// What is read off a server when somebody scrapes.
#[derive(Debug, Clone, Copy)]
pub struct ServerSample<'a> {
    /// The server.
    pub server: &'a str,
    /// How many links are up.
    pub links: usize,
    /// Lines on stderr of the children that live.
    pub stderr_lines: u64,
    /// Lines of noise of the children that live.
    pub noise_lines: u64,
}

/// The metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    sessions: IntGauge,
    session_duration: Histogram,
    requests: IntCounterVec,
    request_duration: HistogramVec,
    in_flight: IntGaugeVec,
    server_up: IntGaugeVec,
    server_starts: IntCounterVec,
    server_start: HistogramVec,
    links: IntGaugeVec,
    child_exits: IntCounterVec,
    noise: IntCounterVec,
    stderr: IntCounterVec,
    catalog_items: IntGaugeVec,
    catalog_conflicts: IntGaugeVec,
    http_requests: IntCounterVec,
    /// Lines of children that have ended, by server.
    ended: Mutex<HashMap<String, Lines>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Lines {
    stderr: u64,
    noise: u64,
}

impl Metrics {
    /// Registers everything.
    ///
    /// # Errors
    /// When a metric is described badly, which a test rules out.
    pub fn new(version: &str, revision: &str) -> Result<Self, TelemetryError> {
        let registry = Registry::new();
        let build = Gauge::with_opts(
            Opts::new(
                "manifold_build_info",
                "1, labelled with the version that runs.",
            )
            .const_label("version", version)
            .const_label("revision", revision),
        )?;
        build.set(1.0);
        registry.register(Box::new(build))?;
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let make = Maker(&registry);
        Ok(Self {
            sessions: make.gauge("manifold_sessions", "Live client sessions.")?,
            session_duration: make.histogram(
                "manifold_session_duration_seconds",
                "How long client sessions lasted.",
                &SESSION_BUCKETS,
            )?,
            requests: make.counters(
                "manifold_requests_total",
                "Requests for a server, by how they ended.",
                &["server", "method", "outcome"],
            )?,
            request_duration: make.histograms(
                "manifold_request_duration_seconds",
                "Requests for a server, from routing to the end.",
                &["server", "method"],
            )?,
            in_flight: make.gauges("manifold_in_flight", "Calls in flight.", &["server"])?,
            server_up: make.gauges(
                "manifold_server_up",
                "Whether the server's catalog link is ready.",
                &["server"],
            )?,
            server_starts: make.counters(
                "manifold_server_starts_total",
                "Links that were begun, by why.",
                &["server", "reason"],
            )?,
            server_start: make.histograms(
                "manifold_server_start_seconds",
                "How long making a link took, to the end of the handshake.",
                &["server"],
            )?,
            links: make.gauges("manifold_links", "Links that are up.", &["server"])?,
            child_exits: make.counters(
                "manifold_child_exits_total",
                "Children that ended, by exit code or signal.",
                &["server", "code", "signal"],
            )?,
            noise: make.counters(
                "manifold_stdout_noise_total",
                "Lines on a child's stdout that were no messages.",
                &["server"],
            )?,
            stderr: make.counters(
                "manifold_stderr_lines_total",
                "Lines on a child's stderr.",
                &["server"],
            )?,
            catalog_items: make.gauges(
                "manifold_catalog_items",
                "Items that a server lists.",
                &["server", "kind"],
            )?,
            catalog_conflicts: make.gauges(
                "manifold_catalog_conflicts",
                "Exposed names that are claimed more than once.",
                &["kind"],
            )?,
            http_requests: make.counters(
                "manifold_http_requests_total",
                "HTTP requests, by verb and status.",
                &["method", "status"],
            )?,
            ended: Mutex::default(),
            registry,
        })
    }

    /// The text of a scrape, with what is read off at this moment.
    ///
    /// # Errors
    /// When it can't be encoded.
    pub fn scrape(
        &self,
        sessions: usize,
        servers: &[ServerSample<'_>],
    ) -> Result<String, TelemetryError> {
        self.sessions.set(signed(sessions));
        for sample in servers {
            self.links
                .with_label_values(&[sample.server])
                .set(signed(sample.links));
            let ended = self.ended(sample.server);
            let labels = [sample.server];
            raise(&self.stderr, &labels, ended.stderr + sample.stderr_lines);
            raise(&self.noise, &labels, ended.noise + sample.noise_lines);
        }
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// A call was handed to a server.
    pub fn call_started(&self, server: &str) {
        self.in_flight.with_label_values(&[server]).inc();
    }

    /// A call ended; without a server it was never handed to one.
    pub fn call_ended(&self, server: Option<&str>, method: &str, outcome: &str, took: Duration) {
        let name = server.unwrap_or("-");
        self.requests
            .with_label_values(&[name, method, outcome])
            .inc();
        self.request_duration
            .with_label_values(&[name, method])
            .observe(took.as_secs_f64());
        if server.is_some() {
            self.in_flight.with_label_values(&[name]).dec();
        }
    }

    /// A link is about to be made.
    pub fn link_started(&self, server: &str, reason: &str) {
        self.server_starts
            .with_label_values(&[server, reason])
            .inc();
    }

    /// A link was made.
    pub fn link_opened(&self, server: &str, took: Duration) {
        self.server_start
            .with_label_values(&[server])
            .observe(took.as_secs_f64());
    }

    /// A child ended, having written so many lines.
    pub fn child_exited(
        &self,
        server: &str,
        code: &str,
        signal: &str,
        stderr_lines: u64,
        noise_lines: u64,
    ) {
        self.child_exits
            .with_label_values(&[server, code, signal])
            .inc();
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = ended.entry(server.to_owned()).or_default();
        lines.stderr += stderr_lines;
        lines.noise += noise_lines;
    }

    /// A server's catalog link came up or went down.
    pub fn server_turned(&self, server: &str, up: bool) {
        self.server_up
            .with_label_values(&[server])
            .set(i64::from(up));
    }

    /// A server was listed.
    pub fn listed(&self, server: &str, kind: &str, items: usize) {
        self.catalog_items
            .with_label_values(&[server, kind])
            .set(signed(items));
    }

    /// The catalog was merged.
    pub fn merged(&self, kind: &str, conflicts: usize) {
        self.catalog_conflicts
            .with_label_values(&[kind])
            .set(signed(conflicts));
    }

    /// A client session ended.
    pub fn session_ended(&self, lasted: Duration) {
        self.session_duration.observe(lasted.as_secs_f64());
    }

    /// An HTTP request was answered.
    pub fn http_answered(&self, verb: &str, status: &str) {
        self.http_requests.with_label_values(&[verb, status]).inc();
    }

    fn ended(&self, server: &str) -> Lines {
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(server)
            .copied()
            .unwrap_or_default()
    }
}

/// Brings a counter up to `total`. A child that is just ending may be counted on neither side for a moment:
/// then it stays where it is, since a counter never falls.
fn raise(counters: &IntCounterVec, labels: &[&str], total: u64) {
    let counter = counters.with_label_values(labels);
    counter.inc_by(total.saturating_sub(counter.get()));
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Makes metrics and registers them.
struct Maker<'a>(&'a Registry);

impl Maker<'_> {
    fn register<C: prometheus::core::Collector + Clone + 'static>(
        &self,
        collector: C,
    ) -> Result<C, TelemetryError> {
        self.0.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, TelemetryError> {
        self.register(IntGauge::new(name, help)?)
    }

    fn gauges(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntGaugeVec, TelemetryError> {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, TelemetryError> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn histogram(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
    ) -> Result<Histogram, TelemetryError> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register(Histogram::with_opts(options)?)
    }

    fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<HistogramVec, TelemetryError> {
        let options = HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
        self.register(HistogramVec::new(options, labels)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_has_every_metric_and_counters_never_fall() {
        let metrics = Metrics::new("1.2.3", "abc").unwrap();
        metrics.call_started("s");
        metrics.call_ended(Some("s"), "tools/call", "ok", Duration::from_millis(1));
        metrics.call_ended(None, "tools/call", "rejected", Duration::ZERO);
        metrics.link_started("s", "first");
        metrics.link_opened("s", Duration::from_secs(1));
        metrics.server_turned("s", true);
        metrics.listed("s", "tool", 5);
        metrics.merged("tool", 0);
        metrics.session_ended(Duration::from_secs(5));
        metrics.http_answered("POST", "200");
        let live = |stderr_lines| ServerSample {
            server: "s",
            links: 1,
            stderr_lines,
            noise_lines: 2,
        };
        let text = metrics.scrape(3, &[live(10)]).unwrap();
        for line in [
            "manifold_sessions 3",
            "manifold_requests_total{method=\"tools/call\",outcome=\"ok\",server=\"s\"} 1",
            "manifold_requests_total{method=\"tools/call\",outcome=\"rejected\",server=\"-\"} 1",
            "manifold_in_flight{server=\"s\"} 0",
            "manifold_server_up{server=\"s\"} 1",
            "manifold_server_starts_total{reason=\"first\",server=\"s\"} 1",
            "manifold_links{server=\"s\"} 1",
            "manifold_stdout_noise_total{server=\"s\"} 2",
            "manifold_stderr_lines_total{server=\"s\"} 10",
            "manifold_catalog_items{kind=\"tool\",server=\"s\"} 5",
            "manifold_catalog_conflicts{kind=\"tool\"} 0",
            "manifold_http_requests_total{method=\"POST\",status=\"200\"} 1",
            "manifold_build_info{revision=\"abc\",version=\"1.2.3\"} 1",
            "process_open_fds",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        // The child ends: for a moment it is counted nowhere, then as ended.
        let text = metrics
            .scrape(
                3,
                &[ServerSample {
                    stderr_lines: 0,
                    ..live(0)
                }],
            )
            .unwrap();
        assert!(text.contains("manifold_stderr_lines_total{server=\"s\"} 10"));
        metrics.child_exited("s", "0", "", 12, 2);
        let text = metrics.scrape(3, &[live(1)]).unwrap();
        assert!(text.contains("manifold_stderr_lines_total{server=\"s\"} 13"));
        assert!(text.contains("manifold_child_exits_total{code=\"0\",server=\"s\",signal=\"\"} 1"));
    }
}

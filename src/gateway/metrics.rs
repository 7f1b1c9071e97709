//! Figures for Prometheus.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByServer {
    server: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    server: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStatus {
    status: String,
}

/// Counters and gauges of one gateway.
pub(crate) struct Metrics {
    registry: Registry,
    calls: Family<ByOutcome, Counter>,
    call_seconds: Family<ByServer, Histogram, fn() -> Histogram>,
    searches: Family<ByStatus, Counter>,
    refusals: Counter,
    announcements: Counter,
    sessions: Gauge,
    tools: Family<ByServer, Gauge>,
    listings: Family<ByServer, Counter>,
    failures: Family<ByServer, Counter>,
    tokens_sent: Counter<u64, AtomicU64>,
    tokens_naive: Counter<u64, AtomicU64>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("toolrack");
        let metrics = Self {
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(seconds as fn() -> Histogram),
            searches: Family::default(),
            refusals: Counter::default(),
            announcements: Counter::default(),
            sessions: Gauge::default(),
            tools: Family::default(),
            listings: Family::default(),
            failures: Family::default(),
            tokens_sent: Counter::default(),
            tokens_naive: Counter::default(),
            registry: Registry::default(),
        };
        registry.register("calls", "Tool calls by outcome", metrics.calls.clone());
        registry.register("call_seconds", "Time of tool calls", metrics.call_seconds.clone());
        registry.register("searches", "Searches by outcome", metrics.searches.clone());
        registry.register("refusals", "Calls that policy refused", metrics.refusals.clone());
        registry.register(
            "announcements",
            "Changes of the tool list that were announced",
            metrics.announcements.clone(),
        );
        registry.register("sessions", "Sessions that are open", metrics.sessions.clone());
        registry.register("tools", "Tools that can be found", metrics.tools.clone());
        registry.register("listings", "Times the tools were listed", metrics.listings.clone());
        registry.register(
            "server_failures",
            "Times a server went away or was not reached",
            metrics.failures.clone(),
        );
        registry.register(
            "list_tokens_sent",
            "Estimated tokens of the tool lists that were sent",
            metrics.tokens_sent.clone(),
        );
        registry.register(
            "list_tokens_naive",
            "Estimated tokens that the whole catalog would have taken instead",
            metrics.tokens_naive.clone(),
        );
        Self { registry, ..metrics }
    }

    pub(crate) fn called(&self, server: &str, outcome: &'static str, time: Duration) {
        let server = server.to_owned();
        self.calls.get_or_create(&ByOutcome { server: server.clone(), outcome }).inc();
        self.call_seconds.get_or_create(&ByServer { server }).observe(time.as_secs_f64());
    }

    pub(crate) fn searched(&self, status: String) {
        self.searches.get_or_create(&ByStatus { status }).inc();
    }

    pub(crate) fn refused(&self) {
        self.refusals.inc();
    }

    pub(crate) fn announced(&self) {
        self.announcements.inc();
    }

    pub(crate) fn sessions(&self, open: usize) {
        self.sessions.set(open as i64);
    }

    pub(crate) fn indexed(&self, server: &str, tools: usize) {
        self.tools.get_or_create(&ByServer { server: server.to_owned() }).set(tools as i64);
    }

    pub(crate) fn listed(&self, server: &str) {
        self.listings.get_or_create(&ByServer { server: server.to_owned() }).inc();
    }

    pub(crate) fn went_away(&self, server: &str) {
        self.failures.get_or_create(&ByServer { server: server.to_owned() }).inc();
    }

    pub(crate) fn list_sent(&self, sent: usize, naive: usize) {
        self.tokens_sent.inc_by(sent as u64);
        self.tokens_naive.inc_by(naive as u64);
    }

    /// The figures in the text form of OpenMetrics.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

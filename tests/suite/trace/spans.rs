//! Spans of the `tracing` crate.

use super::*;

/// Spans and events as text, one line each: name and fields.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(super) fn lines(&self, part: &str) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|line| line.contains(part)).cloned().collect()
    }
}

struct Fields<'a>(&'a mut String);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        *self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("toolrack")
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut line = span.metadata().name().to_owned();
        span.record(&mut Fields(&mut line));
        let mut lines = self.0.lock().unwrap();
        lines.push(line);
        tracing::span::Id::from_u64(lines.len() as u64)
    }
    fn record(&self, span: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut Fields(&mut self.0.lock().unwrap()[span.into_u64() as usize - 1]));
    }
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::from("event");
        event.record(&mut Fields(&mut line));
        self.0.lock().unwrap().push(line);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn spans_tell_the_figures_of_each_call() {
    let log = Log::default();
    // Spans that are met for the first time while other tests run may count as unwanted for good.
    whole_run(&office(), TraceLevel::Run);
    tracing::subscriber::with_default(log.clone(), || whole_run(&office(), TraceLevel::Run));
    let one = |name: &str| {
        let lines = log.lines(name);
        lines.into_iter().find(|line| line.starts_with(name)).unwrap_or_default()
    };
    let turn = one("turn");
    for field in ["outcome=", "admitted=", "tokens.naive=", "tokens.sent=", "tokens.saved="] {
        assert!(turn.contains(field), "{turn}");
    }
    assert!(one("select").contains("eligible=206"), "{}", one("select"));
    assert!(one("find_tool").contains("status="), "{}", one("find_tool"));
    assert!(one("authorize").contains("verdict=\"run\""), "{}", one("authorize"));
    assert!(one("refresh").contains("added=1"), "{}", one("refresh"));
    for stage in ["step", "filter", "rank", "dense", "lexical", "fusion", "gate"] {
        assert!(!one(stage).is_empty(), "{stage}");
    }
    let admission = one("admission");
    assert!(admission.contains("admitted=") && admission.contains("refused="), "{admission}");
    assert!(one("eviction").contains("why="), "{}", one("eviction"));
    // What people and models say is in the trace only.
    assert!(log.lines("invoices did we send").is_empty());
}

//! What a server of ours tells while it runs: lines on standard error, and spans if somebody
//! collects them.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// The variable that says how much is told.
const VARIABLE: &str = "TOOLRACK_LOG";
/// What is told of others than ourselves unless it is asked for by their names. The protocol's library
/// takes much for an error that is none here, and tells whole messages, with what is secret in them.
const OTHERS: &str = "error,opentelemetry=warn";

/// The log of the process.
pub(crate) struct Log {
    #[cfg(feature = "otel")]
    spans: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
}

impl Log {
    /// Begins the log, to standard error alone: standard output belongs to the protocol.
    pub(crate) fn begin() -> anyhow::Result<Self> {
        let filter = EnvFilter::new(directives(&std::env::var(VARIABLE).unwrap_or_default()));
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .with_target(false)
            .with_filter(filter);
        let registry = tracing_subscriber::registry().with(lines);
        #[cfg(feature = "otel")]
        {
            let spans = otel::provider()?;
            registry.with(spans.as_ref().map(otel::layer)).try_init()?;
            Ok(Self { spans })
        }
        #[cfg(not(feature = "otel"))]
        {
            registry.try_init()?;
            Ok(Self {})
        }
    }

    /// Sends what is not sent yet.
    pub(crate) fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(spans) = self.spans
            && let Err(error) = spans.shutdown()
        {
            tracing::warn!("the last spans were not exported: {error}");
        }
    }
}

/// What is asked for in `text`: a level without a name is of ourselves.
fn directives(text: &str) -> String {
    let asked: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if asked.contains(&"off") {
        return asked.join(",");
    }
    let mut all = vec![OTHERS.to_owned(), "toolrack=info".to_owned()];
    let level = |word: &str| word.parse::<tracing::Level>().is_ok();
    all.extend(asked.into_iter().map(|word| match level(word) {
        true => format!("toolrack={word}"),
        false => word.to_owned(),
    }));
    all.join(",")
}

/// Spans to a collector, by the variables that OpenTelemetry has for it.
#[cfg(feature = "otel")]
mod otel {
    use anyhow::Context as _;
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::EnvFilter;
    use tracing_subscriber::layer::Layer;
    use tracing_subscriber::registry::LookupSpan;

    const ENDPOINTS: [&str; 2] =
        ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

    /// Where spans go; `None` when no endpoint is set.
    pub(super) fn provider() -> anyhow::Result<Option<SdkTracerProvider>> {
        if ENDPOINTS.iter().all(|name| std::env::var_os(name).is_none()) {
            return Ok(None);
        }
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .build()
            .with_context(|| format!("{} is no address: write http://HOST:PORT", ENDPOINTS[1]))?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("toolrack");
        }
        let builder = SdkTracerProvider::builder().with_resource(resource.build());
        Ok(Some(builder.with_batch_exporter(exporter).build()))
    }

    /// Our own spans alone: those of the HTTP client that exports them would export for ever.
    pub(super) fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("toolrack"))
            .with_filter(EnvFilter::new("off,toolrack=debug"))
    }
}

#[cfg(test)]
mod tests {
    use super::directives;

    #[test]
    fn a_level_alone_is_of_ourselves() {
        let others = "error,opentelemetry=warn,toolrack=info";
        assert_eq!(directives(""), others);
        assert_eq!(directives("trace"), format!("{others},toolrack=trace"));
        assert_eq!(directives("error, rmcp=debug"), format!("{others},toolrack=error,rmcp=debug"));
        assert_eq!(directives("off"), "off");
    }
}

//! Spans that are begun and ended, and their ids.

use crate::collector::{Collector, LastError};
use crate::config::{Config, WrongConfig};
use crate::limits::{LAST_TIME, MAX_ATTRIBUTES, MAX_TEXT_BYTES};
use crate::queue::{Counting, Counts, Queue};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags,
    TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, Key, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanProcessor};
use pandofs_types::TraceContext;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The service of a process that was not given a name: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` give one.
const UNNAMED: &str = "unknown_service";
const SERVICE_NAME: Key = Key::from_static_str("service.name");

/// Part of a span in what it is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something is done here.
    Inside,
    /// Somebody else is asked, and waited for.
    Asks,
    /// Somebody else has asked.
    Answers,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Cut at [`MAX_TEXT_BYTES`].
    Text(String),
    /// A whole number.
    Number(i64),
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Value {
        Value::Number(i64::from(number))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(i64::from(number))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<Value> for opentelemetry::Value {
    fn from(value: Value) -> opentelemetry::Value {
        match value {
            Value::Text(mut text) => {
                let mut end = MAX_TEXT_BYTES.min(text.len());
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                text.truncate(end);
                text.into()
            }
            Value::Number(number) => number.into(),
        }
    }
}

/// Maker of a process's spans. Clones make spans of the same process.
#[derive(Clone)]
pub struct Spans {
    tracer: SdkTracer,
    /// The only one that gets spans: the provider has it, too.
    queue: Arc<Queue>,
    counting: Arc<Counting>,
}

/// Those of one start are one.
impl PartialEq for Spans {
    fn eq(&self, other: &Spans) -> bool {
        Arc::ptr_eq(&self.queue, &other.queue)
    }
}

impl Eq for Spans {}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").finish_non_exhaustive()
    }
}

/// The provider takes its processor for itself.
#[derive(Debug)]
struct Shared(Arc<Queue>);

impl SpanProcessor for Shared {
    fn on_start(&self, span: &mut opentelemetry_sdk::trace::Span, context: &Context) {
        self.0.on_start(span, context);
    }

    fn on_end(&self, span: opentelemetry_sdk::trace::SpanData) {
        self.0.on_end(span);
    }

    fn force_flush(&self) -> opentelemetry_sdk::error::OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(
        &self,
        limit: std::time::Duration,
    ) -> opentelemetry_sdk::error::OTelSdkResult {
        self.0.shutdown_with_timeout(limit)
    }
}

impl Spans {
    /// Begins to send spans of a process that is called `service` unless the environment names it, with these attributes.
    /// To be called in the process that makes them: a thread sends them.
    ///
    /// # Errors
    /// [`WrongConfig::Library`]
    pub fn start(
        config: &Config,
        service: &'static str,
        attributes: Vec<(&'static str, Value)>,
    ) -> Result<Spans, WrongConfig> {
        let failed = |error: &dyn fmt::Display| WrongConfig::Library(error.to_string());
        let last_error = LastError::default();
        let client = Collector {
            time: config.time,
            last_error: last_error.clone(),
        };
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(&config.endpoint)
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(config.time)
            .build()
            .map_err(|error| failed(&error))?;
        let resource = resource(service, attributes);
        opentelemetry_sdk::trace::SpanExporter::set_resource(&mut exporter, &resource);
        let counting = Arc::new(Counting::default());
        let endpoint = config.endpoint.clone();
        let queue = Queue::start(exporter, endpoint, last_error, Arc::clone(&counting))
            .map_err(|error| failed(&error))?;
        let queue = Arc::new(queue);
        let mut provider = SdkTracerProvider::builder()
            .with_span_processor(Shared(Arc::clone(&queue)))
            .with_max_attributes_per_span(MAX_ATTRIBUTES)
            .with_resource(resource);
        if let Some(ratio) = config.ratio {
            let begun = Sampler::TraceIdRatioBased(ratio);
            provider = provider.with_sampler(Sampler::ParentBased(Box::new(begun)));
        }
        Ok(Spans {
            tracer: provider.build().tracer("pandofs"),
            queue,
            counting,
        })
    }

    /// Begins a span of this trace, or a trace, now. `None` if it is not recorded.
    pub fn begin(
        &self,
        parent: Option<TraceContext>,
        kind: Kind,
        name: impl Into<Cow<'static, str>>,
    ) -> Option<Span> {
        let context = parent.map_or_else(Context::new, |parent| {
            // Only what is recorded is passed on.
            let flags = TraceFlags::SAMPLED;
            let trace = TraceId::from_bytes(parent.trace);
            let span = SpanId::from_bytes(parent.span);
            let remote = SpanContext::new(trace, span, flags, true, TraceState::NONE);
            Context::new().with_remote_span_context(remote)
        });
        let kind = match kind {
            Kind::Inside => SpanKind::Internal,
            Kind::Asks => SpanKind::Client,
            Kind::Answers => SpanKind::Server,
        };
        let builder = SpanBuilder::from_name(name).with_kind(kind);
        let span = self.tracer.build_with_context(builder, &context);
        span.span_context().is_sampled().then_some(Span(span))
    }

    /// Those so far.
    pub fn counts(&self) -> Counts {
        self.counting.read()
    }

    /// Waits until what has ended is with the collector, for [`LAST_TIME`] at most: for the end of a process.
    pub fn flush(&self) {
        if self.queue.shutdown_with_timeout(LAST_TIME).is_err() {
            tracing::debug!("the last spans were not sent within {LAST_TIME:?}");
        }
    }
}

fn resource(service: &'static str, attributes: Vec<(&'static str, Value)>) -> Resource {
    let attributes = attributes
        .into_iter()
        .map(|(key, value)| KeyValue::new(key, opentelemetry::Value::from(value)));
    let resource = Resource::builder().with_attributes(attributes);
    let found = Resource::builder().build();
    let is_unnamed = found
        .get_ref(&SERVICE_NAME)
        .is_none_or(|name| name.as_str().starts_with(UNNAMED));
    match is_unnamed {
        true => resource.with_service_name(service).build(),
        false => resource.build(),
    }
}

/// A span that is recorded. It ends when it is dropped.
#[derive(Debug)]
pub struct Span(opentelemetry_sdk::trace::Span);

impl Span {
    /// For its parts, wherever they are.
    pub fn context(&self) -> TraceContext {
        let context = self.0.span_context();
        TraceContext {
            trace: context.trace_id().to_bytes(),
            span: context.span_id().to_bytes(),
        }
    }

    /// Says something of it.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        let value: Value = value.into();
        self.0
            .set_attribute(KeyValue::new(key, opentelemetry::Value::from(value)));
    }

    /// As [`Span::set`], for keys that are made.
    pub fn set_by(&mut self, key: String, value: impl Into<Value>) {
        let value: Value = value.into();
        self.0
            .set_attribute(KeyValue::new(key, opentelemetry::Value::from(value)));
    }

    /// It has not come to what it was begun for.
    pub fn fail(&mut self, why: String) {
        self.0.set_status(Status::error(why));
    }
}

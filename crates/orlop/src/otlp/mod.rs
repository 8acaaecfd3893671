//! Traces for OpenTelemetry: finished calls are sent as spans to a collector, by OTLP over HTTP
//! with JSON.
//!
//! What a collector does not take in time is dropped: pods never wait for it.

#[cfg(feature = "otlp")]
mod export;
#[cfg(feature = "otlp")]
mod spans;

#[cfg(feature = "otlp")]
pub(crate) use export::export;

/// Whether this build can export traces.
pub(crate) const BUILT_IN: bool = cfg!(feature = "otlp");

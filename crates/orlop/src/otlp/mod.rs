//! Traces for OpenTelemetry: finished calls are sent as spans to a collector by OTLP with protobuf, over HTTP or gRPC.
//!
//! Spans that a collector does not accept in time are dropped and counted: pods never wait for it.

mod collector;
mod exporting;
mod message;
mod spans;

pub(crate) use collector::Collector;
pub(crate) use exporting::Traced;

//! Metrics of calls.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tonic::Code;

use super::method::Method;

/// Counters of all calls, by method.
#[derive(Debug)]
pub(crate) struct CallMetrics {
    started: Family<MethodLabels, Counter>,
    handled: Family<OutcomeLabels, Counter>,
    in_flight: Family<MethodLabels, Gauge>,
    duration: Family<MethodLabels, Histogram, fn() -> Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabels {
    service: &'static str,
    method: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    service: &'static str,
    method: &'static str,
    code: &'static str,
}

/// Buckets from a list in memory to the pull of a large image.
const BUCKETS: [f64; 16] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0,
    300.0,
];

impl CallMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Arc<Self> {
        let metrics = Self {
            started: Family::default(),
            handled: Family::default(),
            in_flight: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
        };
        registry.register(
            "orlop_rpc_started",
            "Number of CRI calls started",
            metrics.started.clone(),
        );
        registry.register(
            "orlop_rpc_handled",
            "Number of CRI calls finished, by gRPC code",
            metrics.handled.clone(),
        );
        registry.register(
            "orlop_rpc_in_flight",
            "Number of running CRI calls and open streams",
            metrics.in_flight.clone(),
        );
        registry.register(
            "orlop_rpc_duration_seconds",
            "Duration of CRI calls, without streams",
            metrics.duration.clone(),
        );
        Arc::new(metrics)
    }

    /// Counts the start of a call. The returned counter counts its end.
    pub(crate) fn begin(self: &Arc<Self>, method: Method) -> CallCounter {
        let labels = labels(method);
        self.started.get_or_create(&labels).inc();
        self.in_flight.get_or_create(&labels).inc();
        CallCounter(Arc::clone(self))
    }
}

/// Counter of one call.
#[derive(Debug)]
pub(crate) struct CallCounter(Arc<CallMetrics>);

impl CallCounter {
    /// Counts the end of a call, with its duration if that is meaningful.
    pub(crate) fn finish(&self, method: Method, code: Code, duration: Option<Duration>) {
        let labels = labels(method);
        self.0.in_flight.get_or_create(&labels).dec();
        if let Some(duration) = duration {
            self.0
                .duration
                .get_or_create(&labels)
                .observe(duration.as_secs_f64());
        }
        let MethodLabels { service, method } = labels;
        let outcome = OutcomeLabels {
            service,
            method,
            code: code_name(code),
        };
        self.0.handled.get_or_create(&outcome).inc();
    }
}

fn labels(method: Method) -> MethodLabels {
    MethodLabels {
        service: method.service,
        method: method.name,
    }
}

/// Returns the name of a code in the gRPC specification.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

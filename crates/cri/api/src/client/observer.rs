//! The interface for code that observes the calls of a client.

use std::time::Duration;

use tonic::Code;

use crate::Rpc;

/// Told about calls: for metrics, traces, `--debug`.
pub trait Observer: Send + Sync {
    /// A call begins.
    fn started(&self, _rpc: Rpc) {}

    /// A call ended. A call whose future is dropped doesn't.
    fn ended(&self, rpc: Rpc, took: Duration, outcome: Outcome);
}

/// How a call ended.
pub type Outcome = Result<(), Code>;

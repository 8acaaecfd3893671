//! The interface for code that observes the calls of a client.

use std::time::Duration;

use tonic::Code;

use crate::Rpc;

/// Observer of calls, for metrics, traces and `--debug`.
pub trait Observer: Send + Sync {
    /// Called when a call starts.
    fn started(&self, _rpc: Rpc) {}

    /// Called when a call ends; not called if the call's future is dropped.
    fn ended(&self, rpc: Rpc, took: Duration, outcome: Outcome);
}

/// The outcome of a call.
pub type Outcome = Result<(), Code>;

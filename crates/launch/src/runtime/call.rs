//! From a keeper's failure to a runtime's.

use orlop_wire::{Failure, FailureKind};

use super::log::explanation;
use crate::error::{RuntimeError, RuntimeFault};

/// What may limit a keeper, which says only what the system said.
const WAY_OUT: &str = "raise what limits processes (TasksMax or pids.max of the keepers' cgroup or of one above it, \
                       kernel.pid_max), memory (MemoryMax, memory.max) or open files (LimitNOFILE, fs.file-max)";

/// The runtime's failure in `failure`, if that is what it is about. The caller knows the runtime's
/// name.
pub(crate) fn failure_of_call(doing: &str, failure: &Failure) -> Option<RuntimeError> {
    let fault = match failure.kind {
        FailureKind::RuntimeMissing => RuntimeFault::Missing,
        FailureKind::Exhausted => RuntimeFault::Exhausted,
        FailureKind::RuntimeFailed => RuntimeFault::Failed,
        FailureKind::TimedOut => RuntimeFault::TimedOut,
        _ => return None,
    };
    let said = explanation(&failure.runtime_log, &failure.runtime_output);
    let detail = match (fault, said) {
        (RuntimeFault::Failed, Some(said)) => said,
        (RuntimeFault::TimedOut, Some(said)) => format!("{}; it said: {said}", failure.message),
        (RuntimeFault::Exhausted, _) => format!("{}; {WAY_OUT}", failure.message),
        _ => failure.message.clone(),
    };
    Some(RuntimeError {
        runtime: String::new(),
        action: doing.to_owned(),
        fault,
        detail,
    })
}

//! Conversion of a keeper's failure to a runtime's.

use orlop_keeper_protocol::{Failure, FailureKind};

use super::log::{explanation, is_want};
use crate::error::{RuntimeError, RuntimeFault};

/// Remedy if a keeper reaches a limit: the keeper only reports the error of the system.
const WAY_OUT: &str = "raise the limit of processes (TasksMax or pids.max of the keepers' cgroup or a \
     parent, kernel.pid_max), memory (MemoryMax, memory.max) or open files (LimitNOFILE, fs.file-max)";

/// Remedy if a runtime reaches a limit, in the cgroup of its container or of its caller.
pub(super) const WAY_OUT_OF_ITS_OWN: &str = "raise the limit of processes (pids.max of the container's, \
     pod's or runtime's cgroup or a parent, TasksMax, kernel.pid_max)";

/// Converts a failure to a runtime error, if a runtime caused it. The caller fills in the runtime's name.
pub(crate) fn failure_of_call(doing: &str, failure: &Failure) -> Option<RuntimeError> {
    let fault = match failure.kind {
        FailureKind::RuntimeMissing => RuntimeFault::Missing,
        FailureKind::Exhausted => RuntimeFault::Exhausted,
        FailureKind::RuntimeFailed => RuntimeFault::Failed,
        FailureKind::TimedOut => RuntimeFault::TimedOut,
        _ => return None,
    };
    let (log, output) = (&failure.runtime_log, &failure.runtime_output);
    let said = explanation(log, output);
    let is_want = |said: &String| is_want(log, output, said);
    let (fault, detail) = match (fault, said) {
        (RuntimeFault::Failed, Some(said)) if is_want(&said) => (
            RuntimeFault::Exhausted,
            format!("{said}; {WAY_OUT_OF_ITS_OWN}"),
        ),
        (fault, said) => (fault, detail(fault, said, failure)),
    };
    Some(RuntimeError {
        runtime: String::new(),
        action: doing.to_owned(),
        fault,
        detail,
    })
}

fn detail(fault: RuntimeFault, said: Option<String>, failure: &Failure) -> String {
    match (fault, said) {
        (RuntimeFault::Failed, Some(said)) => said,
        (RuntimeFault::TimedOut, Some(said)) => {
            format!("{}; the runtime printed: {said}", failure.message)
        }
        (RuntimeFault::Exhausted, _) => format!("{}; {WAY_OUT}", failure.message),
        _ => failure.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_could_not_clone_itself_is_told_as_want_and_with_the_way_out() {
        let failed = |said: &str| Failure {
            kind: FailureKind::RuntimeFailed,
            message: "exit status: 1".to_owned(),
            runtime_log: String::new(),
            runtime_output: said.to_owned(),
        };
        let want = failure_of_call("create", &failed("clone: Resource temporarily unavailable"));
        let want = want.unwrap();
        assert_eq!(want.fault, RuntimeFault::Exhausted);
        assert!(want.detail.contains("pids.max"), "{want}");
        let other = failure_of_call("create", &failed("no such file")).unwrap();
        assert_eq!(other.fault, RuntimeFault::Failed);
        assert_eq!(other.detail, "no such file");
    }
}

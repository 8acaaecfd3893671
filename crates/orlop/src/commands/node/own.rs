//! Kernel limits of the agent process itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Sets the OOM score adjustment of the agent, as far as permitted.
pub(crate) fn spare_from_oom(score: i32) {
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", score.to_string()) {
        tracing::debug!(%error, score, "cannot set the oom_score_adj of the agent");
    }
}

/// Raises the limit of open files of the agent, as far as permitted.
pub(crate) fn open_files(wanted: u64) {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let higher = Rlimit {
        current: Some(wanted),
        maximum: now.maximum.map(|maximum| maximum.max(wanted)),
    };
    let within = Rlimit {
        current: now.maximum.map(|maximum| maximum.min(wanted)),
        maximum: now.maximum,
    };
    if setrlimit(Resource::Nofile, higher)
        .or_else(|_| setrlimit(Resource::Nofile, within))
        .is_err()
    {
        tracing::debug!(wanted, "cannot raise the limit of open files");
    }
}

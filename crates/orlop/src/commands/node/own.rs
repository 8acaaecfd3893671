//! What the agent asks of the kernel for itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Keeps the agent from the kernel's search for memory, as far as it may.
pub(crate) fn spare_from_oom(score: i32) {
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", score.to_string()) {
        tracing::debug!(%error, score, "cannot set the oom_score_adj of the agent");
    }
}

/// Lets the agent open so many files, as far as it may.
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

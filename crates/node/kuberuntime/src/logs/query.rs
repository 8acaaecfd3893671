//! The part of a container log that a client requests.

use orlop_kubelet_rules::Timestamp;

/// Which part of a container's log.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Go on with what comes until the container ends.
    pub follow: bool,
    /// The instance before the present one.
    pub previous: bool,
    /// Put the time before each line.
    pub timestamps: bool,
    /// Only what is younger.
    pub since: Option<Timestamp>,
    /// Only so many lines from the end.
    pub tail_lines: Option<u64>,
    /// No more than so many bytes.
    pub limit_bytes: Option<u64>,
    /// Only `Stdout` or `Stderr`; all if `None`.
    pub stream: Option<orlop_cri_api::log::Stream>,
}

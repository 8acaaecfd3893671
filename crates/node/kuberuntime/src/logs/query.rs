//! The part of a container log that a client requests.

use orlop_kubelet_rules::Timestamp;

/// The part of a container's log to read.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Keep reading new lines until the container ends.
    pub follow: bool,
    /// Read the log of the previous instance.
    pub previous: bool,
    /// Put the timestamp before each line.
    pub timestamps: bool,
    /// Only lines after this time.
    pub since: Option<Timestamp>,
    /// Only this many lines from the end.
    pub tail_lines: Option<u64>,
    /// At most this many bytes.
    pub limit_bytes: Option<u64>,
    /// Only `Stdout` or `Stderr`; all if `None`.
    pub stream: Option<orlop_cri_api::log::Stream>,
}

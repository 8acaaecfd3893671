//! Why there is no profile.

use std::io;
use std::path::PathBuf;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such process, or it has ended.
    #[error("process {0} does not exist")]
    NoProcess(u32),
    /// The kernel knows no samples, or a filter of system calls hides them.
    #[error(
        "this kernel does not support sampling (perf_event_open: {0}): run the command on the \
         host, outside containers; the kernel needs CONFIG_PERF_EVENTS"
    )]
    Unknown(io::Error),
    /// The kernel takes samples, but not for us.
    #[error(
        "the kernel allows only root to sample process {pid} (perf_event_open: {source}): run \
         the command as root, on the host; in a container it needs CAP_PERFMON and \
         CAP_SYS_PTRACE, and a seccomp profile that allows perf_event_open{}", paranoid(*.level)
    )]
    Forbidden {
        /// Whom it would have been of.
        pid: u32,
        /// What `/proc/sys/kernel/perf_event_paranoid` says.
        level: Option<i32>,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The memory of the process cannot be read.
    #[error(
        "cannot read the memory of process {pid}: {source}; run the command as root, on the host"
    )]
    Memory {
        /// Whose memory.
        pid: u32,
        /// What the kernel answered.
        source: io::Error,
    },
    /// Something else that the kernel was asked failed.
    #[error("{what}: {source}")]
    Kernel {
        /// What was being done.
        what: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
    /// A file of symbols is none, or is another program's.
    #[error("cannot use the symbols in {}: {why}", path.display())]
    Symbols {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

fn paranoid(level: Option<i32>) -> String {
    level.map_or_else(String::new, |level| {
        format!("; kernel.perf_event_paranoid is {level}")
    })
}

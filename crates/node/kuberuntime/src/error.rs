//! Errors of the manager's start and of requests.

use std::io;
use std::path::PathBuf;

use orlop_cri_api::client::ClientError;
use thiserror::Error;

/// Why the manager does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The runtime does not answer, or its answer is invalid.
    #[error("cannot get the version of the runtime: {0}")]
    Runtime(#[source] ClientError),
    /// The image service does not answer.
    #[error("cannot get the file system of the image service: {0}")]
    Images(#[source] ClientError),
    /// The runtime speaks another version of the CRI.
    #[error("the runtime reports version {0:?} of the runtime API; only 0.1.0 is supported")]
    Version(String),
    /// A directory cannot be created or read.
    #[error("cannot read or create {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
}

/// Why a request about a pod fails.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The pod is unknown.
    #[error("pod {0:?} is not on this node")]
    NoPod(String),
    /// The pod has no such container, or it was never created.
    #[error("container {container:?} is not in pod {pod:?}, or has not been created yet")]
    NoContainer {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// The container is not running.
    #[error("container {container:?} of pod {pod:?} is not running")]
    NotRunning {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// The runtime returned an error.
    #[error(transparent)]
    Runtime(#[from] ClientError),
    /// The limit of concurrent log reads is reached.
    #[error(
        "the limit of concurrent log reads is reached ({of_pod} per pod, {of_node} in total); try \
         again later"
    )]
    Crowded {
        /// The limit per pod.
        of_pod: usize,
        /// The limit in total.
        of_node: usize,
    },
    /// A log cannot be read.
    #[error("cannot read the log {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

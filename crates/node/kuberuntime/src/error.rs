//! Why a manager does not start, or refuses.

use std::io;
use std::path::PathBuf;

use orlop_cri_api::client::ClientError;
use thiserror::Error;

/// Why a manager does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The runtime does not answer, or not as it must.
    #[error("cannot get the version of the runtime: {0}")]
    Runtime(#[source] ClientError),
    /// The image service does not answer.
    #[error("cannot get the file system of the image service: {0}")]
    Images(#[source] ClientError),
    /// The runtime speaks another version of the interface.
    #[error("the runtime reports version {0:?} of the runtime API; only 0.1.0 is supported")]
    Version(String),
    /// A directory cannot be made or read.
    #[error("cannot read or create {}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A setting cannot be.
    #[error("{0}")]
    Setting(String),
}

/// Why a question about a pod has no answer.
#[derive(Debug, Error)]
pub enum RequestError {
    /// Nobody knows the pod.
    #[error("pod {0:?} is not on this node")]
    NoPod(String),
    /// The pod has no such container, or it has never been made.
    #[error("container {container:?} is not in pod {pod:?}, or has not been created yet")]
    NoContainer {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// The container does not run.
    #[error("container {container:?} of pod {pod:?} is not running")]
    NotRunning {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// The runtime said no.
    #[error(transparent)]
    Runtime(#[from] ClientError),
    /// As many logs are read as may be.
    #[error(
        "the limit of concurrent log reads is reached ({of_pod} per pod, {of_node} in total); try \
         again later"
    )]
    Crowded {
        /// Of one pod.
        of_pod: usize,
        /// Of all.
        of_node: usize,
    },
    /// A log cannot be read.
    #[error("cannot read the log {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

//! Information about the local machine that the program provides to client commands.

use std::path::PathBuf;

use futures_util::future::{self, LocalBoxFuture};
use orlop_cri_api::inspection::Finding;

/// Functions that examine the local machine; a client itself knows nothing about it.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    /// Examines the machine for the daemon of a configuration file, by default the usual one.
    pub examine: fn(Option<PathBuf>) -> LocalBoxFuture<'static, anyhow::Result<Examined>>,
}

/// Result of an examination.
#[derive(Debug, Default)]
pub struct Examined {
    /// Findings, both good and bad.
    pub findings: Vec<Finding>,
    /// Socket of the daemon in its configuration.
    pub socket: Option<String>,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            examine: |_| Box::pin(future::ready(Ok(Examined::default()))),
        }
    }
}

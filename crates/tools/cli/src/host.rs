//! What the program provides to client commands about its machine.

use std::path::PathBuf;

use futures_util::future::{self, LocalBoxFuture};
use orlop_cri_api::inspection::Finding;

/// What the program knows of the machine that it runs on; by itself a client knows nothing of it.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    /// Examines the machine for the daemon of a configuration, that of a file or the usual one.
    pub examine: fn(Option<PathBuf>) -> LocalBoxFuture<'static, anyhow::Result<Examined>>,
}

/// What was found on the machine.
#[derive(Debug, Default)]
pub struct Examined {
    /// What is well and what is not.
    pub findings: Vec<Finding>,
    /// Where the daemon listens, by its configuration.
    pub socket: Option<String>,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            examine: |_| Box::pin(future::ready(Ok(Examined::default()))),
        }
    }
}

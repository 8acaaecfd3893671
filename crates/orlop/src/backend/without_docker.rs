//! Replaces `docker.rs` in a build without the cargo feature `docker`. Such a build rejects a configuration with this
//! backend before it starts one.

use anyhow::bail;
use orlop_cri_api::server::MessageLimits;
use orlop_cri_server::timeline;
use orlop_engine::config::Images;
use tonic::service::Routes;

use crate::config::Config;
use crate::docker_shim::Shim;

#[expect(clippy::unused_async, reason = "the backend that it replaces waits")]
pub(super) async fn start(
    _: &Config,
    _: timeline::Metrics,
    _: MessageLimits,
) -> anyhow::Result<(Shim, Routes)> {
    bail!("this build has no Docker backend; use a build with the cargo feature `docker`")
}

pub(crate) fn policies(_: &Config) -> Option<Images> {
    None
}

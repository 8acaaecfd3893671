//! Replaces `docker_shim.rs` in a build without the cargo feature `docker`.

use std::fmt;
use std::time::Duration;

use orlop_cri_server::timeline::Traces;
use prometheus_client::encoding::DescriptorEncoder;

/// A service that cannot exist in this build.
#[derive(Debug, Clone)]
pub(crate) enum Shim {}

impl Shim {
    pub(crate) fn traces(&self) -> &Traces {
        match *self {}
    }

    pub(crate) fn keep_events(&self, _: Duration) {
        match *self {}
    }

    pub(crate) async fn stop(self) {
        match self {}
    }
}

pub(crate) async fn state(shim: &Shim) -> Result<serde_json::Value, String> {
    match *shim {}
}

pub(crate) fn encode_operations(shim: &Shim, _: &mut DescriptorEncoder<'_>) -> fmt::Result {
    match *shim {}
}

//! The interface of sandbox controllers, and the timeouts of its calls.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_containerd_api::Any;
use orlop_cri_api::v1::UpdatePodSandboxResourcesRequest;

use super::sandbox_state::SandboxState;
use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::figures::Figures;
use crate::state_dir::PodDir;

/// Who asks how it is does not wait for longer.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_millis(1500);
/// What is done at once takes no longer.
pub(super) const LIMIT: Duration = Duration::from_secs(10);
/// A virtual machine may have to boot first.
pub(super) const BOOT_LIMIT: Duration = Duration::from_secs(90);
/// So long a guest may take to leave.
pub(super) const GRACE: Duration = Duration::from_secs(5);

pub(crate) trait Controller {
    /// Brings to life whoever is asked.
    fn bootstrap(&self, pod: &PodDir) -> Result<Endpoint>;

    /// Prepares a sandbox.
    fn create(&self, pod: &PodDir, endpoint: &Endpoint, asked: &Asked) -> Result<()>;

    /// Lets it come up, and answers where its tasks are served.
    fn start(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Endpoint>;

    /// Waits for its end.
    fn wait(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<()>;

    /// For which platform its programs are, if that is said.
    fn platform(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Option<String>>;

    /// How it is.
    fn status(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<SandboxState>;

    /// What it uses as a whole, if that is told in known terms.
    fn metrics(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Option<Figures>>;

    /// Hears what its pod gets from now on.
    fn update(
        &self,
        pod: &PodDir,
        endpoint: &Endpoint,
        request: &UpdatePodSandboxResourcesRequest,
    ) -> Result<()>;

    /// Ends what runs in it. One that is not there is ended.
    fn stop(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<()>;

    /// Lets whoever was asked go, too, if nothing else is left there. The answer may get lost with it.
    fn shutdown(&self, pod: &PodDir, endpoint: &Endpoint);
}

/// What a pod is to whoever makes its sandbox, beside the bundle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// The path of its network namespace; empty where that is the host's.
    pub(crate) network: String,
    pub(crate) annotations: BTreeMap<String, String>,
    /// The pod as its client has asked for it.
    pub(crate) config: Option<Any>,
}

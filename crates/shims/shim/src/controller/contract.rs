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

/// Timeout of status queries.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_millis(1500);
/// Timeout of quick calls.
pub(super) const LIMIT: Duration = Duration::from_secs(10);
/// Timeout of calls that may have to boot a virtual machine.
pub(super) const BOOT_LIMIT: Duration = Duration::from_secs(90);
/// How long a guest may take to shut down.
pub(super) const GRACE: Duration = Duration::from_secs(5);

pub(crate) trait Controller {
    /// Starts the server of the calls.
    fn bootstrap(&self, pod: &PodDir) -> Result<Endpoint>;

    /// Prepares a sandbox.
    fn create(&self, pod: &PodDir, endpoint: &Endpoint, asked: &Asked) -> Result<()>;

    /// Starts the sandbox and returns the address of its task service.
    fn start(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Endpoint>;

    /// Waits for the end of the sandbox.
    fn wait(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<()>;

    /// Returns the platform of its programs, if it is reported.
    fn platform(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Option<String>>;

    /// Returns its state.
    fn status(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<SandboxState>;

    /// Returns its total resource usage, if reported in a known format.
    fn metrics(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Option<Figures>>;

    /// Passes on the new resources of the pod.
    fn update(
        &self,
        pod: &PodDir,
        endpoint: &Endpoint,
        request: &UpdatePodSandboxResourcesRequest,
    ) -> Result<()>;

    /// Stops the sandbox. A missing sandbox counts as stopped.
    fn stop(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<()>;

    /// Shuts the server down if it has no other sandbox. The response may be lost with it.
    fn shutdown(&self, pod: &PodDir, endpoint: &Endpoint);
}

/// The pod's description for the creator of its sandbox, in addition to the bundle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// The path of its network namespace; empty for the host's.
    pub(crate) network: String,
    pub(crate) annotations: BTreeMap<String, String>,
    /// The pod configuration from the client.
    pub(crate) config: Option<Any>,
}

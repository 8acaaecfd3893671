//! A pause task of a shim as the sandbox, as in containerd's own controller.

use orlop_containerd_api::task_types::Status;
use orlop_cri_api::v1::UpdatePodSandboxResourcesRequest;

use super::contract::{Asked, Controller};
use super::sandbox_state::SandboxState;
use crate::arguments::Settings;
use crate::end_task::end;
use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::figures::Figures;
use crate::launch;
use crate::rootfs;
use crate::state_dir::PodDir;
use crate::task::{Stdio, Tasks};

pub(super) struct Podsandbox<'s>(pub(super) &'s Settings);

impl Controller for Podsandbox<'_> {
    fn bootstrap(&self, pod: &PodDir) -> Result<Endpoint> {
        launch::start(self.0, pod)
    }

    fn create(&self, pod: &PodDir, endpoint: &Endpoint, _: &Asked) -> Result<()> {
        let path = pod.bundle().to_string_lossy().into_owned();
        let options = launch::options(self.0)?;
        let rootfs = self.0.guest_pull.then(rootfs::of_sandbox);
        let stdio = Stdio::default();
        Tasks::connect(endpoint)?
            .create(&pod.id, &path, rootfs, &stdio, options)
            .map(drop)
    }

    fn start(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Endpoint> {
        let mut tasks = Tasks::connect(endpoint)?;
        tasks.start(&pod.id, "")?;
        let pid = tasks.shim_pid(&pod.id)?;
        Ok(endpoint.with_pid(pid))
    }

    fn wait(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<()> {
        Tasks::connect(endpoint)?.wait(&pod.id, "").map(drop)
    }

    /// Returns the host's platform.
    fn platform(&self, _: &PodDir, _: &Endpoint) -> Result<Option<String>> {
        Ok(None)
    }

    fn status(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<SandboxState> {
        let task = Tasks::connect(endpoint)?.state(&pod.id, "")?;
        Ok(match task.status() {
            Status::Stopped => SandboxState::gone(),
            _ => SandboxState::default(),
        })
    }

    fn metrics(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Option<Figures>> {
        Tasks::connect(endpoint)?.figures(&pod.id)
    }

    /// Does nothing: the limits are those of its cgroup.
    fn update(&self, _: &PodDir, _: &Endpoint, _: &UpdatePodSandboxResourcesRequest) -> Result<()> {
        Ok(())
    }

    fn stop(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<()> {
        let mut tasks = Tasks::connect(endpoint)?;
        end(self.0, pod, &mut tasks, &pod.id, &pod.bundle())
    }

    fn shutdown(&self, pod: &PodDir, endpoint: &Endpoint) {
        if let Ok(mut tasks) = Tasks::connect(endpoint) {
            tasks.shutdown(&pod.id);
        }
    }
}

//! The Sandbox service of a shim, which creates a sandbox before any task.

use std::time::Duration;

use orlop_containerd_api::Message;
use orlop_containerd_api::sandbox::{
    CreateSandboxRequest, PlatformRequest, PlatformResponse, SandboxMetricsRequest,
    SandboxMetricsResponse, SandboxStatusRequest, SandboxStatusResponse, ShutdownSandboxRequest,
    StartSandboxRequest, StartSandboxResponse, StopSandboxRequest, WaitSandboxRequest,
};
use orlop_cri_api::v1::UpdatePodSandboxResourcesRequest;

use super::contract::{ANSWER_LIMIT, Asked, BOOT_LIMIT, Controller, GRACE, LIMIT};
use super::sandbox_state::{self, SandboxState};
use crate::arguments::Settings;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::launch;
use crate::rpc::Client;
use crate::state_dir::PodDir;
use crate::task::Tasks;

const SERVICE: &str = "containerd.runtime.sandbox.v1.Sandbox";

pub(super) struct Shim<'s>(pub(super) &'s Settings);

impl Controller for Shim<'_> {
    fn bootstrap(&self, pod: &PodDir) -> Result<Endpoint> {
        launch::start(self.0, pod)
    }

    fn create(&self, pod: &PodDir, endpoint: &Endpoint, asked: &Asked) -> Result<()> {
        let asked = asked.clone();
        let request = CreateSandboxRequest {
            sandbox_id: pod.id.clone(),
            bundle_path: pod.bundle().to_string_lossy().into_owned(),
            options: asked.config,
            netns_path: asked.network,
            annotations: asked.annotations,
            ..CreateSandboxRequest::default()
        };
        call(endpoint, "CreateSandbox", &request, Some(BOOT_LIMIT))
    }

    fn start(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Endpoint> {
        let sandbox_id = pod.id.clone();
        let request = StartSandboxRequest { sandbox_id };
        let started: StartSandboxResponse =
            call(endpoint, "StartSandbox", &request, Some(BOOT_LIMIT))?;
        // The sandbox's pid may be from a guest; the relevant process is the one that mounts for its tasks.
        let pid = match Tasks::connect(endpoint)?.shim_pid(&pod.id) {
            // A pid from a guest is not valid on the host.
            Ok(pid) if pid > 0 && endpoint.guest.is_none() => pid,
            _ => started.pid,
        };
        if pid > 1 {
            return Ok(endpoint.with_pid(pid));
        }
        Err(Error::Garbled(
            "the process ID in the shim's response to StartSandbox".into(),
        ))
    }

    fn wait(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<()> {
        let sandbox_id = pod.id.clone();
        let request = WaitSandboxRequest { sandbox_id };
        call(endpoint, "WaitSandbox", &request, None)
    }

    fn platform(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Option<String>> {
        let sandbox_id = pod.id.clone();
        let request = PlatformRequest { sandbox_id };
        let told: PlatformResponse = call(endpoint, "Platform", &request, Some(LIMIT))?;
        Ok(sandbox_state::platform(told.platform))
    }

    fn status(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<SandboxState> {
        let request = SandboxStatusRequest {
            sandbox_id: pod.id.clone(),
            verbose: true,
        };
        let told: SandboxStatusResponse =
            call(endpoint, "SandboxStatus", &request, Some(ANSWER_LIMIT))?;
        Ok(SandboxState {
            state: told.state,
            info: told.info,
        })
    }

    fn metrics(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Option<Figures>> {
        let sandbox_id = pod.id.clone();
        let request = SandboxMetricsRequest { sandbox_id };
        let told: SandboxMetricsResponse =
            call(endpoint, "SandboxMetrics", &request, Some(ANSWER_LIMIT))?;
        Ok(sandbox_state::metrics(told.metrics))
    }

    /// Does nothing: the service has no method for it.
    fn update(&self, _: &PodDir, _: &Endpoint, _: &UpdatePodSandboxResourcesRequest) -> Result<()> {
        Ok(())
    }

    fn stop(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<()> {
        let request = StopSandboxRequest {
            sandbox_id: pod.id.clone(),
            timeout_secs: GRACE.as_secs() as u32,
        };
        let stopped: Result<()> = call(endpoint, "StopSandbox", &request, Some(LIMIT));
        Error::unless_gone(stopped)
    }

    fn shutdown(&self, pod: &PodDir, endpoint: &Endpoint) {
        let sandbox_id = pod.id.clone();
        let request = ShutdownSandboxRequest { sandbox_id };
        let _: Result<()> = call(endpoint, "ShutdownSandbox", &request, Some(GRACE));
    }
}

fn call<R: Message + Default>(
    endpoint: &Endpoint,
    method: &str,
    request: &impl Message,
    limit: Option<Duration>,
) -> Result<R> {
    Client::connect(endpoint)?.call(SERVICE, method, request, limit)
}

//! The Sandbox service of a shim: it makes a sandbox before there is any task.

use std::time::Duration;

use super::{
    ANSWER_LIMIT, Asked, BOOT_LIMIT, Controller, GRACE, LIMIT, SandboxState, sandbox_state,
};
use crate::arguments::Settings;
use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::launch;
use crate::proto::Writer;
use crate::rpc::Client;
use crate::state_dir::PodDir;
use crate::task::{Endpoint, Tasks, number};

const SERVICE: &str = "containerd.runtime.sandbox.v1.Sandbox";

pub(super) struct Shim<'s>(pub(super) &'s Settings);

impl Controller for Shim<'_> {
    fn bootstrap(&self, pod: &PodDir) -> Result<Endpoint> {
        launch::start(self.0, pod)
    }

    fn create(&self, pod: &PodDir, endpoint: &Endpoint, asked: &Asked) -> Result<()> {
        let request = asked.write(of(pod).text(2, &pod.bundle().to_string_lossy()), 4);
        call(endpoint, "CreateSandbox", request, Some(BOOT_LIMIT)).map(drop)
    }

    fn start(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Endpoint> {
        let started = call(endpoint, "StartSandbox", of(pod), Some(BOOT_LIMIT))?;
        // The sandbox's process may be a guest's; what matters is who mounts for its tasks.
        let pid = match Tasks::connect(endpoint)?.shim_pid(&pod.id) {
            // One in a guest has a number, too, which is none of ours.
            Ok(pid) if pid > 0 && endpoint.guest.is_none() => pid,
            _ => number(&started, 1, "StartSandbox")? as u32,
        };
        if pid > 1 {
            return Ok(endpoint.with_pid(pid));
        }
        Err(Error::Garbled(
            "the process ID in the shim's response to StartSandbox".into(),
        ))
    }

    fn wait(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<()> {
        call(endpoint, "WaitSandbox", of(pod), None).map(drop)
    }

    fn platform(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Option<String>> {
        let answer = call(endpoint, "Platform", of(pod), Some(LIMIT))?;
        Ok(sandbox_state::platform(&answer))
    }

    fn status(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<SandboxState> {
        let request = of(pod).number(2, 1);
        let answer = call(endpoint, "SandboxStatus", request, Some(ANSWER_LIMIT))?;
        Ok(SandboxState::of(&answer))
    }

    fn metrics(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<Option<Figures>> {
        let answer = call(endpoint, "SandboxMetrics", of(pod), Some(ANSWER_LIMIT))?;
        Ok(sandbox_state::metrics(&answer))
    }

    /// The service has no method for it.
    fn update(&self, _: &PodDir, _: &Endpoint, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn stop(&self, pod: &PodDir, endpoint: &Endpoint) -> Result<()> {
        let request = of(pod).number(2, GRACE.as_secs());
        Error::unless_gone(call(endpoint, "StopSandbox", request, Some(LIMIT)))
    }

    fn shutdown(&self, pod: &PodDir, endpoint: &Endpoint) {
        let _ = call(endpoint, "ShutdownSandbox", of(pod), Some(GRACE));
    }
}

fn of(pod: &PodDir) -> Writer {
    Writer::default().text(1, &pod.id)
}

fn call(
    endpoint: &Endpoint,
    method: &str,
    request: Writer,
    limit: Option<Duration>,
) -> Result<Vec<u8>> {
    Client::connect(endpoint)?.call(SERVICE, method, &request.done(), limit)
}

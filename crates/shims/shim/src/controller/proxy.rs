//! Client of a Controller service: a separate program that creates the sandboxes of many pods and returns the address
//! of each one's task service.

use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_containerd_api::services::sandbox::{
    ControllerCreateRequest, ControllerMetricsRequest, ControllerMetricsResponse,
    ControllerPlatformRequest, ControllerPlatformResponse, ControllerShutdownRequest,
    ControllerStartRequest, ControllerStartResponse, ControllerStatusRequest,
    ControllerStatusResponse, ControllerStopRequest, ControllerUpdateRequest,
    ControllerWaitRequest,
};
use orlop_containerd_api::types::Sandbox;
use orlop_containerd_api::types::sandbox::Runtime;
use orlop_containerd_api::{Any, Message};
use orlop_cri_api::v1::UpdatePodSandboxResourcesRequest;
use orlop_ttrpc::code::UNIMPLEMENTED;

use super::contract::{ANSWER_LIMIT, Asked, BOOT_LIMIT, Controller, GRACE, LIMIT};
use super::resources;
use super::sandbox_state::{self, SandboxState};
use crate::arguments::Settings;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::launch;
use crate::rpc::Client;
use crate::spec::Spec;
use crate::state_dir::PodDir;
use crate::task::Tasks;

/// The reported sandbox process may be its shim, or the first process below that.
const GENERATIONS: usize = 2;

const SERVICE: &str = "containerd.services.sandbox.v1.Controller";

/// A controller, by its address and its configured name.
pub(super) struct Proxy<'s> {
    pub(super) address: &'s Path,
    pub(super) name: &'s str,
    pub(super) settings: &'s Settings,
}

impl Proxy<'_> {
    fn itself(&self) -> Endpoint {
        Endpoint::of_controller(self.address)
    }

    fn sandboxer(&self) -> String {
        self.name.to_owned()
    }

    fn sandbox(&self, pod: &PodDir) -> Sandbox {
        Sandbox {
            sandbox_id: pod.id.clone(),
            sandboxer: self.sandboxer(),
            ..Sandbox::default()
        }
    }

    fn call<R: Message + Default>(
        &self,
        method: &str,
        request: &impl Message,
        limit: Option<Duration>,
    ) -> Result<R> {
        let named = |error| {
            let at = self.address.display();
            Error::Failed(format!("the sandbox controller at {at}: {error}"))
        };
        let mut client = Client::connect(&self.itself()).map_err(named)?;
        match client.call(SERVICE, method, request, limit) {
            // The caller distinguishes refusals by their code.
            Err(error @ Error::Refused { .. }) => Err(error),
            answer => answer.map_err(named),
        }
    }
}

impl Controller for Proxy<'_> {
    /// Fails early if the server is no controller, so that nothing has to be undone.
    fn bootstrap(&self, _: &PodDir) -> Result<Endpoint> {
        is_one(self.address, self.name, ANSWER_LIMIT)?;
        Ok(self.itself())
    }

    fn create(&self, pod: &PodDir, _: &Endpoint, asked: &Asked) -> Result<()> {
        let spec = Any {
            type_url: "types.containerd.io/opencontainers/runtime-spec/1/Spec".into(),
            value: Spec::text(&pod.bundle())?,
        };
        let runtime = if self.settings.shim.is_absolute() {
            Some(Runtime {
                name: self.settings.shim.to_string_lossy().into_owned(),
                options: launch::options(self.settings)?,
            })
        } else {
            None
        };
        let asked = asked.clone();
        let request = ControllerCreateRequest {
            sandbox_id: pod.id.clone(),
            options: asked.config,
            netns_path: asked.network,
            annotations: asked.annotations,
            sandbox: Some(Sandbox {
                runtime,
                spec: Some(spec),
                ..self.sandbox(pod)
            }),
            sandboxer: self.sandboxer(),
            ..ControllerCreateRequest::default()
        };
        self.call("Create", &request, Some(BOOT_LIMIT))
    }

    fn start(&self, pod: &PodDir, _: &Endpoint) -> Result<Endpoint> {
        let request = ControllerStartRequest {
            sandbox_id: pod.id.clone(),
            sandboxer: self.sandboxer(),
        };
        let started = self.call("Start", &request, Some(BOOT_LIMIT))?;
        let ControllerStartResponse {
            pid,
            version,
            address,
            ..
        } = started;
        let endpoint = if address.is_empty() {
            bootstrapped(pod, pid)
        } else {
            Endpoint::at(&address, "", version)
        };
        let mut endpoint = endpoint.ok_or_else(|| {
            Error::Failed(format!(
                "the controller reported the task address {address:?}; only ttrpc and gRPC over \
                 unix sockets or vsock are supported"
            ))
        })?;
        endpoint.pid = server_of(pod, &endpoint, pid)?;
        Ok(endpoint)
    }

    fn wait(&self, pod: &PodDir, _: &Endpoint) -> Result<()> {
        let request = ControllerWaitRequest {
            sandbox_id: pod.id.clone(),
            sandboxer: self.sandboxer(),
        };
        self.call("Wait", &request, None)
    }

    fn platform(&self, pod: &PodDir, _: &Endpoint) -> Result<Option<String>> {
        let request = ControllerPlatformRequest {
            sandbox_id: pod.id.clone(),
            sandboxer: self.sandboxer(),
        };
        let told: ControllerPlatformResponse = self.call("Platform", &request, Some(LIMIT))?;
        Ok(sandbox_state::platform(told.platform))
    }

    fn status(&self, pod: &PodDir, _: &Endpoint) -> Result<SandboxState> {
        let request = ControllerStatusRequest {
            sandbox_id: pod.id.clone(),
            verbose: true,
            sandboxer: self.sandboxer(),
        };
        let told: ControllerStatusResponse = self.call("Status", &request, Some(ANSWER_LIMIT))?;
        Ok(SandboxState {
            state: told.state,
            info: told.info,
        })
    }

    fn metrics(&self, pod: &PodDir, _: &Endpoint) -> Result<Option<Figures>> {
        let request = ControllerMetricsRequest {
            sandbox_id: pod.id.clone(),
            sandboxer: self.sandboxer(),
        };
        let told: ControllerMetricsResponse = self.call("Metrics", &request, Some(ANSWER_LIMIT))?;
        Ok(sandbox_state::metrics(told.metrics))
    }

    fn update(
        &self,
        pod: &PodDir,
        _: &Endpoint,
        request: &UpdatePodSandboxResourcesRequest,
    ) -> Result<()> {
        let request = ControllerUpdateRequest {
            sandbox_id: pod.id.clone(),
            sandboxer: self.sandboxer(),
            sandbox: Some(Sandbox {
                extensions: [resources::extension(request)].into(),
                ..self.sandbox(pod)
            }),
            fields: vec!["extensions".into()],
        };
        self.call("Update", &request, Some(LIMIT))
    }

    fn stop(&self, pod: &PodDir, _: &Endpoint) -> Result<()> {
        let request = ControllerStopRequest {
            sandbox_id: pod.id.clone(),
            timeout_secs: GRACE.as_secs() as u32,
            sandboxer: self.sandboxer(),
        };
        let stopped: Result<()> = self.call("Stop", &request, Some(LIMIT));
        Error::unless_gone(stopped)
    }

    fn shutdown(&self, pod: &PodDir, _: &Endpoint) {
        let request = ControllerShutdownRequest {
            sandbox_id: pod.id.clone(),
            sandboxer: self.sandboxer(),
        };
        let _: Result<()> = self.call("Shutdown", &request, Some(GRACE));
    }
}

/// Checks that the server is a controller. A server that does not answer may be busy and is accepted.
pub(crate) fn is_one(address: &Path, name: &str, limit: Duration) -> Result<()> {
    let at = address.display();
    let wrong = |what: String| {
        let remedy = "start the controller, or correct `address`";
        Err(Error::Failed(format!("{what}: {remedy}")))
    };
    match std::fs::metadata(address) {
        Ok(file) if !file.file_type().is_socket() => return wrong(format!("{at} is not a socket")),
        Err(error) => return wrong(format!("cannot find a controller at {at} ({error})")),
        Ok(_) => {}
    }
    let endpoint = Endpoint::of_controller(address);
    if endpoint.is_gone() {
        return wrong(format!("no process listens at {at}"));
    }
    // No sandbox has this id; a controller reports that.
    let request = ControllerStatusRequest {
        sandbox_id: "orlop-asks".into(),
        sandboxer: name.into(),
        ..ControllerStatusRequest::default()
    };
    let called: Result<()> = Client::connect(&endpoint)
        .and_then(|mut client| client.call(SERVICE, "Status", &request, Some(limit)));
    match called {
        Err(Error::Refused { code, .. }) if code == UNIMPLEMENTED => wrong(format!(
            "the process that listens at {at} does not serve {SERVICE}"
        )),
        Err(error @ (Error::Io { .. } | Error::Garbled(_))) => wrong(format!(
            "the process that listens at {at} does not speak gRPC ({error})"
        )),
        _ => Ok(()),
    }
}

/// Finds the task service if the controller does not report it. containerd's controller does not; its shims run in
/// their bundle, which contains the start response.
fn bootstrapped(pod: &PodDir, of: u32) -> Option<Endpoint> {
    let mut pid = of;
    for _ in 0..GENERATIONS {
        if pid <= 1 {
            return None;
        }
        let process = PathBuf::from(format!("/proc/{pid}"));
        let bundle = std::fs::read_link(process.join("cwd")).ok();
        if let Some(bundle) = bundle.filter(|bundle| bundle.ends_with(&pod.id)) {
            let answer = bundle.join("bootstrap.json");
            let answer = orlop_fs::read_file(answer, orlop_fs::SMALL_FILE).ok()?;
            return launch::parse(&answer).ok();
        }
        pid = parent_of(&process)?;
    }
    None
}

fn parent_of(process: &Path) -> Option<u32> {
    let stat = orlop_fs::read_text(process.join("stat"), orlop_fs::SMALL_FILE).ok()?;
    let (_, behind_name) = stat.rsplit_once(") ")?;
    behind_name.split(' ').nth(1)?.parse().ok()
}

/// Finds the process in whose mount namespace the tasks' mounts are made. The task service, the controller or the
/// kernel reports it.
fn server_of(pod: &PodDir, endpoint: &Endpoint, told: u32) -> Result<u32> {
    // A pid from a guest is not valid on the host.
    let says = Tasks::connect(endpoint)?
        .shim_pid(&pod.id)
        .ok()
        .filter(|_| endpoint.guest.is_none());
    let listens = UnixStream::connect(&endpoint.socket).ok();
    let listens = listens.and_then(|socket| rustix::net::sockopt::socket_peercred(socket).ok());
    let listens = listens.map(|peer| peer.pid.as_raw_nonzero().get() as u32);
    let possible = [says, Some(told), listens].into_iter().flatten();
    let alive = |pid: &u32| {
        *pid > 1
            && Endpoint {
                pid: *pid,
                ..endpoint.clone()
            }
            .is_alive()
    };
    let mut alive = possible.filter(alive);
    alive.next().ok_or_else(|| {
        let at = endpoint.place();
        Error::Failed(format!("cannot find the process that serves tasks at {at}"))
    })
}

//! `containerd.services.sandbox.v1.Controller`.

use std::path::Path;
use std::time::Duration;

use orlop_containerd_api::Message;
use orlop_containerd_api::sandbox::{
    CreateSandboxRequest, PlatformRequest, PlatformResponse, SandboxMetricsRequest,
    SandboxMetricsResponse, SandboxStatusRequest, SandboxStatusResponse, ShutdownSandboxRequest,
    StartSandboxRequest, StartSandboxResponse, StopSandboxRequest, WaitSandboxRequest,
    WaitSandboxResponse,
};
use orlop_containerd_api::services::sandbox::{
    ControllerCreateRequest, ControllerCreateResponse, ControllerMetricsRequest,
    ControllerMetricsResponse, ControllerPlatformRequest, ControllerPlatformResponse,
    ControllerShutdownRequest, ControllerStartRequest, ControllerStartResponse,
    ControllerStatusRequest, ControllerStatusResponse, ControllerStopRequest,
    ControllerUpdateRequest, ControllerWaitRequest, ControllerWaitResponse,
};
use tonic::{Request, Response, Status};

use crate::parts;
use crate::sandboxes::{Sandbox, Sandboxes};
use crate::server::controller_server;
use crate::shim::{self, is_gone};

type Answer<T> = Result<Response<T>, Status>;

/// Timeout of quick calls.
const LIMIT: Duration = Duration::from_secs(10);
/// Timeout of creating and ending a pod.
const LONG: Duration = Duration::from_mins(1);
/// The exit status of a sandbox whose shim has died.
const LOST: u32 = 255;
/// The version of the task service at the returned address.
const VERSION: u32 = 3;

/// Creates sandboxes for a containerd.
#[derive(Clone, Debug)]
pub struct Controller(Sandboxes);

impl Controller {
    /// Creates a controller that stores its sandboxes here.
    pub fn new(sandboxes: Sandboxes) -> Self {
        Self(sandboxes)
    }
}

#[tonic::async_trait]
impl controller_server::Controller for Controller {
    async fn create(
        &self,
        request: Request<ControllerCreateRequest>,
    ) -> Answer<ControllerCreateResponse> {
        let (namespace, request) = parts(request);
        let sandbox = self.0.get(&namespace, &request.sandbox_id)?;
        sandbox.make()?;
        if let Err(status) = bring_up(&sandbox, request).await {
            end(&sandbox).await?;
            return Err(status);
        }
        Ok(Response::new(ControllerCreateResponse {
            sandbox_id: sandbox.id,
        }))
    }

    async fn start(
        &self,
        request: Request<ControllerStartRequest>,
    ) -> Answer<ControllerStartResponse> {
        let (namespace, request) = parts(request);
        let sandbox = self.0.get(&namespace, &request.sandbox_id)?;
        let sandbox_id = request.sandbox_id.clone();
        let message = StartSandboxRequest { sandbox_id };
        let started: StartSandboxResponse =
            pass_on(&sandbox, "StartSandbox", &message, LONG).await?;
        Ok(Response::new(ControllerStartResponse {
            sandbox_id: request.sandbox_id,
            pid: started.pid,
            created_at: started.created_at,
            address: address(&sandbox)?,
            version: VERSION,
            spec: started.spec,
        }))
    }

    async fn platform(
        &self,
        request: Request<ControllerPlatformRequest>,
    ) -> Answer<ControllerPlatformResponse> {
        let (namespace, request) = parts(request);
        let sandbox = self.0.get(&namespace, &request.sandbox_id)?;
        let sandbox_id = request.sandbox_id;
        let message = PlatformRequest { sandbox_id };
        let PlatformResponse { platform } = pass_on(&sandbox, "Platform", &message, LIMIT).await?;
        Ok(Response::new(ControllerPlatformResponse { platform }))
    }

    async fn stop(&self, request: Request<ControllerStopRequest>) -> Answer<()> {
        let (namespace, request) = parts(request);
        let sandbox = self.0.get(&namespace, &request.sandbox_id)?;
        let message = StopSandboxRequest {
            sandbox_id: request.sandbox_id,
            timeout_secs: request.timeout_secs,
        };
        match pass_on::<()>(&sandbox, "StopSandbox", &message, LONG).await {
            Err(status) if !is_gone(&status) => Err(status),
            _ => Ok(Response::new(())),
        }
    }

    /// Waits for the end of a sandbox. If its shim dies, the sandbox counts as ended, and its rest is cleaned up.
    async fn wait(
        &self,
        request: Request<ControllerWaitRequest>,
    ) -> Answer<ControllerWaitResponse> {
        let (namespace, request) = parts(request);
        let sandbox = self.0.get(&namespace, &request.sandbox_id)?;
        let sandbox_id = request.sandbox_id;
        let message = WaitSandboxRequest { sandbox_id };
        match shim::call(&sandbox.socket()?, "WaitSandbox", &message, None).await {
            Err(status) if status.code() == tonic::Code::Unavailable => {
                let id = &sandbox.id;
                tracing::warn!(sandbox = id, "cannot reach the shim: {}", status.message());
                // Best effort: the shutdown of the sandbox tries again.
                let _ = sandbox.shim().delete().await;
                Ok(Response::new(ControllerWaitResponse {
                    exit_status: LOST,
                    exited_at: None,
                }))
            }
            waited => {
                let waited: WaitSandboxResponse = waited?;
                Ok(Response::new(ControllerWaitResponse {
                    exit_status: waited.exit_status,
                    exited_at: waited.exited_at,
                }))
            }
        }
    }

    async fn status(
        &self,
        request: Request<ControllerStatusRequest>,
    ) -> Answer<ControllerStatusResponse> {
        let (namespace, request) = parts(request);
        let sandbox = self.0.get(&namespace, &request.sandbox_id)?;
        let message = SandboxStatusRequest {
            sandbox_id: request.sandbox_id,
            verbose: request.verbose,
        };
        let status: SandboxStatusResponse =
            pass_on(&sandbox, "SandboxStatus", &message, LIMIT).await?;
        Ok(Response::new(ControllerStatusResponse {
            sandbox_id: status.sandbox_id,
            pid: status.pid,
            state: status.state,
            info: status.info,
            created_at: status.created_at,
            exited_at: status.exited_at,
            extra: status.extra,
            address: address(&sandbox)?,
            version: VERSION,
        }))
    }

    async fn shutdown(&self, request: Request<ControllerShutdownRequest>) -> Answer<()> {
        let (namespace, request) = parts(request);
        let sandbox = self.0.get(&namespace, &request.sandbox_id)?;
        let sandbox_id = request.sandbox_id;
        let message = ShutdownSandboxRequest { sandbox_id };
        match pass_on::<()>(&sandbox, "ShutdownSandbox", &message, LONG).await {
            // The shim may exit before its response arrives, after ending everything; otherwise the rest is cleaned up
            // now.
            Err(status) if !is_gone(&status) => return Err(status),
            _ => end(&sandbox).await?,
        }
        Ok(Response::new(()))
    }

    async fn metrics(
        &self,
        request: Request<ControllerMetricsRequest>,
    ) -> Answer<ControllerMetricsResponse> {
        let (namespace, request) = parts(request);
        let sandbox = self.0.get(&namespace, &request.sandbox_id)?;
        let sandbox_id = request.sandbox_id;
        let message = SandboxMetricsRequest { sandbox_id };
        let SandboxMetricsResponse { metrics } =
            pass_on(&sandbox, "SandboxMetrics", &message, LIMIT).await?;
        Ok(Response::new(ControllerMetricsResponse { metrics }))
    }

    /// Accepts the update without effect: a pod's limits are those of its parent cgroup, which is not managed here.
    async fn update(&self, _: Request<ControllerUpdateRequest>) -> Answer<()> {
        Err(Status::unimplemented("orlop does not implement Update"))
    }
}

async fn pass_on<R: Message + Default>(
    sandbox: &Sandbox,
    method: &str,
    message: &impl Message,
    limit: Duration,
) -> Result<R, Status> {
    let called = shim::call(&sandbox.socket()?, method, message, Some(limit)).await;
    called.map_err(|status| match status.code() {
        // The shim no longer runs, so the sandbox counts as not found.
        tonic::Code::Unavailable => Status::not_found(status.message()),
        _ => status,
    })
}

async fn bring_up(sandbox: &Sandbox, request: ControllerCreateRequest) -> Result<(), Status> {
    // The handler's options from the sandbox's runtime description.
    let runtime = request.sandbox.and_then(|sandbox| sandbox.runtime);
    let options = runtime.and_then(|runtime| runtime.options);
    let options = options.map_or_else(Vec::new, |options| options.encode_to_vec());
    let socket = sandbox.shim().start(&options).await?;
    sandbox.note(&socket)?;
    let message = CreateSandboxRequest {
        sandbox_id: request.sandbox_id,
        bundle_path: sandbox.dir.to_string_lossy().into_owned(),
        rootfs: request.rootfs,
        options: request.options,
        netns_path: request.netns_path,
        annotations: request.annotations,
    };
    shim::call(Path::new(&socket), "CreateSandbox", &message, Some(LONG)).await
}

/// Returns the address of the sandbox's task service.
fn address(sandbox: &Sandbox) -> Result<String, Status> {
    Ok(format!("ttrpc+unix://{}", sandbox.socket()?.display()))
}

/// Cleans up the rest of a sandbox and removes it.
async fn end(sandbox: &Sandbox) -> Result<(), Status> {
    if sandbox.dir.is_dir() {
        sandbox.shim().delete().await?;
    }
    sandbox.remove()
}

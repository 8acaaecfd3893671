//! The Task service of a shim, version 2 or 3: the messages are the same.

use std::time::Duration;

use orlop_containerd_api::task::{
    CloseIoRequest, ConnectRequest, ConnectResponse, CreateTaskRequest, CreateTaskResponse,
    DeleteRequest, ExecProcessRequest, KillRequest, PauseRequest, PidsRequest, PidsResponse,
    ResizePtyRequest, ResumeRequest, ShutdownRequest, StartRequest, StateRequest, StateResponse,
    StatsRequest, StatsResponse, UpdateTaskRequest, WaitRequest, WaitResponse,
};
use orlop_containerd_api::types::Mount;
use orlop_containerd_api::{Any, Message};

use crate::endpoint::Endpoint;
use crate::error::Result;
use crate::figures::Figures;
use crate::rpc::Client;

/// Timeout of quick calls.
const LIMIT: Duration = Duration::from_secs(10);
/// Timeout of creation, which may have to boot a virtual machine.
const CREATE_LIMIT: Duration = Duration::from_secs(90);

/// The standard streams of a task, as FIFO paths or stream addresses; empty means none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stdio {
    pub(crate) stdin: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) terminal: bool,
}

/// The task service of one shim.
#[derive(Debug)]
pub(crate) struct Tasks {
    client: Client,
    service: &'static str,
}

impl Tasks {
    pub(crate) fn connect(endpoint: &Endpoint) -> Result<Self> {
        let client = Client::connect(endpoint)?;
        let service = match endpoint.version {
            ..=2 => "containerd.task.v2.Task",
            _ => "containerd.task.v3.Task",
        };
        Ok(Self { client, service })
    }

    /// Creates a task, whose first process waits to be started.
    pub(crate) fn create(
        &mut self,
        id: &str,
        bundle: &str,
        rootfs: Option<Mount>,
        stdio: &Stdio,
        options: Option<Any>,
    ) -> Result<u32> {
        let Stdio {
            stdin,
            stdout,
            stderr,
            terminal,
        } = stdio.clone();
        let request = CreateTaskRequest {
            id: id.into(),
            bundle: bundle.into(),
            rootfs: rootfs.into_iter().collect(),
            terminal,
            stdin,
            stdout,
            stderr,
            options,
            ..CreateTaskRequest::default()
        };
        let created: CreateTaskResponse = self.call("Create", &request, Some(CREATE_LIMIT))?;
        Ok(created.pid)
    }

    /// Prepares a command in a task.
    pub(crate) fn exec(
        &mut self,
        id: &str,
        exec: &str,
        stdio: &Stdio,
        process: Vec<u8>,
    ) -> Result<()> {
        let Stdio {
            stdin,
            stdout,
            stderr,
            terminal,
        } = stdio.clone();
        let request = ExecProcessRequest {
            id: id.into(),
            exec_id: exec.into(),
            terminal,
            stdin,
            stdout,
            stderr,
            spec: Some(Any {
                type_url: "types.containerd.io/opencontainers/runtime-spec/1/Process".into(),
                value: process,
            }),
        };
        self.call("Exec", &request, Some(LIMIT))
    }

    /// Starts a task, or a command in it.
    pub(crate) fn start(&mut self, id: &str, exec: &str) -> Result<()> {
        let request = StartRequest {
            id: id.into(),
            exec_id: exec.into(),
        };
        self.call("Start", &request, Some(CREATE_LIMIT))
    }

    /// Waits for the exit of a task or a command and returns its exit code.
    pub(crate) fn wait(&mut self, id: &str, exec: &str) -> Result<u32> {
        let request = WaitRequest {
            id: id.into(),
            exec_id: exec.into(),
        };
        let waited: WaitResponse = self.call("Wait", &request, None)?;
        Ok(waited.exit_status)
    }

    pub(crate) fn kill(&mut self, id: &str, exec: &str, signal: u32, all: bool) -> Result<()> {
        let request = KillRequest {
            id: id.into(),
            exec_id: exec.into(),
            signal,
            all,
        };
        self.call("Kill", &request, Some(LIMIT))
    }

    /// Deletes a task or a command that has exited.
    pub(crate) fn delete(&mut self, id: &str, exec: &str) -> Result<()> {
        let request = DeleteRequest {
            id: id.into(),
            exec_id: exec.into(),
        };
        self.call("Delete", &request, Some(LIMIT))
    }

    pub(crate) fn state(&mut self, id: &str, exec: &str) -> Result<StateResponse> {
        let request = StateRequest {
            id: id.into(),
            exec_id: exec.into(),
        };
        self.call("State", &request, Some(LIMIT))
    }

    pub(crate) fn resize(&mut self, id: &str, exec: &str, size: (u16, u16)) -> Result<()> {
        let request = ResizePtyRequest {
            id: id.into(),
            exec_id: exec.into(),
            width: size.0.into(),
            height: size.1.into(),
        };
        self.call("ResizePty", &request, Some(LIMIT))
    }

    pub(crate) fn close_stdin(&mut self, id: &str, exec: &str) -> Result<()> {
        let request = CloseIoRequest {
            id: id.into(),
            exec_id: exec.into(),
            stdin: true,
        };
        self.call("CloseIO", &request, Some(LIMIT))
    }

    pub(crate) fn pids(&mut self, id: &str) -> Result<Vec<u32>> {
        let request = PidsRequest { id: id.into() };
        let listed: PidsResponse = self.call("Pids", &request, Some(LIMIT))?;
        Ok(listed.processes.iter().map(|it| it.pid).collect())
    }

    pub(crate) fn pause(&mut self, id: &str) -> Result<()> {
        self.call("Pause", &PauseRequest { id: id.into() }, Some(LIMIT))
    }

    pub(crate) fn resume(&mut self, id: &str) -> Result<()> {
        self.call("Resume", &ResumeRequest { id: id.into() }, Some(LIMIT))
    }

    /// Updates the resources, given as an OCI `linux.resources` object.
    pub(crate) fn update(&mut self, id: &str, resources: Vec<u8>) -> Result<()> {
        let request = UpdateTaskRequest {
            id: id.into(),
            resources: Some(Any {
                type_url: "types.containerd.io/opencontainers/runtime-spec/1/LinuxResources".into(),
                value: resources,
            }),
        };
        self.call("Update", &request, Some(LIMIT))
    }

    /// Returns the resource usage of a task; `None` if its format is unknown.
    pub(crate) fn figures(&mut self, id: &str) -> Result<Option<Figures>> {
        let request = StatsRequest { id: id.into() };
        let told: StatsResponse = self.call("Stats", &request, Some(LIMIT))?;
        Ok(told.stats.as_ref().and_then(Figures::of_metrics))
    }

    /// Returns the pid of the shim.
    pub(crate) fn shim_pid(&mut self, id: &str) -> Result<u32> {
        let request = ConnectRequest { id: id.into() };
        let connected: ConnectResponse = self.call("Connect", &request, Some(LIMIT))?;
        Ok(connected.shim_pid)
    }

    /// Asks a shim without tasks to exit. The response may be lost.
    pub(crate) fn shutdown(&mut self, id: &str) {
        let request = ShutdownRequest { id: id.into() };
        let _: Result<()> = self.call("Shutdown", &request, Some(Duration::from_secs(3)));
    }

    fn call<R: Message + Default>(
        &mut self,
        method: &str,
        request: &impl Message,
        limit: Option<Duration>,
    ) -> Result<R> {
        self.client.call(self.service, method, request, limit)
    }
}

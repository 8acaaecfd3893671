//! The Task service of a shim, version 2 or 3: the messages are the same.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::connect::{self, Guest};
use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::proto::{Writer, fields};
use crate::rootfs::Rootfs;
use crate::rpc::Client;

/// What a shim does at once takes no longer.
const LIMIT: Duration = Duration::from_secs(10);
/// A virtual machine may have to boot first.
const CREATE_LIMIT: Duration = Duration::from_secs(90);

/// How a shim is reached.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Endpoint {
    pub(crate) socket: PathBuf,
    pub(crate) version: u32,
    /// The shim's own process; 0 until the pod's own task runs in it.
    #[serde(default)]
    pub(crate) pid: u32,
    /// Else by ttrpc.
    #[serde(default)]
    pub(crate) grpc: bool,
    /// Where in a guest; else on this machine.
    #[serde(default)]
    pub(crate) guest: Option<Guest>,
}

impl Endpoint {
    /// By its address and, where that does not say so, its protocol.
    pub(crate) fn at(address: &str, protocol: &str, version: u32) -> Option<Self> {
        let (scheme, rest) = address.split_once("://")?;
        let (protocol, transport) = scheme.split_once('+').unwrap_or((protocol, scheme));
        let grpc = match protocol {
            "ttrpc" | "" => false,
            "grpc" => true,
            _ => return None,
        };
        let (socket, guest) = connect::place(transport, rest)?;
        Some(Self {
            socket,
            version,
            pid: 0,
            grpc,
            guest,
        })
    }

    /// As containerd writes it.
    pub(crate) fn address(&self) -> String {
        let protocol = if self.grpc { "grpc" } else { "ttrpc" };
        let socket = self.socket.display();
        match self.guest {
            None => format!("{protocol}+unix://{socket}"),
            Some(Guest { cid: None, port }) => format!("{protocol}+hvsock://{socket}:{port}"),
            Some(Guest {
                cid: Some(cid),
                port,
            }) => format!("{protocol}+vsock://{cid}:{port}"),
        }
    }

    /// Of a controller, which answers by gRPC.
    pub(crate) fn of_controller(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            version: 0,
            pid: 0,
            grpc: true,
            guest: None,
        }
    }

    /// For people.
    pub(crate) fn place(&self) -> String {
        let socket = self.socket.display();
        match self.guest {
            None => socket.to_string(),
            Some(Guest { cid: None, port }) => format!("{socket}, port {port}"),
            Some(Guest {
                cid: Some(cid),
                port,
            }) => format!("vsock {cid}:{port}"),
        }
    }

    pub(crate) fn with_pid(&self, pid: u32) -> Self {
        Self {
            pid,
            ..self.clone()
        }
    }

    /// Removes the socket of a shim that was killed. That of a machine's monitor is not the shim's.
    pub(crate) fn forget(&self) {
        if self.guest.is_none() {
            let _ = std::fs::remove_file(&self.socket);
        }
    }

    pub(crate) fn has_come_up(&self) -> bool {
        self.pid != 0
    }

    /// Whether nobody listens at its socket, or there is none.
    pub(crate) fn is_gone(&self) -> bool {
        let connected = UnixStream::connect(&self.socket);
        let gone = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
        connected.is_err_and(|error| gone.contains(&error.kind()))
    }

    /// Whether the process of its number lives; one that only waits for its parent does not.
    pub(crate) fn is_alive(&self) -> bool {
        let pid = Pid::from_raw(self.pid as i32);
        let Some(Ok(process)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
            return false;
        };
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        poll(&mut ended, Some(&Timespec::default())) == Ok(0)
    }
}

/// The standard streams of a task, as paths of fifos or addresses of streams; empty ones are not there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stdio {
    pub(crate) stdin: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) terminal: bool,
}

/// A message of some other schema, which its type names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Any {
    pub(crate) kind: &'static str,
    pub(crate) value: Vec<u8>,
}

impl Any {
    pub(crate) fn encode(&self) -> Vec<u8> {
        Writer::default()
            .text(1, self.kind)
            .bytes(2, &self.value)
            .done()
    }
}

/// Where a task or a command in it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Created,
    Running,
    Stopped,
    Paused,
    Unknown,
}

/// What a shim knows of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) pid: u32,
    pub(crate) status: Status,
}

/// The tasks of one shim.
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

    /// Makes a task, whose first process waits to be started.
    pub(crate) fn create(
        &mut self,
        id: &str,
        bundle: &str,
        rootfs: Option<&Rootfs>,
        stdio: &Stdio,
        options: Option<&Any>,
    ) -> Result<u32> {
        let mut request = Writer::default().text(1, id).text(2, bundle);
        if let Some(rootfs) = rootfs {
            request = request.message(3, &rootfs.encode());
        }
        request = request
            .number(4, stdio.terminal.into())
            .text(5, &stdio.stdin)
            .text(6, &stdio.stdout)
            .text(7, &stdio.stderr);
        if let Some(options) = options {
            request = request.message(10, &options.encode());
        }
        let answer = self.call("Create", request, Some(CREATE_LIMIT))?;
        number(&answer, 1, "Create").map(|pid| pid as u32)
    }

    /// Prepares a command in a task.
    pub(crate) fn exec(
        &mut self,
        id: &str,
        exec: &str,
        stdio: &Stdio,
        process: Vec<u8>,
    ) -> Result<()> {
        let spec = Any {
            kind: "types.containerd.io/opencontainers/runtime-spec/1/Process",
            value: process,
        };
        let request = Writer::default()
            .text(1, id)
            .text(2, exec)
            .number(3, stdio.terminal.into())
            .text(4, &stdio.stdin)
            .text(5, &stdio.stdout)
            .text(6, &stdio.stderr)
            .message(7, &spec.encode());
        self.call("Exec", request, Some(LIMIT)).map(drop)
    }

    /// Starts a task, or a command in it.
    pub(crate) fn start(&mut self, id: &str, exec: &str) -> Result<()> {
        let request = of(id, exec);
        self.call("Start", request, Some(CREATE_LIMIT)).map(drop)
    }

    /// Waits for the end of a task, or of a command in it, and answers its exit code.
    pub(crate) fn wait(&mut self, id: &str, exec: &str) -> Result<u32> {
        let answer = self.call("Wait", of(id, exec), None)?;
        number(&answer, 1, "Wait").map(|code| code as u32)
    }

    pub(crate) fn kill(&mut self, id: &str, exec: &str, signal: u32, all: bool) -> Result<()> {
        let request = of(id, exec).number(3, signal.into()).number(4, all.into());
        self.call("Kill", request, Some(LIMIT)).map(drop)
    }

    /// Forgets a task, or a command, that has ended.
    pub(crate) fn delete(&mut self, id: &str, exec: &str) -> Result<()> {
        self.call("Delete", of(id, exec), Some(LIMIT)).map(drop)
    }

    pub(crate) fn state(&mut self, id: &str, exec: &str) -> Result<State> {
        let answer = self.call("State", of(id, exec), Some(LIMIT))?;
        let status = match number(&answer, 4, "State")? {
            1 => Status::Created,
            2 => Status::Running,
            3 => Status::Stopped,
            4 | 5 => Status::Paused,
            _ => Status::Unknown,
        };
        let pid = number(&answer, 3, "State")? as u32;
        Ok(State { pid, status })
    }

    pub(crate) fn resize(&mut self, id: &str, exec: &str, size: (u16, u16)) -> Result<()> {
        let (width, height) = size;
        let request = of(id, exec)
            .number(3, width.into())
            .number(4, height.into());
        self.call("ResizePty", request, Some(LIMIT)).map(drop)
    }

    pub(crate) fn close_stdin(&mut self, id: &str, exec: &str) -> Result<()> {
        let request = of(id, exec).number(3, 1);
        self.call("CloseIO", request, Some(LIMIT)).map(drop)
    }

    pub(crate) fn pids(&mut self, id: &str) -> Result<Vec<u32>> {
        let answer = self.call("Pids", of(id, ""), Some(LIMIT))?;
        let processes = fields(&answer).map(|field| field.ok_or_else(|| garbled("Pids")));
        processes
            .filter(|field| !matches!(field, Ok(field) if field.number != 1))
            .map(|field| number(field?.as_bytes(), 1, "Pids").map(|pid| pid as u32))
            .collect()
    }

    pub(crate) fn pause(&mut self, id: &str) -> Result<()> {
        self.call("Pause", of(id, ""), Some(LIMIT)).map(drop)
    }

    pub(crate) fn resume(&mut self, id: &str) -> Result<()> {
        self.call("Resume", of(id, ""), Some(LIMIT)).map(drop)
    }

    /// Sets resources, an OCI `linux.resources` object.
    pub(crate) fn update(&mut self, id: &str, resources: Vec<u8>) -> Result<()> {
        let resources = Any {
            kind: "types.containerd.io/opencontainers/runtime-spec/1/LinuxResources",
            value: resources,
        };
        let request = Writer::default()
            .text(1, id)
            .message(2, &resources.encode());
        self.call("Update", request, Some(LIMIT)).map(drop)
    }

    /// What a task uses; nothing where it is told in unknown terms.
    pub(crate) fn figures(&mut self, id: &str) -> Result<Option<Figures>> {
        let answer = self.call("Stats", of(id, ""), Some(LIMIT))?;
        let (mut kind, mut metrics) = (String::new(), &[][..]);
        for any in fields(&answer) {
            let any = any.ok_or_else(|| garbled("Stats"))?;
            for field in fields(any.as_bytes()).filter(|_| any.number == 1) {
                let field = field.ok_or_else(|| garbled("Stats"))?;
                match field.number {
                    1 => kind = field.as_text(),
                    2 => metrics = field.as_bytes(),
                    _ => {}
                }
            }
        }
        Ok(Figures::of_metrics(&kind, metrics))
    }

    /// The shim's own process.
    pub(crate) fn shim_pid(&mut self, id: &str) -> Result<u32> {
        let answer = self.call("Connect", of(id, ""), Some(LIMIT))?;
        number(&answer, 1, "Connect").map(|pid| pid as u32)
    }

    /// Asks a shim without tasks to end. Its answer may get lost with it.
    pub(crate) fn shutdown(&mut self, id: &str) {
        let _ = self.call("Shutdown", of(id, ""), Some(Duration::from_secs(3)));
    }

    fn call(&mut self, method: &str, request: Writer, limit: Option<Duration>) -> Result<Vec<u8>> {
        self.client
            .call(self.service, method, &request.done(), limit)
    }
}

fn of(id: &str, exec: &str) -> Writer {
    Writer::default().text(1, id).text(2, exec)
}

/// A number in a message; 0 is left out there.
pub(crate) fn number(message: &[u8], wanted: u32, method: &str) -> Result<u64> {
    let mut found = 0;
    for field in fields(message) {
        let field = field.ok_or_else(|| garbled(method))?;
        if field.number == wanted {
            found = field.as_number();
        }
    }
    Ok(found)
}

fn garbled(method: &str) -> Error {
    Error::Garbled(format!("the shim's response to {method}"))
}

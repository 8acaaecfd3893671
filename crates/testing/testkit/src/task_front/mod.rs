//! A server in front of a shim that only supports the oldest task protocol. It offers version 3 of the task service
//! over gRPC or ttrpc, with streams instead of fifos.

mod grpc;
mod streams;
mod ttrpc;

use std::collections::HashMap;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use orlop_containerd_api::services::streaming::StreamInit;
use orlop_containerd_api::task::{CreateTaskRequest, ExecProcessRequest};
use orlop_containerd_api::{Any, Message};
use orlop_ttrpc::{Client, Error};

use streams::{Stream, Streams};

/// The streaming service.
const STREAMING: &str = "containerd.services.streaming.v1.Streaming";

/// The task service of the shim.
const OLD_TASKS: &str = "containerd.task.v2.Task";

/// A server in front of a shim.
#[derive(Debug)]
pub struct TaskFront {
    shim: PathBuf,
    dir: PathBuf,
    streams: Streams,
    /// Number of calls by service.
    told: Mutex<HashMap<String, usize>>,
    fifos: AtomicUsize,
    /// Whether to hide the cgroups of containers from the host.
    apart: bool,
}

/// Moves a container to another cgroup that the host does not know: a container in a VM has no cgroup on the host.
pub fn keep_apart(create: &[u8]) {
    let request = CreateTaskRequest::decode(create).expect("a request");
    let path = Path::new(&request.bundle).join("config.json");
    let text = std::fs::read(&path).expect("a specification");
    let mut spec: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let place = spec["linux"]["cgroupsPath"].as_str().expect("a cgroup");
    spec["linux"]["cgroupsPath"] = format!("{place}-guest").into();
    std::fs::write(&path, spec.to_string()).expect("write");
}

/// Starts a shim as containerd does, with these arguments, and returns its socket.
pub fn start_shim(program: &str, words: &[String]) -> String {
    let mut start = Command::new(program);
    start.args(words).arg("start").stdin(Stdio::null());
    let said = start.output().expect("a shim").stdout;
    let said = String::from_utf8_lossy(&said);
    let address = said.split("unix://").nth(1).unwrap_or_default();
    let address = address.split('"').next().unwrap_or_default();
    address.trim().to_owned()
}

/// Error of a call.
type Refusal = (i32, String);

impl TaskFront {
    /// Creates a front for the shim at this socket, with fifos in a directory.
    pub fn new(shim: &Path, dir: &Path) -> Arc<Self> {
        Arc::new(Self::in_front_of(shim, dir, false))
    }

    /// Creates a front that also hides the shim's containers from the host.
    pub fn apart(shim: &Path, dir: &Path) -> Arc<Self> {
        Arc::new(Self::in_front_of(shim, dir, true))
    }

    fn in_front_of(shim: &Path, dir: &Path, apart: bool) -> Self {
        Self {
            shim: shim.to_owned(),
            dir: dir.to_owned(),
            streams: Streams::default(),
            told: Mutex::default(),
            fifos: AtomicUsize::new(0),
            apart,
        }
    }

    /// Serves ttrpc as long as this process lives.
    pub fn serve_ttrpc(self: &Arc<Self>, listener: UnixListener) {
        ttrpc::serve(Arc::clone(self), listener);
    }

    /// Serves gRPC as long as this process lives.
    pub fn serve_grpc(self: &Arc<Self>, listener: UnixListener) {
        grpc::serve(Arc::clone(self), listener);
    }

    /// Returns the number of calls of a service.
    pub fn told(&self, service: &str) -> usize {
        let told = self.told.lock().expect("the calls");
        told.get(service).copied().unwrap_or_default()
    }

    fn note(&self, service: &str) {
        let mut told = self.told.lock().expect("the calls");
        *told.entry(service.to_owned()).or_default() += 1;
    }

    /// Forwards a call.
    fn call(&self, service: &str, method: &str, payload: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        self.note(service);
        if service == OLD_TASKS {
            return Err((12, format!("{service} is too old for this shim")));
        }
        let service = service.replace("task.v3", "task.v2");
        if method == "Create" && self.apart {
            keep_apart(&payload);
        }
        let payload = match method {
            "Create" => self.with_fifos::<CreateTaskRequest>(&payload),
            "Exec" => self.with_fifos::<ExecProcessRequest>(&payload),
            _ => payload,
        };
        let unavailable = |error: std::io::Error| (14, error.to_string());
        let mut shim = Client::connect(&self.shim).map_err(unavailable)?;
        shim.call(&service, method, &payload, None)
            .map_err(|error| match error {
                Error::Refused { code, message, .. } => (code, message),
                error => (14, error.to_string()),
            })
    }

    /// Replaces stream names in a request by fifos that are connected to the streams.
    fn with_fifos<M: WithStreams>(&self, request: &[u8]) -> Vec<u8> {
        let mut request = M::decode(request).expect("a request");
        for (place, name) in request.stdio().into_iter().enumerate() {
            let Some((_, stream)) = name.split_once("?streaming_id=") else {
                continue;
            };
            let stream = self.streams.take(stream);
            let number = self.fifos.fetch_add(1, Ordering::Relaxed);
            let fifo = self.dir.join(format!("stream-{number}"));
            streams::connect(stream, &fifo, place == 0);
            fifo.to_str().expect("a path").clone_into(name);
        }
        request.encode_to_vec()
    }

    /// Registers a stream by its first message.
    fn register(&self, init: &[u8], stream: Stream) {
        self.note(STREAMING);
        let init = Any::decode(init).expect("a message");
        let StreamInit { id } = init.unpack().expect("a name");
        self.streams.register(id, stream);
    }
}

/// A request with standard streams.
trait WithStreams: Message + Default {
    /// Returns standard input, output and error.
    fn stdio(&mut self) -> [&mut String; 3];
}

impl WithStreams for CreateTaskRequest {
    fn stdio(&mut self) -> [&mut String; 3] {
        [&mut self.stdin, &mut self.stdout, &mut self.stderr]
    }
}

impl WithStreams for ExecProcessRequest {
    fn stdio(&mut self) -> [&mut String; 3] {
        [&mut self.stdin, &mut self.stdout, &mut self.stderr]
    }
}

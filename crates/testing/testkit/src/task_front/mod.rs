//! What serves tasks in front of a shim that only knows the oldest ways: by gRPC, in version 3 of the task
//! service, with streams of its own instead of fifos.

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

/// The service whose method `Stream` is for streams.
const STREAMING: &str = "containerd.services.streaming.v1.Streaming";

/// What the shim behind knows.
const OLD_TASKS: &str = "containerd.task.v2.Task";

/// A server in front of a shim.
#[derive(Debug)]
pub struct TaskFront {
    shim: PathBuf,
    dir: PathBuf,
    streams: Streams,
    /// Calls that came, by their service.
    told: Mutex<HashMap<String, usize>>,
    fifos: AtomicUsize,
    /// Whether the host is not to know the cgroups of its containers.
    apart: bool,
}

/// The host has no cgroup of a container in a machine: here it is one that the host does not know of.
pub fn keep_apart(create: &[u8]) {
    let request = CreateTaskRequest::decode(create).expect("a request");
    let path = Path::new(&request.bundle).join("config.json");
    let text = std::fs::read(&path).expect("a specification");
    let mut spec: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let place = spec["linux"]["cgroupsPath"].as_str().expect("a cgroup");
    spec["linux"]["cgroupsPath"] = format!("{place}-guest").into();
    std::fs::write(&path, spec.to_string()).expect("write");
}

/// Starts a shim as containerd does, with these words; returns its socket.
pub fn start_shim(program: &str, words: &[String]) -> String {
    let mut start = Command::new(program);
    start.args(words).arg("start").stdin(Stdio::null());
    let said = start.output().expect("a shim").stdout;
    let said = String::from_utf8_lossy(&said);
    let address = said.split("unix://").nth(1).unwrap_or_default();
    let address = address.split('"').next().unwrap_or_default();
    address.trim().to_owned()
}

/// Why a call is refused.
type Refusal = (i32, String);

impl TaskFront {
    /// In front of the shim at this socket; its fifos are made in a directory.
    pub fn new(shim: &Path, dir: &Path) -> Arc<Self> {
        Arc::new(Self::in_front_of(shim, dir, false))
    }

    /// The same, and the shim's containers are kept apart from the host.
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

    /// Serves ttrpc for as long as this process lives.
    pub fn serve_ttrpc(self: &Arc<Self>, listener: UnixListener) {
        ttrpc::serve(Arc::clone(self), listener);
    }

    /// Serves gRPC for as long as this process lives.
    pub fn serve_grpc(self: &Arc<Self>, listener: UnixListener) {
        grpc::serve(Arc::clone(self), listener);
    }

    /// How many calls of a service came.
    pub fn told(&self, service: &str) -> usize {
        let told = self.told.lock().expect("the calls");
        told.get(service).copied().unwrap_or_default()
    }

    fn note(&self, service: &str) {
        let mut told = self.told.lock().expect("the calls");
        *told.entry(service.to_owned()).or_default() += 1;
    }

    /// Passes a call on.
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

    /// What names a stream names a fifo instead, at whose other end is that stream.
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

    /// Registers a stream by the first message on it.
    fn register(&self, init: &[u8], stream: Stream) {
        self.note(STREAMING);
        let init = Any::decode(init).expect("a message");
        let StreamInit { id } = init.unpack().expect("a name");
        self.streams.register(id, stream);
    }
}

/// A request with streams.
trait WithStreams: Message + Default {
    /// Standard input, output and error.
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

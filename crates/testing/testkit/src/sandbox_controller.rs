//! A controller of containerd's Sandbox API on a socket. Its sandboxes are runc's shims, which also serve the tasks. It
//! can be told to misbehave.

use std::convert::Infallible;
use std::fs::File;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use orlop_containerd_api::Message;
use orlop_containerd_api::services::events::{ForwardRequest, SubscribeRequest};
use orlop_containerd_api::services::sandbox::{
    ControllerCreateRequest, ControllerStartRequest, ControllerStartResponse,
    ControllerUpdateRequest,
};
use prost::DecodeError;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixListener;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tower::Service;

use crate::frames::hear_events;
use crate::process::processes;
use crate::raw::Raw;
use crate::sandbox_facts as facts;
use crate::serve::Background;
use crate::task_front::TaskFront;

/// Socket for the events of its shims; a later controller of the directory uses the same one.
fn events(dir: &Path) -> PathBuf {
    dir.join("events.sock")
}

const SHIM: &str = "containerd-shim-runc-v2";

/// Behaviour of the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whims {
    /// Responds correctly.
    #[default]
    None,
    /// Never responds to `Create`.
    Hangs,
    /// Refuses with "resource exhausted".
    Refuses,
    /// Never responds to `Status`.
    HangsLater,
    /// Returns an invalid address.
    TalksNonsense,
    /// Responds correctly, and its tasks use gRPC and the newer task version, as in a VM.
    ServesGrpc,
}

/// A running controller. It stops on drop, but its sandboxes continue to run.
#[derive(Debug)]
pub struct SandboxController {
    state: Arc<State>,
    serving: Option<Background>,
}

#[derive(Debug)]
struct State {
    dir: PathBuf,
    whims: Whims,
    told: Mutex<Vec<String>>,
    logs: Mutex<Vec<File>>,
    fronts: Mutex<Vec<Arc<TaskFront>>>,
    subscribers: Mutex<Vec<UnboundedSender<Vec<u8>>>>,
}

impl SandboxController {
    /// Serves at `controller.sock` in a directory, which also contains its sandboxes.
    pub fn start(dir: &Path, whims: Whims) -> Self {
        let socket = Self::socket(dir);
        let _ = std::fs::remove_file(&socket);
        let state = Arc::new(State {
            dir: dir.to_owned(),
            whims,
            told: Mutex::default(),
            logs: Mutex::default(),
            fronts: Mutex::default(),
            subscribers: Mutex::default(),
        });
        if !events(dir).exists() {
            let told = Arc::clone(&state);
            let heard = move |request: &[u8]| told.pass_on(request);
            hear_events(&events(dir), heard).expect("a socket for events");
        }
        let service = Controller(Arc::clone(&state));
        let subscriptions = Events(Arc::clone(&state));
        let (listening, ready) = std::sync::mpsc::channel();
        let serving = Background::start(async move || {
            let listener = UnixListener::bind(socket).expect("a socket");
            listening.send(()).expect("who starts it waits");
            let incoming = futures_util::stream::unfold(listener, |listener| async {
                let accepted = listener.accept().await.map(|(socket, _)| socket);
                Some((accepted, listener))
            });
            let server = tonic::transport::Server::builder()
                .add_service(service)
                .add_service(subscriptions)
                .serve_with_incoming(Box::pin(incoming));
            let _ = server.await;
        });
        ready.recv().expect("it listens");
        let serving = Some(serving);
        Self { state, serving }
    }

    /// Returns the socket of a controller of this directory.
    pub fn socket(dir: &Path) -> PathBuf {
        dir.join("controller.sock")
    }

    /// Returns how many calls of a service arrived at the gRPC task servers.
    pub fn calls_of(&self, service: &str) -> usize {
        let fronts = self.state.fronts.lock().expect("the fronts");
        fronts.iter().map(|front| front.told(service)).sum()
    }

    /// Returns the requests so far.
    pub fn told(&self) -> Vec<String> {
        let told = self.state.told.lock();
        told.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for SandboxController {
    fn drop(&mut self) {
        drop(self.serving.take());
        if std::thread::panicking() {
            // Nothing else would end them.
            self.state.end_all();
        }
    }
}

/// Defines a gRPC service by its name and its handler.
macro_rules! service {
    ($service:ident, $name:literal, |$state:ident, $request:ident| $answer:expr) => {
        #[derive(Clone)]
        struct $service(Arc<State>);

        impl NamedService for $service {
            const NAME: &'static str = $name;
        }

        impl<B> Service<http::Request<B>> for $service
        where
            B: http_body_util::BodyExt<Data = bytes::Bytes> + Send + 'static,
            B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
        {
            type Response = http::Response<Body>;
            type Error = Infallible;
            type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, $request: http::Request<B>) -> Self::Future {
                let $state = Arc::clone(&self.0);
                Box::pin(async move { Ok($answer) })
            }
        }
    };
}

service!(
    Controller,
    "containerd.services.sandbox.v1.Controller",
    |state, request| {
        let method = request.uri().path().rsplit('/').next();
        let method = method.unwrap_or_default().to_owned();
        Grpc::new(Raw).unary(Call { state, method }, request).await
    }
);

// Service for subscribers to the events of shims.
service!(
    Events,
    "containerd.services.events.v1.Events",
    |state, request| {
        let mut grpc = Grpc::new(Raw);
        grpc.server_streaming(Subscription(state), request).await
    }
);

struct Subscription(Arc<State>);

type Told = Pin<Box<dyn futures_util::Stream<Item = Result<Vec<u8>, Status>> + Send>>;

impl ServerStreamingService<Vec<u8>> for Subscription {
    type Response = Vec<u8>;
    type ResponseStream = Told;
    type Future = BoxFuture<'static, Result<Response<Told>, Status>>;

    fn call(&mut self, request: Request<Vec<u8>>) -> Self::Future {
        let request = SubscribeRequest::decode(&*request.into_inner()).expect("a request");
        let filter = request.filters.concat();
        let (to, mut told) = unbounded_channel();
        let subscribers = self.0.subscribers.lock();
        subscribers.unwrap_or_else(PoisonError::into_inner).push(to);
        Box::pin(async move {
            if filter != "topic==\"/tasks/oom\"" {
                return Err(Status::invalid_argument(filter));
            }
            let told = futures_util::stream::poll_fn(move |context| {
                told.poll_recv(context).map(|envelope| envelope.map(Ok))
            });
            Ok(Response::new(Box::pin(told) as Told))
        })
    }
}

struct Call {
    state: Arc<State>,
    method: String,
}

impl UnaryService<Vec<u8>> for Call {
    type Response = Vec<u8>;
    type Future = BoxFuture<'static, Result<Response<Vec<u8>>, Status>>;

    fn call(&mut self, ask: Request<Vec<u8>>) -> Self::Future {
        let (state, method) = (Arc::clone(&self.state), self.method.clone());
        let ask = ask.into_inner();
        Box::pin(async move {
            if method == "Status" && state.whims == Whims::HangsLater {
                pending::<()>().await;
            }
            if let Some(told) = state.told_of(&method, &ask) {
                return told.map(Response::new);
            }
            let create = match method.as_str() {
                "Create" => Some(ControllerCreateRequest::decode(&*ask)),
                _ => None,
            };
            let garbled = |error: DecodeError| Status::internal(error.to_string());
            let create = create.transpose().map_err(garbled)?;
            // The requests of all methods share these fields.
            let ask = ControllerStartRequest::decode(&*ask).map_err(garbled)?;
            let answer = state
                .answer(&method, ask, create.unwrap_or_default())
                .await?;
            Ok(Response::new(answer.encode_to_vec()))
        })
    }
}

impl State {
    /// Forwards an event of a shim to the subscribers.
    fn pass_on(&self, request: &[u8]) {
        let forwarded = ForwardRequest::decode(request).expect("an event");
        let envelope = forwarded.envelope.unwrap_or_default();
        if envelope.topic == "/tasks/oom" {
            let envelope = envelope.encode_to_vec();
            let subscribers = self.subscribers.lock();
            let mut subscribers = subscribers.unwrap_or_else(PoisonError::into_inner);
            subscribers.retain(|to| to.send(envelope.clone()).is_ok());
        }
    }

    /// Answers `Platform`, `Status`, `Metrics` and `Update`; `None` for other methods.
    fn told_of(&self, method: &str, ask: &[u8]) -> Option<Result<Vec<u8>, Status>> {
        let request = ControllerStartRequest::decode(ask).unwrap_or_default();
        let bundle = self.dir.join(&request.sandbox_id);
        Some(Ok(match method {
            "Platform" => return Some(Err(Status::unimplemented(method))),
            _ if !matches!(method, "Status" | "Metrics" | "Update") => return None,
            _ if !bundle.exists() => return Some(Err(Status::not_found("no such sandbox"))),
            "Status" => facts::status(!bundle.join("down").exists(), "remote"),
            "Metrics" => facts::metrics(),
            _ => {
                let request = ControllerUpdateRequest::decode(ask).expect("a request");
                let line = format!("Update {}", updated(request));
                let told = self.told.lock();
                told.unwrap_or_else(PoisonError::into_inner).push(line);
                Vec::new()
            }
        }))
    }

    async fn answer(
        &self,
        method: &str,
        ask: ControllerStartRequest,
        create: ControllerCreateRequest,
    ) -> Result<ControllerStartResponse, Status> {
        let kind = create
            .options
            .as_ref()
            .map_or("", |options| &options.type_url);
        let line = format!("{method} {} {} {kind}", ask.sandbox_id, ask.sandboxer);
        let told = self.told.lock();
        told.unwrap_or_else(PoisonError::into_inner)
            .push(line.trim().to_owned());
        let id = &ask.sandbox_id;
        match (method, self.whims) {
            ("Create", Whims::Hangs) => pending().await,
            ("Create", Whims::Refuses) => Err(Status::resource_exhausted("no room for a machine")),
            ("Create", _) => self.create(&create).map_err(failed),
            ("Start", Whims::TalksNonsense) => Ok(ControllerStartResponse {
                address: "carrier-pigeon://dovecote".into(),
                ..ControllerStartResponse::default()
            }),
            ("Start", _) => self.started(id),
            ("Wait", _) => {
                while self.lives(id) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok(ControllerStartResponse::default())
            }
            ("Stop", _) => {
                let bundle = self.dir.join(id);
                if !bundle.exists() {
                    return Err(Status::not_found("no such sandbox"));
                }
                self.end(id);
                Ok(ControllerStartResponse::default())
            }
            ("Shutdown", _) => {
                let _ = std::fs::remove_dir_all(self.dir.join(id));
                Ok(ControllerStartResponse::default())
            }
            _ => Err(Status::unimplemented(method.to_owned())),
        }
    }

    fn create(&self, ask: &ControllerCreateRequest) -> std::io::Result<ControllerStartResponse> {
        let bundle = self.dir.join(&ask.sandbox_id);
        std::fs::create_dir_all(&bundle)?;
        let spec = ask.sandbox.clone().unwrap_or_default().spec;
        std::fs::write(bundle.join("config.json"), spec.unwrap_or_default().value)?;
        let log = bundle.join("log");
        mknodat(CWD, &log, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Shims open the pipe for writing, and write too little to fill it.
        let log = File::options().read(true).write(true).open(log)?;
        let logs = self.logs.lock();
        logs.unwrap_or_else(PoisonError::into_inner).push(log);
        Ok(ControllerStartResponse::default())
    }

    fn shim(&self, id: &str, action: &str) -> Command {
        let bundle = self.dir.join(id);
        let mut shim = Command::new(SHIM);
        shim.args(["-namespace", "kit", "-address"])
            .arg(events(&self.dir))
            .args(["-publish-binary", "/bin/true", "-id", id, "-bundle"])
            .arg(&bundle)
            .arg(action)
            .current_dir(bundle)
            .env("TTRPC_ADDRESS", events(&self.dir))
            .stdin(Stdio::null());
        shim
    }

    fn started(&self, id: &str) -> Result<ControllerStartResponse, Status> {
        let started = self.shim(id, "start").output().map_err(failed)?;
        let said = String::from_utf8_lossy(&started.stdout).trim().to_owned();
        if !started.status.success() || !said.starts_with("unix://") {
            return Err(Status::internal(format!("the shim says {said:?}")));
        }
        std::fs::write(self.dir.join(id).join("socket"), &said["unix://".len()..])
            .map_err(failed)?;
        let (address, version) = match self.whims {
            Whims::ServesGrpc => (self.front(id, Path::new(&said["unix://".len()..])), 3),
            _ => (format!("ttrpc+{said}"), 2),
        };
        Ok(ControllerStartResponse {
            sandbox_id: id.to_owned(),
            address,
            version,
            ..ControllerStartResponse::default()
        })
    }

    fn front(&self, id: &str, shim: &Path) -> String {
        let bundle = self.dir.join(id);
        let socket = bundle.join("front.sock");
        let front = TaskFront::apart(shim, &bundle);
        front.serve_grpc(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
        self.fronts.lock().expect("the fronts").push(front);
        format!("grpc+unix://{}", socket.display())
    }

    fn lives(&self, id: &str) -> bool {
        let socket = std::fs::read_to_string(self.dir.join(id).join("socket"));
        socket.is_ok_and(|socket| std::os::unix::net::UnixStream::connect(socket).is_ok())
    }

    fn end_all(&self) {
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if entry.path().join("socket").exists() {
                self.end(&entry.file_name().to_string_lossy());
            }
        }
    }

    /// Deletes the task of the shim, which may be gone already.
    fn end(&self, id: &str) {
        for pid in processes(&[&format!("-namespace kit -id {id}")]) {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let _ = self.shim(id, "delete").output();
        let socket = std::fs::read_to_string(self.dir.join(id).join("socket"));
        let _ = socket.map(std::fs::remove_file);
    }
}

/// Formats the fields that change, and the first extension.
fn updated(request: ControllerUpdateRequest) -> String {
    let extensions = request.sandbox.unwrap_or_default().extensions;
    let (name, said) = extensions.into_iter().next().unwrap_or_default();
    let (fields, said) = (request.fields.concat(), String::from_utf8(said.value));
    format!("{fields} {name} {}", said.expect("a text"))
}

fn failed(error: std::io::Error) -> Status {
    Status::internal(error.to_string())
}

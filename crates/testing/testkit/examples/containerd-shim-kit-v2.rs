//! A shim with a Sandbox service, as those of virtual machines have one: its sandbox takes a while to
//! boot and is there before any task. It notes each call of that service in the file `told` of the
//! bundle. Its tasks are those of runc's shim, which it starts as its guest.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(
    clippy::zombie_processes,
    reason = "what starts the server ends before it"
)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use orlop_containerd_api::Message;
use orlop_containerd_api::bootstrap::{BootstrapParams, BootstrapResult};
use orlop_containerd_api::sandbox::{CreateSandboxRequest, StartSandboxResponse};
use orlop_containerd_api::task::{ConnectResponse, ShutdownRequest};
use orlop_testkit::task_front::{keep_apart, start_shim};
use orlop_testkit::{TaskFront, sandbox_facts as facts};
use orlop_ttrpc::{Client, Request, read_whole_frame, respond};
use rustix::process::{Pid, Signal, kill_process, setsid};

const GUEST: &str = "containerd-shim-runc-v2";
const TASKS: &str = "containerd.task.v2.Task";
const BOOT: Duration = Duration::from_millis(300);
const SLOW: Duration = Duration::from_secs(1);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = words.iter().position(|word| word == name);
        at.map_or("", |at| words[at + 1].as_str()).to_owned()
    };
    let id = option("-id");
    match words.last().map(String::as_str) {
        Some("start") => start(&id),
        Some("delete") => {
            // One that was killed leaves them.
            remove_sockets(&id);
            delete(&words);
        }
        Some("serve") => serve(&id, &words),
        _ => {}
    }
}

fn socket(id: &str) -> PathBuf {
    std::env::temp_dir().join(format!("orlop-kit-shim-{}", &id[..id.len().min(24)]))
}

/// Where newer ways are spoken, under the names that have them.
fn front(id: &str) -> PathBuf {
    socket(id).with_extension("front")
}

fn remove_sockets(id: &str) {
    for socket in [socket(id), front(id)] {
        let _ = fs::remove_file(socket);
    }
}

fn has_front() -> bool {
    ["-json3-v2", "-grpc-v2", "-proto-v2"]
        .into_iter()
        .any(is_called)
}

fn start(id: &str) {
    if is_called("-slow-v2") {
        std::thread::sleep(SLOW);
    }
    if is_called("-proto-v2") {
        check_parameters(id);
    }
    let listener = UnixListener::bind(socket(id)).expect("a socket");
    let words = std::env::args().skip(1);
    let words: Vec<_> = words.filter(|word| word != "start").collect();
    let mut server = Command::new(std::env::current_exe().expect("this program"));
    server
        .arg0(std::env::args().next().expect("a name"))
        .args(words)
        .arg("serve")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .stdout(Stdio::null())
        .stderr(File::create("kit.log").expect("a log"));
    server.spawn().expect("a server");
    if has_front() {
        while !front(id).exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    io::stdout().write_all(&bootstrapped(id)).expect("write");
}

/// Newer shims are told all in a message, and look at nothing else.
fn check_parameters(id: &str) {
    let mut told = Vec::new();
    io::stdin().read_to_end(&mut told).expect("parameters");
    let told = BootstrapParams::decode(&*told).unwrap_or_default();
    let there = [
        &told.containerd_ttrpc_address,
        &told.containerd_grpc_address,
    ]
    .map(|path| Path::new(path).exists());
    if told.instance_id != id || told.namespace.is_empty() || there != [true, true] {
        println!("these are no parameters: {told:?}");
        std::process::exit(1);
    }
}

/// How the shim says where it is reached: its name tells in which of the forms that there are.
fn bootstrapped(id: &str) -> Vec<u8> {
    let address = format!("unix://{}", socket(id).display());
    let newer = format!("unix://{}", front(id).display());
    if is_called("-plain-v2") {
        return format!("{address}\n").into();
    }
    if is_called("-proto-v2") {
        let result = BootstrapResult {
            version: 3,
            address: newer,
            protocol: "grpc".into(),
            metadata: [("form".to_owned(), "protobuf\n".to_owned())].into(),
        };
        return result.encode_to_vec();
    }
    let (version, protocol) = match () {
        () if is_called("-grpc-v2") => (3, "grpc"),
        () if is_called("-json3-v2") => (3, "ttrpc"),
        () => (2, "ttrpc"),
    };
    let address = if has_front() { newer } else { address };
    let answer = serde_json::json!({"version": version, "address": address, "protocol": protocol});
    format!("{answer}\n").into()
}

/// The guest goes with the machine that it was in.
fn delete(words: &[String]) {
    if let Ok(address) = fs::read_to_string("guest") {
        let connected = call(&address, "Connect", &[]);
        let connected = connected.and_then(|answer| ConnectResponse::decode(&*answer).ok());
        let pid = connected.and_then(|connected| Pid::from_raw(connected.shim_pid as i32));
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::KILL);
            let _ = fs::remove_file(address);
        }
    }
    let status = Command::new(GUEST).args(words).status();
    std::process::exit(status.ok().and_then(|status| status.code()).unwrap_or(1));
}

/// The sandbox.
struct Sandbox {
    words: Vec<String>,
    ended: Mutex<bool>,
    end: Condvar,
}

fn serve(id: &str, words: &[String]) {
    let _ = setsid();
    let listener = rustix::io::dup(rustix::stdio::stdin()).expect("the listener");
    let listener = UnixListener::from(listener);
    let sandbox = Arc::new(Sandbox {
        words: words[..words.len() - 1].to_vec(),
        ended: Mutex::new(false),
        end: Condvar::new(),
    });
    if has_front() {
        let newer = UnixListener::bind(front(id)).expect("a socket");
        let server = TaskFront::new(&socket(id), &std::env::current_dir().expect("a bundle"));
        if is_called("-json3-v2") {
            server.serve_ttrpc(newer);
        } else {
            server.serve_grpc(newer);
        }
    }
    for client in listener.incoming().map_while(io::Result::ok) {
        let (sandbox, id) = (Arc::clone(&sandbox), id.to_owned());
        std::thread::spawn(move || answer(&sandbox, &id, client));
    }
}

/// Answers the calls of the Sandbox service, and passes all others on to the guest.
fn answer(sandbox: &Arc<Sandbox>, id: &str, mut client: UnixStream) -> Option<()> {
    let answers = Arc::new(Mutex::new(client.try_clone().ok()?));
    let mut guest: Option<UnixStream> = None;
    while let Ok(frame) = read_whole_frame(&mut client) {
        let Request {
            service,
            method,
            payload,
            ..
        } = Request::decode(&*frame.payload).ok()?;
        if service == "containerd.runtime.sandbox.v1.Sandbox" {
            let (sandbox, answers) = (Arc::clone(sandbox), Arc::clone(&answers));
            let id = id.to_owned();
            // Some have one connection for all calls, also for the one that waits.
            std::thread::spawn(move || {
                let answer = Ok(sandbox.call(&id, &method, &payload));
                let mut to = answers.lock().ok()?;
                respond(&mut to, frame.call, &answer).ok()?;
                if method == "ShutdownSandbox" {
                    remove_sockets(&id);
                    std::process::exit(0);
                }
                Some(())
            });
            continue;
        }
        if guest.is_none() {
            let address = fs::read_to_string("guest").ok()?;
            let stream = UnixStream::connect(address).ok()?;
            let mut from = stream.try_clone().ok()?;
            let (to, client) = (Arc::clone(&answers), client.try_clone().ok()?);
            std::thread::spawn(move || {
                while let Ok(frame) = read_whole_frame(&mut from) {
                    if frame.write(&mut *to.lock().expect("the client")).is_err() {
                        break;
                    }
                }
                let _ = client.shutdown(std::net::Shutdown::Both);
            });
            guest = Some(stream);
        }
        if method == "Create" && is_called("-apart-v2") {
            keep_apart(&payload);
        }
        frame.write(guest.as_mut()?).ok()?;
    }
    Some(())
}

/// Other names of this program are other manners.
fn is_called(manner: &str) -> bool {
    let name = std::env::args().next();
    name.is_some_and(|name| name.ends_with(manner))
}

impl Sandbox {
    fn end(&self) {
        *self.ended.lock().expect("the sandbox") = true;
        self.end.notify_all();
    }

    /// A sandbox whose guest has died has ended.
    fn watch(self: &Arc<Self>, mut guest: UnixStream) {
        let sandbox = Arc::clone(self);
        std::thread::spawn(move || {
            let _ = guest.read(&mut [0]);
            sandbox.end();
        });
    }

    fn call(self: &Arc<Self>, id: &str, method: &str, payload: &[u8]) -> Vec<u8> {
        match method {
            "CreateSandbox" => {
                let asked = CreateSandboxRequest::decode(payload).expect("a request");
                let options = asked.options.unwrap_or_default();
                let config = orlop_cri_api::v1::PodSandboxConfig::decode(&*options.value);
                let name = config.ok().and_then(|config| config.metadata);
                let name = name.map(|metadata| metadata.name).unwrap_or_default();
                tell(&format!("create {}", asked.sandbox_id));
                tell(&format!("bundle {}", asked.bundle_path));
                tell(&format!("network {}", asked.netns_path));
                tell(&format!("options {} {name}", options.type_url));
                let spec =
                    fs::read(Path::new(&asked.bundle_path).join("config.json")).expect("a spec");
                let spec: serde_json::Value = serde_json::from_slice(&spec).expect("JSON");
                tell(&format!(
                    "hostname {}",
                    spec["hostname"].as_str().unwrap_or("")
                ));
                for (name, value) in asked.annotations {
                    tell(&format!("annotation {name}={value}"));
                }
                Vec::new()
            }
            "StartSandbox" => {
                tell("start");
                std::thread::sleep(BOOT);
                let address = start_shim(GUEST, &self.words);
                fs::write("guest", &address).expect("write");
                let guest = UnixStream::connect(address).expect("the guest");
                self.watch(guest);
                let started = StartSandboxResponse {
                    pid: std::process::id(),
                    ..StartSandboxResponse::default()
                };
                started.encode_to_vec()
            }
            "WaitSandbox" => {
                let mut ended = self.ended.lock().expect("the sandbox");
                while !*ended {
                    ended = self.end.wait(ended).expect("the sandbox");
                }
                Vec::new()
            }
            "Platform" => {
                let architecture = match std::env::consts::ARCH {
                    "x86_64" => "amd64",
                    "aarch64" => "arm64",
                    other => other,
                };
                let other = is_called("-foreign-v2");
                facts::platform(if other { "s390x" } else { architecture })
            }
            // The test says so by a file.
            "SandboxStatus" => facts::status(!Path::new("down").exists(), "kit"),
            "SandboxMetrics" => facts::metrics(),
            "StopSandbox" => {
                tell("stop");
                self.end();
                Vec::new()
            }
            "ShutdownSandbox" => {
                if let Ok(guest) = fs::read_to_string("guest") {
                    let request = ShutdownRequest { id: id.into() };
                    let _ = call(&guest, "Shutdown", &request.encode_to_vec());
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
}

fn tell(line: &str) {
    let told = File::options().create(true).append(true).open("told");
    writeln!(told.expect("a file"), "{line}").expect("write");
}

/// Calls the tasks of the guest.
fn call(address: &str, method: &str, payload: &[u8]) -> Option<Vec<u8>> {
    let mut guest = Client::connect(Path::new(address)).ok()?;
    guest.call(TASKS, method, payload, None).ok()
}

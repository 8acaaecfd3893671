//! A shim that behaves as that of a virtual machine does which has no Sandbox service: the machine boots
//! with the task that is the pod's sandbox, which takes a while, and is the process that is named for
//! whatever runs in it. What it takes for the tasks' files, volumes and options, and what it does with
//! them, is as Kata Containers' Go shim has it. Its guest is runc's shim, with files of its own.
//!
//! It notes what it is told, a line of JSON each, in the file `told.jsonl` of the bundle. Under a name that
//! ends in `-hybrid-v2` it is reached as a guest is, behind the socket of a monitor.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(
    clippy::zombie_processes,
    reason = "what starts the server ends before it"
)]

mod asked;
mod pull;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orlop_containerd_api::Message;
use orlop_containerd_api::task::{
    ConnectRequest, ConnectResponse, CreateTaskRequest, CreateTaskResponse, DeleteRequest,
    PidsResponse, ShutdownRequest, StartResponse, StateResponse, UpdateTaskRequest,
};
use orlop_containerd_api::task_types::ProcessInfo;
use orlop_containerd_api::types::Mount;
use orlop_testkit::task_front::start_shim;
use orlop_ttrpc::{Call, Client, Error, Status, code, respond};
use rustix::process::{Pid, Signal, kill_process, setsid};
use serde_json::{Value, json};

use asked::{image_of, mount_volumes, understood};
use pull::pull;

type Answer<T> = Result<T, Status>;

fn refused(message: impl Into<String>) -> Status {
    Status::new(code::UNKNOWN, message)
}

const GUEST: &str = "containerd-shim-runc-v2";
const BOOT: Duration = Duration::from_millis(300);
const PORT: &str = "1024";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = words.iter().position(|word| word == name);
        at.map_or("", |at| words[at + 1].as_str()).to_owned()
    };
    let id = option("-id");
    match words.last().map(String::as_str) {
        Some("start") => start(&id),
        Some("delete") => delete(&id, &words),
        Some("serve") => serve(words),
        _ => {}
    }
}

fn socket(id: &str) -> PathBuf {
    std::env::temp_dir().join(format!("orlop-machine-{}", &id[..id.len().min(24)]))
}

/// It serves in a mount namespace of its own, into which the host's mounts come.
fn start(id: &str) {
    let program = std::env::args().next().expect("a name");
    let listener = UnixListener::bind(socket(id)).expect("a socket");
    let words = std::env::args().skip(1).filter(|word| word != "start");
    let words: Vec<_> = words.collect();
    let mut server = Command::new("unshare");
    server
        .args(["--mount", "--propagation", "slave"])
        .arg(&program)
        .args(words)
        .arg("serve")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .stdout(Stdio::null())
        .stderr(File::create("machine.log").expect("a log"));
    server.spawn().expect("a server");
    let path = socket(id);
    if is_hybrid() {
        let address = format!("hvsock://{}:{PORT}", path.display());
        println!(r#"{{"version":2,"address":"{address}","protocol":"ttrpc"}}"#);
    } else {
        // The address alone, as shims on the older library answer.
        print!("unix://{}", path.display());
    }
}

fn is_hybrid() -> bool {
    let name = std::env::args().next();
    name.is_some_and(|name| name.ends_with("-hybrid-v2"))
}

/// The guest and the machine go with the shim that had them.
fn delete(id: &str, words: &[String]) {
    if let Ok(address) = fs::read_to_string("guest") {
        let _ = fs::remove_file(socket(id));
        let request = ConnectRequest::default().encode_to_vec();
        let connected = Guest::at(&address).and_then(|mut guest| guest.ask("Connect", &request));
        let connected = ConnectResponse::decode(&*connected.unwrap_or_default());
        kill(connected.expect("a response").shim_pid);
        let _ = fs::remove_file(address);
        let machine = fs::read_to_string("machine").unwrap_or_default();
        kill(machine.parse().unwrap_or_default());
    }
    // Somebody else may clean up after the same task, and take its bundle away.
    let spec = fs::read("config.json").unwrap_or_default();
    let status = Command::new(GUEST).args(words).status();
    remove_cgroups(&serde_json::from_slice(&spec).unwrap_or_default());
    std::process::exit(status.ok().and_then(|status| status.code()).unwrap_or(1));
}

/// What was in the guest is gone with it, what stood for that here included.
fn remove_cgroups(spec: &Value) {
    let place = spec["linux"]["cgroupsPath"].as_str().unwrap_or_default();
    if !place.ends_with("-guest") {
        return;
    }
    let hierarchies = fs::read_dir("/sys/fs/cgroup").expect("cgroups");
    let hierarchies = hierarchies.map(|entry| entry.expect("an entry").path());
    for root in hierarchies.chain(["/sys/fs/cgroup".into()]) {
        let dir = root.join(place.trim_start_matches('/'));
        for _ in 0..100 {
            for pid in fs::read_to_string(dir.join("cgroup.procs"))
                .unwrap_or_default()
                .lines()
            {
                kill(pid.parse().unwrap_or_default());
            }
            if fs::remove_dir(&dir).is_ok() || !dir.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn kill(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid as i32).filter(|_| pid > 1) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// A connection to the guest.
struct Guest(Client);

impl Guest {
    fn at(address: &str) -> Answer<Self> {
        let connected = Client::connect(Path::new(address.trim()));
        connected
            .map(Self)
            .map_err(|error| refused(error.to_string()))
    }

    fn ask(&mut self, method: &str, payload: &[u8]) -> Answer<Vec<u8>> {
        let answer = self
            .0
            .call("containerd.task.v2.Task", method, payload, None);
        answer.map_err(|error| match error {
            Error::Refused { code, message, .. } => Status { code, message },
            error => refused(error.to_string()),
        })
    }
}

/// What is there of the machine.
struct Machine {
    words: Vec<String>,
    tasks: Mutex<BTreeSet<String>>,
    /// The monitor's process.
    monitor: Mutex<u32>,
}

fn serve(mut words: Vec<String>) {
    let _ = setsid();
    words.pop();
    let listener = rustix::io::dup(rustix::stdio::stdin()).expect("the listener");
    let listener = UnixListener::from(listener);
    let machine = Arc::new(Machine {
        words,
        tasks: Mutex::default(),
        monitor: Mutex::default(),
    });
    for client in listener.incoming().map_while(io::Result::ok) {
        let machine = Arc::clone(&machine);
        std::thread::spawn(move || machine.answer(client));
    }
}

impl Machine {
    /// Clients ask one thing after the other on each connection.
    fn answer(&self, mut client: UnixStream) -> Option<()> {
        if is_hybrid() {
            let mut line = [0; 13];
            client.read_exact(&mut line).ok()?;
            (line[..] == *format!("CONNECT {PORT}\n").as_bytes()).then_some(())?;
            client.write_all(b"OK 1073741824\n").ok()?;
        }
        let mut guest = None;
        while let Ok(call) = Call::read(&mut client) {
            let answer = self.call(&mut guest, &call.method, &call.payload);
            respond(&mut client, call.number, &answer).ok()?;
            if call.method == "Shutdown" && self.tasks.lock().unwrap().is_empty() {
                kill(*self.monitor.lock().unwrap());
                let id = ShutdownRequest::decode(&*call.payload).ok()?.id;
                let _ = fs::remove_file(socket(&id));
                std::process::exit(0);
            }
        }
        Some(())
    }

    fn call(&self, guest: &mut Option<Guest>, method: &str, payload: &[u8]) -> Answer<Vec<u8>> {
        if method == "Create" {
            let created = CreateTaskRequest::decode(payload).expect("a request");
            return self.create(guest, created);
        }
        let monitor = *self.monitor.lock().unwrap();
        if method == "Connect" {
            let connected = ConnectResponse {
                shim_pid: std::process::id(),
                task_pid: monitor,
                ..ConnectResponse::default()
            };
            return Ok(connected.encode_to_vec());
        }
        if monitor == 0 {
            return Err(Status::new(code::NOT_FOUND, "there is no machine"));
        }
        if method == "Update" {
            let asked = UpdateTaskRequest::decode(payload).expect("a request");
            let resources = asked.resources.unwrap_or_default();
            let limits: Value = serde_json::from_slice(&resources.value).expect("JSON");
            tell(
                &json!({"call": "Update", "id": asked.id, "type": resources.type_url, "limits": limits}),
            );
        }
        if guest.is_none() {
            let address = fs::read_to_string("guest").expect("the guest");
            *guest = Some(Guest::at(&address)?);
        }
        let answer = guest.as_mut().expect("a guest").ask(method, payload)?;
        // All that is seen from outside is the machine.
        Ok(match method {
            "Start" => StartResponse { pid: monitor }.encode_to_vec(),
            "State" => {
                let mut state = StateResponse::decode(&*answer).expect("a state");
                state.pid = monitor;
                state.encode_to_vec()
            }
            "Pids" => {
                let process = ProcessInfo {
                    pid: monitor,
                    ..ProcessInfo::default()
                };
                let processes = vec![process];
                PidsResponse { processes }.encode_to_vec()
            }
            "Delete" => {
                let of = DeleteRequest::decode(payload).expect("a request");
                if of.exec_id.is_empty() {
                    tell(&json!({"call": "Delete", "id": of.id}));
                    self.tasks.lock().unwrap().remove(&of.id);
                }
                answer
            }
            _ => answer,
        })
    }

    fn create(&self, guest: &mut Option<Guest>, mut asked: CreateTaskRequest) -> Answer<Vec<u8>> {
        let path = Path::new(&asked.bundle).join("config.json");
        let mut spec: Value = serde_json::from_slice(&fs::read(&path).unwrap()).expect("JSON");
        let options = asked.options.take().unwrap_or_default();
        let rootfs: Vec<_> = asked
            .rootfs
            .iter()
            .map(|mount| {
                json!({"type": mount.r#type, "source": mount.source, "options": mount.options})
            })
            .collect();
        tell(&json!({
            "call": "Create", "id": asked.id, "rootfs": rootfs, "spec": spec,
            "options": understood(&options)?,
        }));
        let of_pod = spec["annotations"]["io.kubernetes.cri.container-type"] == "sandbox";
        if of_pod == (*self.monitor.lock().unwrap() != 0) {
            return Err(refused("one sandbox before all containers, and no other"));
        }
        if of_pod {
            self.boot();
        }
        if let Some(image) = image_of(&asked.rootfs, &spec)? {
            tell(&json!({"call": "pull", "id": asked.id, "image": image}));
            asked.rootfs = if image == "pause" {
                // That is in the guest.
                Vec::new()
            } else {
                let root = fs::canonicalize(".")
                    .unwrap()
                    .join("images")
                    .join(&asked.id);
                pull(&image, &root)
                    .map_err(|error| refused(format!("pulling {image}: {error}")))?;
                vec![Mount {
                    r#type: "bind".into(),
                    source: root.to_string_lossy().into_owned(),
                    options: vec!["rbind".into(), "rw".into()],
                    ..Mount::default()
                }]
            };
        }
        if !of_pod {
            // Nothing of it is on the host.
            let place = spec["linux"]["cgroupsPath"].as_str().expect("a cgroup");
            spec["linux"]["cgroupsPath"] = format!("{place}-guest").into();
            mount_volumes(&mut spec);
            fs::write(&path, spec.to_string()).expect("write");
        }
        let address = fs::read_to_string("guest").expect("the guest");
        let mut connected = Guest::at(&address)?;
        connected.ask("Create", &asked.encode_to_vec())?;
        *guest = Some(connected);
        self.tasks.lock().unwrap().insert(asked.id);
        let pid = *self.monitor.lock().unwrap();
        Ok(CreateTaskResponse { pid }.encode_to_vec())
    }

    fn boot(&self) {
        std::thread::sleep(BOOT);
        let monitor = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "sleep", "infinity"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a monitor");
        fs::write("machine", monitor.id().to_string()).expect("write");
        fs::write("guest", start_shim(GUEST, &self.words)).expect("write");
        *self.monitor.lock().unwrap() = monitor.id();
    }
}

fn tell(what: &Value) {
    let told = File::options().create(true).append(true).open("told.jsonl");
    writeln!(told.expect("a file"), "{what}").expect("write");
}

//! Streaming sessions, as `kubectl exec`, `cp` and `port-forward` have them: what they carry is
//! whole, and nothing is left of them however they end.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use orlop_cri::v1::{ExecRequest, PortForwardRequest};
use orlop_stream::client::{
    ClientError, ClientOptions, ClientStreams, Forward, Protocol, exec, port_forward,
};
use orlop_testkit::Cri;
use orlop_testkit::process::memory;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::world::world;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// By how much a daemon may grow while it carries however much.
const GROWTH_KB: u64 = 16 << 10;

/// `ORLOP_STREAM_MIB=1024 ORLOP_STREAM_ROUNDS=20` is the long form.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_and_fetched_is_whole_and_costs_no_memory() {
    let world = world!();
    let (mib, rounds) = (
        number("ORLOP_STREAM_MIB", 48),
        number("ORLOP_STREAM_ROUNDS", 1),
    );
    let data = RandomFile::make(mib);
    let wanted = digest_of(Stdio::from(File::open(&data.0).unwrap())).await;
    let spec = world
        .container("main")
        .shell("sleep 86400")
        .mount(&data.0, "/data");
    let running = world.run_container("carry", &spec).await;
    let mut protocols = vec![Protocol::Spdy, Protocol::WebSocket];
    // A first session of each kind, for what every daemon sets up once.
    for protocol in &protocols {
        fetch(
            &world.cri,
            &running.id,
            *protocol,
            &["head", "-c", "9", "/data"],
        )
        .await;
    }
    let before = memory(world.node.pid(), "VmRSS:");
    fs::write(format!("/proc/{}/clear_refs", world.node.pid()), "5").unwrap();
    for round in 0..rounds {
        for protocol in &protocols {
            let start = Instant::now();
            let got = fetch(&world.cri, &running.id, *protocol, &["cat", "/data"]).await;
            println!("{round}: {protocol:?} down in {:.1?}", start.elapsed());
            assert_eq!(got, wanted, "{protocol:?}, fetched");
        }
        if world.node.is_peer() {
            // Of containerd 1.6 the end of what is sent can't be told over WebSocket.
            protocols.truncate(1);
        }
        for protocol in &protocols {
            let start = Instant::now();
            let got = send(&world.cri, &running.id, *protocol, &data.0).await;
            println!("{round}: {protocol:?} up in {:.1?}", start.elapsed());
            assert_eq!(got, wanted, "{protocol:?}, sent");
        }
    }
    let most = memory(world.node.pid(), "VmHWM:");
    println!("the daemon grew by {} kB", most.saturating_sub(before));
    if !world.node.is_peer() {
        assert!(most <= before + GROWTH_KB, "from {before} kB to {most} kB");
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_port_of_the_node_is_let_go_of_with_the_pod() {
    let world = world!();
    if world.node.is_peer() {
        orlop_testkit::skip!("other runtimes forward it for as long as their client stays");
    }
    for protocol in [Protocol::Spdy, Protocol::WebSocket] {
        let name = format!("{protocol:?}").to_lowercase();
        let running = world.run_script(&name, "sleep 86400").await;
        let (service, near) = (listening().await, listening().await);
        let (port, at) = (service.local_addr().unwrap().port(), near.local_addr());
        let request = PortForwardRequest {
            pod_sandbox_id: running.pod_id.clone(),
            port: vec![port.into()],
        };
        let answer = world.cri.runtime.clone().port_forward(request).await;
        let url = answer.expect("a URL").into_inner().url;
        let stop = CancellationToken::new();
        let forwards = vec![Forward {
            listener: near,
            port,
        }];
        let options = ClientOptions {
            protocol,
            ..ClientOptions::default()
        };
        let until = stop.clone();
        let session =
            tokio::spawn(
                async move { port_forward(&url, &options, forwards, until, |_| {}).await },
            );
        let mut client = TcpStream::connect(at.unwrap()).await.expect("connect");
        let (mut served, _) = service.accept().await.expect("a connection");
        served.write_all(b"hello").await.expect("say something");
        let mut said = [0; 5];
        client.read_exact(&mut said).await.expect("it is forwarded");

        world.cri.stop_pod(&running.pod_id).await.expect("stop it");
        let limit = Duration::from_secs(10) * orlop_testkit::machine::patience();
        for (whose, end) in [("client", &mut client), ("service", &mut served)] {
            let end = tokio::time::timeout(limit, end.read(&mut said)).await;
            let end = end.unwrap_or_else(|_| panic!("{protocol:?}: the {whose}'s end goes on"));
            assert!(end.is_err() || end.is_ok_and(|count| count == 0));
        }
        stop.cancel();
        session.await.expect("no panic").expect("a session");
    }
    world.finish().await;
}

async fn listening() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").await;
    listener.expect("listen")
}

/// `ORLOP_STREAM_SESSIONS=10000` is the long form.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_sessions_leave_nothing_however_they_end() {
    let world = world!();
    if world.node.is_peer() {
        orlop_testkit::skip!("containerd 1.6 leaves a command whose client has gone alone");
    }
    let sessions = number("ORLOP_STREAM_SESSIONS", 60);
    // A shell collects what its children leave behind.
    let running = world.run_script("short", "sleep 86400 & wait").await;
    let keeper = keeper_of(&running.pod_id);
    let alone = processes_in(keeper);
    for kind in 0..5 {
        session(&world.cri, &running.id, kind).await;
    }
    let counts = || {
        (
            descriptors(world.node.pid()),
            descriptors(keeper),
            commands_left(&world.node.state()),
        )
    };
    settle(|| processes_in(keeper) <= alone).await;
    let before = counts();
    let mut done = 0;
    while done < sessions {
        let batch = (done..sessions.min(done + 8)).map(|kind| {
            let (cri, id) = (world.cri.clone(), running.id.clone());
            tokio::spawn(async move { session(&cri, &id, kind).await })
        });
        for session in batch.collect::<Vec<_>>() {
            session.await.expect("a session went wrong");
            done += 1;
        }
    }
    settle(|| {
        let now = counts();
        now.0 <= before.0 && now.1 <= before.1 && now.2 == 0 && processes_in(keeper) <= alone
    })
    .await;
    let after = counts();
    assert!(
        after.0 <= before.0 && after.1 <= before.1 && after.2 == 0,
        "descriptors of daemon and keeper, directories: {before:?}, then {after:?}"
    );
    assert!(processes_in(keeper) <= alone, "commands go on");
    let ps = world.cri.exec(&running.id, &["ps", "-o", "args"]).await;
    let ps = String::from_utf8_lossy(&ps.expect("exec").stdout).into_owned();
    assert!(!ps.contains("4711"), "something of them goes on:\n{ps}");
    world.finish().await;
}

/// One session of a kind; a third of them is broken off at some moment.
async fn session(cri: &Cri, id: &str, kind: u64) {
    let protocol = if kind.is_multiple_of(2) {
        Protocol::Spdy
    } else {
        Protocol::WebSocket
    };
    let options = over(protocol);
    match kind % 5 {
        0 | 1 => {
            let url = url(cri, id, &["sh", "-c", "echo hello; exit 3"], false).await;
            let code = exec(&url, &options, outputs()).await;
            assert_eq!(code.expect("a session"), 3);
        }
        2 => {
            let url = url(cri, id, &["cat"], true).await;
            let (mut ours, theirs) = tokio::io::duplex(1 << 10);
            let streams = ClientStreams {
                stdin: Some(Box::new(&b"there and back"[..])),
                stdout: Some(Box::new(theirs)),
                ..outputs()
            };
            let (code, text) = tokio::join!(exec(&url, &options, streams), async {
                let mut text = String::new();
                ours.read_to_string(&mut text).await.expect("a reader");
                text
            });
            assert_eq!((code.expect("a session"), &text[..]), (0, "there and back"));
        }
        3 => {
            // The command is killed.
            let url = url(cri, id, &["sh", "-c", "kill -9 $$"], false).await;
            assert_eq!(
                exec(&url, &options, outputs()).await.expect("a session"),
                137
            );
        }
        _ => {
            // The client leaves.
            let script = "sleep 4711 & cat; sleep 4711";
            let url = url(cri, id, &["sh", "-c", script], true).await;
            let (_ours, theirs) = tokio::io::duplex(64);
            let streams = ClientStreams {
                stdin: Some(Box::new(theirs)),
                ..outputs()
            };
            let moment = Duration::from_micros(u64::from(rand::random::<u32>()) % 250_000);
            let left = tokio::time::timeout(moment, exec(&url, &options, streams)).await;
            assert!(left.is_err(), "it ended by itself: {left:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_killed_under_sessions_leaves_none_of_their_commands() {
    let mut world = world!();
    if world.node.is_peer() {
        orlop_testkit::skip!("containerd 1.6 leaves them");
    }
    let running = world.run_script("killed", "sleep 86400").await;
    let keeper = keeper_of(&running.pod_id);
    let alone = processes_in(keeper);
    for round in 0..number("ORLOP_STREAM_KILLS", 2) {
        let mut sessions = Vec::new();
        for kind in 0..6_u64 {
            let protocol = [Protocol::Spdy, Protocol::WebSocket][kind as usize % 2];
            let script = ["cat; sleep 4711", "sleep 4711 & while :; do echo on; done"];
            let url = url(
                &world.cri,
                &running.id,
                &["sh", "-c", script[kind as usize % 2]],
                true,
            )
            .await;
            sessions.push(tokio::spawn(async move {
                let (ours, theirs) = tokio::io::duplex(64);
                let streams = ClientStreams {
                    stdin: Some(Box::new(theirs)),
                    ..outputs()
                };
                let ended = exec(&url, &over(protocol), streams).await;
                drop(ours);
                ended
            }));
        }
        let moment = Duration::from_micros(u64::from(rand::random::<u32>()) % 500_000);
        tokio::time::sleep(moment).await;
        world.node.kill9();
        for session in sessions {
            let ended = tokio::time::timeout(Duration::from_secs(10), session).await;
            let ended = ended.expect("a client hangs").expect("no panic");
            assert!(
                matches!(
                    ended,
                    Err(ClientError::Lost
                        | ClientError::Connect { .. }
                        | ClientError::Http(_)
                        | ClientError::Stream { .. }
                        | ClientError::Timeout(_))
                ),
                "round {round}: {ended:?}"
            );
        }
        world.node.start_again().await;
        world.cri = world.node.cri().await;
        settle(|| processes_in(keeper) <= alone && commands_left(&world.node.state()) == 0).await;
        assert!(
            processes_in(keeper) <= alone,
            "round {round}: commands go on: {:?}",
            children_of(keeper)
        );
        let left = commands_left(&world.node.state());
        assert_eq!(left, 0, "round {round}: directories of commands are left");
    }
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_killed_while_a_command_starts_leaves_it_to_the_next_one_to_end() {
    let tools = tempfile::tempdir().unwrap();
    let slow = tools.path().join("slow");
    // A runtime that takes its time to start commands.
    let script = "#!/bin/sh\ncase \" $* \" in *' exec '*) sleep 2;; esac\nexec runc \"$@\"\n";
    fs::write(&slow, script).unwrap();
    fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut world = world!(orlop_testkit::Node::any().runtime(slow.to_str().unwrap()));
    if world.node.is_peer() {
        orlop_testkit::skip!("containerd calls its own shim");
    }
    let running = world.run_script("starting", "sleep 86400").await;
    let keeper = keeper_of(&running.pod_id);
    let alone = processes_in(keeper);
    let url = url(&world.cri, &running.id, &["sleep", "4711"], false).await;
    let options = over(Protocol::Spdy);
    let session = tokio::spawn(async move { exec(&url, &options, outputs()).await });
    settle(|| processes_in(keeper) == 2).await;
    assert_eq!(processes_in(keeper), 2, "the runtime is not at work");
    world.node.kill9();
    session
        .await
        .expect("no panic")
        .expect_err("the daemon is gone");
    world.node.start_again().await;
    world.cri = world.node.cri().await;
    // Until then it does not even run.
    tokio::time::sleep(Duration::from_secs(3)).await;
    settle(|| processes_in(keeper) <= alone).await;
    assert!(processes_in(keeper) <= alone, "{:?}", children_of(keeper));
    world.finish().await;
}

fn over(protocol: Protocol) -> ClientOptions {
    ClientOptions {
        protocol,
        ..ClientOptions::default()
    }
}

fn outputs() -> ClientStreams {
    ClientStreams {
        stdout: Some(Box::new(tokio::io::sink())),
        stderr: Some(Box::new(tokio::io::sink())),
        ..ClientStreams::default()
    }
}

/// Why there is no session.
pub(crate) async fn refusal(cri: &Cri, id: &str, words: &[&str]) -> String {
    let url = url(cri, id, words, false).await;
    let options = over(Protocol::WebSocket);
    let refused = exec(&url, &options, outputs()).await;
    refused.expect_err("no session").to_string()
}

async fn url(cri: &Cri, id: &str, words: &[&str], stdin: bool) -> String {
    let request = ExecRequest {
        container_id: id.to_owned(),
        cmd: words.iter().map(ToString::to_string).collect(),
        stdin,
        stdout: true,
        stderr: true,
        ..ExecRequest::default()
    };
    let answer = cri.runtime.clone().exec(request).await;
    answer.expect("an URL").into_inner().url
}

/// The digest of what a command prints.
async fn fetch(cri: &Cri, id: &str, protocol: Protocol, words: &[&str]) -> String {
    let url = url(cri, id, words, false).await;
    let mut digest = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let streams = ClientStreams {
        stdout: Some(Box::new(digest.stdin.take().unwrap())),
        ..outputs()
    };
    let code = exec(&url, &over(protocol), streams).await;
    assert_eq!(code.expect("a session"), 0);
    let output = digest.wait_with_output().await.unwrap();
    first_word(&output.stdout)
}

/// The digest of what a command reads.
async fn send(cri: &Cri, id: &str, protocol: Protocol, file: &Path) -> String {
    let url = url(cri, id, &["sha256sum"], true).await;
    let (mut ours, theirs) = tokio::io::duplex(1 << 10);
    let streams = ClientStreams {
        stdin: Some(Box::new(tokio::fs::File::open(file).await.unwrap())),
        stdout: Some(Box::new(theirs)),
        ..outputs()
    };
    let mut text = Vec::new();
    let options = over(protocol);
    let (code, read) = tokio::join!(exec(&url, &options, streams), ours.read_to_end(&mut text));
    assert_eq!(code.expect("a session"), 0);
    read.unwrap();
    first_word(&text)
}

async fn digest_of(input: Stdio) -> String {
    let output = Command::new("sha256sum").stdin(input).output().await;
    first_word(&output.unwrap().stdout)
}

fn first_word(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Random data in memory, where there is a place for that.
struct RandomFile(PathBuf);

impl RandomFile {
    fn make(mib: u64) -> Self {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = directory.join(format!("orlop-stream-{}", std::process::id()));
        let file = Self(path);
        let mut random = File::open("/dev/urandom").unwrap().take(mib << 20);
        std::io::copy(&mut random, &mut File::create(&file.0).unwrap()).unwrap();
        file
    }
}

impl Drop for RandomFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The keeper of a pod: its command line has the pod's id.
fn keeper_of(pod_id: &str) -> u32 {
    let mut found = None;
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let name = entry.file_name().to_string_lossy().parse::<u32>();
        if let (Ok(pid), true) = (name, line.contains("orlop-keeper") && line.contains(pod_id)) {
            found = Some(pid);
        }
    }
    found.expect("the pod has a keeper")
}

/// The children of the keeper: the container, and commands in it.
fn children_of(keeper: u32) -> Vec<String> {
    let children = format!("/proc/{keeper}/task/{keeper}/children");
    let children = fs::read_to_string(children).unwrap_or_default();
    children
        .split_whitespace()
        .map(|pid| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid} {}", line.replace('\0', " "))
        })
        .collect()
}

fn processes_in(keeper: u32) -> usize {
    children_of(keeper).len()
}

/// Directories of commands below the daemon's state.
fn commands_left(state: &Path) -> usize {
    let mut left = 0;
    for entry in fs::read_dir(state).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("exec-") {
            left += 1;
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            left += commands_left(&entry.path());
        }
    }
    left
}

/// Waits for what takes a moment; whether it came is for the caller to say.
async fn settle(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

//! Streaming sessions, as `kubectl exec`, `cp` and `port-forward` have them: what they carry is
//! whole, and nothing is left of them however they end.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{ExecRequest, PortForwardRequest};
use orlop_streaming::client::{
    ClientError, ClientOptions, ClientStreams, Forward, Protocol, exec, port_forward,
};
use orlop_testkit::process::memory;
use orlop_testkit::{Chance, Cri};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::world::world;

mod ours;

/// The moments of this run, or those of an earlier one whose seed `ORLOP_CHAOS_SEED` names.
fn chance() -> Chance {
    let seed = number("ORLOP_CHAOS_SEED", rand::random());
    println!("ORLOP_CHAOS_SEED={seed}");
    Chance::of_seed(seed)
}

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

async fn listening() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").await;
    listener.expect("listen")
}

/// One session of a kind; some are broken off at this moment.
async fn session(cri: &Cri, id: &str, kind: u64, moment: Duration) {
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
            let left = tokio::time::timeout(moment, exec(&url, &options, streams)).await;
            assert!(left.is_err(), "it ended by itself: {left:?}");
        }
    }
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
    let answer = cri.runtime().exec(request).await;
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

//! The daemon's life as its administrator and its service manager see it.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{GetEventsRequest, VersionRequest, VersionResponse};
use orlop_testkit::{Cri, Node, Registry, leaks};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn the_socket_is_for_root_and_the_group() {
    let node = Node::orlop()
        .config("[grpc]\ngroup = 54321\n")
        .start()
        .await;
    let socket = fs::metadata(node.socket()).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o660);
    assert_eq!((socket.uid(), socket.gid()), (0, 54321));
}

#[tokio::test]
async fn sigterm_ends_the_daemon_and_removes_its_socket() {
    let mut node = Node::orlop().start().await;
    let _idle = node.cri().await;
    let began = Instant::now();
    let status = node.stop();
    assert!(status.success(), "{status}");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(!node.socket().exists());
}

#[tokio::test]
async fn a_daemon_that_crashes_leaves_its_secrets_in_no_core_dump() {
    use std::os::unix::process::ExitStatusExt as _;

    let mut node = Node::orlop().start().await;
    let pid = Pid::from_raw(node.pid().cast_signed());
    let no_limit = Rlimit {
        current: None,
        maximum: None,
    };
    prlimit(pid, Resource::Core, no_limit).expect("allow core dumps");
    node.signal(Signal::ABORT);
    let status = node.wait(LIMIT).expect("it ends");
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()));
    assert!(!status.core_dumped(), "{status}");
}

#[tokio::test]
async fn a_stopped_daemon_has_closed_its_image_store() {
    let (_registry, image) = Registry::with_busybox().await;
    let mut node = Node::orlop().start().await;
    let cri = node.cri().await;
    cri.pull(&image).await.expect("pull");
    // A stream of events that is open at the end must not keep the store open.
    let request = GetEventsRequest::default();
    let _events = cri.runtime().get_container_events(request).await;
    let mark = node.root().join("images/running");
    assert!(mark.exists(), "the mark of a store in use");
    assert!(node.stop().success(), "{}", node.log());
    assert!(!mark.exists(), "{}", node.log());
    node.start_again().await;
    assert!(!node.log().contains("was not closed"), "{}", node.log());
}

#[tokio::test]
async fn who_was_let_in_is_answered_by_a_daemon_that_ends() {
    let mut node = Node::orlop().start().await;
    let cri = node.cri().await;
    // Of the daemon, no longer of the kernel's queue.
    tokio::time::sleep(Duration::from_millis(100)).await;
    node.signal(Signal::TERM);
    orlop_testkit::wait_until!(LIMIT, !node.socket().exists(), "{}", node.log());
    // Nobody else is there to answer: what it may have been told since counts, too.
    tokio::time::sleep(Duration::from_millis(200)).await;
    cri.version().await.expect("the daemon that is ending");
    assert!(node.stop().success(), "{}", node.log());
}

#[tokio::test]
async fn the_socket_of_a_killed_daemon_is_taken_over() {
    let mut node = Node::orlop().start().await;
    node.kill9();
    assert!(node.socket().exists(), "a killed daemon removes nothing");
    node.start_again().await;
}

#[tokio::test]
async fn reloading_applies_what_is_right_and_refuses_what_is_wrong() {
    let node = Node::orlop().start().await;
    let config = node.scratch().path("config.toml");
    let orlop = |args: &[&str]| {
        let socket = node.socket();
        let out = Command::new(env!("CARGO_BIN_EXE_orlop"))
            .args(args)
            .arg("--socket")
            .arg(socket)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [out.stdout, out.stderr].concat();
        (out.status.code(), String::from_utf8(text).unwrap())
    };

    fs::write(
        &config,
        "[log]\nlevel = \"debug\"\n[grpc]\nmax_connections = 7\n",
    )
    .unwrap();
    let (code, said) = orlop(&["config", "reload"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        said,
        "applied log.level; a restart is needed for grpc.max_connections\n"
    );
    assert_eq!(orlop(&["log-level"]).1, "debug\n");

    fs::write(&config, "[log]\nlevel = \"error\"\nnonsense = 1\n").unwrap();
    let (code, said) = orlop(&["config", "reload"]);
    assert_eq!(code, Some(1));
    orlop_testkit::assert_contains!(
        said,
        "keeping the old configuration",
        "config.toml:3: log.nonsense: unknown key"
    );
    assert_eq!(orlop(&["log-level"]).1, "debug\n");

    assert_eq!(orlop(&["log-level", "warn,orlop_image=debug"]).0, Some(0));
    assert_eq!(orlop(&["log-level"]).1, "warn,orlop_image=debug\n");
    assert_eq!(orlop(&["log-level", "loud"]).0, Some(2));
}

#[tokio::test]
async fn sighup_with_a_mistake_keeps_the_daemon_and_says_so() {
    let mut node = Node::orlop().start().await;
    fs::write(node.scratch().path("config.toml"), "nonsense = 1\n").unwrap();
    node.signal(Signal::HUP);
    orlop_testkit::wait_until!(
        LIMIT,
        node.log().contains("keeping the old configuration"),
        "{}",
        node.log()
    );
    node.cri().await.version().await.unwrap();
}

#[tokio::test]
async fn metrics_count_calls_by_method_and_code() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("metrics.sock");
    let node = Node::orlop()
        .arg("--metrics-listen")
        .arg(socket.to_str().unwrap())
        .start()
        .await;
    let cri = node.cri().await;
    let ask = VersionRequest::default;
    let _: Result<VersionResponse, _> = cri.call("/made.up.Service/Name1", ask()).await;
    let _: Result<VersionResponse, _> = cri.call("/made.up.Service/Name2", ask()).await;
    let text = http_get(&socket, "/metrics");
    for line in [
        "orlop_rpc_handled_total{service=\"unknown\",method=\"unknown\",code=\"UNIMPLEMENTED\"} 2",
        "orlop_rpc_in_flight{service=\"runtime.v1.RuntimeService\",method=\"Version\"} 0",
        "orlop_rpc_duration_seconds_count{service=\"runtime.v1.RuntimeService\",method=\"Version\"}",
        "process_resident_memory_bytes",
        "# EOF",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    assert!(!text.contains("made.up"), "a client made up a metric");
    assert!(http_get(&socket, "/healthz").ends_with("ok\n"));
    assert!(http_get(&socket, "/").starts_with("HTTP/1.1 404"));
}

fn http_get(socket: &std::path::Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A daemon started as a service manager starts one.
struct Managed {
    dir: TempDir,
    manager: UnixDatagram,
    child: Child,
}

impl Managed {
    fn start(listener: Option<UnixListener>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let manager = UnixDatagram::bind(path("notify")).unwrap();
        manager.set_read_timeout(Some(LIMIT)).unwrap();
        // The node's own plugins are no business of a test.
        fs::write(path("config.toml"), "[nri]\nenable = false\n").unwrap();
        // The listening socket becomes descriptor 3, and LISTEN_PID the daemon's own.
        let script = match listener {
            Some(_) => "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"",
            None => "exec \"$@\"",
        };
        let child = Command::new("sh")
            .args(["-c", script, "sh", env!("CARGO_BIN_EXE_orlop"), "serve"])
            .arg("--config")
            .arg(path("config.toml"))
            .arg("--root")
            .arg(path("root"))
            .arg("--state")
            .arg(path("state"))
            .arg("--listen")
            .arg(path("own.sock"))
            .env("NOTIFY_SOCKET", path("notify"))
            .env("WATCHDOG_USEC", "200000")
            .stdin(listener.map_or_else(Stdio::null, |listener| OwnedFd::from(listener).into()))
            .stderr(fs::File::create(path("log")).unwrap())
            .spawn()
            .unwrap();
        Self {
            dir,
            manager,
            child,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Waits for a word to the manager that begins so.
    fn hears(&self, expected: &str) -> String {
        let mut buffer = [0; 1024];
        let deadline = Instant::now() + LIMIT;
        loop {
            let length = self.manager.recv(&mut buffer).unwrap_or_else(|error| {
                let log = fs::read_to_string(self.path("log")).unwrap_or_default();
                panic!("no {expected}: {error}\n{log}")
            });
            let word = String::from_utf8(buffer[..length].to_vec()).unwrap();
            if word.starts_with(expected) {
                return word;
            }
            assert!(Instant::now() < deadline, "no {expected}");
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn ends_well(&mut self) {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return assert!(status.success(), "{status}");
            }
            assert!(Instant::now() < deadline, "the daemon goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        leaks::let_go(&self.path("state"));
    }
}

#[test]
fn the_service_manager_is_told() {
    let mut daemon = Managed::start(None);
    daemon.hears("READY=1");
    daemon.hears("WATCHDOG=1");
    daemon.signal(Signal::HUP);
    assert!(daemon.hears("RELOADING=1").contains("MONOTONIC_USEC="));
    daemon.hears("READY=1");
    daemon.signal(Signal::TERM);
    daemon.hears("STOPPING=1");
    daemon.ends_well();
}

#[tokio::test]
async fn a_socket_passed_by_the_manager_is_served_on_and_left_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("passed.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut daemon = Managed::start(Some(listener));
    daemon.hears("READY=1");
    Cri::connect(&path).await.unwrap().version().await.unwrap();
    assert!(
        !daemon.path("own.sock").exists(),
        "the socket passed replaces the daemon's own"
    );
    daemon.signal(Signal::TERM);
    daemon.ends_well();
    assert!(path.exists());
}

#[tokio::test]
async fn an_idle_daemon_does_nothing() {
    let node = Node::orlop().start().await;
    let switches = || {
        let mut total = 0_u64;
        for thread in fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap() {
            let status = fs::read_to_string(thread.unwrap().path().join("status"));
            let status = status.unwrap_or_default();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            total += line.map_or(0, |number| number.trim().parse::<u64>().unwrap());
        }
        total
    };
    // Threads for blocking work end after two seconds of idleness.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = switches();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(switches() - before, 0, "something woke up in the daemon");
}

#[tokio::test]
async fn a_reload_that_takes_long_keeps_nobody_from_stopping_the_daemon() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut node = Node::orlop().start().await;
    let program = node.scratch().path("slow-runtime");
    let asked = node.scratch().path("asked");
    fs::write(
        &program,
        format!("#!/bin/sh\ntouch {}\nexec sleep 60\n", asked.display()),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let table = format!("[runtimes.slow]\npath = {program:?}\n");
    fs::write(node.scratch().path("config.toml"), table).unwrap();
    node.signal(Signal::HUP);
    orlop_testkit::wait_until!(LIMIT, asked.exists(), "{}", node.log());
    let begun = Instant::now();
    assert!(node.stop().success(), "{}", node.log());
    assert!(begun.elapsed() < Duration::from_secs(5), "{}", node.log());
}

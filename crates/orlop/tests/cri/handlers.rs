//! Runtime handlers that cannot work: `config check` and the log of the start name what is wrong, as far as it
//! shows without a pod, and `RunPodSandbox` does for the pod that asks for one.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{RunPodSandboxRequest, StatusRequest};
use orlop_testkit::node::Start;
use orlop_testkit::{Node, assert_contains, machine, skip_unless};

use crate::world::world;

/// A handler, what is said of it before a pod asks for it, and what then.
struct Broken {
    name: &'static str,
    table: String,
    before: Option<&'static str>,
    asked: &'static str,
}

fn script(dir: &Path, name: &str, text: &str, mode: u32) -> String {
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("write");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    format!("kind = \"shim\"\npath = {path:?}\n")
}

fn proxied(address: &Path) -> String {
    format!("kind = \"shim\"\nsandboxer = \"proxy\"\naddress = {address:?}\n")
}

/// A socket at which somebody speaks HTTP of another age.
fn stranger(path: &Path) {
    let listener = UnixListener::bind(path).expect("a socket");
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let _ = client.read(&mut [0; 64]);
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
}

fn broken(dir: &Path) -> Vec<Broken> {
    stranger(&dir.join("stranger.sock"));
    std::fs::write(dir.join("file.sock"), "").expect("a file");
    let gone = UnixListener::bind(dir.join("gone.sock"));
    drop(gone.expect("a socket"));
    let answers = |version: u32| {
        format!(
            "test \"$1\" = -v || echo '{{\"version\":{version},\"address\":\"unix:///x\",\"protocol\":\"ttrpc\"}}'"
        )
    };
    let broken = |name, table, before, asked| Broken {
        name,
        table,
        before,
        asked,
    };
    let absent = "kind = \"shim\"\npath = \"/nonexistent/containerd-shim-x-v1\"\n";
    vec![
        broken(
            "absent",
            absent.to_owned(),
            Some("install it, or correct `path`"),
            "install it, or correct `path`",
        ),
        broken(
            "no-runtime",
            "path = \"/nonexistent/runc\"\n".to_owned(),
            Some("executing /nonexistent/runc"),
            "",
        ),
        broken(
            "inert",
            script(dir, "containerd-shim-inert-v2", "true", 0o644),
            Some("make it executable"),
            "make it executable",
        ),
        broken(
            "no-socket",
            proxied(&dir.join("nothing.sock")),
            Some("cannot find a controller at"),
            "start the controller, or correct `address`",
        ),
        broken(
            "gone",
            proxied(&dir.join("gone.sock")),
            Some("no process listens at"),
            "no process listens at",
        ),
        broken(
            "file",
            proxied(&dir.join("file.sock")),
            Some("is not a socket"),
            "is not a socket",
        ),
        broken(
            "stranger",
            proxied(&dir.join("stranger.sock")),
            Some("does not speak gRPC"),
            "does not speak gRPC",
        ),
        broken(
            "babbles",
            script(
                dir,
                "containerd-shim-babbles-v2",
                "echo what; echo now",
                0o755,
            ),
            None,
            "only ttrpc and gRPC",
        ),
        broken(
            "newer",
            script(dir, "containerd-shim-newer-v2", &answers(9), 0o755),
            None,
            "version 9 of the task API",
        ),
    ]
}

#[tokio::test]
async fn a_handler_that_cannot_work_is_named_before_and_when_it_is_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let all = broken(dir.path());
    let tables = all
        .iter()
        .map(|one| format!("[runtimes.{}]\n{}", one.name, one.table));
    let world = world!(Node::orlop().drop_in(&tables.collect::<String>()));
    let config = world.node.scratch().path("config.toml");
    let checked = std::process::Command::new(orlop_testkit::node::binary())
        .args(["config", "check", "--config"])
        .arg(config)
        .output()
        .expect("run orlop config check");
    assert!(checked.status.success(), "{checked:?}");
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    let names = |said: &str, one: &Broken| {
        let remedy = format!("fix or remove [runtimes.{}]", one.name);
        let mut lines = said.lines().filter(|line| line.contains(&remedy));
        let told = lines.next().map(str::to_owned);
        match (one.before, &told) {
            (None, None) => true,
            (Some(words), Some(told)) => told.contains(words),
            _ => false,
        }
    };
    for one in &all {
        assert!(names(&said, one), "{}:\n{said}", one.name);
    }
    let until = Instant::now() + Duration::from_secs(20);
    while !all.iter().all(|one| names(&world.node.log(), one)) {
        let log = world.node.log();
        assert!(
            Instant::now() < until,
            "it is not in the log of the start:\n{log}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for one in all.iter().filter(|one| !one.asked.is_empty()) {
        let request = RunPodSandboxRequest {
            config: Some(world.node.pod(one.name).config()),
            runtime_handler: one.name.to_owned(),
        };
        let asked = world.cri.runtime().run_pod_sandbox(request).await;
        let error = asked.expect_err(one.name);
        let error = error.message().to_owned();
        assert!(error.contains(one.asked), "{}: {error}", one.name);
    }
    assert!(world.cri.pods().await.expect("pods").is_empty());
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_whose_runtime_cannot_clone_itself_for_a_moment_starts_later() {
    let dir = tempfile::tempdir().expect("a directory");
    let calls = dir.path().join("calls");
    let text = format!(
        "echo >> {calls:?}\n\
         if [ $(wc -l < {calls:?}) -le 3 ]; then\n\
         echo 'clone: Resource temporarily unavailable' >&2; exit 1\n\
         fi\n\
         exec {:?} \"$@\"",
        orlop_testkit::node::run_binary()
    );
    script(dir.path(), "late", &text, 0o755);
    let path = dir.path().join("late");
    let table = format!("[runtimes.late]\npath = {path:?}\n");
    let node = Node::orlop().drop_in(&table).start().await;
    let log = node.log();
    assert_contains!(log, "cannot test the runtimes now");
    assert!(log.contains("pids.max"), "the way out is told: {log}");
    assert!(node.cri().await.containers().await.is_ok());
    node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_whose_runtime_cannot_clone_itself_for_five_seconds_does_not_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let exhausted = dir.path().join("exhausted");
    let text = format!(
        "if [ -e {exhausted:?} ]; then\n\
         echo 'clone: Resource temporarily unavailable' >&2; exit 1\n\
         fi\n\
         exec {:?} \"$@\"",
        orlop_testkit::node::run_binary()
    );
    script(dir.path(), "runtime", &text, 0o755);
    let path = dir.path().join("runtime");
    let table = format!("[runtimes.exhausted]\npath = {path:?}\n");
    let mut node = Node::orlop().drop_in(&table).start().await;
    node.stop();
    std::fs::write(&exhausted, "").expect("write");
    let (written, begin) = (node.log().len(), Instant::now());
    let start = node.start_again_beneath(&Command::new("env")).await;
    let took = begin.elapsed();
    let log = node.log()[written..].to_owned();
    assert!(
        matches!(start, Some(Start::Ended(status)) if status.code() == Some(1)),
        "{start:?}: {log}"
    );
    assert!(
        took >= Duration::from_secs(5) && took < Duration::from_secs(8),
        "{took:?}: {log}"
    );
    let last = log.lines().last().unwrap_or_default();
    assert!(last.contains("pids.max"), "the way out is told: {log}");
    std::fs::remove_file(&exhausted).expect("remove");
    node.start_again().await;
    node.finish().await;
}

#[tokio::test]
async fn a_usual_runtime_is_the_default_without_a_table_of_its_own() {
    skip_unless!(machine::can_run_pods());
    let node = Node::orlop()
        .drop_in("default_runtime = \"runc\"\n")
        .start()
        .await;
    let cri = node.cri().await;
    let status = cri.runtime().status(StatusRequest::default()).await;
    let handlers = status.expect("status").into_inner().runtime_handlers;
    let mut names: Vec<_> = handlers.into_iter().map(|handler| handler.name).collect();
    names.sort();
    assert_eq!(names, ["", "runc", "test"]);
    node.finish().await;
}

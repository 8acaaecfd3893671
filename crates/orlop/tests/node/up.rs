//! `orlop up`: everything in one process.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use orlop_testkit::node::{Ground, binary, keeper_binary};
use orlop_testkit::process::Process;
use orlop_testkit::{Registry, Terminal, assert_contains, machine, skip_unless};

use crate::world::{SOON, ask};

/// A machine with nothing but a directory of manifests, and the command that is to run them.
async fn command(scratch: &Ground) -> (Registry, Command, PathBuf) {
    let (registry, busybox) = Registry::with_busybox().await;
    let manifests = scratch.subdir("manifests");
    std::fs::write(
        manifests.join("web.yaml"),
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  hostNetwork: true\n  \
             terminationGracePeriodSeconds: 1\n  containers:\n  - {{name: main, image: '{busybox}', \
             command: [sleep, '600']}}\n"
        ),
    )
    .unwrap();
    let config = scratch.path("config.toml");
    let runtime = machine::program("runc")
        .or_else(|_| machine::program("crun"))
        .unwrap();
    std::fs::write(
        &config,
        format!(
            "default_runtime = \"test\"\n[nri]\nenable = false\n[network]\nconf_dir = \"{}\"\ncache_dir = \"{}\"\n[keeper]\npath = \"{}\"\ncgroup = \"/{}-keepers\"\n\
             [runtimes.test]\nkind = \"oci\"\npath = \"{}\"\n",
            scratch.subdir("cni").display(),
            scratch.path("cni-cache").display(),
            keeper_binary().display(),
            scratch.id(),
            runtime.display()
        ),
    )
    .unwrap();
    let (root, state) = (scratch.subdir("root"), scratch.run().join("s"));
    let mut command = Command::new(binary());
    command
        .arg("up")
        .arg(&manifests)
        .arg("--config")
        .arg(&config);
    command.arg("--root").arg(&root).arg("--state").arg(&state);
    command.arg("--listen").arg(format!(
        "unix://{}",
        scratch.run().join("cri.sock").display()
    ));
    command.arg("--pod-logs-dir").arg(scratch.subdir("logs"));
    command
        .arg("--cgroup-root")
        .arg(format!("/{}", scratch.id()));
    command.args(["--node-name", "n1"]);
    (registry, command, state)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_manifests_is_all_it_takes() {
    skip_unless!(machine::can_run_pods());
    let scratch = Ground::new();
    let (_registry, mut command, state) = command(&scratch).await;
    let log = scratch.path("up.log");
    let mut up = Process::spawn("orlop up", &mut command, &log);
    up.wait_until(SOON, "a ready pod", || {
        std::fs::read_to_string(&log).is_ok_and(|text| {
            text.lines()
                .any(|line| line.starts_with("default/web-n1 Running 1/1 ready"))
        })
    });
    let (status, pods) = ask(&state.join("node.sock"), "GET", "/pods", "");
    assert_eq!(status, 200);
    assert!(pods.contains("web-n1"));
    let ended = up.stop(SOON);
    assert!(ended.success(), "{}", up.log());
    no_containers(&scratch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_the_pods_as_they_come_and_go() {
    skip_unless!(machine::can_run_pods());
    let scratch = Ground::new();
    let (_registry, command, state) = command(&scratch).await;
    let manifests = scratch.subdir("manifests");
    let mut terminal = Terminal::start(&command, 150, 20);
    let row = |terminal: &Terminal, pod: &str| {
        let frame = terminal.frame();
        let row = frame.lines().find(|line| line.contains(pod));
        row.map(str::to_owned).unwrap_or_default()
    };
    terminal.wait_until("a ready pod", SOON, |terminal| {
        let row = row(terminal, "web-n1");
        row.contains("1/1") && row.contains("Running") && row.contains("Started")
    });
    let web = std::fs::read_to_string(manifests.join("web.yaml")).unwrap();
    let fails = web
        .replace("name: web", "name: fails")
        .replace("[sleep, '600']", "['false']");
    std::fs::write(manifests.join("fails.yaml"), fails).unwrap();
    terminal.wait_until("a pod that fails", SOON, |terminal| {
        let row = row(terminal, "fails-n1");
        row.contains("0/1") && (row.contains("CrashLoopBackOff") || row.contains("Error"))
    });
    std::fs::write(manifests.join("bad.yaml"), "kind: [\n").unwrap();
    terminal.wait_until("what is wrong with a manifest", SOON, |terminal| {
        terminal.frame().contains("bad.yaml:1")
    });
    std::fs::remove_file(manifests.join("fails.yaml")).unwrap();
    terminal.wait_until("one pod", SOON, |terminal| {
        row(terminal, "fails-n1").is_empty() && !row(terminal, "web-n1").is_empty()
    });
    // A window too small for all of it is not overrun.
    terminal.resize(40, 6);
    terminal.wait_until("a small frame", SOON, |terminal| {
        let frame = terminal.frame();
        frame.lines().count() <= 6 && frame.lines().all(|line| line.chars().count() <= 40)
    });
    let (status, _) = ask(&state.join("node.sock"), "GET", "/healthz", "");
    assert_eq!(status, 200);
    terminal.send("\x03");
    let ended = terminal.wait(SOON);
    assert!(ended.success(), "{}", terminal.raw());
    let raw = terminal.raw();
    assert!(
        raw.contains("\x1b[?1049l") && raw.contains("\x1b[?25h"),
        "the terminal is given back: {raw:?}"
    );
    no_containers(&scratch);
}

/// What the page's server says to a request, its head before the body.
fn get(host: &str, path: &str, cookie: &str) -> String {
    let mut stream = TcpStream::connect(host).expect("connect to the page");
    stream.set_read_timeout(Some(SOON)).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_shows_the_manifests_and_the_configuration_and_ends_with_it() {
    skip_unless!(machine::can_run_pods());
    let scratch = Ground::new();
    let (_registry, mut command, _) = command(&scratch).await;
    command.arg("--web");
    let log = scratch.path("up.log");
    let mut up = Process::spawn("orlop up", &mut command, &log);
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    up.wait_until(SOON, "a ready pod", || {
        said().contains("default/web-n1 Running 1/1 ready")
    });
    let file = scratch.path("root/node/web.url");
    let place = format!("the address of the web page is in {}", file.display());
    assert!(said().contains(&place), "{}", up.log());
    assert!(!said().contains("token="), "no log has it: {}", up.log());
    let address = std::fs::read_to_string(&file).unwrap();
    let rest = address.trim().strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    assert!(host.starts_with("127.0.0.1:"), "{address}");
    let answer = get(host, "/api/manifests", "");
    assert!(!answer.contains("web.yaml"), "without the token: {answer}");
    let answer = get(host, &format!("/{path}"), "");
    let cookie = answer
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .and_then(|cookie| cookie.split(';').next())
        .unwrap_or_else(|| panic!("{answer}"));
    let manifests = get(host, "/api/manifests", cookie);
    assert_contains!(manifests, "web.yaml", "\"pod\":\"web-n1\"");
    let settings = get(host, "/api/settings", cookie);
    let conf_dir = scratch.subdir("cni");
    assert!(
        settings.contains(&format!("conf_dir = \\\"{}\\\"", conf_dir.display())),
        "the daemon's own configuration: {settings}"
    );
    assert!(up.stop(SOON).success(), "{}", up.log());
    assert!(!file.exists(), "the address of no page");
    TcpStream::connect(host).unwrap_err();
    no_containers(&scratch);
}

fn no_containers(scratch: &Ground) {
    let left = orlop_testkit::leaks::processes(scratch.id(), &[]);
    let containers: Vec<_> = left
        .iter()
        .filter(|leak| format!("{leak:?}").contains("sleep"))
        .collect();
    assert!(containers.is_empty(), "{containers:?}");
}

//! Pods whose sandbox is made by the Sandbox service of their shim, as a virtual machine is, or by a
//! Controller behind a socket.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orlop_cri_api::v1::{ContainerState, RunPodSandboxRequest, StatusRequest};
use orlop_testkit::machine::has_program;
use orlop_testkit::{Node, NodeBuilder, SandboxController, Whims, assert_contains, skip_unless};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::processes::{count, kill, processes};
use crate::sandboxes;
use crate::world::{World, world};

pub(crate) const GUEST: &str = "containerd-shim-runc-v2";
const NAME: &str = "containerd-shim-kit-v2";

pub(crate) fn shim() -> PathBuf {
    let here = std::env::current_exe().expect("this program");
    let build = here.parent().and_then(Path::parent);
    build
        .expect("a build directory")
        .join("examples")
        .join(NAME)
}

fn shims(pod: &str) -> Vec<i32> {
    processes(&[NAME, "serve", pod])
}

/// Begins a test with a directory; skips it where there is no shim of runc's to be a guest.
macro_rules! guest_dir {
    () => {{
        orlop_testkit::skip_unless!(orlop_testkit::machine::has_program(
            $crate::controllers::GUEST
        ));
        tempfile::tempdir().expect("a directory")
    }};
}
pub(crate) use guest_dir;

macro_rules! machine_world {
    () => {{
        skip_unless!(has_program(GUEST));
        world!(Node::orlop().runtime(shim().to_str().expect("a path")))
    }};
}

/// What the shim was told of the sandbox.
fn told(world: &World, pod: &str) -> String {
    let path = bundle(world, pod).join("told");
    std::fs::read_to_string(path).expect("what the shim was told")
}

/// Where the shim of a pod works.
pub(crate) fn bundle(world: &World, pod: &str) -> PathBuf {
    let find = std::process::Command::new("find")
        .arg(world.node.state())
        .args(["-path", &format!("*/{pod}/told")])
        .output()
        .expect("find");
    let path = String::from_utf8(find.stdout).expect("a path");
    let told = Path::new(path.trim());
    told.parent().expect("a bundle").to_owned()
}

#[tokio::test]
async fn a_sandbox_boots_with_its_pod() {
    let world = machine_world!();
    let pod = world
        .node
        .pod("machine")
        .own_network()
        .hostname("in-the-guest");
    let begun = Instant::now();
    let pod_id = world.run_pod(&pod).await;
    assert!(begun.elapsed() > Duration::from_millis(300), "no boot");
    let said = told(&world, &pod_id);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], format!("create {pod_id}"));
    assert!(
        lines[1].starts_with("bundle /") && lines[1].ends_with(&pod_id),
        "{said}"
    );
    assert!(lines[2].starts_with("network /"), "{said}");
    let name = &pod.config().metadata.expect("metadata").name;
    assert_eq!(
        lines[3],
        format!("options runtime.v1.PodSandboxConfig {name}")
    );
    for line in [
        "hostname in-the-guest".to_owned(),
        "annotation io.kubernetes.cri.container-type=sandbox".to_owned(),
        format!("annotation io.kubernetes.cri.sandbox-id={pod_id}"),
        format!("annotation io.kubernetes.cri.sandbox-name={name}"),
    ] {
        assert!(lines.contains(&&*line), "{line} is not in\n{said}");
    }
    assert_eq!(lines.last(), Some(&"start"));

    let spec = world.container("main").shell("echo in; sleep 600");
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    assert_eq!(told(&world, &pod_id), said, "one sandbox for all");
    assert_eq!(world.printed(&id, &["echo", "ahoy"]).await, "ahoy");
    let other = world.container("other").shell("exit 7");
    let other = world.cri.run(&pod_id, &pod, &other).await.expect("run");
    assert_eq!(world.cri.wait_exited(&other).await.exit_code, 7);
    assert_eq!(shims(&pod_id).len(), 1);
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    let status = world.cri.status(&id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerExited);
    assert_eq!(count(&[&pod_id], 0).await, 0, "processes of the pod");
    world.finish().await;
}

#[tokio::test]
async fn a_shim_that_dies_takes_its_pod_along() {
    sandboxes::dies_with_its_pod(machine_world!(), shims).await;
}

#[tokio::test]
async fn a_guest_that_dies_takes_its_pod_along() {
    let guests = |pod: &str| processes(&[GUEST, "-namespace", pod]);
    sandboxes::dies_with_its_pod(machine_world!(), guests).await;
}

#[tokio::test]
async fn a_shim_that_dies_without_the_daemon_is_missed_by_the_next() {
    sandboxes::is_missed(machine_world!(), shims).await;
}

/// The shim under a name by which it behaves otherwise.
pub(crate) fn called(dir: &Path, name: &str) -> NodeBuilder {
    let program = dir.join(name);
    std::os::unix::fs::symlink(shim(), &program).expect("a link");
    let drop_in =
        format!("[runtimes.test]\nkind = \"shim\"\nsandboxer = \"shim\"\npath = {program:?}\n");
    Node::orlop().drop_in(&drop_in)
}

/// Shims say in three forms where they are, and serve tasks in two versions by two protocols.
#[tokio::test]
async fn a_shim_is_understood_in_each_form_in_which_it_answers() {
    skip_unless!(has_program(GUEST));
    for form in ["plain", "json3", "grpc", "proto"] {
        let dir = tempfile::tempdir().expect("a directory");
        let name = format!("containerd-shim-{form}-v2");
        sandboxes::lives(world!(called(dir.path(), &name)), form).await;
    }
}

/// It hides from the host what its containers use.
fn apart(dir: &Path) -> NodeBuilder {
    called(dir, "containerd-shim-apart-v2")
}

/// Who makes a sandbox is killed in the middle, and nobody else goes on with it.
#[tokio::test]
async fn a_sandbox_whose_maker_is_killed_comes_to_nothing() {
    skip_unless!(has_program(GUEST));
    const SLOW: &str = "containerd-shim-slow-v2";
    let dir = tempfile::tempdir().expect("a directory");
    let world = world!(called(dir.path(), SLOW));
    let pod = world.node.pod("halfway");
    let (cri, state) = (world.cri.clone(), world.node.state());
    let state = state.to_str().expect("a path").to_owned();
    let made = tokio::spawn(async move { cri.run_pod(&pod).await });
    let until = Instant::now() + Duration::from_secs(10);
    // Who is to watch over it stands still, most often before it has a shim.
    let watchers = loop {
        let found = processes(&["supervise", &state]);
        if !found.is_empty() {
            break found;
        }
        assert!(Instant::now() < until, "nobody watches over it");
        tokio::task::yield_now().await;
    };
    let signal = |victims: &[i32], signal: Signal| {
        for pid in victims.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, signal);
        }
    };
    signal(&watchers, Signal::STOP);
    signal(&processes(&["orlop-shim", "create", &state]), Signal::KILL);
    signal(&processes(&["orlop-keeper", &state]), Signal::KILL);
    made.await.expect("no panic").expect_err("it was killed");
    // Whoever lives goes on.
    signal(&watchers, Signal::CONT);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    for pod in world.cri.pods().await.expect("pods") {
        world.cri.remove_pod(&pod).await.expect("remove the pod");
    }
    assert_eq!(count(&["containerd-shim", &state], 0).await, 0);
    assert_eq!(count(&["supervise", &state], 0).await, 0);
    let find = std::process::Command::new("find")
        .arg(&state)
        .args(["-path", "*/shims/test/pods/*"])
        .output()
        .expect("find");
    assert_eq!(String::from_utf8_lossy(&find.stdout), "", "left behind");
    world.finish().await;
}

#[tokio::test]
async fn a_guest_tells_what_its_containers_use() {
    let dir = guest_dir!();
    sandboxes::tells_what_is_used(world!(apart(dir.path()))).await;
}

#[tokio::test]
async fn want_of_memory_in_a_guest_is_told_as_such() {
    let dir = guest_dir!();
    sandboxes::tells_want_of_memory(world!(apart(dir.path()))).await;
}

/// Shims tell it to the controller that has started them.
#[tokio::test]
async fn want_of_memory_is_told_by_who_has_started_the_shim() {
    let dir = guest_dir!();
    let _controller = SandboxController::start(dir.path(), Whims::ServesGrpc);
    sandboxes::tells_want_of_memory(world!(remote(dir.path()))).await;
}

#[tokio::test]
async fn a_shim_without_that_service_is_named() {
    skip_unless!(has_program(GUEST));
    let drop_in = "[runtimes.test]\nsandboxer = \"shim\"\n";
    let world = world!(Node::orlop().runtime(GUEST).drop_in(drop_in));
    let error = world.cri.run_pod(&world.node.pod("refused")).await;
    let error = error.expect_err("no such service").message().to_owned();
    assert!(error.contains("CreateSandbox"), "{error}");
    assert!(world.cri.pods().await.expect("pods").is_empty());
    world.finish().await;
}

/// Who has its pods' sandboxes made by a controller of this directory.
pub(crate) fn remote(dir: &Path) -> NodeBuilder {
    let address = SandboxController::socket(dir);
    let drop_in = format!(
        "[runtimes.test]\nkind = \"shim\"\nsandboxer = \"proxy\"\naddress = {address:?}\n\
         controller = \"kit\"\n"
    );
    Node::orlop().drop_in(&drop_in)
}

/// The shims that serve the tasks of a controller's sandboxes.
pub(crate) fn servers(pod: &str) -> Vec<i32> {
    processes(&[GUEST, "-namespace kit", pod])
}

#[tokio::test]
async fn a_controller_makes_the_sandbox_of_a_pod() {
    let dir = guest_dir!();
    let controller = SandboxController::start(dir.path(), Whims::None);
    let world = world!(remote(dir.path()));
    let pod = world.node.pod("remote").own_network();
    let pod_id = world.run_pod(&pod).await;
    let begun = [
        format!("Create {pod_id} kit runtime.v1.PodSandboxConfig"),
        format!("Start {pod_id} kit"),
        format!("Wait {pod_id} kit"),
    ];
    assert_eq!(controller.told()[..2], begun[..2]);
    let spec = std::fs::read_to_string(dir.path().join(&pod_id).join("config.json"));
    let spec = spec.expect("the specification that it was given");
    assert!(spec.contains("\"network\""), "{spec}");

    let spec = world.container("main").shell("echo in; sleep 600");
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    assert_eq!(world.printed(&id, &["echo", "ahoy"]).await, "ahoy");
    let other = world.container("other").shell("exit 7");
    let other = world.cri.run(&pod_id, &pod, &other).await.expect("run");
    assert_eq!(world.cri.wait_exited(&other).await.exit_code, 7);
    assert_eq!(controller.told(), begun, "one sandbox for all");
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    assert_eq!(controller.told()[3], format!("Stop {pod_id} kit"));
    assert_eq!(controller.told()[4], format!("Shutdown {pod_id} kit"));
    assert_eq!(count(&[&pod_id], 0).await, 0, "processes of the pod");
    world.finish().await;
}

#[tokio::test]
async fn a_controller_may_have_tasks_served_by_grpc() {
    let dir = guest_dir!();
    let controller = SandboxController::start(dir.path(), Whims::ServesGrpc);
    sandboxes::lives(world!(remote(dir.path())), "grpc").await;
    let calls = controller.calls_of("containerd.task.v3.Task");
    assert!(calls > 5, "{calls} calls by gRPC");
}

/// `info` says who makes sandboxes and where, `doctor` has each of them make one.
#[tokio::test]
async fn who_makes_sandboxes_is_told_and_tried_out() {
    let dir = guest_dir!();
    let _controller = SandboxController::start(dir.path(), Whims::None);
    let (address, guest) = (SandboxController::socket(dir.path()), shim());
    let drop_in = format!(
        "[runtimes.remote]\nkind = \"shim\"\nsandboxer = \"proxy\"\naddress = {address:?}\n\
         controller = \"kit\"\n\
         [runtimes.machine]\nkind = \"shim\"\nsandboxer = \"shim\"\npath = {guest:?}\n\
         [runtimes.shimmed]\nkind = \"shim\"\npath = \"/usr/bin/{GUEST}\"\n"
    );
    let world = world!(Node::orlop().drop_in(&drop_in));
    let request = StatusRequest { verbose: true };
    let status = world.cri.runtime().status(request).await;
    let status = status.expect("status").into_inner();
    let offered: Vec<_> = status
        .runtime_handlers
        .iter()
        .map(|one| &*one.name)
        .collect();
    assert_eq!(offered, ["", "machine", "remote", "shimmed", "test"]);
    let told: Value = serde_json::from_str(&status.info["config"]).expect("JSON");
    let told = &told["runtimes"];
    let of = |name: &str| {
        let one = &told[name];
        (
            one["kind"].as_str(),
            one["controller"].as_str(),
            one["address"].as_str(),
        )
    };
    assert_eq!(of("remote"), (Some("proxy"), Some("kit"), address.to_str()));
    assert_eq!(of("machine"), (Some("shim"), Some("shim"), None));
    assert_eq!(of("shimmed"), (Some("shim"), Some("podsandbox"), None));
    let version = |name: &str| {
        told[name]["version"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(
        version("remote").starts_with("sandbox controller kit"),
        "{told}"
    );
    let first = version("shimmed");
    let mut words = first.split(' ');
    assert_eq!(words.next(), Some(GUEST), "{told}");
    let number = words.next().unwrap_or_default();
    assert!(
        number.starts_with(|digit: char| digit.is_ascii_digit()),
        "{told}"
    );

    let said = world.doctor().await;
    for name in ["remote", "machine", "shimmed"] {
        assert!(said.contains(&format!("{name} works")), "{said}");
    }
    let state = world.node.state();
    let state = state.to_str().expect("a path");
    assert_eq!(count(&["orlop-trial-", state], 0).await, 0);
    world.finish().await;
}

#[tokio::test]
async fn a_server_of_tasks_that_dies_takes_its_pod_along() {
    let dir = guest_dir!();
    let _controller = SandboxController::start(dir.path(), Whims::None);
    sandboxes::dies_with_its_pod(world!(remote(dir.path())), servers).await;
}

#[tokio::test]
async fn a_controller_that_dies_is_told_by_its_pods_and_missed_by_their_stop() {
    let dir = guest_dir!();
    let controller = SandboxController::start(dir.path(), Whims::None);
    let world = world!(remote(dir.path()));
    let running = world.run_script("remote", "sleep 600").await;
    drop(controller);
    sandboxes::is_down_within_a_second(&world, &running.pod_id).await;
    let error = world.cri.stop_pod(&running.pod_id).await;
    let error = error
        .expect_err("nobody ends the sandbox")
        .message()
        .to_owned();
    let address = SandboxController::socket(dir.path());
    assert!(error.contains(address.to_str().expect("a path")), "{error}");
    let error = world.cri.run_pod(&world.node.pod("more")).await;
    let error = error.expect_err("nobody makes one").message().to_owned();
    assert!(error.contains(address.to_str().expect("a path")), "{error}");
    let controller = SandboxController::start(dir.path(), Whims::None);
    let done = world.cri.remove_pod(&running.pod_id).await;
    done.expect("remove the pod");
    assert!(
        controller
            .told()
            .contains(&format!("Stop {} kit", running.pod_id))
    );
    assert_eq!(count(&[&running.pod_id], 0).await, 0);
    world.finish().await;
}

/// Nobody starts it again; but nothing is left either that only it could end.
#[tokio::test]
async fn a_pod_whose_controller_and_sandbox_are_gone_for_good_is_removed() {
    let dir = guest_dir!();
    let controller = SandboxController::start(dir.path(), Whims::None);
    let world = world!(remote(dir.path()));
    let pod = world.run_pod(&world.node.pod("remote")).await;
    drop(controller);
    sandboxes::is_down_within_a_second(&world, &pod).await;
    let [server] = servers(&pod)[..] else {
        panic!("one server of tasks");
    };
    let error = world.cri.remove_pod(&pod).await;
    let error = error.expect_err("it may live").message().to_owned();
    assert_contains!(error, &format!("process {server} still serves the sandbox"));
    kill(server);
    assert_eq!(count(&[GUEST, &pod], 0).await, 0, "it is dead");
    world.cri.remove_pod(&pod).await.expect("remove the pod");
    let log = world.node.log();
    assert!(log.contains("left behind"), "{log}");
    world.finish().await;
}

#[tokio::test]
async fn a_controller_that_misbehaves_costs_its_own_pod() {
    for (whims, words) in [
        (Whims::Refuses, "no room for a machine"),
        (Whims::TalksNonsense, "carrier-pigeon://dovecote"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let _controller = SandboxController::start(dir.path(), whims);
        let world = world!(remote(dir.path()));
        let error = world.cri.run_pod(&world.node.pod("remote")).await;
        let error = error.expect_err("no sandbox, no pod").message().to_owned();
        assert!(error.contains(words), "{error}");
        assert!(world.cri.pods().await.expect("pods").is_empty());
        world.finish().await;
    }
}

#[tokio::test]
async fn a_controller_that_hangs_holds_up_no_other_pod() {
    let dir = tempfile::tempdir().expect("a directory");
    let controller = SandboxController::start(dir.path(), Whims::Hangs);
    let address = SandboxController::socket(dir.path());
    let drop_in = format!(
        "[runtimes.remote]\nkind = \"shim\"\nsandboxer = \"proxy\"\naddress = {address:?}\n"
    );
    let world = world!(Node::orlop().drop_in(&drop_in));
    let hanging = RunPodSandboxRequest {
        config: Some(world.node.pod("hanging").config()),
        runtime_handler: "remote".to_owned(),
    };
    let mut client = world.cri.runtime();
    let hanging = tokio::spawn(async move { client.run_pod_sandbox(hanging).await });
    let asked = async {
        while controller.told().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(10), asked).await;
    asked.expect("it is asked");
    let begun = Instant::now();
    let (code, said) = world
        .output("other", &world.container("main").shell("echo ahoy"))
        .await;
    assert_eq!((code, said.trim()), (0, "ahoy"));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    // It breaks off, and so does the pod.
    drop(controller);
    let answer = tokio::time::timeout(Duration::from_secs(20), hanging).await;
    let error = answer.expect("an answer").expect("no panic");
    let error = error.expect_err("no sandbox, no pod").message().to_owned();
    assert!(error.contains(address.to_str().expect("a path")), "{error}");
    // What it may have made only it can end.
    let _controller = SandboxController::start(dir.path(), Whims::None);
    world.finish().await;
}

/// containerd of version 2 or later, which serves the Controller on its socket.
struct Containerd {
    process: std::process::Child,
    dir: tempfile::TempDir,
}

impl Containerd {
    /// The program is not Debian's, which is older.
    fn program() -> Result<PathBuf, String> {
        let program = std::env::var_os("ORLOP_TEST_CONTAINERD");
        let program = program.ok_or("ORLOP_TEST_CONTAINERD names no containerd 2")?;
        Ok(program.into())
    }

    fn start(program: &Path) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name).display().to_string();
        let config = format!(
            "version = 3\nroot = {:?}\nstate = {:?}\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.nri.v1.nri\"]\n\
             [grpc]\naddress = {:?}\n[ttrpc]\naddress = {:?}\n\
             [plugins.\"io.containerd.internal.v1.opt\"]\npath = {:?}\n",
            at("root"),
            at("state"),
            at("c.sock"),
            at("c.sock.ttrpc"),
            at("opt"),
        );
        std::fs::write(dir.path().join("config.toml"), config).expect("write");
        let log = std::fs::File::create(dir.path().join("log")).expect("a log");
        let process = std::process::Command::new(program)
            .arg("--config")
            .arg(dir.path().join("config.toml"))
            .stdout(std::process::Stdio::null())
            .stderr(log)
            .spawn()
            .expect("containerd");
        let containerd = Self { process, dir };
        orlop_testkit::block_until!(
            Duration::from_secs(20),
            std::os::unix::net::UnixStream::connect(containerd.socket()).is_ok(),
            "{}",
            containerd.log()
        );
        containerd
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("c.sock")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("containerd says:\n{}", self.log());
        }
    }
}

/// Which makes sandboxes by a shim of ours that has the Sandbox service.
#[tokio::test]
async fn containerd_makes_the_sandbox_of_a_pod() {
    skip_unless!(has_program(GUEST));
    let program = Containerd::program();
    skip_unless!(program.clone());
    let containerd = Containerd::start(&program.expect("it was looked for"));
    let drop_in = format!(
        "[runtimes.test]\nkind = \"shim\"\nsandboxer = \"proxy\"\naddress = {:?}\n\
         controller = \"shim\"\npath = {:?}\n",
        containerd.socket(),
        shim()
    );
    let world = world!(Node::orlop().drop_in(&drop_in));
    let pod = world.node.pod("guest").own_network();
    let pod_id = world.run_pod(&pod).await;
    let bundle = format!("state/io.containerd.sandbox.controller.v1.shim/orlop/{pod_id}");
    let bundle = containerd.dir.path().join(bundle);
    let told = std::fs::read_to_string(bundle.join("told")).expect("what the shim was told");
    let first = format!("create {pod_id}");
    assert_eq!(told.lines().next(), Some(first.as_str()), "{told}");
    assert_contains!(told, "options runtime.v1.PodSandboxConfig");
    let spec = world.container("main").shell("echo in; sleep 600");
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    assert_eq!(world.printed(&id, &["echo", "ahoy"]).await, "ahoy");
    let other = world.container("other").shell("exit 7");
    let other = world.cri.run(&pod_id, &pod, &other).await.expect("run");
    assert_eq!(world.cri.wait_exited(&other).await.exit_code, 7);
    world.cri.remove_pod(&pod_id).await.expect("remove the pod");
    assert_eq!(count(&[&pod_id], 0).await, 0, "processes of the pod");
    assert!(!bundle.exists(), "{}", bundle.display());
    // A guest that dies is told by containerd, too.
    let guests = |pod: &str| processes(&[GUEST, "-namespace orlop", pod]);
    sandboxes::dies_with_its_pod(world, guests).await;
}

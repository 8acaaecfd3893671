//! SELinux: labels of processes and files, on a kernel that enforces them.

use std::path::Path;
use std::process::Command;

use orlop_cri_api::v1::{ContainerConfig, ImageSpec, Mount, SeLinuxOption};
use orlop_testkit::{
    ContainerSpec, ImageBuilder, Layer, Node, NodeBuilder, PodSpec, assert_contains,
};
use serde_json::json;
use tonic::Code;

use crate::reload::{applied, reload, run_by};
use crate::streaming_io::told;
use crate::world::{Running, World, until, world};

const PROCESS: &str = "system_u:system_r:container_t:";
const FILE: &str = "system_u:object_r:container_file_t:";
const SKIP: &str = "io.kubernetes.cri-o.TrySkipVolumeSELinuxLabel";
const CURRENT: &str = "tr -d '\\0' < /proc/self/attr/current";

fn enforces() -> Result<(), String> {
    match std::fs::read_to_string("/sys/fs/selinux/enforce") {
        Ok(text) if text.trim() == "1" => Ok(()),
        _ => {
            Err("this kernel does not enforce SELinux; `make test-vm` has one that does".to_owned())
        }
    }
}

macro_rules! enforcing_world {
    ($node:expr) => {{
        orlop_testkit::skip_unless!(enforces());
        world!($node)
    }};
}

/// The label of a process, as the kernel says it.
fn label_of(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/attr/current")).expect("a label");
    text.trim_end_matches(['\0', '\n']).to_owned()
}

fn label_of_file(path: &Path) -> String {
    let told = Command::new("stat").args(["-c", "%C"]).arg(path).output();
    let told = told.expect("run stat").stdout;
    String::from_utf8(told).expect("text").trim().to_owned()
}

/// The level of a container's first process, which is confined.
async fn level(world: &World, id: &str) -> String {
    let label = current(world, id).await;
    let level = label.strip_prefix(PROCESS);
    level.unwrap_or_else(|| panic!("{label}")).to_owned()
}

/// What a command in a container sees of its own label, which is that of the first process.
async fn current(world: &World, id: &str) -> String {
    let label = world.printed(id, &["sh", "-c", CURRENT]).await;
    let first = world
        .printed(id, &["sh", "-c", "tr -d '\\0' < /proc/1/attr/current"])
        .await;
    assert_eq!(label, first);
    label
}

fn volume(spec: ContainerSpec, dir: &Path, relabel: bool) -> ContainerSpec {
    spec.mount(dir, "/volume").with(|config| {
        config.mounts.last_mut().expect("a mount").selinux_relabel = relabel;
    })
}

fn asks(options: SeLinuxOption) -> impl FnOnce(&mut ContainerConfig) {
    |config| {
        let linux = config.linux.get_or_insert_default();
        let security = linux.security_context.get_or_insert_default();
        security.selinux_options = Some(options);
    }
}

fn pod_asks(pod: PodSpec, options: SeLinuxOption) -> PodSpec {
    pod.with(|config| {
        let linux = config.linux.get_or_insert_default();
        let security = linux.security_context.get_or_insert_default();
        security.selinux_options = Some(options);
    })
}

fn of_level(level: &str) -> SeLinuxOption {
    SeLinuxOption {
        level: level.to_owned(),
        ..SeLinuxOption::default()
    }
}

fn of_type(kind: &str) -> SeLinuxOption {
    SeLinuxOption {
        r#type: kind.to_owned(),
        ..SeLinuxOption::default()
    }
}

async fn run_in(world: &World, pod: &PodSpec, spec: &ContainerSpec) -> Running {
    let pod_id = world.run_pod(pod).await;
    let id = world.cri.run(&pod_id, pod, spec).await.expect("run");
    let pod = pod.clone();
    Running { pod, pod_id, id }
}

#[tokio::test]
async fn a_pod_cannot_touch_the_files_of_another() {
    let world = enforcing_world!(Node::orlop());
    let dir = world.node.scratch().subdir("volume");
    std::fs::create_dir(dir.join("inner")).expect("a directory");
    std::fs::write(dir.join("inner/secret"), "told\n").expect("a file");
    let sleeps = || world.container("main").shell("sleep 600");
    let owner = world
        .run_container("owner", &volume(sleeps(), &dir, true))
        .await;
    let other = world
        .run_container("other", &volume(sleeps(), &dir, false))
        .await;
    let (own, others) = (
        level(&world, &owner.id).await,
        level(&world, &other.id).await,
    );
    assert_ne!(own, others);
    assert!(own.starts_with("s0:c") && own.contains(','), "{own}");

    for file in ["", "inner", "inner/secret"] {
        assert_eq!(
            label_of_file(&dir.join(file)),
            format!("{FILE}{own}"),
            "{file}"
        );
    }
    let read = world
        .printed(&owner.id, &["cat", "/volume/inner/secret"])
        .await;
    assert_eq!(read, "told");
    for words in [["cat", "/volume/inner/secret"], ["touch", "/volume/new"]] {
        let refused = world.cri.exec(&other.id, &words).await.expect("exec");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.exit_code != 0 && said.contains("Permission denied"),
            "{said}"
        );
    }
    let kernel = Command::new("dmesg").output().expect("run dmesg").stdout;
    let kernel = String::from_utf8_lossy(&kernel).into_owned();
    let denied = kernel.lines().filter(|line| line.contains("avc:  denied"));
    let mut denied = denied.filter(|line| line.contains(&format!("scontext={PROCESS}{others}")));
    assert!(
        denied.any(|line| line.contains(&format!("tcontext={FILE}{own}"))),
        "{kernel}"
    );

    // A second container of a pod is at home where the first is.
    let beside = volume(world.container("beside").shell("sleep 600"), &dir, false);
    let beside = world.cri.run(&owner.pod_id, &owner.pod, &beside).await;
    let beside = beside.expect("run");
    assert_eq!(level(&world, &beside).await, own);
    let read = world
        .printed(&beside, &["cat", "/volume/inner/secret"])
        .await;
    assert_eq!(read, "told");
    world.finish().await;
}

#[tokio::test]
async fn what_ours_gives_a_container_is_within_its_reach() {
    what_a_container_is_given_is_within_its_reach(Node::orlop()).await;
}

#[tokio::test]
async fn what_runc_gives_a_container_is_within_its_reach() {
    what_a_container_is_given_is_within_its_reach(Node::orlop().runtime("runc")).await;
}

#[tokio::test]
async fn what_crun_gives_a_container_is_within_its_reach() {
    what_a_container_is_given_is_within_its_reach(Node::orlop().runtime("crun")).await;
}

#[tokio::test]
async fn what_an_image_of_erofs_gives_a_container_is_within_its_reach() {
    let node = Node::orlop().config("[images]\nstore = \"erofs\"\n");
    what_a_container_is_given_is_within_its_reach(node).await;
}

async fn what_a_container_is_given_is_within_its_reach(node: NodeBuilder) {
    let mut world = enforcing_world!(node);
    let image = ImageBuilder::busybox()
        .config("Volumes", json!({"/declared": {}}))
        .build();
    let image = world.image(&image, "volumes:1").await;
    let files = ImageBuilder::new()
        .layer(Layer::new().file("file", "of an image\n", 0o644))
        .build();
    let files = world.image(&files, "files:1").await;
    let of_image = Mount {
        container_path: "/image".to_owned(),
        readonly: true,
        image: Some(ImageSpec {
            image: files,
            ..ImageSpec::default()
        }),
        ..Mount::default()
    };
    let script = "for file in /etc/hosts /etc/hostname /etc/resolv.conf /image/file; do cat $file > /dev/null || exit 1; done; \
        for dir in / /etc /dev/shm /declared; do echo own > $dir/own && cat $dir/own || exit 2; done; \
        ls /dev/mqueue /dev/pts /sys/fs/cgroup > /dev/null || exit 3; \
        grep -q keyring /proc/keys || exit 4; \
        mkfifo /fifo && (echo through > /fifo & cat /fifo) || exit 5; sleep 600";
    let spec = ContainerSpec::new("main", &image).shell(script);
    let spec = spec.with(|config| config.mounts.push(of_image));
    let pod = world.node.pod("given").own_network();
    let pod_id = world.run_pod(&pod).await;
    // Nothing is lost where the daemon was another when it was made.
    let id = world.cri.create(&pod_id, &pod, &spec).await;
    let id = id.expect("create");
    world.crash().await;
    world.cri.start(&id).await.expect("start");
    let running = Running { pod, pod_id, id };
    let level = level(&world, &running.id).await;
    until(&world, &running, "through").await;

    // What it wrote has its label, below its mounts, too.
    let upper = Command::new("find")
        .arg(world.node.root())
        .args(["-path", "*/upper/own"])
        .output();
    let upper = String::from_utf8(upper.expect("find").stdout).expect("text");
    assert_eq!(
        label_of_file(Path::new(upper.trim())),
        format!("{FILE}{level}"),
        "{upper}"
    );

    // A terminal is the container's own, too.
    let words = [
        "sh",
        "-c",
        "read line && echo $line and all > /dev/tty; tr -d '\\0' < /proc/self/attr/current",
    ];
    let (code, output) = told(&world, &running.id, &words, true, b"told\n").await;
    let output = String::from_utf8_lossy(&output).into_owned();
    assert_eq!(code, 0, "{output}");
    assert_contains!(output, "told and all", &format!("{PROCESS}{level}"));
    world.finish().await;
}

#[tokio::test]
async fn containers_on_the_hosts_network_are_confined_unless_they_need_not_be() {
    let world = enforcing_world!(Node::orlop());
    let own = label_of(world.node.pid());
    let sleeps = || world.container("main").shell("sleep 600");
    let confined = world.run_container("confined", &sleeps()).await;
    level(&world, &confined.id).await;
    applied(&world, "[containers]\nhost_network_unconfined = true\n");
    let spared = world.run_container("spared", &sleeps()).await;
    assert_eq!(current(&world, &spared.id).await, own);
    // What has run keeps its label, and so does what asks for one or has a network of its own.
    level(&world, &confined.id).await;
    let asking = sleeps().with(asks(of_level("s0:c5,c9")));
    let asking = world.run_container("asking", &asking).await;
    assert_eq!(level(&world, &asking.id).await, "s0:c5,c9");
    let pod = pod_asks(world.node.pod("pod-asks"), of_type("container_t"));
    let asking = run_in(&world, &pod, &sleeps()).await;
    level(&world, &asking.id).await;
    let apart = run_in(&world, &world.node.pod("apart").own_network(), &sleeps()).await;
    level(&world, &apart.id).await;
    world.finish().await;
}

#[tokio::test]
async fn a_volume_whose_top_has_the_label_may_be_passed_over() {
    let runtime = orlop_testkit::node::run_binary();
    let table = format!("[runtimes.skips]\npath = {runtime:?}\nallowed_annotations = [{SKIP:?}]\n");
    let world = enforcing_world!(Node::orlop().config(&table));
    let dir = world.node.scratch().subdir("volume");
    let file = dir.join("file");
    std::fs::write(&file, "").expect("a file");
    let label = format!("{FILE}s0:c5,c9");
    let other = format!("{FILE}s0:c6,c10");
    let mark = |path: &Path, label: &str| {
        let done = Command::new("chcon").arg(label).arg(path).status();
        assert!(done.expect("run chcon").success());
    };
    let runs = async |name: &str, handler: &str| {
        let pod = world.node.pod(name).annotation(SKIP, "true");
        let pod = pod_asks(pod, of_level("s0:c5,c9"));
        let pod_id = run_by(&world, &pod, handler).await.expect("a pod");
        let spec = volume(world.container("main").shell("true"), &dir, true);
        let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
        assert_eq!(world.cri.wait_exited(&id).await.exit_code, 0);
    };
    // A top that has another label is walked.
    runs("first", "skips").await;
    assert_eq!(label_of_file(&file), label);
    mark(&file, &other);
    runs("second", "skips").await;
    assert_eq!(label_of_file(&file), other);
    // Where nobody may ask for it, all is.
    runs("third", "").await;
    assert_eq!(label_of_file(&file), label);
    world.finish().await;
}

#[tokio::test]
async fn levels_are_kept_while_there_is_a_pod_and_given_back_after() {
    let mut world =
        enforcing_world!(Node::orlop().config("[containers]\nselinux_category_range = 3\n"));
    let sleeps = world.container("main").shell("sleep 600");
    let mut running = Vec::new();
    let mut taken = Vec::new();
    for name in ["one", "two", "three"] {
        let pod = world.run_container(name, &sleeps).await;
        taken.push(level(&world, &pod.id).await);
        running.push(pod);
    }
    taken.sort();
    assert_eq!(taken, ["s0:c0,c1", "s0:c0,c2", "s0:c1,c2"]);
    let refused = async |world: &World| {
        let refused = world.cri.run_pod(&world.node.pod("four")).await;
        let refused = refused.expect_err("none is left");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert_contains!(refused.message(), "selinux_category_range");
    };
    refused(&world).await;
    world.crash().await;
    refused(&world).await;
    let gone = running.pop().expect("a pod");
    let free = level(&world, &gone.id).await;
    world.cri.remove_pod(&gone.pod_id).await.expect("remove");
    let next = world.run_container("five", &sleeps).await;
    assert_eq!(level(&world, &next.id).await, free);
    refused(&world).await;
    let error = reload(&world, "[containers]\nselinux_category_range = 1025\n");
    let error = error.expect_err("there are 1024");
    assert_contains!(error, "containers.selinux_category_range");
    let drop_in = world.node.scratch().path("config.toml.d/60-reload.toml");
    std::fs::remove_file(drop_in).expect("remove the drop-in");
    world.finish().await;
}

#[tokio::test]
async fn what_the_policy_does_not_know_is_told_before_anything_is_made() {
    let world = enforcing_world!(Node::orlop());
    assert!(!world.doctor().await.contains("SELinux"));
    let pod = pod_asks(world.node.pod("unknown"), of_type("nowhere_t"));
    let refused = world.cri.run_pod(&pod).await.expect_err("no such type");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let said = refused.message();
    assert_contains!(said, "nowhere_t", "container-selinux");
    assert!(world.cri.pods().await.expect("pods").is_empty());

    let pod = world.node.pod("known");
    let pod_id = world.run_pod(&pod).await;
    let spec = world
        .container("main")
        .shell("true")
        .with(asks(of_type("nowhere_t")));
    let refused = world.cri.create(&pod_id, &pod, &spec).await;
    let refused = refused.expect_err("no such type");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("nowhere_t"), "{refused}");
    world.finish().await;
}

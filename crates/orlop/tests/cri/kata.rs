//! Pods whose runtime is the shim of a virtual machine, as Kata Containers has one. There is no such
//! machine here: a shim of the tests' own takes and does what Kata's sources say that theirs does
//! (`crates/testing/testkit/examples/containerd-shim-machine-v2/`), and its guest is runc's.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE;
use orlop_cri_api::v1::{
    Device, Image, ImageSpec, ImageStatusRequest, LinuxContainerResources, ListImagesRequest,
    PullImageRequest, RemoveImageRequest, RunPodSandboxRequest, UpdateContainerResourcesRequest,
};
use orlop_testkit::machine::has_program;
use orlop_testkit::{
    BuiltImage, ContainerSpec, ImageBuilder, KeyKind, Layer, Node, NodeBuilder, PodSpec, Scratch,
    Signer, skip_unless,
};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::{Value, json};
use tonic::Code;

use crate::controllers::guest_dir;
use crate::processes::{count, processes};
use crate::sandboxes;
use crate::world::{World, world};

const GUEST: &str = "containerd-shim-runc-v2";
const NAME: &str = "containerd-shim-machine-v2";
const DIRECT: &str = "/run/kata-containers/shared/direct-volumes";

fn shim() -> PathBuf {
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

/// A node with a handler `kata` beside the usual one.
fn with_kata(settings: &str) -> NodeBuilder {
    let path = shim();
    Node::orlop().drop_in(&format!(
        "[runtimes.kata]\nkind = \"shim\"\npath = {path:?}\n{settings}"
    ))
}

macro_rules! kata_world {
    ($settings:expr) => {{
        skip_unless!(has_program(GUEST));
        world!(with_kata($settings))
    }};
}

/// A pod of the handler; its id.
async fn run_pod(world: &World, pod: &PodSpec) -> String {
    let request = RunPodSandboxRequest {
        config: Some(pod.config()),
        runtime_handler: "kata".into(),
    };
    let made = world.cri.runtime().run_pod_sandbox(request).await;
    made.expect("run a pod").into_inner().pod_sandbox_id
}

/// What the shim of a pod was told so far of this kind.
fn told(world: &World, pod: &str, call: &str) -> Vec<Value> {
    let find = std::process::Command::new("find")
        .arg(world.node.state())
        .args(["-path", &format!("*/{pod}/told.jsonl")])
        .output()
        .expect("find");
    let path = String::from_utf8(find.stdout).expect("a path");
    let text = std::fs::read_to_string(path.trim()).expect("what the shim was told");
    let lines = text.lines().map(serde_json::from_str);
    let all = lines.map(|line: Result<Value, _>| line.expect("JSON"));
    all.filter(|line| line["call"] == call).collect()
}

#[tokio::test]
async fn a_machine_is_told_its_size_and_boots_with_the_pod() {
    let scratch = Scratch::new();
    let config = scratch.path("kata.toml");
    std::fs::write(&config, "[hypervisor]\n").expect("write");
    let world = kata_world!(&format!("shim_config = {config:?}\n"));
    // A kubelet that deals out whole processors leaves the quota open.
    let pod = world.node.pod("sized").own_network().with(|config| {
        config.log_directory = "/var/log/pods/sized".into();
        config.linux.get_or_insert_default().resources = Some(LinuxContainerResources {
            cpu_period: 100_000,
            cpu_quota: -1,
            cpu_shares: 2048,
            memory_limit_in_bytes: 256 << 20,
            ..Default::default()
        });
    });
    let begun = Instant::now();
    let pod_id = run_pod(&world, &pod).await;
    assert!(begun.elapsed() > Duration::from_millis(300), "no boot");
    let made = told(&world, &pod_id, "Create");
    assert_eq!(made.len(), 1, "{made:?}");
    let annotations = &made[0]["spec"]["annotations"];
    for (name, value) in [
        ("container-type", "sandbox"),
        ("sandbox-id", &*pod_id),
        ("sandbox-log-directory", "/var/log/pods/sized"),
        ("sandbox-cpu-period", "100000"),
        ("sandbox-cpu-quota", "-1"),
        ("sandbox-cpu-shares", "2048"),
        ("sandbox-memory", "268435456"),
    ] {
        let told = &annotations[format!("io.kubernetes.cri.{name}")];
        assert_eq!(told, value, "{name} of {annotations}");
    }
    let options = &made[0]["options"];
    assert_eq!(options["type"], "runtimeoptions.v1.Options");
    assert_eq!(options["path"], config.to_str().expect("a path"));
    assert_eq!(options["config"], "[hypervisor]\n");

    let spec = world.container("main").shell("echo in; sleep 600");
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    assert_eq!(world.printed(&id, &["echo", "ahoy"]).await, "ahoy");
    let made = told(&world, &pod_id, "Create");
    assert_eq!(made.len(), 2, "{made:?}");
    let annotations = &made[1]["spec"]["annotations"];
    assert_eq!(annotations["io.kubernetes.cri.container-type"], "container");
    assert_eq!(made[1]["rootfs"][0]["type"], "bind", "files of the host's");
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    assert_eq!(count(&[&pod_id], 0).await, 0, "processes of the pod");
    world.finish().await;
}

/// Some read a type's name, and the configuration itself instead of a path.
#[tokio::test]
async fn a_shim_is_told_its_configuration_in_its_own_words() {
    let scratch = Scratch::new();
    let config = scratch.path("options.toml");
    std::fs::write(&config, "debug = true\n").expect("write");
    let settings = format!(
        "shim_config = {config:?}\nshim_config_body = true\nshim_config_type = \"io.example.v1.options\"\n\
         [runtimes.runcs]\nkind = \"shim\"\npath = {:?}\n\
         shim_config_type = \"containerd.runc.v1.Options\"\n",
        shim()
    );
    let world = kata_world!(&settings);
    let pod_id = run_pod(&world, &world.node.pod("body")).await;
    let options = &told(&world, &pod_id, "Create")[0]["options"];
    assert_eq!(options["type"], "runtimeoptions.v1.Options");
    assert_eq!(options["type_url"], "io.example.v1.options");
    assert_eq!(options["body"], "debug = true\n");
    assert_eq!(options["path"], "");
    let request = RunPodSandboxRequest {
        config: Some(world.node.pod("runcs").config()),
        runtime_handler: "runcs".into(),
    };
    let made = world.cri.runtime().run_pod_sandbox(request).await;
    let pod_id = made.expect("run a pod").into_inner().pod_sandbox_id;
    let options = &told(&world, &pod_id, "Create")[0]["options"];
    assert_eq!(options["type"], "containerd.runc.v1.Options");
    world.finish().await;
}

/// An image, as a kubelet names it that tells handlers.
fn for_handler(name: &str, handler: &str) -> Option<ImageSpec> {
    Some(ImageSpec {
        image: name.to_owned(),
        runtime_handler: handler.to_owned(),
        ..ImageSpec::default()
    })
}

async fn pull(world: &World, name: &str, handler: &str) -> Result<String, tonic::Status> {
    let request = PullImageRequest {
        image: for_handler(name, handler),
        ..PullImageRequest::default()
    };
    let pulled = world.cri.images().pull_image(request).await;
    pulled.map(|answer| answer.into_inner().image_ref)
}

async fn status(world: &World, name: &str, handler: &str) -> Option<Image> {
    let request = ImageStatusRequest {
        image: for_handler(name, handler),
        verbose: true,
    };
    let status = world.cri.images().image_status(request).await;
    status.expect("the image's status").into_inner().image
}

async fn remove(world: &World, name: &str, handler: &str) {
    let request = RemoveImageRequest {
        image: for_handler(name, handler),
    };
    let removed = world.cri.images().remove_image(request).await;
    removed.expect("remove the image");
}

/// For whom an image is listed.
async fn listed(world: &World, id: &str) -> Vec<String> {
    let request = ListImagesRequest::default();
    let images = world.cri.images().list_images(request).await;
    let images = images.expect("images").into_inner().images.into_iter();
    let specs = images
        .filter(|image| image.id == id)
        .map(|image| image.spec);
    let mut handlers: Vec<_> = specs
        .map(|spec| spec.expect("how it is named").runtime_handler)
        .collect();
    handlers.sort();
    handlers
}

/// The layers on this node.
fn layers(world: &World) -> usize {
    let layers = std::fs::read_dir(world.node.root().join("images/layers"));
    layers.expect("layers").count()
}

/// An image whose layers no other has, pushed; its name.
async fn pushed(world: &World, mark: &str) -> (BuiltImage, String) {
    let own = Layer::new().file("mark", mark, 0o644);
    let image = ImageBuilder::busybox().layer(own).build();
    let name = world.registry.push(&image, &format!("{mark}:1")).await;
    (image, name)
}

const GUEST_PULL: &str = "guest_pull = true\n";

#[tokio::test]
async fn guests_pull_their_images_by_themselves() {
    let mut world = kata_world!(GUEST_PULL);
    let (image, name) = pushed(&world, "theirs").await;
    let before = layers(&world);
    let id = pull(&world, &name, "kata").await.expect("pull");
    assert_eq!(id, image.id());
    assert_eq!(layers(&world), before, "a layer was unpacked here");
    let known = status(&world, &name, "kata").await.expect("it is known");
    assert_eq!(known.spec.expect("how").runtime_handler, "kata");
    for other in ["", "test"] {
        assert!(status(&world, &name, other).await.is_none(), "{other:?}");
    }
    assert_eq!(listed(&world, &id).await, ["kata"]);

    // Its guest pulls by the pod's network: the registry is at this machine's loopback.
    let pod = world.node.pod("guest");
    let pod_id = run_pod(&world, &pod).await;
    let pause = told(&world, &pod_id, "pull");
    assert_eq!(pause[0]["image"], "pause", "{pause:?}");
    let spec = ContainerSpec::new("main", &id)
        .shell("cat /mark; sleep 600")
        .with(|config| {
            // As kubelets tell what the pod's manifest says.
            let image = config.image.get_or_insert_default();
            image.user_specified_image.clone_from(&name);
            image.runtime_handler = "kata".into();
        });
    let container = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let pinned = format!("{}@{}", name.trim_end_matches(":1"), image.digest());
    let pulled = &told(&world, &pod_id, "pull")[1];
    assert_eq!(pulled["image"], *pinned, "not what was judged");
    let printed = world.printed(&container, &["cat", "/mark"]).await;
    assert_eq!(printed, "theirs");
    assert_eq!(layers(&world), before, "a layer was unpacked here");

    // Who has no files of the image can't know its users.
    let named = ContainerSpec::new("named", &id).user("sailor");
    let refused = world.cri.create(&pod_id, &pod, &named).await;
    let refused = refused.expect_err("nobody knows that user");
    assert!(refused.message().contains("sailor"), "{refused}");

    // The daemon dies and comes again, and knows all of it.
    world.crash().await;
    assert_eq!(listed(&world, &id).await, ["kata"]);
    assert_eq!(world.printed(&container, &["cat", "/mark"]).await, "theirs");

    // It is none for others, until it is pulled for them.
    let other = world.node.pod("other");
    let other_id = world.run_pod(&other).await;
    let spec = ContainerSpec::new("main", &id).shell("cat /mark");
    let refused = world.cri.create(&other_id, &other, &spec).await;
    let refused = refused.expect_err("there are no layers");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused
            .message()
            .contains("pull the layers themselves (kata)"),
        "{refused}"
    );
    let volume = world.container("volume").with(|config| {
        config.mounts.push(orlop_cri_api::v1::Mount {
            container_path: "/image".into(),
            image: for_handler(&name, ""),
            ..Default::default()
        });
    });
    let refused = world.cri.create(&other_id, &other, &volume).await;
    let refused = refused.expect_err("there are no layers");
    assert!(
        refused
            .message()
            .contains("pull the layers themselves (kata)"),
        "{refused}"
    );
    pull(&world, &name, "").await.expect("pull");
    assert!(layers(&world) > before);
    assert_eq!(listed(&world, &id).await, ["", "kata"]);
    let ran = world.cri.run(&other_id, &other, &spec).await.expect("run");
    assert_eq!(world.cri.wait_exited(&ran).await.exit_code, 0);

    world.cri.remove_pod(&pod_id).await.expect("remove");
    world.cri.remove_pod(&other_id).await.expect("remove");
    world.finish().await;
}

/// What is removed for one is still there for the other, and nothing is left at last.
#[tokio::test]
async fn an_image_is_removed_for_guests_and_for_others_apart() {
    let world = kata_world!(GUEST_PULL);
    let (_, name) = pushed(&world, "apart").await;
    let before = layers(&world);
    let id = pull(&world, &name, "kata").await.expect("pull");
    pull(&world, &name, "").await.expect("pull");
    assert!(layers(&world) > before);
    remove(&world, &id, "").await;
    assert_eq!(listed(&world, &id).await, ["kata"]);
    assert_eq!(layers(&world), before, "its layers stay");
    pull(&world, &name, "").await.expect("pull");
    remove(&world, &id, "kata").await;
    assert_eq!(listed(&world, &id).await, [""]);
    assert!(status(&world, &name, "kata").await.is_none());
    assert!(layers(&world) > before);
    remove(&world, &id, "kata").await;
    assert_eq!(listed(&world, &id).await, [""], "it was not for them");
    remove(&world, &id, "test").await;
    assert!(listed(&world, &id).await.is_empty());

    // Who knows of no handlers removes what is there for guests, too.
    pull(&world, &name, "kata").await.expect("pull");
    remove(&world, &id, "").await;
    assert!(listed(&world, &id).await.is_empty());
    assert_eq!(layers(&world), before);
    world.finish().await;
}

/// Most kubelets do not tell the handler when they pull, but for which pod they do.
#[tokio::test]
async fn an_image_is_pulled_for_the_guest_of_the_pod_that_wants_it() {
    let world = kata_world!(GUEST_PULL);
    let (_, name) = pushed(&world, "wanted").await;
    let (pod, other) = (world.node.pod("guest"), world.node.pod("other"));
    let pod_id = run_pod(&world, &pod).await;
    let before = layers(&world);
    let id = world.cri.pull_for(&name, &pod).await.expect("pull");
    assert_eq!(listed(&world, &id).await, ["kata"]);
    assert_eq!(layers(&world), before);
    world.run_pod(&other).await;
    world.cri.pull_for(&name, &other).await.expect("pull");
    assert_eq!(listed(&world, &id).await, ["", "kata"]);
    world.cri.remove_pod(&pod_id).await.expect("remove");
    world.finish().await;
}

/// As kubelets know it.
const REJECTED: &str = "SignatureValidationFailed: ";

#[tokio::test]
async fn guests_pull_only_what_the_signature_policy_lets_them() {
    skip_unless!(has_program(GUEST));
    let scratch = Scratch::new();
    let policy = scratch.path("policy.json");
    let accept = json!({ "default": [{ "type": "insecureAcceptAnything" }] });
    std::fs::write(&policy, accept.to_string()).expect("write");
    let settings = format!("{GUEST_PULL}[images]\nsignature_policy = {policy:?}\n");
    let world = world!(with_kata(&settings));
    let (_, name) = pushed(&world, "judged").await;
    let id = pull(&world, &name, "kata").await.expect("pull");
    let pod = world.node.pod("judged");
    let pod_id = run_pod(&world, &pod).await;
    let signer = Signer::new(&scratch.subdir("keys"), "team", KeyKind::P256);
    let demanding = json!({
        "default": [{ "type": "reject" }],
        "transports": { "docker": { world.registry.host(): [{
            "type": "sigstoreSigned",
            "keyPath": signer.public_key(),
            "signedIdentity": { "type": "matchRepository" },
        }] } },
    });
    std::fs::write(&policy, demanding.to_string()).expect("write");
    let (unsigned, other) = pushed(&world, "unsigned").await;
    for name in [&name, &other] {
        let refused = pull(&world, name, "kata").await.expect_err("not signed");
        assert!(refused.message().starts_with(REJECTED), "{refused}");
    }
    assert!(listed(&world, unsigned.id()).await.is_empty());
    let spec = ContainerSpec::new("main", &id).shell("exit 0");
    let refused = world.cri.create(&pod_id, &pod, &spec).await;
    let refused = refused.expect_err("rejected");
    assert!(refused.message().starts_with(REJECTED), "{refused}");
    assert_eq!(told(&world, &pod_id, "Create").len(), 1, "it was told");
    world.cri.remove_pod(&pod_id).await.expect("remove");
    world.finish().await;
}

/// A volume that is noted as one for the guest; the note is taken away with it.
struct DirectVolume(PathBuf);

impl DirectVolume {
    fn note(path: &Path, info: &Value) -> Self {
        let name = BASE64_URL_SAFE.encode(path.to_str().expect("a path"));
        let dir = Path::new(DIRECT).join(name);
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("mountInfo.json"), info.to_string()).expect("write");
        Self(dir)
    }
}

impl Drop for DirectVolume {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        for dir in [
            DIRECT,
            "/run/kata-containers/shared",
            "/run/kata-containers",
        ] {
            // Others' notes, or a Kata of this machine's, keep it.
            let _ = std::fs::remove_dir(dir);
        }
    }
}

/// Who has noted a volume for the guest has done so by the path that the client tells, and by no other
/// of the same directory.
#[tokio::test]
async fn volumes_for_guests_and_block_devices_are_passed_as_they_are() {
    let world = kata_world!("");
    let scratch = Scratch::new();
    let (real, link) = (scratch.subdir("real"), scratch.path("kubelet"));
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    let (volume, plain) = (link.join("direct"), link.join("plain"));
    std::fs::create_dir(&volume).expect("a directory");
    std::fs::create_dir(&plain).expect("a directory");
    let direct = DirectVolume::note(
        &volume,
        &json!({"volume-type": "block", "device": "tmpfs", "fstype": "tmpfs", "options": ["size=1m"]}),
    );
    // None that there is: a node of the kind is enough.
    let disk = scratch.path("disk");
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &disk, FileType::BlockDevice, mode, makedev(7, 250)).expect("a node");
    let pod = world.node.pod("volumes");
    let pod_id = run_pod(&world, &pod).await;
    let spec = world
        .container("main")
        .shell("sleep 600")
        .mount(&volume, "/direct")
        .mount(&plain, "/plain")
        .mount(&disk, "/disk")
        .with(|config| {
            config.devices.push(Device {
                host_path: disk.to_str().expect("a path").into(),
                container_path: "/dev/xvda".into(),
                permissions: "rwm".into(),
            });
        });
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let spec = &told(&world, &pod_id, "Create")[1]["spec"];
    let mounts = spec["mounts"].as_array().expect("mounts");
    let at = |path: &str| {
        let mut same = mounts.iter().filter(|mount| mount["destination"] == path);
        let mount = same.next().expect("a mount");
        (
            mount["type"].as_str().expect("a type"),
            PathBuf::from(mount["source"].as_str().expect("a source")),
        )
    };
    assert_eq!(at("/direct"), ("bind", volume), "the path is its name");
    assert_eq!(at("/plain"), ("bind", real.join("plain")));
    assert_eq!(at("/disk"), ("bind", disk));
    let devices = spec["linux"]["devices"].as_array().expect("devices");
    let mut same = devices
        .iter()
        .filter(|device| device["path"] == "/dev/xvda");
    let device = same.next().expect("the device");
    assert_eq!(
        (&device["type"], &device["major"], &device["minor"]),
        (&json!("b"), &json!(7), &json!(250))
    );
    let mounted = world
        .printed(&id, &["grep", " /direct ", "/proc/mounts"])
        .await;
    assert!(mounted.starts_with("tmpfs /direct tmpfs"), "{mounted}");
    assert!(direct.0.join(&pod_id).exists(), "nobody knows who uses it");
    world.cri.remove_pod(&pod_id).await.expect("remove");
    world.finish().await;
}

#[tokio::test]
async fn a_machine_grows_with_the_limits_of_its_containers() {
    let world = kata_world!("");
    let pod = world.node.pod("grows");
    let pod_id = run_pod(&world, &pod).await;
    let spec = world.container("main").shell("sleep 600").memory(64 << 20);
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let request = UpdateContainerResourcesRequest {
        container_id: id.clone(),
        linux: Some(LinuxContainerResources {
            cpu_period: 100_000,
            cpu_quota: 150_000,
            memory_limit_in_bytes: 128 << 20,
            ..Default::default()
        }),
        ..Default::default()
    };
    let updated = world.cri.runtime();
    let updated = updated.clone().update_container_resources(request).await;
    updated.expect("update");
    let updates = told(&world, &pod_id, "Update");
    assert_eq!(updates.len(), 1, "{updates:?}");
    assert_eq!(updates[0]["id"], *id);
    let kind = updates[0]["type"].as_str().expect("a type");
    assert!(kind.ends_with("runtime-spec/1/LinuxResources"), "{kind}");
    let limits = &updates[0]["limits"];
    assert_eq!(limits["memory"]["limit"], 128 << 20, "{limits}");
    assert_eq!(limits["cpu"]["quota"], 150_000, "{limits}");
    world.cri.remove_pod(&pod_id).await.expect("remove");
    world.finish().await;
}

/// No vsock leads from this machine to itself: the other form of it, behind the socket of a monitor, does.
#[tokio::test]
async fn a_shim_behind_the_socket_of_a_monitor_is_reached() {
    let dir = guest_dir!();
    let path = dir.path().join("containerd-shim-hybrid-v2");
    std::os::unix::fs::symlink(shim(), &path).expect("a link");
    let world = world!(Node::orlop().runtime(path.to_str().expect("a path")));
    let running = world.run_script("hybrid", "echo in; sleep 600").await;
    assert_eq!(world.printed(&running.id, &["echo", "ahoy"]).await, "ahoy");
    world.cri.stop(&running.id, 0).await.expect("stop");
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!(status.exit_code, 137);
    assert_eq!(running.stdout(), "in\n");
    world.cri.stop_pod(&running.pod_id).await.expect("stop");
    assert_eq!(count(&[&running.pod_id], 0).await, 0);
    world.finish().await;
}

macro_rules! machine_world {
    () => {{
        skip_unless!(has_program(GUEST));
        world!(Node::orlop().runtime(shim().to_str().expect("a path")))
    }};
}

#[tokio::test]
async fn what_is_used_in_a_machine_is_told_by_its_shim() {
    sandboxes::tells_what_is_used(machine_world!()).await;
}

#[tokio::test]
async fn a_shim_that_dies_takes_its_pod_along() {
    sandboxes::dies_with_its_pod(machine_world!(), shims).await;
}

#[tokio::test]
async fn a_pod_outlives_the_daemon_with_its_machine() {
    sandboxes::outlives_the_daemon(machine_world!(), shims).await;
}

//! Pods of WebAssembly: pulled on any node, run by a shim that is made of runwasi's library
//! (`make test-wasm` builds it; `ORLOP_TEST_WASM_SHIM` names it).

use std::path::Path;
use std::time::Duration;

use orlop_cri_api::v1::ContainerState;
use orlop_testkit::image::{Ending, host_architecture, module};
use orlop_testkit::machine::wasm_shim;
use orlop_testkit::{BuiltImage, ImageBuilder, Layer, Node, skip_unless};
use serde_json::json;

use crate::processes::{count, processes};
use crate::world::{Running, World, world};
use crate::{sandboxes, streams};

macro_rules! wasm_world {
    () => {{
        skip_unless!(wasm_shim());
        world!(Node::orlop().runtime(&wasm_shim().expect("a shim")))
    }};
}

/// The shims of a pod.
fn of_shim(pod: &str) -> [&str; 3] {
    ["containerd-shim-", "-namespace", pod]
}

/// The one that answers: it has a helper, by which it makes its containers.
fn the_shim(pod: &str) -> Vec<i32> {
    let shims = processes(&of_shim(pod));
    let is_child = |pid: &i32| parent(*pid).is_some_and(|parent| shims.contains(&parent));
    shims.iter().copied().filter(|pid| !is_child(pid)).collect()
}

fn parent(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

/// An ordinary image with a module in its one layer.
fn image_for(os: &str, module: &[u8]) -> BuiltImage {
    let layer = Layer::new()
        .dir("app", 0o755)
        .file("app/hello.wasm", module, 0o644);
    let image = ImageBuilder::new().platform(os, "wasm").layer(layer);
    image
        .config("Entrypoint", json!(["/app/hello.wasm", "from-image"]))
        .build()
}

fn on_linux(image: BuiltImage) -> (BuiltImage, serde_json::Value) {
    (
        image,
        json!({ "os": "linux", "architecture": host_architecture() }),
    )
}

impl World {
    /// A pod with a module that has run to its end.
    async fn ran(&self, name: &str, image: &str, args: &[&str]) -> (Running, i32) {
        let spec = orlop_testkit::ContainerSpec::new("main", image);
        let spec = spec.args(args).env("COLOUR", "blue");
        let running = self.run_container(name, &spec).await;
        let status = self.cri.wait_exited(&running.id).await;
        (running, status.exit_code)
    }
}

#[tokio::test]
async fn modules_of_all_kinds_run_print_and_end() {
    let world = wasm_world!();
    for (name, image, argv) in [
        (
            "wasip1",
            image_for("wasip1", &module("ahoy 1\n", Ending::Code(7))),
            "/app/hello.wasm",
        ),
        (
            "wasi",
            image_for("wasi", &module("ahoy 2\n", Ending::Code(7))),
            "/app/hello.wasm",
        ),
        (
            "artifact",
            BuiltImage::wasm_artifact(&module("ahoy 3\n", Ending::Code(7))),
            "/module.wasm",
        ),
        (
            "layer",
            BuiltImage::wasm_image(&module("ahoy 4\n", Ending::Code(7)), &["demo.wasm"]),
            "demo.wasm",
        ),
    ] {
        let image = world.image(&image, &format!("{name}:1")).await;
        let (running, code) = world.ran(name, &image, &["one", "two words"]).await;
        let said = running.stdout();
        assert_eq!(code, 7, "{name}: {said:?}");
        let words: Vec<&str> = said.split(['\0', '\n']).collect();
        assert!(words.contains(&argv), "{name}: {words:?}");
        for word in ["one", "two words", "COLOUR=blue"] {
            assert!(words.contains(&word), "{name}: no {word:?} in {words:?}");
        }
        assert!(said.contains("ahoy"), "{name}: {said:?}");
        let pod_id = running.pod_id.as_str();
        world.cri.remove(&running.id).await.expect("remove");
        assert!(!processes(&of_shim(pod_id)).is_empty(), "the pod goes on");
        world.cri.remove_pod(pod_id).await.expect("remove the pod");
        assert_eq!(count(&of_shim(pod_id), 0).await, 0, "shims of the pod");
    }
    world.finish().await;
}

/// containerd's shims run an artifact's module whatever its command calls it.
#[tokio::test]
async fn an_artifact_runs_by_any_name() {
    let world = wasm_world!();
    let artifact = BuiltImage::wasm_artifact(&module("ahoy\n", Ending::Code(0)));
    let image = world.image(&artifact, "artifact:1").await;
    let spec = orlop_testkit::ContainerSpec::new("main", &image).command(&["demo.wasm", "x"]);
    let (code, said) = world.output("by-name", &spec).await;
    assert_eq!(code, 0, "{said:?}");
    assert!(said.contains("x\0") && said.ends_with("ahoy\n"), "{said:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_module_that_never_ends_is_not_entered_but_stopped() {
    let world = wasm_world!();
    let endless = BuiltImage::wasm_artifact(&module("ready\n", Ending::Never));
    let image = world.image(&endless, "endless:1").await;
    let spec = orlop_testkit::ContainerSpec::new("main", &image);
    let running = world.run_container("endless", &spec).await;
    orlop_testkit::wait_until!(
        Duration::from_secs(20),
        running.stdout().contains("ready"),
        "it prints nothing"
    );
    let error = world.cri.exec(&running.id, &["sh"]).await.unwrap_err();
    let shim = wasm_shim().expect("a shim");
    let shim = Path::new(&shim).file_name().expect("a name");
    let attached = streams::refusal(&world.cri, &running.id, &["sh"]).await;
    for word in [&*shim.to_string_lossy(), "does not support exec"] {
        assert!(error.message().contains(word), "no {word:?}: {error}");
        assert!(attached.contains(word), "no {word:?}: {attached}");
    }
    let stats = world.cri.stats(&running.id).await;
    let cpu = stats.expect("statistics").cpu;
    let cpu = cpu.and_then(|cpu| cpu.usage_core_nano_seconds);
    assert!(cpu.is_some_and(|cpu| cpu.value > 0), "{cpu:?}");
    world.cri.stop(&running.id, 1).await.expect("stop");
    let status = world.cri.wait_exited(&running.id).await;
    assert_eq!(status.exit_code, 137);
    let done = world.cri.remove_pod(&running.pod_id).await;
    done.expect("remove the pod");
    assert_eq!(
        count(&[&running.pod_id], 0).await,
        0,
        "processes of the pod"
    );
    world.finish().await;
}

#[tokio::test]
async fn a_module_outlives_the_daemon() {
    let mut world = wasm_world!();
    let endless = BuiltImage::wasm_artifact(&module("ready\n", Ending::Never));
    let image = world.image(&endless, "endless:1").await;
    let spec = orlop_testkit::ContainerSpec::new("main", &image);
    let running = world.run_container("endless", &spec).await;
    let shims = processes(&of_shim(&running.pod_id));
    world.crash().await;
    let status = world.cri.status(&running.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerRunning);
    assert_eq!(processes(&of_shim(&running.pod_id)), shims);
    world.cri.stop(&running.id, 0).await.expect("stop");
    assert_eq!(world.cri.wait_exited(&running.id).await.exit_code, 137);
    world.finish().await;
}

#[tokio::test]
async fn a_shim_of_modules_is_tried_out() {
    let world = wasm_world!();
    sandboxes::is_tried_out(world, &wasm_shim().expect("a shim")).await;
}

#[tokio::test]
async fn a_shim_of_modules_that_dies_takes_its_pod_along() {
    sandboxes::dies_with_its_pod(wasm_world!(), the_shim).await;
}

#[tokio::test]
async fn a_shim_of_modules_that_dies_without_the_daemon_is_missed_by_the_next() {
    sandboxes::is_missed(wasm_world!(), the_shim).await;
}

/// runwasi's shims are configured by what is in the file, not by its name.
#[tokio::test]
async fn the_shim_is_told_its_configuration() {
    skip_unless!(wasm_shim());
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("wasm.toml");
    std::fs::write(&file, "SystemdCgroup = \"maybe\"\n").expect("write");
    let node = Node::orlop().runtime(&wasm_shim().expect("a shim"));
    let told = format!("[runtimes.test]\nshim_config = {file:?}\nshim_config_body = true\n");
    let world = world!(node.drop_in(&told));
    let pod = world.node.pod("configured");
    let error = world.cri.run_pod(&pod).await.unwrap_err();
    let message = error.message();
    assert!(message.contains("invalid shim options"), "{error}");
    std::fs::write(&file, "SystemdCgroup = false\n").expect("write");
    let running = world.run_script("configured", "echo here; sleep 600").await;
    let status = world.cri.status(&running.id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerRunning);
    world.finish().await;
}

/// As runwasi's own example has it: a web server beside the modules.
#[tokio::test]
async fn programs_of_the_machine_run_beside_modules() {
    let world = wasm_world!();
    let running = world.run_script("beside", "echo here; sleep 600").await;
    let artifact = BuiltImage::wasm_artifact(&module("ahoy\n", Ending::Code(3)));
    let image = world.image(&artifact, "artifact:1").await;
    let beside = orlop_testkit::ContainerSpec::new("module", &image);
    let id = world.cri.run(&running.pod_id, &running.pod, &beside).await;
    let status = world.cri.wait_exited(&id.expect("run")).await;
    assert_eq!(status.exit_code, 3);
    let both = BuiltImage::index_of(vec![
        (
            image_for("wasip1", b"none"),
            json!({ "os": "wasip1", "architecture": "wasm" }),
        ),
        on_linux(ImageBuilder::busybox().build()),
    ]);
    let image = world.image(&both, "both:1").await;
    let shell = orlop_testkit::ContainerSpec::new("shell", &image).shell("exit 4");
    let id = world.cri.run(&running.pod_id, &running.pod, &shell).await;
    let status = world.cri.wait_exited(&id.expect("run")).await;
    assert_eq!(status.exit_code, 4);
    assert_eq!(running.stdout(), "here\n");
    world.finish().await;
}

/// What becomes of images for WebAssembly on a node that can't run them.
#[tokio::test]
async fn a_runtime_that_runs_no_modules_refuses_them_in_words() {
    skip_unless!(orlop_testkit::machine::has_program("runc"));
    let world = world!(Node::orlop().runtime("runc"));
    let pod = world.node.pod("plain");
    let pod_id = world.run_pod(&pod).await;
    let hello = module("ahoy\n", Ending::Code(0));
    for (name, image, platform) in [
        ("wasip1", image_for("wasip1", &hello), "wasip1/wasm"),
        ("wasi", image_for("wasi", &hello), "wasi/wasm"),
        ("artifact", BuiltImage::wasm_artifact(&hello), "wasip1/wasm"),
    ] {
        let name = world.image(&image, &format!("{name}:1")).await;
        let known = world.cri.known_image(&name).await;
        assert_eq!(known.id, image.id());
        assert!(known.size > 0);
        let spec = orlop_testkit::ContainerSpec::new("main", &name);
        let error = world.cri.create(&pod_id, &pod, &spec).await.unwrap_err();
        for word in [&name, platform, "\"test\"", "docs/guides/webassembly.md"] {
            assert!(error.message().contains(word), "no {word:?}: {error}");
        }
        world.cri.remove_image(&name).await.expect("remove");
    }
    let both = BuiltImage::index_of(vec![
        (
            image_for("wasip1", &hello),
            json!({ "os": "wasip1", "architecture": "wasm" }),
        ),
        on_linux(ImageBuilder::busybox().marked("both").build()),
    ]);
    let image = world.image(&both, "both:1").await;
    let shell = orlop_testkit::ContainerSpec::new("shell", &image).shell("exit 4");
    let id = world.cri.run(&pod_id, &pod, &shell).await.expect("run");
    assert_eq!(world.cri.wait_exited(&id).await.exit_code, 4);
    assert_eq!(world.cri.containers().await.expect("list").len(), 1);
    world.finish().await;
}

//! Their images, taken over without the network.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orlop_testkit::node::containerd_program;
use orlop_testkit::process::{self, Said};
use orlop_testkit::{
    BuiltImage, Cri, DockerEngine, ImageBuilder, Layer, Node, Registry, Scratch, assert_contains,
    docker, machine, skip_unless,
};
use serde_json::Value;

use crate::migrate;

const LIMIT: Duration = Duration::from_mins(1);

/// An image of two layers, with what layers have that is not plain: links, removals, long names, attributes.
fn image(mark: &str) -> BuiltImage {
    let long = format!("dir/{}", "n".repeat(180));
    ImageBuilder::new()
        .layer(
            Layer::new()
                .dir("dir", 0o755)
                .file("dir/gone", "soon gone\n", 0o644)
                .file("dir/kept", "kept\n", 0o600)
                .file(&long, "long\n", 0o644)
                .symlink("dir/link", "/etc/passwd")
                .noise("noise", 1 << 20),
        )
        .layer(Layer::new().whiteout("dir/gone").file("above", mark, 0o755))
        .marked(mark)
        .build()
}

fn images_of(from: &str, root: &Path, node: &Node) -> Said {
    let socket = format!("unix://{}", node.socket().display());
    let root = root.to_str().unwrap();
    let config = node.scratch().path("their.conf");
    std::fs::write(&config, if from == "docker" { "{}" } else { "" }).unwrap();
    migrate(
        from,
        &config,
        &["--images", "--root", root, "--socket", &socket],
    )
}

fn verified(node: &Node) -> String {
    let verified = node.client().run(&["image", "verify"]);
    String::from_utf8_lossy(&verified.stdout).into_owned()
}

async fn is_here(cri: &Cri, name: &str, image: &BuiltImage) {
    let known = cri.image(name).await.unwrap();
    let known = known.unwrap_or_else(|| panic!("{name} is not here"));
    assert_eq!(known.id, image.id(), "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_s_images_come_over_while_it_runs_with_their_names_and_digests() {
    skip_unless!(containerd_program().map(drop));
    let theirs = Node::containerd().start().await;
    let registry = Registry::start();
    let (first, second) = (image("first"), image("second"));
    let lost = image("lost");
    let mut names = Vec::new();
    for (image, name) in [
        (&first, "team/first:1"),
        (&second, "second:2"),
        (&lost, "lost:1"),
    ] {
        let name = registry.push(image, name).await;
        theirs.cri().await.pull(&name).await.unwrap();
        names.push(name);
    }
    let by_digest = format!(
        "{}@{}",
        names[0].rsplit_once(':').unwrap().0,
        first.digest()
    );
    // Nobody can be asked any more, and what containerd discards is gone.
    drop(registry);
    let blob = lost.layers[1].digest.replacen(':', "/", 1);
    let content = theirs.root().join("io.containerd.content.v1.content/blobs");
    std::fs::remove_file(content.join(blob)).unwrap();

    let ours = Node::orlop().start().await;
    let output = images_of("containerd", &theirs.root(), &ours);
    let error = output.err;
    assert_eq!(output.code, Some(1), "{error}");
    let cri = ours.cri().await;
    is_here(&cri, &names[0], &first).await;
    is_here(&cri, &by_digest, &first).await;
    is_here(&cri, &names[1], &second).await;
    is_here(&cri, first.id(), &first).await;
    assert_eq!(cri.image(&names[2]).await.unwrap(), None);
    assert_contains!(error, &format!("cannot import {}", names[2]));
    assert!(error.contains("discard_unpacked_layers"), "{error}");
    // Theirs and the one of the pause process.
    assert!(error.contains("images: 3 imported"), "{error}");
    assert_eq!(verified(&ours).matches(" sound ").count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn docker_s_images_come_over_with_their_ids() {
    skip_unless!(docker::can_run());
    let mut engine = DockerEngine::start();
    let (first, second) = (image("docked"), image("also docked"));
    engine.load(&first, "registry.example/first:1");
    engine.load(&second, "second:2");
    engine.docker(&["tag", "second:2", "registry.example/again:3"]);
    engine.stop();

    let ours = Node::orlop().start().await;
    let output = images_of("docker", &engine.data(), &ours);
    assert!(output.ok, "{output:?}");
    let cri = ours.cri().await;
    is_here(&cri, "registry.example/first:1", &first).await;
    is_here(&cri, "docker.io/library/second:2", &second).await;
    is_here(&cri, "registry.example/again:3", &second).await;
    assert_eq!(verified(&ours).matches(" sound ").count(), 2);

    // What is not what it was is refused as a whole, by its name; the other one is not held up.
    cri.remove_image("registry.example/first:1").await.unwrap();
    cri.remove_image("second:2").await.unwrap();
    let mut changed = 0;
    for path in files_below(&engine.data()) {
        if path.ends_with("above") && std::fs::read(&path).unwrap() == b"docked" {
            std::fs::write(&path, "dicked").unwrap();
            changed += 1;
        }
    }
    assert!(changed > 0);
    let output = images_of("docker", &engine.data(), &ours);
    let error = output.err;
    assert_eq!(output.code, Some(1), "{error}");
    assert_contains!(error, "cannot import registry.example/first:1");
    assert_eq!(cri.image("registry.example/first:1").await.unwrap(), None);
    is_here(&cri, "second:2", &second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_containers_storage_come_over_with_their_digests() {
    skip_unless!(machine::has_program("skopeo"));
    let scratch = Scratch::new();
    let registry = Registry::start();
    let image = image("stored");
    let name = registry.push(&image, "team/stored:1").await;
    for driver in ["vfs", "overlay"] {
        let (root, run) = (scratch.path(driver), scratch.path(&format!("{driver}-run")));
        let place = format!(
            "containers-storage:[{driver}@{}+{}]{name}",
            root.display(),
            run.display()
        );
        let mut copy = Command::new("skopeo");
        copy.args(["--insecure-policy", "copy", "--src-tls-verify=false"]);
        process::run(copy.arg(format!("docker://{name}")).arg(place));
        let ours = Node::orlop().start().await;
        let output = images_of("crio", &root, &ours);
        orlop_testkit::scratch::unmount_below(&root);
        assert!(output.ok, "{driver}: {output:?}");
        let cri = ours.cri().await;
        is_here(&cri, &name, &image).await;
        let repository = name.rsplit_once(':').unwrap().0;
        is_here(&cri, &format!("{repository}@{}", image.digest()), &image).await;
        assert_eq!(verified(&ours).matches(" sound ").count(), 1, "{driver}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_killed_leaves_no_half_image() {
    skip_unless!(docker::can_run());
    let mut engine = DockerEngine::start();
    let large = ImageBuilder::new()
        .layer(Layer::new().noise("noise", 96 << 20))
        .build();
    engine.load(&large, "large:1");
    engine.stop();
    let ours = Node::orlop().start().await;
    let config = ours.scratch().path("daemon.json");
    let socket = format!("unix://{}", ours.socket().display());
    let move_over = || {
        let mut command = Command::new(orlop_testkit::node::binary());
        command
            .args([
                "migrate", "--from", "docker", "--images", "--socket", &socket, "--config",
            ])
            .arg(&config)
            .arg("--root")
            .arg(engine.data())
            .stdout(Stdio::null());
        command
    };
    let mut moving = move_over().spawn().unwrap();
    let began = Instant::now();
    let is_coming = || {
        let files = files_below(&ours.root());
        let files = files
            .iter()
            .filter(|path| path.to_string_lossy().contains("/import-"));
        files
            .filter_map(|path| path.metadata().ok())
            .any(|found| found.len() > 1 << 20)
    };
    while !is_coming() {
        assert!(began.elapsed() < LIMIT, "nothing comes");
        assert_eq!(moving.try_wait().unwrap(), None, "it was too fast");
        std::thread::sleep(Duration::from_millis(1));
    }
    moving.kill().unwrap();
    moving.wait().unwrap();
    let cri = ours.cri().await;
    orlop_testkit::block_until!(
        LIMIT,
        !files_below(&ours.root())
            .iter()
            .any(|path| path.to_string_lossy().contains("/import-")),
        "something is left"
    );
    assert_eq!(cri.image("large:1").await.unwrap(), None);
    assert!(move_over().status().unwrap().success());
    is_here(&cri, "large:1", &large).await;
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let (mut files, mut ahead) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = ahead.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                ahead.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

/// The report is for programs, too.
#[test]
fn a_report_in_json_has_each_line_once() {
    let scratch = Scratch::new();
    let file = scratch.path("daemon.json");
    std::fs::write(
        &file,
        "{\n  \"live-restore\": true,\n  \"userns-remap\": \"default\"\n}\n",
    )
    .unwrap();
    let output = migrate("docker", &file, &["-o", "json"]);
    let report: Value = serde_json::from_str(&output.out).unwrap();
    let lines = report["lines"].as_array().unwrap();
    let seen: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["line"].as_u64().unwrap(),
                line["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(seen, [(2, "needless"), (3, "lost")]);
}

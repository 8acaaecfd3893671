//! What orlop does with images beyond the CRI, through its own commands: archives, checks,
//! garbage, and how a pull gets on.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use orlop_testkit::{Fault, FaultProxy, ImageBuilder, Layer, Rule, assert_contains};

use crate::world::ours;

#[tokio::test]
async fn an_exported_image_comes_back_with_its_id() {
    let world = ours!();
    let client = world.node.client();
    let image = ImageBuilder::new()
        .layer(Layer::new().noise("noise", 3 << 20))
        .marked("archived")
        .build();
    let name = world.image(&image, "archived:1").await;
    let line = format!("{} sound {name}\n", image.id());
    assert_eq!(client.out(&["image", "verify", &name]), line);
    let listed = client.out(&["image", "-q", &name]);
    assert_eq!(listed.trim(), image.id(), "it lists without a verb");
    for format in ["oci", "docker"] {
        let archive = world.node.scratch().path(&format!("{format}.tar"));
        let file = archive.to_str().expect("text");
        client.out(&["image", "export", "--format", format, "-o", file, &name]);
        let piped = client.run(&["image", "export", "--format", format, &name]);
        let bytes = std::fs::read(&archive).expect("read the archive");
        assert!(bytes.len() > 3 << 20, "{} bytes", bytes.len());
        assert!(piped.stdout == bytes, "the standard output got another");

        world.cri.remove_image(&name).await.expect("remove");
        assert_eq!(world.cri.image(&name).await.expect("status"), None);
        let line = format!("{} {name}\n", image.id());
        if format == "oci" {
            assert_eq!(client.out(&["image", "import", file]), line);
        } else {
            let mut import = client
                .command(&["image", "import"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("run orlop");
            let mut input = import.stdin.take().expect("piped");
            input.write_all(&bytes).expect("lead the archive in");
            drop(input);
            let output = import.wait_with_output().expect("wait");
            assert_eq!(String::from_utf8_lossy(&output.stdout), line);
        }
        let known = world.cri.image(&name).await.expect("status");
        assert_eq!(known.expect("is there").id, image.id(), "{format}");
        let verified = client.out(&["image", "verify"]);
        assert_eq!(verified.matches(" sound ").count(), 2, "{verified}");
    }

    // A directory is as good as an archive of it.
    let _empty = world.node.scratch().subdir("empty");
    let layout = world.node.scratch().path("layout");
    let there = format!("{}/", layout.display());
    client.out(&["image", "export", "-o", &there, &name]);
    assert!(layout.join("oci-layout").is_file());
    let again = client.run(&["image", "export", "-o", &there, &name]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("not empty"));
    world.cri.remove_image(&name).await.expect("remove");
    let line = format!("{} {name}\n", image.id());
    assert_eq!(client.out(&["image", "import", &there]), line);
    assert_eq!(
        client.run(&["image", "import", "/proc/self"]).status.code(),
        Some(1)
    );

    // Half an archive leaves nothing behind, and names its problem.
    world.cri.remove_image(&name).await.expect("remove");
    let whole = std::fs::read(world.node.scratch().path("oci.tar")).expect("read");
    let half = world.node.scratch().path("half.tar");
    std::fs::write(&half, &whole[..whole.len() / 2]).expect("write");
    let broken = client.error(&["image", "import", half.to_str().expect("text")]);
    assert_contains!(broken, "cannot import: importing an archive");
    assert_eq!(world.cri.image(&name).await.expect("status"), None);
    let error = client.run(&["image", "export", &name]);
    assert!(String::from_utf8_lossy(&error.stderr).contains("not found"));
    world.finish().await;
}

#[tokio::test]
async fn an_export_to_a_device_leaves_the_device() {
    use std::os::unix::fs::FileTypeExt as _;

    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

    let world = ours!();
    let name = world.image(&ImageBuilder::new().build(), "export:1").await;
    let null = world.node.scratch().path("null");
    let device = makedev(1, 3);
    mknodat(
        CWD,
        &null,
        FileType::CharacterDevice,
        Mode::RUSR | Mode::WUSR,
        device,
    )
    .expect("mknod");
    let client = world.node.client();
    client.out(&["image", "export", "-o", null.to_str().expect("text"), &name]);
    let there = std::fs::symlink_metadata(&null).expect("stat");
    assert!(there.file_type().is_char_device(), "{there:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_damaged_layer_is_told_of_and_repaired() {
    let world = ours!();
    let client = world.node.client();
    let image = ImageBuilder::new()
        .layer(Layer::new().file("motd", "ahoy\n", 0o644))
        .build();
    let name = world.image(&image, "damaged:1").await;
    let mut damaged = 0;
    let mut ahead = vec![world.node.root()];
    while let Some(dir) = ahead.pop() {
        for entry in std::fs::read_dir(dir).expect("list") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.is_symlink() {
                ahead.push(path);
            } else if path.ends_with("motd") {
                std::fs::write(path, "aboy\n").expect("damage");
                damaged += 1;
            }
        }
    }
    assert_eq!(damaged, 1);
    let output = client.run(&["image", "verify", &name]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_contains!(text, &format!("{} broken {name}", image.id()));
    let text = client.out(&["image", "verify", "--repair", &name]);
    assert!(text.contains(" repaired "), "{text}");
    let text = client.out(&["image", "verify", &name]);
    assert!(text.contains(" sound "), "{text}");
    world.finish().await;
}

#[tokio::test]
async fn garbage_goes_and_what_is_in_use_stays() {
    let world = ours!();
    let client = world.node.client();
    let image = ImageBuilder::new()
        .layer(Layer::new().noise("noise", 1 << 20))
        .marked("unused")
        .build();
    let unused = world.image(&image, "unused:1").await;
    let running = world.run_script("user", "sleep 1000").await;

    let text = client.out(&["image", "gc"]);
    assert_eq!(text, "Freed 0B\n");
    let text = client.out(&["image", "gc", "--unused", "--dry-run"]);
    assert_contains!(text, &format!("Would remove {}", image.id()));
    assert!(world.cri.image(&unused).await.expect("status").is_some());
    let done = client.out(&["image", "gc", "--unused"]);
    assert!(done.contains(&format!("Removed {}", image.id())), "{done}");
    assert_eq!(
        text.replace("Would remove", "Removed")
            .replace("Would free", "Freed"),
        done,
        "it does what it said it would"
    );
    assert!(!done.contains("Freed 0B"), "{done}");
    assert_eq!(world.cri.image(&unused).await.expect("status"), None);
    let busybox = world.cri.image(&world.busybox).await.expect("status");
    assert!(busybox.is_some(), "a container uses it");
    drop(running);
    world.finish().await;
}

#[tokio::test]
async fn a_pull_is_watched_from_its_beginning_to_its_end() {
    let world = ours!();
    let size = 1 << 20;
    let image = ImageBuilder::new()
        .layer(Layer::new().noise("noise", size))
        .build();
    world.registry.push(&image, "watched:1").await;
    let proxy = FaultProxy::before(world.registry.address());
    let reference = proxy.reference("watched:1");
    let layer = &image.layers[0].digest;
    proxy.rule(Rule::on(
        layer,
        Fault::Stall {
            after: size / 2,
            hold: Duration::from_secs(1),
        },
    ));
    let (said, shown) = world.node.client().both(&["pull", &reference]);
    assert_eq!(said, format!("Image is up to date for {}\n", image.id()));
    let id = &layer["sha256:".len()..][..13];
    let lines: Vec<&str> = shown.lines().filter(|line| line.contains(id)).collect();
    assert!(
        lines
            .first()
            .is_some_and(|line| line.contains("downloading")),
        "{shown}"
    );
    assert!(
        lines.last().is_some_and(|line| line.contains("done")),
        "{shown}"
    );
    world.finish().await;
}

//! What an image may say: nothing of it is taken as a path of the node.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use orlop_cri_api::v1::{ImageSpec, Mount};
use orlop_testkit::{ContainerSpec, ImageBuilder, Layer};
use serde_json::json;

use crate::world::world;

mod ours;

const SECRET: &str = "of the node";

/// CVE-2022-23648: the contents of a declared volume are copied out of the image, whatever its
/// path or the links below it say.
#[tokio::test]
async fn a_declared_volume_holds_nothing_of_the_node() {
    let world = world!();
    let victim = world.node.scratch().subdir("victim");
    fs::write(victim.join("file"), SECRET).expect("write");
    let path = victim.display().to_string();
    let climbing = format!("/../../../../../../../../../..{path}");
    let layer = Layer::new()
        .symlink("absolute", &path)
        .symlink("relative", &format!("../../../../../../..{path}"))
        .dir("inside", 0o755)
        .symlink("inside/link", &path);
    let volumes = json!({
        "/absolute": {}, "/relative": {}, "/inside": {}, climbing.clone(): {}, "/inside/link": {},
    });
    let image = ImageBuilder::busybox()
        .layer(layer)
        .config("Volumes", volumes)
        .build();
    let reference = world.image(&image, "volumes:1").await;
    let script = format!(
        "for d in /absolute /relative /inside/link {climbing} {path}; do \
         cat $d/file 2>/dev/null; echo mine > $d/written 2>/dev/null; done; true"
    );
    let spec = ContainerSpec::new("main", &reference).shell(&script);
    let pod = world.node.pod("volumes");
    let pod_id = world.run_pod(&pod).await;
    // A runtime may refuse such an image altogether.
    if let Ok(id) = world.cri.run(&pod_id, &pod, &spec).await {
        world.cri.wait_exited(&id).await;
        let log = fs::read_to_string(pod.logs().join("main.log")).expect("read");
        assert!(!log.contains(SECRET), "{log}");
    }
    assert!(!victim.join("written").exists());
    world.finish().await;
}

/// CVE-2021-32760 and its kin: unpacking changes no mode, owner or content of the node's files.
#[tokio::test]
async fn unpacking_touches_nothing_outside_of_its_layer() {
    let world = world!();
    let victim = world.node.scratch().path("victim");
    let path = victim.display().to_string();
    assert!(path.len() < 90, "fits a header: {path}");
    let climbing = format!("../../../../../../../../..{path}");
    let raw = |kind, name: &str, target: &str| {
        Layer::new().raw(kind, name.as_bytes(), target.as_bytes(), b"")
    };
    use orlop_testkit::image::EntryType::{Directory, Link, Regular, Symlink};
    let two = |first: Layer, second: Layer| vec![first, second];
    let cases = [
        // A link, then an entry of the same name with another mode.
        two(
            Layer::new().symlink("x", &path),
            Layer::new().file("x", "", 0o777),
        ),
        vec![raw(Link, "x", &path)],
        vec![raw(Link, "x", &climbing)],
        vec![raw(Regular, &climbing, "")],
        vec![raw(Regular, &path, "")],
        vec![raw(Symlink, "y", "/").raw(Regular, format!("y{path}").as_bytes(), b"", b"")],
        two(
            Layer::new().symlink("d", "/"),
            raw(Directory, "d", "").raw(Link, b"h", format!("d{path}").as_bytes(), b""),
        ),
        // A hard link to a link, whose mode is then set.
        vec![
            Layer::new()
                .symlink("s", &path)
                .hardlink("h", "s", 0o777)
                .hardlink("s", "h", 0o777),
        ],
    ];
    for (number, layers) in cases.into_iter().enumerate() {
        fs::write(&victim, SECRET).expect("write");
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).expect("set the mode");
        let image = layers
            .into_iter()
            .fold(ImageBuilder::busybox(), ImageBuilder::layer)
            .build();
        let name = format!("hostile-{number}:1");
        let reference = world.registry.push(&image, &name).await;
        // Refusing it is as good as unpacking it harmlessly.
        let _ = world.cri.pull(&reference).await;
        let now = fs::metadata(&victim).expect("look");
        assert_eq!(now.permissions().mode() & 0o7777, 0o600, "case {number}");
        assert_eq!(
            std::os::unix::fs::MetadataExt::nlink(&now),
            1,
            "case {number}"
        );
        assert_eq!(fs::read_to_string(&victim).expect("read"), SECRET);
    }
    world.finish().await;
}

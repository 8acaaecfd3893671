//! Files of the node: none is reached through what the runtime has open, mounts or writes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use orlop_testkit::{ContainerSpec, ImageBuilder, Layer};
use serde_json::json;
use tonic::Code;

use crate::world::world;

mod ours;

/// CVE-2024-21626 and its kin: a descriptor that the runtime forgot to close is a door.
#[tokio::test]
async fn no_file_of_the_runtime_is_open_in_a_container() {
    let world = world!();
    let list = "for fd in /proc/self/fd/*; do echo ${fd##*/} $(readlink $fd); done";
    let script = format!("{list}; echo over; sleep 600");
    let running = world.run_script("fds", &script).await;
    for _ in 0..500 {
        if running.stdout().contains("over") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let told = world.cri.exec(&running.id, &["sh", "-c", list]).await;
    let told = told.expect("exec");
    let of_exec = String::from_utf8_lossy(&told.stdout).into_owned();
    for (who, text) in [("the container", running.stdout()), ("exec", of_exec)] {
        for line in text.lines() {
            let (fd, target) = line.split_once(' ').unwrap_or((line, ""));
            // The shell's own look at the directory is over by the time of readlink.
            let standard = ["0", "1", "2"].contains(&fd)
                && (target.starts_with("pipe:") || target == "/dev/null");
            assert!(
                standard || target.is_empty(),
                "{who} has {line:?} of\n{text}"
            );
        }
        assert!(text.contains("1 pipe:"), "{who}: {text:?}");
    }
    world.finish().await;
}

/// CVE-2025-31133, CVE-2025-52565, CVE-2025-52881 and their kin: an image has links where the
/// runtime mounts, masks and makes devices.
#[tokio::test]
async fn links_of_an_image_lead_no_mount_out() {
    let world = world!();
    // Not below /dev, where the scratch of tests may be: a link at /dev would lead to itself.
    let kept = tempfile::tempdir_in("/var/tmp").expect("make a directory");
    let victim = kept.path().to_owned();
    let file = victim.join("file");
    fs::write(&file, "of the node\n").expect("write");
    let mounted = world.node.scratch().subdir("mounted");
    let to = |path: &Path| path.display().to_string();
    let pod = world.node.pod("links");
    let pod_id = world.run_pod(&pod).await;
    let cases = [
        ("dev", Layer::new().symlink("dev", &to(&victim))),
        ("proc", Layer::new().symlink("proc", &to(&victim))),
        ("sys", Layer::new().symlink("sys", &to(&victim))),
        (
            "etc",
            Layer::new()
                .symlink("etc/hosts", &to(&file))
                .symlink("etc/resolv.conf", &to(&file))
                .symlink("etc/hostname", &to(&victim.join("made"))),
        ),
        ("target", Layer::new().symlink("target", &to(&victim))),
        (
            "climbing",
            Layer::new().symlink("target", &format!("../../../../../../..{}", to(&victim))),
        ),
        (
            "masked",
            Layer::new()
                .symlink("masked", &to(&file))
                .symlink("readonly", &to(&victim)),
        ),
    ];
    for (name, layer) in cases {
        let image = ImageBuilder::busybox().layer(layer).build();
        let reference = world.image(&image, &format!("links-{name}:1")).await;
        let script = "touch /target/below/by-container /dev/by-container 2>/dev/null; true";
        let spec = ContainerSpec::new(name, &reference)
            .shell(script)
            .mount(&mounted, "/target/below")
            .with(|config| {
                let linux = config.linux.get_or_insert_default();
                let security = linux.security_context.get_or_insert_default();
                security.masked_paths = vec!["/masked".into(), "/proc/kcore".into()];
                security.readonly_paths = vec!["/readonly".into(), "/proc/sys".into()];
            });
        // Whether the runtime refuses or stays within the image is its own affair.
        let started = match world.cri.create(&pod_id, &pod, &spec).await {
            Ok(id) => world.cri.start(&id).await.map(|()| id),
            Err(status) => Err(status),
        };
        if let Ok(id) = started {
            world.cri.wait_exited(&id).await;
        }
        let left: Vec<_> = fs::read_dir(&victim)
            .expect("read")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(left, ["file"], "{name}");
        assert_eq!(fs::read_to_string(&file).expect("read"), "of the node\n");
        assert!(orlop_testkit::scratch::mounts_below(&victim).is_empty());
    }
    world.finish().await;
}

//! What shall be hidden, and how an image might keep it from being so.

use std::fs;
use std::os::unix::fs::symlink;

use orlop_testkit::skip_unless;
use serde_json::json;

use crate::rig::{self, Rig, also, rig, without, works};

/// CVE-2025-31133 and CVE-2025-62161: files are masked by the image's own `/dev/null`, which is a file to
/// read from or a link to one of the kernel's that is to be written.
#[test]
fn files_are_masked_by_the_kernels_null_and_not_by_the_images() {
    skip_unless!(works());
    for kind in ["a file", "a link", "a link to nothing", "a directory"] {
        let rig = Rig::new();
        let null = rig.root.join("dev/null");
        match kind {
            "a file" => fs::write(null, "of the image").unwrap(),
            "a link" => symlink("/proc/sysrq-trigger", null).unwrap(),
            "a link to nothing" => symlink("/nowhere", null).unwrap(),
            _ => fs::create_dir(null).unwrap(),
        }
        let mut config = rig.config(&["sh", "-c", "stat -c %t:%T /proc/keys; cat /proc/keys"]);
        without(&mut config, "/dev");
        without(&mut config, "/dev/pts");
        let said = rig.run(&config);
        // To refuse such an image is right, too.
        assert!(!said.ok || said.out == "1:3\n", "{kind}: {said:?}");
        assert!(!said.out.contains("of the image"), "{kind}: {said:?}");
    }
}

/// A mask is where the kernel's file is, and not where the image leads.
#[test]
fn links_of_the_image_take_no_mask_away() {
    let rig = rig!();
    let outside = rig.outside("outside");
    fs::write(outside.join("file"), "of the host").unwrap();
    symlink(&outside, rig.root.join("masked")).unwrap();
    symlink("../../../../../../../..", rig.root.join("up")).unwrap();
    // They lead to what is the container's, wherever that name leads on the host.
    fs::create_dir(rig.root.join("of_the_image")).unwrap();
    fs::write(rig.root.join("of_the_image/file"), "of the image").unwrap();
    symlink("/of_the_image", rig.root.join("link")).unwrap();
    fs::write(rig.root.join("etc/passwd"), "of the image").unwrap();
    let look = "stat -c %t:%T /proc/keys /etc/passwd; cat /proc/keys /etc/passwd; ls /of_the_image
        mkdir /tmp/made 2>/dev/null && echo made; true";
    let mut config = rig.config(&["sh", "-c", look]);
    config["linux"]["maskedPaths"] = json!([
        "/masked",
        "/up/etc/passwd",
        "/masked/file",
        "/link",
        "/proc/keys"
    ]);
    config["linux"]["readonlyPaths"] = json!(["/up/tmp", "/masked", "/proc/sys"]);
    let said = rig.run(&config);
    assert!(said.ok && said.out == "1:3\n1:3\n", "{said:?}");
    assert_eq!(
        fs::read_to_string(outside.join("file")).unwrap(),
        "of the host"
    );
    fs::write(outside.join("file"), "and can be written").unwrap();
}

/// What `tmpcopyup` copies is what is there, not what links lead to.
#[test]
fn copies_of_what_a_mount_hides_hold_nothing_of_the_host() {
    let rig = rig!();
    let outside = rig.outside("outside");
    fs::write(outside.join("secret"), "of the host").unwrap();
    let data = rig.root.join("data");
    fs::create_dir(&data).unwrap();
    symlink(outside.join("secret"), data.join("file")).unwrap();
    symlink(&outside, data.join("directory")).unwrap();
    fs::write(data.join("own"), "of the image").unwrap();
    for destination in ["/data", "/to_data"] {
        let _ = symlink("/../data", rig.root.join("to_data"));
        let mut config = rig.config(&[
            "sh",
            "-c",
            "cat /data/own; cat /data/file /data/directory/*; ls -l /data",
        ]);
        also(
            &mut config,
            rig::mount(destination, "tmpfs", &["tmpcopyup"]),
        );
        let said = rig.run(&config);
        assert!(said.ok && said.out.contains("of the image"), "{said:?}");
        assert!(!said.out.contains("of the host"), "{said:?}");
    }
}

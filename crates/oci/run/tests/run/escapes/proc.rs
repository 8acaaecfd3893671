//! A `/proc` that is not the kernel's.

use std::fs;
use std::os::unix::fs::symlink;

use orlop_testkit::skip_unless;
use serde_json::{Value, json};

use crate::rig::{self, Rig, also, mount, rig, volume, with_users, without, works};

/// CVE-2019-19921, CVE-2023-27561, CVE-2023-28642, CVE-2025-54867: the image's `/proc` is a link, and what
/// the runtime writes to it goes where the image says.
#[test]
fn a_root_whose_proc_or_sys_is_a_link_is_refused() {
    skip_unless!(works());
    for name in ["proc", "sys"] {
        for target in ["/elsewhere", "elsewhere", "/../../../tmp", "loop"] {
            let rig = Rig::new();
            fs::create_dir(rig.root.join("elsewhere")).unwrap();
            fs::remove_dir(rig.root.join(name)).unwrap();
            symlink(target, rig.root.join(name)).unwrap();
            symlink("loop", rig.root.join("loop")).unwrap();
            let refused = rig
                .create(&rig.config(&["true"]))
                .map(|container| container.id);
            let said = refused.unwrap_err();
            assert!(said.err.contains(name), "{said:?}");
            assert_eq!(fs::read_dir(rig.root.join("elsewhere")).unwrap().count(), 0);
        }
    }
}

/// CVE-2019-16884, CVE-2023-28642, CVE-2025-52881, CVE-2025-62596: a volume over `/proc` or in it takes what
/// the runtime writes to the kernel: labels, settings.
#[test]
fn nothing_is_mounted_over_what_the_kernel_is_told_by() {
    let rig = rig!();
    let fake = rig.outside("fake");
    for directory in ["self/attr", "sys/net/ipv4", "1"] {
        fs::create_dir_all(fake.join(directory)).unwrap();
    }
    for file in ["self/attr/exec", "sys/net/ipv4/ip_forward"] {
        fs::write(fake.join(file), "").unwrap();
    }
    symlink("/proc", rig.root.join("to_proc")).unwrap();
    symlink("../proc/self/attr", rig.root.join("to_attr")).unwrap();
    symlink("to_attr/exec", rig.root.join("to_exec")).unwrap();
    symlink("/proc/sys", rig.root.join("to_sys")).unwrap();
    symlink("/proc/self/root/proc/sys", rig.root.join("to_sys_by_magic")).unwrap();

    let file = fake.join("self/attr/exec");
    let cases = [
        volume(&fake, "/proc"),
        volume(&fake, "/./proc/"),
        volume(&fake, "/tmp/../proc"),
        volume(&fake, "/to_proc"),
        mount("/proc", "tmpfs", &[]),
        mount("/proc/sys", "tmpfs", &[]),
        mount("/to_sys", "tmpfs", &[]),
        volume(&fake, "/proc/sys"),
        volume(&fake, "/to_sys"),
        volume(&fake, "/to_sys_by_magic"),
        volume(&fake, "/to_sys/net"),
        volume(&fake, "/to_attr"),
        volume(&file, "/to_exec"),
        volume(&file, "/to_attr/exec"),
        volume(&file, "/proc/self/attr/exec"),
        volume(&file, "/proc/thread-self/attr/exec"),
        volume(&file, "/proc/1/oom_score_adj"),
    ];
    let refused = |config: &Value, case: &Value| {
        let mut config = config.clone();
        also(&mut config, case.clone());
        if let Ok(container) = rig.create(&config) {
            let table = fs::read_to_string(format!("/proc/{}/mountinfo", container.pid));
            panic!("{case} was mounted: {table:?}");
        }
    };
    for users in ["the host's", "its own"] {
        let mut config = rig.config(&["true"]);
        if users == "its own" {
            with_users(&mut config);
        }
        let is_made = |config: &Value| {
            let made = rig.create(config).map(|container| container.id);
            assert!(made.is_ok(), "{users}: {made:?}");
        };
        is_made(&config);
        for case in &cases {
            refused(&config, case);
        }
        // Where the kernel's own is not mounted before.
        without(&mut config, "/proc");
        is_made(&config);
        for case in [volume(&fake, "/proc"), mount("/proc", "tmpfs", &[])] {
            refused(&config, &case);
        }
    }
    assert_eq!(
        fs::read_to_string(file).unwrap(),
        "",
        "something was written to the volume"
    );
}

/// CVE-2025-52881: without a `/proc` of the kernel's in the container a setting is written to the image's.
#[test]
fn settings_go_to_the_kernel_though_the_image_has_files_of_their_names() {
    let rig = rig!();
    let fake = rig.root.join("proc/sys/net/ipv4");
    fs::create_dir_all(&fake).unwrap();
    fs::write(fake.join("ip_forward"), "image").unwrap();
    let mut config = rig.config(&["sleep", "60"]);
    without(&mut config, "/proc");
    config["linux"]["sysctl"] = json!({ "net.ipv4.ip_forward": "1" });
    for paths in ["maskedPaths", "readonlyPaths"] {
        config["linux"][paths] = Value::Null;
    }
    let container = rig
        .create(&config)
        .unwrap_or_else(|said| panic!("{said:?}"));
    assert_eq!(
        fs::read_to_string(fake.join("ip_forward")).unwrap(),
        "image"
    );
    // The setting of a network namespace, seen from outside of the container.
    let network = format!("--net=/proc/{}/ns/net", container.pid);
    let forward = rig::ended(std::process::Command::new("nsenter").args([
        &network,
        "cat",
        "/proc/sys/net/ipv4/ip_forward",
    ]));
    assert_eq!(forward.out.trim(), "1", "{forward:?}");
}

//! Namespaces that are there already.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use orlop_testkit::skip_unless;
use serde_json::{Value, json};

use crate::manners::out;
use crate::rig::{self, Rig, rig, works};

/// Who root of the containers' users is outside.
pub(crate) const ROOT: (u32, u32) = (100_000, 200_000);

/// Gives a container users of its own, who find the root file system.
pub(crate) fn with_users(rig: &Rig, config: &mut Value) {
    for dir in [rig.root.as_path(), rig.root.parent().unwrap()] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::chown(&rig.root, Some(ROOT.0), Some(ROOT.1)).unwrap();
    let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
    namespaces.push(json!({ "type": "user" }));
    config["linux"]["uidMappings"] = json!([{ "containerID": 0, "hostID": ROOT.0, "size": 65536 }]);
    config["linux"]["gidMappings"] = json!([{ "containerID": 0, "hostID": ROOT.1, "size": 65536 }]);
}

fn has_times() -> Result<(), String> {
    let there = Path::new("/proc/self/ns/time").exists();
    there
        .then_some(())
        .ok_or_else(|| "no time namespaces here".to_owned())
}

/// All of them but the mounts: whose users are others' and whose clocks are theirs, too.
#[test]
fn a_container_joins_all_namespaces_of_another() {
    skip_unless!(works().and_then(|()| has_times()));
    let rig = Rig::new();
    let mut config = rig.config(&["sleep", "60"]);
    with_users(&rig, &mut config);
    let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
    namespaces.push(json!({ "type": "time" }));
    config["linux"]["timeOffsets"] =
        json!({ "monotonic": { "secs": 7881, "nanosecs": 2_718_281 } });
    let target = rig.start(&config);
    for namespace in config["linux"]["namespaces"].as_array_mut().unwrap() {
        let file = match namespace["type"].as_str().unwrap() {
            "mount" => continue,
            "network" => "net",
            kind => kind,
        };
        namespace["path"] = format!("/proc/{}/ns/{file}", target.pid).into();
    }
    for gone in ["uidMappings", "gidMappings", "timeOffsets"] {
        config["linux"].as_object_mut().unwrap().remove(gone);
    }
    config["process"]["args"] = json!(["cat", "/proc/self/timens_offsets", "/proc/self/uid_map",]);
    let said = out(rig.run(&config));
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(words[..3], ["monotonic", "7881", "2718281"], "{said}");
    assert_eq!(words[6..], ["0", "100000", "65536"], "{said}");
}

/// A container that shares the host's mounts is in its own root all the same, and leaves the host none of its own.
#[test]
fn without_a_mount_namespace_a_container_has_its_root() {
    let rig = rig!();
    fs::write(rig.root.join("etc/mark"), "its own\n").unwrap();
    let mut config = rig.config(&["cat", "/etc/mark"]);
    let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
    namespaces.retain(|namespace| namespace["type"] != "mount");
    for paths in ["maskedPaths", "readonlyPaths"] {
        config["linux"][paths] = json!([]);
    }
    assert_eq!(out(rig.run(&config)), "its own\n");
    config["process"]["args"] = json!(["sleep", "60"]);
    let container = rig.start(&config);
    assert_eq!(out(container.exec(&[], &["cat", "/etc/mark"])), "its own\n");
    container.delete();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!table.contains(rig.root.to_str().unwrap()), "{table}");
}

/// A network namespace that does not belong to the users that are joined with it.
#[test]
fn namespaces_of_different_owners_are_joined_together() {
    let rig = rig!();
    let mut config = rig.config(&["sleep", "60"]);
    with_users(&rig, &mut config);
    let target = rig.start(&config);
    let net = rig.outside("net").join("net");
    fs::write(&net, "").unwrap();
    let script = "mount --bind /proc/self/ns/net \"$0\"";
    let made = Command::new("unshare")
        .args(["--net", "sh", "-c", script])
        .arg(&net)
        .status();
    assert!(made.unwrap().success());
    let wanted = fs::metadata(&net)
        .map(|it| std::os::unix::fs::MetadataExt::ino(&it))
        .unwrap();
    for namespace in config["linux"]["namespaces"].as_array_mut().unwrap() {
        match namespace["type"].as_str().unwrap() {
            "network" => namespace["path"] = net.to_str().unwrap().into(),
            "user" => namespace["path"] = format!("/proc/{}/ns/user", target.pid).into(),
            _ => {}
        }
    }
    for gone in ["uidMappings", "gidMappings"] {
        config["linux"].as_object_mut().unwrap().remove(gone);
    }
    // Who has no rights to a network may not have its /sys.
    rig::without(&mut config, "/sys");
    config["process"]["args"] = json!(["readlink", "/proc/self/ns/net"]);
    let said = rig.run(&config);
    let _ = Command::new("umount").arg(&net).status();
    assert_eq!(out(said).trim(), format!("net:[{wanted}]"));
}

//! Where the bundles lie: made anew for each runtime, always at the same place.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use orlop_testkit::process::Process;
use orlop_testkit::{Scratch, machine};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::Value;

use crate::bundle::{PROBE, Wish};
use crate::cgroups;

/// Directories of a test, namespaces to join, and the names that everything of it bears.
pub(crate) struct Ground {
    // Ends before its directory goes.
    holder: Process,
    probe: Vec<(PathBuf, PathBuf)>,
    pub(crate) scratch: Scratch,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let probe = probe(&scratch);
        let nodes = nodes(&scratch);
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--net", "--ipc", "--uts", "sh", "-c", HOLD])
            .arg(&nodes)
            .args(machine::v2_beside_v1());
        let name = "the holder of namespaces";
        let mut holder = Process::spawn(name, &mut command, &scratch.path("holder.log"));
        let comm = format!("/proc/{}/comm", holder.pid());
        holder.wait_until(Duration::from_secs(20), "hold them", || {
            fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep")
        });
        Self {
            holder,
            probe,
            scratch,
        }
    }

    /// The container's name, and its control group's.
    pub(crate) fn id(&self) -> &str {
        self.scratch.id()
    }

    pub(crate) fn bundle(&self) -> PathBuf {
        self.scratch.path("bundle")
    }

    /// What lies beside the root file system, for mounts of it.
    pub(crate) fn source(&self, name: &str) -> String {
        let path = self.bundle().join("sources").join(name);
        path.to_string_lossy().into_owned()
    }

    /// Where runtimes run: they may do to the machine's devices what they want.
    pub(crate) fn mount_namespace(&self) -> String {
        format!("/proc/{}/ns/mnt", self.holder.pid())
    }

    /// A namespace of the holder.
    pub(crate) fn given(&self, kind: &str) -> String {
        let name = match kind {
            "network" => "net",
            "mount" => "mnt",
            other => other,
        };
        format!("/proc/{}/ns/{name}", self.holder.pid())
    }

    /// The identities of namespaces that are known, by their kind: the machine's, and those given.
    pub(crate) fn known_namespaces(&self) -> BTreeMap<String, &'static str> {
        let mut known = BTreeMap::new();
        for (process, name) in [
            (self.holder.pid().to_string(), "the given one"),
            ("self".to_owned(), "the machine's"),
        ] {
            let entries = fs::read_dir(format!("/proc/{process}/ns")).expect("its namespaces");
            for entry in entries.flatten() {
                if let Ok(identity) = fs::read_link(entry.path()) {
                    known.insert(identity.to_string_lossy().into_owned(), name);
                }
            }
        }
        known
    }

    /// Makes the bundle, whatever a runtime left of the last.
    pub(crate) fn lay(&self, wish: &Wish) {
        for entry in fs::read_dir(self.scratch.path("nodes"))
            .expect("devices")
            .flatten()
        {
            std::os::unix::fs::chown(entry.path(), Some(0), Some(0)).expect("own a device");
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o666))
                .expect("set a mode");
        }
        let bundle = self.bundle();
        if bundle.exists() {
            orlop_testkit::scratch::unmount_below(&bundle);
            orlop_fs::remove_tree(&bundle).expect("remove the last bundle");
        }
        let root = bundle.join("rootfs");
        for (path, mode) in DIRECTORIES {
            directory(&root.join(path), *mode);
        }
        for (path, text, mode) in FILES {
            file(&root.join(path), text, *mode);
        }
        for (path, from) in &self.probe {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("make a directory");
            fs::hard_link(from, path).expect("link the probe");
        }
        let sources = bundle.join("sources");
        for (path, mode) in [("", 0o755), ("tree", 0o755), ("tree/deep", 0o750)] {
            directory(&sources.join(path), mode);
        }
        file(&sources.join("tree/plain"), "plain\n", 0o640);
        file(&sources.join("single"), "single\n", 0o644);
        let config = serde_json::to_vec_pretty(&self.in_place(&wish.config)).expect("JSON");
        fs::write(bundle.join("config.json"), config).expect("write config.json");
    }

    /// The machine's devices whose owner or mode a runtime has changed.
    pub(crate) fn changed_devices(&self) -> String {
        let nodes = fs::read_dir(self.scratch.path("nodes")).expect("devices");
        let mut changed = Vec::new();
        for node in nodes.flatten() {
            let look = node.metadata().expect("look at a device");
            let (uid, gid, mode) = (look.uid(), look.gid(), look.mode() & 0o7777);
            if (uid, gid, mode) != (0, 0, 0o666) {
                let name = node.file_name().to_string_lossy().into_owned();
                changed.push(format!("{name} {mode:o} {uid}:{gid}"));
            }
        }
        changed.sort_unstable();
        changed.join(", ")
    }

    fn in_place(&self, config: &Value) -> Value {
        let mut config = config.clone();
        let linux = &mut config["linux"];
        if linux.is_object() && linux.get("cgroupsPath").is_none() {
            linux["cgroupsPath"] = format!("/{}", self.id()).into();
        }
        config
    }
}

/// In a mount namespace of its own: devices that are not the machine's (runtimes change the owner of what they
/// are given as input, and users' namespaces are given the machine's nodes), and no version 2 of control groups
/// beside version 1, which crun refuses.
const HOLD: &str = "set -e; hostname given; cd \"$0\"; for node in *; do mount --bind $node /dev/$node; done; \
    [ -z \"${1:-}\" ] || umount --lazy \"$1\"; exec sleep infinity";

/// Device nodes that are like the machine's.
fn nodes(scratch: &Scratch) -> PathBuf {
    let directory = scratch.subdir("nodes");
    for (name, minor) in [
        ("null", 3),
        ("zero", 5),
        ("full", 7),
        ("random", 8),
        ("urandom", 9),
    ] {
        let (kind, mode) = (FileType::CharacterDevice, Mode::from_raw_mode(0o666));
        let path = directory.join(name);
        mknodat(CWD, &path, kind, mode, makedev(1, minor)).expect("make a device");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("set a mode");
    }
    directory
}

impl Drop for Ground {
    fn drop(&mut self) {
        orlop_testkit::scratch::unmount_below(&self.bundle());
        cgroups::remove(self.id());
    }
}

const DIRECTORIES: &[(&str, u32)] = &[
    ("", 0o755),
    ("bin", 0o755),
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("home/sailor", 0o750),
    ("made", 0o755),
    ("made/sealed", 0o755),
    ("made/secrets", 0o755),
    ("mnt", 0o755),
    ("mnt/below", 0o711),
    ("proc", 0o555),
    ("root", 0o700),
    ("sys", 0o555),
    ("tmp", 0o1777),
];
const FILES: &[(&str, &str, u32)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nsailor:x:1000:1000::/home/sailor:/bin/sh\n",
        0o644,
    ),
    (
        "etc/group",
        "root:x:0:\nsailor:x:1000:\ndeck:x:2000:sailor\n",
        0o644,
    ),
    ("made/plain", "plain\n", 0o666),
    ("made/secret", "secret\n", 0o644),
    ("made/secrets/one", "secret\n", 0o644),
    ("made/sealed/plain", "plain\n", 0o666),
];

/// With exactly these modes, whatever the umask.
fn directory(path: &Path, mode: u32) {
    fs::create_dir_all(path).expect("make a directory");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set a mode");
}

fn file(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("write a file");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set a mode");
}

/// The probe that this was built with, or that of `$ORLOP_PROBE_BIN`.
fn probe_program() -> PathBuf {
    if let Some(path) = std::env::var_os("ORLOP_PROBE_BIN") {
        return path.into();
    }
    let here = std::env::current_exe().expect("this program");
    let build = here
        .parent()
        .and_then(Path::parent)
        .expect("a build directory");
    let probe = build.join("examples/oci-probe");
    assert!(
        probe.is_file(),
        "no {}; `cargo build -p orlop-run --example oci-probe` makes it",
        probe.display()
    );
    let built = |path: &Path| path.metadata().and_then(|look| look.modified()).ok();
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/oci-probe");
    for source in fs::read_dir(sources).into_iter().flatten().flatten() {
        assert!(
            built(&source.path()) <= built(&probe),
            "{} is younger than the probe; `cargo build -p orlop-run --example oci-probe`",
            source.path().display()
        );
    }
    probe
}

/// The probe and what it is linked with: where in a container, and a copy that links can be made of.
fn probe(scratch: &Scratch) -> Vec<(PathBuf, PathBuf)> {
    let probe = probe_program();
    let linked = Command::new(&probe)
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .output()
        .expect("ask the probe what it is linked with");
    let linked = String::from_utf8_lossy(&linked.stdout).into_owned();
    let words = linked
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    let copies = scratch.subdir("probe");
    let mut files: Vec<(PathBuf, PathBuf)> = words
        .map(|path| {
            (
                PathBuf::from(path.trim_start_matches('/')),
                PathBuf::from(path),
            )
        })
        .collect();
    files.push((PathBuf::from(PROBE.trim_start_matches('/')), probe));
    files
        .into_iter()
        .map(|(within, from)| {
            let copy = copies.join(from.file_name().expect("a name"));
            fs::copy(&from, &copy).expect("copy the probe");
            (within, copy)
        })
        .collect()
}

/// The probe on the machine, for hooks.
pub(crate) fn probe_outside(ground: &Ground) -> String {
    let path = ground.scratch.path("probe").join("oci-probe");
    path.to_string_lossy().into_owned()
}

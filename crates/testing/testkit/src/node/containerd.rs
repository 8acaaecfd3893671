//! containerd with its CRI plugin in test directories: Debian's, or the one in `ORLOP_TEST_CONTAINERD` with its `ctr`
//! and shim in the same directory. `ORLOP_TEST_PEER_SHIM=orlop` selects orlop's shim instead of containerd's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::image::{ImageBuilder, Layer};
use crate::machine::{self, CgroupDriver};
use crate::node::builder::NodeBuilder;
use crate::node::directories::{directories, socket};
use crate::node::network;
use crate::process::Process;
use crate::scratch::Scratch;

/// Image of the pause container that containerd creates in every pod.
const PAUSE: &str = "testkit.invalid/pause:1";

/// Returns the containerd program of the tests.
pub fn containerd_program() -> Result<PathBuf, String> {
    match std::env::var_os("ORLOP_TEST_CONTAINERD") {
        Some(named) if Path::new(&named).is_file() => Ok(named.into()),
        Some(named) => Err(format!("ORLOP_TEST_CONTAINERD names no file: {named:?}")),
        None => machine::program("containerd"),
    }
}

/// Returns whether it is version 2 or later, which has other configuration tables.
fn is_second() -> bool {
    let program = containerd_program().unwrap_or_else(|e| panic!("{e}"));
    let output = Command::new(program).arg("--version").output();
    let said = output.expect("run containerd").stdout;
    String::from_utf8_lossy(&said).contains("/containerd/v2 ")
}

/// Returns the PATH for its shims, and for orlop's shim if requested.
fn search_path(builder: &NodeBuilder) -> OsString {
    let keeper = builder.our_shim.then(super::keeper_binary);
    let beside = [keeper, containerd_program().ok()].into_iter().flatten();
    let dirs = beside.filter_map(|program| Some(program.parent()?.to_owned()));
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = dirs.chain(std::env::split_paths(&rest)).collect();
    std::env::join_paths(all).expect("directories without a colon")
}

pub(super) fn prepare(builder: &NodeBuilder, scratch: &Scratch) {
    let text = config(builder, scratch);
    std::fs::write(scratch.path("containerd.toml"), text).expect("write the configuration");
}

/// Returns the runtime options of its shim.
fn options(builder: &NodeBuilder, scratch: &Scratch) -> String {
    let runtime = machine::program(&builder.runtime).unwrap_or_else(|e| panic!("{e}"));
    let by_systemd = CgroupDriver::of_tests() == CgroupDriver::Systemd;
    let words = format!(
        "BinaryName = \"{}\"\nSystemdCgroup = {by_systemd}\n",
        runtime.display()
    );
    if !builder.our_shim {
        return words;
    }
    // containerd 1.x reads options of unknown shims only from a file.
    let file = scratch.path("options.toml");
    std::fs::write(&file, words).expect("write options");
    format!("ConfigPath = \"{}\"", file.display())
}

fn kind(builder: &NodeBuilder) -> &'static str {
    if builder.our_shim {
        "io.containerd.orlop.v1"
    } else {
        "io.containerd.runc.v2"
    }
}

/// Returns its configuration in version 3 or 2.
fn config(builder: &NodeBuilder, scratch: &Scratch) -> String {
    let (root, state) = directories(scratch);
    let (root, state, socket) = (root.display(), state.display(), socket(scratch));
    let (conf, opt) = (network::conf_dir(scratch), scratch.subdir("opt"));
    let (conf, bin) = (conf.display(), network::BIN_DIR);
    let certs = scratch.subdir("certs.d");
    let (certs, snapshotter) = (certs.display(), snapshotter(builder));
    // Only stargz-snapshotter needs layer annotations.
    let quiet = builder.stargz.is_none();
    let images = format!("snapshotter = \"{snapshotter}\"\ndisable_snapshot_annotations = {quiet}");
    let (version, absent, runtime, cri) = if is_second() {
        let absent = "io.containerd.snapshotter.v1.devmapper\", \"io.containerd.nri.v1.nri";
        let cri = format!(
            r#"[plugins."io.containerd.cri.v1.images"]
{images}
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "{certs}"
[plugins."io.containerd.cri.v1.runtime"]
netns_mounts_under_state_dir = true
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{bin}"]
conf_dir = "{conf}"
[plugins."io.containerd.cri.v1.runtime".containerd]"#
        );
        (3, absent, "io.containerd.cri.v1.runtime", cri)
    } else {
        let absent =
            "io.containerd.snapshotter.v1.devmapper\", \"io.containerd.snapshotter.v1.aufs";
        // Pods want a lower oom_score_adj than the test's, which needs a capability that containers and build machines
        // often lack.
        let cri = format!(
            r#"[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
netns_mounts_under_state_dir = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{certs}"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{bin}"
conf_dir = "{conf}"
[plugins."io.containerd.grpc.v1.cri".containerd]
{images}"#
        );
        (2, absent, "io.containerd.grpc.v1.cri", cri)
    };
    format!(
        r#"version = {version}
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "{absent}"]
[grpc]
address = "{socket}"
[ttrpc]
address = "{socket}.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "{opt}"
{cri}
default_runtime_name = "test"
[plugins."{runtime}".containerd.runtimes.test]
runtime_type = "{kind}"
[plugins."{runtime}".containerd.runtimes.test.options]
{options}
{proxied}"#,
        socket = socket.display(),
        opt = opt.display(),
        kind = kind(builder),
        options = options(builder, scratch),
        proxied = proxied(builder, scratch),
    )
}

fn proxied(builder: &NodeBuilder, scratch: &Scratch) -> String {
    if builder.stargz.is_none() {
        return String::new();
    }
    let address = stargz_socket(scratch);
    let address = address.display();
    format!("[proxy_plugins.stargz]\ntype = \"snapshot\"\naddress = \"{address}\"\n")
}

fn snapshotter(builder: &NodeBuilder) -> &'static str {
    match builder.stargz {
        Some(_) => "stargz",
        None => "overlayfs",
    }
}

fn stargz_socket(scratch: &Scratch) -> PathBuf {
    scratch.run().join("stargz.sock")
}

/// Starts the snapshotter for its images, if configured.
pub(super) fn start_stargz(builder: &NodeBuilder, scratch: &Scratch) -> Option<Process> {
    let socket = stargz_socket(scratch);
    let mut command = Command::new(builder.stargz.as_ref()?);
    command.arg(&socket).arg(scratch.subdir("stargz"));
    let log = scratch.path("stargz.log");
    let mut server = Process::spawn("stargz-snapshotter", &mut command, &log);
    server.wait_until(Duration::from_secs(20), "listen", || socket.exists());
    Some(server)
}

pub(super) fn command(builder: &NodeBuilder, scratch: &Scratch) -> Command {
    let mut command = Command::new(containerd_program().unwrap_or_else(|e| panic!("{e}")));
    command.arg("--config").arg(scratch.path("containerd.toml"));
    command.env("PATH", search_path(builder));
    command
}

/// Returns its `ctr` program.
pub fn containerd_client() -> Result<PathBuf, String> {
    let beside = containerd_program()?.with_file_name("ctr");
    if beside.is_file() {
        return Ok(beside);
    }
    machine::program("ctr")
}

/// Imports a pause image made from busybox. orlop's shim does not need one.
pub(super) fn import_pause(builder: &NodeBuilder, scratch: &Scratch) {
    let entrypoint = if builder.our_shim {
        json!(["/pause"])
    } else {
        json!(["/bin/sleep", "2147483647"])
    };
    let image = ImageBuilder::new()
        .layer(Layer::busybox())
        .config("Entrypoint", entrypoint)
        .build();
    let archive = scratch.path("pause.tar");
    std::fs::write(&archive, image.oci_archive(PAUSE)).expect("write an archive");
    let output = Command::new(containerd_client().unwrap_or_else(|e| panic!("{e}")))
        .arg("--address")
        .arg(socket(scratch))
        .args(["--namespace", "k8s.io", "images", "import"])
        .args(["--snapshotter", snapshotter(builder)])
        .arg(&archive)
        .output()
        .expect("run ctr");
    assert!(
        output.status.success(),
        "importing the pause image: {output:?}"
    );
}

//! Debian's containerd with its CRI plugin, on directories of the test's own. `ORLOP_TEST_PEER_SHIM=orlop`
//! has its pods run by our shim instead of its own.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::image::{ImageBuilder, Layer};
use crate::machine::{self, CgroupDriver};
use crate::node::builder::NodeBuilder;
use crate::node::network;
use crate::node::running::{directories, socket};
use crate::process::Process;
use crate::scratch::Scratch;

/// The image of the process that containerd puts into every pod.
const PAUSE: &str = "testkit.invalid/pause:1";

pub(super) fn prepare(builder: &NodeBuilder, scratch: &Scratch) {
    let (root, state) = directories(scratch);
    let runtime = machine::program(&builder.runtime).unwrap_or_else(|e| panic!("{e}"));
    let (root, state) = (root.display(), state.display());
    let socket = socket(scratch);
    let (socket, runtime) = (socket.display(), runtime.display());
    let (conf, opt) = (network::conf_dir(scratch), scratch.subdir("opt"));
    let (conf, opt, bin) = (conf.display(), opt.display(), network::BIN_DIR);
    let certs = scratch.subdir("certs.d");
    let certs = certs.display();
    let by_systemd = CgroupDriver::of_tests() == CgroupDriver::Systemd;
    let words = format!("BinaryName = \"{runtime}\"\nSystemdCgroup = {by_systemd}\n");
    let (kind, options) = if builder.our_shim {
        // Options of shims that it does not know, it takes from a file.
        let file = scratch.path("options.toml");
        std::fs::write(&file, words).expect("write options");
        let options = format!("ConfigPath = \"{}\"", file.display());
        ("io.containerd.orlop.v1", options)
    } else {
        ("io.containerd.runc.v2", words)
    };
    let snapshotter = snapshotter(builder);
    // Only stargz-snapshotter needs to be told of layers.
    let quiet = builder.stargz.is_none();
    let proxied = if builder.stargz.is_some() {
        let address = stargz_socket(scratch);
        let address = address.display();
        format!("[proxy_plugins.stargz]\ntype = \"snapshot\"\naddress = \"{address}\"\n")
    } else {
        String::new()
    };
    // Pods want a lower oom_score_adj than ours, which takes a capability that containers
    // and build machines often lack.
    let config = format!(
        r#"version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
address = "{socket}"
[ttrpc]
address = "{socket}.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "{opt}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
netns_mounts_under_state_dir = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{certs}"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{bin}"
conf_dir = "{conf}"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
disable_snapshot_annotations = {quiet}
default_runtime_name = "test"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.test]
runtime_type = "{kind}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.test.options]
{options}
{proxied}"#
    );
    std::fs::write(scratch.path("containerd.toml"), config).expect("write the configuration");
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

/// Starts the server that its images go to, if there is one.
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
    let program = machine::program("containerd").unwrap_or_else(|e| panic!("{e}"));
    let mut command = Command::new(program);
    command.arg("--config").arg(scratch.path("containerd.toml"));
    if builder.our_shim {
        // By its name, beside the keeper.
        let keeper = super::keeper_binary();
        let ours = keeper.parent().expect("a directory of programs");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", ours.display()));
    }
    command
}

/// Gives it the image of its pause process: busybox asleep does. Our shim needs none, and does not miss it.
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
    let program = machine::program("ctr").unwrap_or_else(|e| panic!("{e}"));
    let output = Command::new(program)
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

//! A configured CRI-O in test directories.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::image::{ImageBuilder, Layer};
use crate::machine;
use crate::node::builder::NodeBuilder;
use crate::node::directories::{directories, socket};
use crate::node::network;
use crate::registry::Registry;
use crate::scratch::Scratch;

/// Returns the CRI-O in `ORLOP_TEST_CRIO`; its `pinns` must be in the same directory.
pub fn crio_program() -> Result<PathBuf, String> {
    std::env::var_os("ORLOP_TEST_CRIO")
        .map(PathBuf::from)
        .ok_or_else(|| "has no CRI-O (ORLOP_TEST_CRIO names one)".to_owned())
}

fn program() -> PathBuf {
    crio_program().unwrap_or_else(|e| panic!("{e}"))
}

/// Writes the configuration, and returns the registry with the pause image.
pub(super) async fn prepare(builder: &NodeBuilder, scratch: &Scratch) -> Registry {
    let registry = Registry::start();
    let image = ImageBuilder::new()
        .layer(Layer::busybox())
        .config("Entrypoint", json!(["/bin/sleep", "2147483647"]))
        .build();
    let pause = registry.push(&image, "pause:1").await;
    let (root, state) = directories(scratch);
    let beside = program().with_file_name("pinns");
    let pinns = if beside.exists() {
        beside
    } else {
        named("pinns")
    };
    let etc = scratch.subdir("etc");
    let policy = r#"{"default":[{"type":"insecureAcceptAnything"}]}"#;
    std::fs::write(etc.join("policy.json"), policy).expect("write a policy");
    // For any port.
    let registries =
        "[[registry]]\nprefix = \"127.0.0.1\"\nlocation = \"127.0.0.1\"\ninsecure = true\n";
    std::fs::write(etc.join("registries.conf"), registries).expect("write registries.conf");
    let config = format!(
        r#"[crio]
root = "{root}"
runroot = "{state}/storage"
storage_driver = "overlay"
log_dir = "{state}/logs"
version_file = "{state}/version"
version_file_persist = "{root}/version"
clean_shutdown_file = "{root}/clean.shutdown"
[crio.api]
listen = "{socket}"
stream_address = "127.0.0.1"
stream_port = "0"
[crio.runtime]
cgroup_manager = "cgroupfs"
default_runtime = "test"
hooks_dir = []
cdi_spec_dirs = []
container_exits_dir = "{state}/exits"
container_attach_socket_dir = "{state}/attach"
namespaces_dir = "{state}/ns"
pinns_path = "{pinns}"
irqbalance_config_restore_file = "disable"
enable_pod_events = true
[crio.runtime.runtimes.test]
runtime_path = "{runtime}"
runtime_root = "{state}/runtime"
monitor_path = "{conmon}"
monitor_cgroup = "pod"
[crio.image]
pause_image = "{pause}"
pause_command = "/bin/sleep 2147483647"
signature_policy = "{etc}/policy.json"
signature_policy_dir = "{etc}/policies"
[crio.network]
network_dir = "{conf}"
plugin_dirs = ["{bin}"]
[crio.nri]
enable_nri = false
"#,
        root = root.display(),
        state = state.display(),
        socket = socket(scratch).display(),
        pinns = pinns.display(),
        runtime = named(&builder.runtime).display(),
        conmon = named("conmon").display(),
        etc = etc.display(),
        conf = network::conf_dir(scratch).display(),
        bin = network::BIN_DIR,
    );
    std::fs::write(config_file(scratch), config).expect("write the configuration");
    registry
}

pub(super) fn command(scratch: &Scratch) -> Command {
    let mut command = Command::new(program());
    command
        .arg("--config")
        .arg(config_file(scratch))
        .args(["--config-dir", ""])
        // Ignores the configuration of this machine.
        .env("CONTAINERS_STORAGE_CONF", "/dev/null")
        .env(
            "CONTAINER_REGISTRIES_CONF",
            scratch.path("etc/registries.conf"),
        );
    command
}

/// Returns whether CRI-O keeps this mount as long as it runs.
pub(super) fn keeps(path: &Path, scratch: &Scratch) -> bool {
    path == scratch.path("root/overlay")
}

fn config_file(scratch: &Scratch) -> PathBuf {
    scratch.path("crio.conf")
}

fn named(program: &str) -> PathBuf {
    machine::program(program).unwrap_or_else(|e| panic!("{e}"))
}

//! orlop's daemon in test directories.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::{self, CgroupDriver};
use crate::node::builder::NodeBuilder;
use crate::node::directories::{directories, socket};
use crate::node::{binary, keeper_binary, network};
use crate::scratch::Scratch;

pub(super) fn prepare(builder: &NodeBuilder, scratch: &Scratch) {
    directories(scratch);
    let runtime = machine::program(&builder.runtime).unwrap_or_else(|e| panic!("{e}"));
    let config = format!(
        r#"default_runtime = "test"
cgroup_driver = "{driver}"
[images]
hosts_dirs = ["{certs}"]
{store}
[network]
conf_dir = "{conf}"
bin_dirs = ["{bin}"]
cache_dir = "{cache}"
[keeper]
path = "{keeper}"
cgroup = "/{keepers}"
[nri]
socket = "{nri}"
plugin_dir = "{plugins}"
plugin_config_dir = "{plugin_config}"
registration_timeout = "20s"
request_timeout = "20s"
[runtimes.test]
kind = "{kind}"
path = "{runtime}"
args = {args}
sandboxer = "{sandboxer}"
"#,
        driver = CgroupDriver::of_tests().name(),
        store = image_store(),
        certs = scratch.subdir("certs.d").display(),
        conf = network::conf_dir(scratch).display(),
        bin = network::BIN_DIR,
        cache = scratch.path("cni-cache").display(),
        keeper = program(builder, "orlop-keeper", keeper_binary).display(),
        keepers = keepers_cgroup(scratch),
        nri = plugin_socket(scratch).display(),
        plugins = scratch.path("nri-plugins").display(),
        plugin_config = scratch.path("nri-conf").display(),
        kind = kind_of(&runtime),
        args = args_of(&runtime),
        sandboxer = sandboxer_of(&runtime),
        runtime = runtime.display(),
    );
    // This file belongs to the test, which may change it while the daemon runs.
    std::fs::write(config_file(scratch), &builder.config).expect("write the configuration");
    let drop_ins = scratch.subdir("config.toml.d");
    std::fs::write(drop_ins.join("10-kit.toml"), config).expect("write a drop-in");
    std::fs::write(drop_ins.join("50-test.toml"), &builder.drop_in).expect("write a drop-in");
}

/// Returns the setting of the image store from `$ORLOP_TEST_IMAGE_STORE`. It is omitted by default, as older versions
/// do not know it.
fn image_store() -> String {
    match std::env::var("ORLOP_TEST_IMAGE_STORE").as_deref() {
        Ok("lazy") => "lazy = \"auto\"\nlazy_min_layer = \"0\"".to_owned(),
        Ok(form) => format!("store = \"{form}\""),
        Err(_) => String::new(),
    }
}

/// Returns the kind of a runtime: shims are recognised by name.
fn kind_of(runtime: &Path) -> &'static str {
    let name = runtime.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("containerd-shim-") {
        "shim"
    } else {
        "oci"
    }
}

/// Returns the sandboxer setting: the shim of these tests makes its own sandboxes.
fn sandboxer_of(runtime: &Path) -> &'static str {
    if runtime.file_name() == Some("containerd-shim-kit-v2".as_ref()) {
        "shim"
    } else {
        "podsandbox"
    }
}

/// Returns arguments for gVisor. Without KVM it needs another platform. On a newer kernel, its release in Debian 12
/// takes every network namespace for the host's, so it must use the pod's unchanged.
fn args_of(runtime: &Path) -> &'static str {
    if runtime.file_name() == Some("runsc".as_ref()) {
        r#"["--platform=ptrace", "--network=host"]"#
    } else {
        "[]"
    }
}

pub(super) fn command(builder: &NodeBuilder, scratch: &Scratch) -> Command {
    let (root, state) = directories(scratch);
    let mut command = Command::new(program(builder, "orlop", binary));
    command
        .arg("serve")
        .arg("--config")
        .arg(config_file(scratch));
    command.arg("--root").arg(root).arg("--state").arg(state);
    command
        .arg("--listen")
        .arg(format!("unix://{}", socket(scratch).display()));
    command.args(&builder.args);
    command
}

/// Returns the cgroup of this node's keepers, at the root of each hierarchy.
pub(super) fn keepers_cgroup(scratch: &Scratch) -> String {
    format!("{}-keepers", scratch.id())
}

/// Returns the socket for NRI plugins.
pub(super) fn plugin_socket(scratch: &Scratch) -> PathBuf {
    scratch.run().join("nri.sock")
}

fn config_file(scratch: &Scratch) -> PathBuf {
    scratch.path("config.toml")
}

/// Returns a program of the requested version, else the usual one.
fn program(builder: &NodeBuilder, name: &str, usual: fn() -> PathBuf) -> PathBuf {
    let other = builder.programs.as_ref();
    other.map_or_else(usual, |dir| dir.join(name))
}

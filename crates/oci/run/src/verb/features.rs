//! `features`: prints the features of this runtime in the format that the runtime specification defines.

use orlop_oci_types::{CAPABILITIES, NamespaceKind};
use serde_json::json;

use super::command::{Call, HELP, SPECIFICATION, Verb};
use crate::args::FlagsEnd;
use crate::error::{Result, While};
use crate::plan::options;

pub(super) const VERB: Verb = Verb {
    name: "features",
    about: "show the enabled features as JSON",
    arguments: "",
    flags: &[HELP],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

fn run(_: &Call<'_>) -> Result<u8> {
    use NamespaceKind as N;
    let document = json!({
        "ociVersionMin": "1.0.0",
        "ociVersionMax": SPECIFICATION,
        "hooks": ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"],
        "mountOptions": options::KNOWN,
        "linux": {
            "namespaces": [N::Cgroup, N::Ipc, N::Mount, N::Network, N::Pid, N::Time, N::User, N::Uts],
            "capabilities": CAPABILITIES.as_slice(),
            "cgroup": {"v1": true, "v2": true, "systemd": true, "systemdUser": false, "rdma": true},
            "seccomp": {
                "enabled": true,
                "actions": orlop_seccomp::known_actions(),
                "operators": orlop_seccomp::known_operators(),
                "archs": orlop_seccomp::known_architectures(),
                "knownFlags": orlop_seccomp::KNOWN_FLAGS,
                "supportedFlags": orlop_seccomp::supported_flags(),
            },
            "apparmor": {"enabled": true},
            "selinux": {"enabled": true},
            "intelRdt": {"enabled": false},
            "memoryPolicy": {
                "modes": ["MPOL_DEFAULT", "MPOL_PREFERRED", "MPOL_BIND", "MPOL_INTERLEAVE", "MPOL_LOCAL", "MPOL_PREFERRED_MANY", "MPOL_WEIGHTED_INTERLEAVE"],
                "flags": ["MPOL_F_STATIC_NODES", "MPOL_F_RELATIVE_NODES", "MPOL_F_NUMA_BALANCING"],
            },
            "mountExtensions": {"idmap": {"enabled": true}},
            "netDevices": {"enabled": true},
        },
        "annotations": {
            "org.orlop.run.version": env!("CARGO_PKG_VERSION"),
            // Signals support for `create --given-mounts`.
            "org.orlop.run.mounts": "true",
            // With runc's name, for callers that check for runc.
            "org.opencontainers.runc.checkpoint.enabled": "true",
        },
        "potentiallyUnsafeConfigAnnotations": ["org.systemd.property."],
    });
    let text = serde_json::to_string_pretty(&document)
        .doing(|| "cannot encode the features".to_owned())?;
    println!("{text}");
    Ok(0)
}

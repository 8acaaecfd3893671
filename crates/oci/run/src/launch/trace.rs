//! Debug messages about the creation of a container's process.

use orlop_oci_types::{Process, Spec};

use crate::plan::Namespaces;
use crate::report::Step;

/// Returns the message about the clone.
pub(super) fn of_clone(namespaces: &Namespaces, has_cgroup: bool) -> String {
    let place = if has_cgroup {
        ", in the container's cgroup"
    } else {
        ""
    };
    let (new, joined) = (namespaces.by_clone(), namespaces.join.len());
    let mounts = if namespaces.enters_mounts {
        ", mount namespace copied from a prepared one"
    } else {
        ""
    };
    format!(
        "=> nsexec container setup: clone3 with namespaces {new:#x}, joining {joined}{mounts}{place}"
    )
}

/// Returns the message about a step of a container's first process, with its part of the configuration.
pub(super) fn of_init(step: Step, index: u16, spec: &Spec) -> String {
    let at = usize::from(index);
    let linux = spec.linux.as_ref();
    let of = |what: &str, name: Option<&str>| {
        let name = name.unwrap_or_default();
        format!("init: {what}[{at}]: {name}")
    };
    match step {
        Step::Join => {
            let joined = linux.and_then(|linux| linux.namespaces.get(at));
            let kind = joined.map(|it| it.kind);
            let path = joined.map_or("", |it| it.path.as_str());
            format!("init: linux.namespaces[{at}]: setns into {kind:?} {path}")
        }
        Step::Mount => match spec.mounts.get(at) {
            Some(mount) => format!(
                "init: mounts[{at}]: {} {:?} at {:?} {:?}",
                mount.kind, mount.source, mount.destination, mount.options
            ),
            None => of("mounts", None),
        },
        Step::Sysctl => of(
            "linux.sysctl",
            linux
                .and_then(|linux| linux.sysctl.keys().nth(at))
                .map(String::as_str),
        ),
        Step::CreateHook => format!("init: ran {index} createContainer hooks"),
        Step::Hostname => format!("init: hostname {:?}", spec.hostname),
        Step::Domainname => format!("init: domainname {:?}", spec.domainname),
        step => of_process(step, spec.process.as_ref()),
    }
}

/// Returns the message about a step of any process.
pub(super) fn of_process(step: Step, process: Option<&Process>) -> String {
    let text = match step {
        Step::Parent => return "child process in init()".to_owned(),
        Step::Cgroup => "entered the cgroup",
        Step::Join => "setns into the container's namespaces",
        Step::Users => "became root in the user namespace",
        Step::Time => "created the time namespace",
        Step::Session => "created the session and the keyring",
        Step::CgroupNamespace => "created the cgroup namespace",
        Step::Loopback => "brought up lo",
        Step::PlaceRoot => "mounted root.path",
        Step::Device => "created the device nodes",
        Step::Mask => "masked the masked paths and made the read-only paths read-only",
        Step::Pivot => "pivot_root",
        Step::Terminal => "created the terminal",
        Step::Groups => {
            let user = process.map(|process| &process.user);
            let (uid, gid) = user.map_or((0, 0), |user| (user.uid, user.gid));
            return format!("init: set user {uid}:{gid}, capabilities and seccomp filter");
        }
        _ => return format!("init: {step:?}"),
    };
    format!("init: {text}")
}

//! Default mounts of every container, unless its request replaces them.

use orlop_oci_types::Mount;

use super::input::HostFacts;
use super::userns::IdRanges;

/// Group of terminals, by convention.
const TTY_GROUP: u32 = 5;

/// Properties of a container that determine its default mounts.
#[derive(Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) host: &'a HostFacts,
    pub(super) privileged: bool,
    pub(super) ranges: Option<&'a IdRanges>,
    pub(super) host_network: bool,
    pub(super) own_cgroup_namespace: bool,
    pub(super) cgroup_writable: bool,
    /// Whether the pod brings a `/dev/shm`.
    pub(super) pod_shm: bool,
}

/// Returns the default mounts with those of a base, in mount order.
pub(super) fn list(situation: &Situation<'_>, base: &[Mount]) -> Vec<Mount> {
    let mut mounts = defaults(situation);
    for own in base {
        let own = fitting(own, situation.ranges);
        match mounts
            .iter_mut()
            .find(|it| it.destination == own.destination)
        {
            Some(default) => *default = own,
            None => mounts.push(own),
        }
    }
    mounts
}

/// Removes the terminal group if the pod's user namespace does not map it.
fn fitting(mount: &Mount, ranges: Option<&IdRanges>) -> Mount {
    let mut mount = mount.clone();
    if ranges.is_some_and(|ranges| !ranges.has_gid(TTY_GROUP)) && mount.kind == "devpts" {
        mount.options.retain(|option| option != "gid=5");
    }
    mount
}

fn defaults(situation: &Situation<'_>) -> Vec<Mount> {
    let mut mounts = vec![
        mount("/proc", "proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount(
            "/dev",
            "tmpfs",
            "tmpfs",
            &["nosuid", "strictatime", "mode=755", "size=65536k"],
        ),
        pts(situation.ranges),
    ];
    if !situation.pod_shm {
        let options = ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"];
        mounts.push(mount("/dev/shm", "tmpfs", "shm", &options));
    }
    mounts.push(mount(
        "/dev/mqueue",
        "mqueue",
        "mqueue",
        &["nosuid", "noexec", "nodev"],
    ));
    mounts.push(sys(situation));
    mounts.push(cgroup(situation));
    mounts
}

fn pts(ranges: Option<&IdRanges>) -> Mount {
    let mut options = vec![
        "nosuid",
        "noexec",
        "newinstance",
        "ptmxmode=0666",
        "mode=0620",
    ];
    if ranges.is_none_or(|ranges| ranges.has_gid(TTY_GROUP)) {
        options.push("gid=5");
    }
    mount("/dev/pts", "devpts", "devpts", &options)
}

fn sys(situation: &Situation<'_>) -> Mount {
    if situation.host_network && situation.ranges.is_some() {
        // The kernel allows a user namespace to mount sysfs only with its own network namespace.
        return mount(
            "/sys",
            "bind",
            "/sys",
            &["rbind", "rro", "nosuid", "nodev", "noexec"],
        );
    }
    let access = if situation.privileged { "rw" } else { "ro" };
    mount(
        "/sys",
        "sysfs",
        "sysfs",
        &["nosuid", "noexec", "nodev", access],
    )
}

fn cgroup(situation: &Situation<'_>) -> Mount {
    let access = if situation.privileged || situation.cgroup_writable {
        "rw"
    } else {
        "ro"
    };
    let options = ["nosuid", "noexec", "nodev", "relatime", access];
    let mut mount = mount("/sys/fs/cgroup", "cgroup", "cgroup", &options);
    if !situation.own_cgroup_namespace {
        // The node's cgroup tree is one filesystem with one set of options: an option missing here would be
        // disabled for the whole node.
        mount
            .options
            .extend(situation.host.cgroup_mount_options.iter().cloned());
    }
    mount
}

fn mount(destination: &str, kind: &str, source: &str, options: &[&str]) -> Mount {
    Mount {
        destination: destination.to_owned(),
        kind: kind.to_owned(),
        source: source.to_owned(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..Mount::default()
    }
}

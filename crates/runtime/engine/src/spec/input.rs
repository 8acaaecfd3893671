//! The input of a specification: the request, and facts about pod, image, handler and node.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use orlop_cgroup::Driver;
use orlop_cri_api::v1;
use orlop_oci_types as oci;

use super::apparmor::AppArmor;
use super::block_io::BlockIoClasses;
use super::cgroup_parent::CgroupParent;
use super::exec::ExecAffinity;
use super::handler_rules::HandlerRules;
use super::rdt::RdtClasses;
use super::selinux::{Labels, SelinuxDefaults};
use super::timezone::Timezone;

/// Facts about a container before anything of it is made.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The configuration that the client requested.
    pub config: &'a v1::ContainerConfig,
    /// The pod configuration that the client requested.
    pub pod_config: &'a v1::PodSandboxConfig,
    /// The pod's namespaces.
    pub namespaces: &'a PodNamespaces,
    /// SELinux labels of the pod, if the node has SELinux.
    pub labels: Option<&'a Labels>,
    /// The container's image.
    pub image: ImageFacts<'a>,
    /// The runtime handler.
    pub handler: HandlerFacts<'a>,
    /// The node.
    pub host: &'a HostFacts,
    /// The node's configuration.
    pub policy: &'a Policy,
}

/// The input of [`build`](super::build).
#[derive(Clone, Copy)]
pub struct SpecInput<'a> {
    /// The facts that the request was validated with.
    pub known: Known<'a>,
    /// Identifier of the container.
    pub container_id: &'a str,
    /// The running pod.
    pub pod: PodFacts<'a>,
    /// The container's root filesystem.
    pub rootfs: RootfsFacts<'a>,
    /// Images mounted as volumes, one for each mount of the request that names an image.
    pub image_mounts: &'a [ImageMount<'a>],
    /// Directory in which this container's declared volumes are made.
    pub volumes_dir: &'a Path,
    /// Whether the client has cancelled the creation: then copying into volumes stops.
    pub abandoned: &'a (dyn Fn() -> bool + Sync),
}

/// A running pod.
#[derive(Clone, Copy)]
pub struct PodFacts<'a> {
    /// Identifier of the pod.
    pub id: &'a str,
    /// The pod's files.
    pub files: PodFiles<'a>,
    /// The pod's cgroup.
    pub cgroup: &'a CgroupParent,
}

/// Paths of the namespaces that a pod's containers join; `None` means the node's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodNamespaces {
    /// The network namespace, as `/proc/<keeper>/ns/net`.
    pub network: Option<String>,
    /// The IPC namespace.
    pub ipc: Option<String>,
    /// The UTS namespace.
    pub uts: Option<String>,
    /// The PID namespace, if the pod's containers share one.
    pub pid: Option<String>,
    /// The PID namespace of the container that a `TARGET` request names. The caller has checked that it runs in
    /// this pod.
    pub target_pid: Option<String>,
    /// The user namespace.
    pub user: Option<String>,
}

/// Files that a pod gives all its containers; `None` is not mounted.
#[derive(Debug, Clone, Copy, Default)]
pub struct PodFiles<'a> {
    /// Becomes `/etc/hostname`.
    pub hostname: Option<&'a Path>,
    /// Becomes `/etc/hosts`.
    pub hosts: Option<&'a Path>,
    /// Becomes `/etc/resolv.conf`.
    pub resolv_conf: Option<&'a Path>,
    /// Becomes `/dev/shm`; the node's own for a pod that shares its IPC namespace. If absent, the container has
    /// a small one of its own.
    pub shm: Option<&'a Path>,
}

/// The configuration of an image.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImageFacts<'a> {
    /// Name by which the container asked for it.
    pub name: &'a str,
    /// The image's names with digest, if a guest pulls it.
    pub digests: &'a [String],
    /// Program and its first arguments.
    pub entrypoint: &'a [String],
    /// Arguments, or the whole command without an entrypoint.
    pub cmd: &'a [String],
    /// Environment, `NAME=value`.
    pub env: &'a [String],
    /// `USER`: a name or id, and a group after a colon.
    pub user: &'a str,
    /// Working directory.
    pub working_dir: &'a str,
    /// Paths of the volumes that the image declares.
    pub volumes: &'a [String],
    /// The stop signal.
    pub stop_signal: &'a str,
    /// Path of its WebAssembly module, if it is an artifact with nothing else.
    pub module: Option<&'a str>,
}

/// A container's root filesystem.
#[derive(Clone, Copy)]
pub struct RootfsFacts<'a> {
    /// The path that the runtime gets.
    pub path: &'a str,
    /// The merged view, opened as a directory; the mount may be detached.
    pub dir: BorrowedFd<'a>,
}

/// An image mounted as a volume.
#[derive(Clone, Copy)]
pub struct ImageMount<'a> {
    /// `container_path` of the mount in the request.
    pub container_path: &'a str,
    /// Path of the image's files for the runtime.
    pub path: &'a Path,
    /// The opened directory of the files; the mount may be detached.
    pub dir: BorrowedFd<'a>,
    /// Digest of the image, reported in the container's status.
    pub digest: &'a str,
}

/// The runtime handler.
#[derive(Debug, Clone, Copy)]
pub struct HandlerFacts<'a> {
    /// Features of its runtime.
    pub features: &'a oci::Features,
    /// Pod annotations passed to the runtime; `*` matches any text.
    pub pod_annotations: &'a [String],
    /// Container annotations passed to the runtime; `*` matches any text.
    pub container_annotations: &'a [String],
    /// Whether privileged containers get no host devices.
    pub privileged_without_host_devices: bool,
    /// Whether the pod's containers share a sandbox.
    pub shares_sandbox: bool,
    /// Additional rules for its pods and containers.
    pub rules: &'a HandlerRules,
}

/// Properties of the node that specifications depend on.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// Host name, for pods that have none of their own.
    pub hostname: String,
    /// The cgroup driver.
    pub cgroup_driver: Driver,
    /// Whether the node uses cgroup v2.
    pub cgroup_v2: bool,
    /// Mount options of the node's cgroup v2 tree that a container's mount has to repeat.
    pub cgroup_mount_options: Vec<String>,
    /// Page sizes that the hugetlb controller limits, as `2MB`; empty without the controller.
    pub hugepage_sizes: Vec<String>,
    /// Whether swap is accounted for.
    pub swap_accounting: bool,
    /// Whether the kernel supports id-mapped overlayfs layers, which pods with a user namespace need.
    pub mapped_layers: bool,
    /// Whether block IO can be limited.
    pub block_io: bool,
    /// AppArmor, if the kernel has it.
    pub apparmor: Option<AppArmor>,
    /// SELinux defaults, if the kernel has SELinux.
    pub selinux: Option<SelinuxDefaults>,
    /// Capabilities that the daemon can give, as `CAP_KILL`.
    pub capabilities: Vec<String>,
    /// The daemon's own out-of-memory score adjustment; setting a lower one needs `CAP_SYS_RESOURCE`. `None` if
    /// the daemon has that capability.
    pub oom_score_floor: Option<i32>,
    /// The daemon's own hard limits by name; setting a higher one needs `CAP_SYS_RESOURCE`. Empty if the daemon
    /// has that capability.
    pub rlimit_ceilings: BTreeMap<String, u64>,
}

/// The node's configuration of containers.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Whether a container that asks for no seccomp profile gets the default one.
    pub seccomp_when_unset: bool,
    /// Whether the default seccomp profile denies `socketcall`.
    pub seccomp_deny_socketcall: bool,
    /// Whether containers on the host's network are not confined by SELinux unless they ask for it.
    pub host_network_unconfined: bool,
    /// Number of SELinux categories for pods; `None` means all.
    pub selinux_categories: Option<u16>,
    /// Limit of processes per container.
    pub pids_limit: Option<i64>,
    /// Resource limits of every container.
    pub rlimits: Vec<oci::Rlimit>,
    /// Whether devices belong to the container's user instead of their owner on the node.
    pub device_ownership_from_security_context: bool,
    /// Whether volumes declared by images are left out.
    pub ignore_image_volumes: bool,
    /// Whether every user may listen on ports below 1024 in a pod's network.
    pub unprivileged_ports: bool,
    /// Whether every user may `ping` in a pod's network.
    pub unprivileged_icmp: bool,
    /// Sysctls of every pod, with the namespace they belong to; a pod's own win.
    pub sysctls: BTreeMap<String, String>,
    /// Annotations of all containers; those of their runtime win.
    pub default_annotations: BTreeMap<String, String>,
    /// Size limit of a pod's shared memory in bytes.
    pub shm_size: Option<u64>,
    /// The time zone of containers.
    pub timezone: Option<Timezone>,
    /// Minimum of `GOMAXPROCS` for Go programs.
    pub min_gomaxprocs: Option<u64>,
    /// CPUs of commands executed in containers.
    pub exec_cpu_affinity: Option<ExecAffinity>,
    /// Block IO classes that containers may choose.
    pub block_io: Option<BlockIoClasses>,
    /// Processor cache classes that containers may choose and the administrator makes.
    pub rdt_classes: Vec<String>,
    /// Processor cache classes of a file, which the service makes.
    pub rdt: Option<RdtClasses>,
    /// Directories of hook definitions; a later directory overrides an earlier one.
    pub hook_dirs: Vec<PathBuf>,
    /// Directories of CDI files; a later directory overrides an earlier one.
    pub cdi_dirs: Vec<PathBuf>,
}

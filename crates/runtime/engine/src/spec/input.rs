//! What a specification is made from: the request, and the facts about pod, image, handler, node.

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

/// What is known of a container before anything of it is made.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// What the client asked for.
    pub config: &'a v1::ContainerConfig,
    /// What the client asked for when it made the pod.
    pub pod_config: &'a v1::PodSandboxConfig,
    /// The namespaces that the pod has.
    pub namespaces: &'a PodNamespaces,
    /// SELinux labels of the pod, where the node has SELinux.
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

/// Everything [`build`](super::build) needs to know besides.
#[derive(Clone, Copy)]
pub struct SpecInput<'a> {
    /// What was known when the request was judged.
    pub known: Known<'a>,
    /// Identity of the container.
    pub container_id: &'a str,
    /// The pod as it is.
    pub pod: PodFacts<'a>,
    /// The container's root filesystem.
    pub rootfs: RootfsFacts<'a>,
    /// Images mounted as volumes, one for each mount of the request that names an image.
    pub image_mounts: &'a [ImageMount<'a>],
    /// Directory of this container where the volumes its image declares are made.
    pub volumes_dir: &'a Path,
    /// Whether nobody waits for the container any more: then its volumes are not filled further.
    pub abandoned: &'a (dyn Fn() -> bool + Sync),
}

/// A running pod.
#[derive(Clone, Copy)]
pub struct PodFacts<'a> {
    /// Identity of the pod.
    pub id: &'a str,
    /// Its files.
    pub files: PodFiles<'a>,
    /// Its cgroup.
    pub cgroup: &'a CgroupParent,
}

/// Files of the namespaces a pod's containers join; none where they share the node's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodNamespaces {
    /// Network, as `/proc/<keeper>/ns/net`.
    pub network: Option<String>,
    /// IPC.
    pub ipc: Option<String>,
    /// Host name.
    pub uts: Option<String>,
    /// Process ids, where the pod's containers share them.
    pub pid: Option<String>,
    /// Process ids of the container a `TARGET` request names, after the caller made sure that it
    /// runs in this pod.
    pub target_pid: Option<String>,
    /// User ids.
    pub user: Option<String>,
}

/// Files a pod gives all its containers; those absent are not mounted.
#[derive(Debug, Clone, Copy, Default)]
pub struct PodFiles<'a> {
    /// Becomes `/etc/hostname`.
    pub hostname: Option<&'a Path>,
    /// Becomes `/etc/hosts`.
    pub hosts: Option<&'a Path>,
    /// Becomes `/etc/resolv.conf`.
    pub resolv_conf: Option<&'a Path>,
    /// Becomes `/dev/shm`; the node's own for a pod that shares its IPC namespace. A container
    /// has a small one of its own if absent.
    pub shm: Option<&'a Path>,
}

/// What an image's configuration says.
#[derive(Debug, Clone, Copy, Default)]
pub struct ImageFacts<'a> {
    /// Name under which the container asked for it.
    pub name: &'a str,
    /// Its names by digest, where a guest pulls it by one of them.
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
    /// Paths of the volumes it declares.
    pub volumes: &'a [String],
    /// Signal that stops it.
    pub stop_signal: &'a str,
    /// Where its program is, if it is an artifact with nothing else.
    pub module: Option<&'a str>,
}

/// A container's root filesystem.
#[derive(Clone, Copy)]
pub struct RootfsFacts<'a> {
    /// Where the runtime finds it.
    pub path: &'a str,
    /// Its merged view, opened as a directory; the mount may be detached.
    pub dir: BorrowedFd<'a>,
}

/// An image mounted as a volume.
#[derive(Clone, Copy)]
pub struct ImageMount<'a> {
    /// `container_path` of the request's mount it is for.
    pub container_path: &'a str,
    /// Where the runtime finds the image's files.
    pub path: &'a Path,
    /// Their directory, opened; the mount may be detached.
    pub dir: BorrowedFd<'a>,
    /// Digest of the image, reported in the container's status.
    pub digest: &'a str,
}

/// The runtime handler.
#[derive(Debug, Clone, Copy)]
pub struct HandlerFacts<'a> {
    /// What its runtime can do.
    pub features: &'a oci::Features,
    /// Annotations of pods handed to the runtime; `*` stands for any text.
    pub pod_annotations: &'a [String],
    /// Annotations of containers handed to the runtime; `*` stands for any text.
    pub container_annotations: &'a [String],
    /// Whether privileged containers do without the node's devices.
    pub privileged_without_host_devices: bool,
    /// Whether the pod's containers share a sandbox of their own.
    pub shares_sandbox: bool,
    /// What they get besides.
    pub rules: &'a HandlerRules,
}

/// The node.
#[derive(Debug, Clone)]
pub struct HostFacts {
    /// Host name, for pods that have none of their own.
    pub hostname: String,
    /// Who makes cgroups.
    pub cgroup_driver: Driver,
    /// Whether the controllers are those of cgroup v2.
    pub cgroup_v2: bool,
    /// Mount options of the node's cgroup v2 tree a container's mount has to repeat.
    pub cgroup_mount_options: Vec<String>,
    /// Page sizes the hugetlb controller limits, as `2MB`; empty without the controller.
    pub hugepage_sizes: Vec<String>,
    /// Whether swap is accounted for.
    pub swap_accounting: bool,
    /// Whether the kernel mounts layers with the ids of a user namespace, as pods that have one
    /// need them.
    pub mapped_layers: bool,
    /// Whether block IO can be limited.
    pub block_io: bool,
    /// AppArmor, where the kernel has it.
    pub apparmor: Option<AppArmor>,
    /// SELinux, where the kernel enforces or logs it.
    pub selinux: Option<SelinuxDefaults>,
    /// Capabilities that can be given, as `CAP_KILL`.
    pub capabilities: Vec<String>,
    /// The daemon's own out-of-memory score adjustment, below which nothing can be set without
    /// `CAP_SYS_RESOURCE`; none where the daemon has that capability.
    pub oom_score_floor: Option<i32>,
    /// The daemon's own hard limits by name, above which nothing can be set without
    /// `CAP_SYS_RESOURCE`; empty where the daemon has that capability.
    pub rlimit_ceilings: BTreeMap<String, u64>,
}

/// What the node's configuration says about containers.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Whether a container that asks for no seccomp profile gets the default one.
    pub seccomp_when_unset: bool,
    /// Whether the default seccomp profile denies `socketcall`.
    pub seccomp_deny_socketcall: bool,
    /// Whether containers on the host's network go without SELinux's confinement unless they ask for it.
    pub host_network_unconfined: bool,
    /// How many of SELinux's categories pods get theirs of; all if not said.
    pub selinux_categories: Option<u16>,
    /// Limit of processes per container.
    pub pids_limit: Option<i64>,
    /// Resource limits of every container.
    pub rlimits: Vec<oci::Rlimit>,
    /// Whether devices belong to the container's user rather than to the node's owner.
    pub device_ownership_from_security_context: bool,
    /// Whether volumes declared by images are left out.
    pub ignore_image_volumes: bool,
    /// Whether every user may listen on ports below 1024 in a pod's network.
    pub unprivileged_ports: bool,
    /// Whether every user may `ping` in a pod's network.
    pub unprivileged_icmp: bool,
    /// Kernel settings of every pod with the namespace they belong to; a pod's own win.
    pub sysctls: BTreeMap<String, String>,
    /// Annotations of all containers, beneath those of their runtime.
    pub default_annotations: BTreeMap<String, String>,
    /// Bytes that a pod's shared memory may take.
    pub shm_size: Option<u64>,
    /// The time zone of containers.
    pub timezone: Option<Timezone>,
    /// The least that programs written in Go are told of processors.
    pub min_gomaxprocs: Option<u64>,
    /// CPUs of commands executed in containers.
    pub exec_cpu_affinity: Option<ExecAffinity>,
    /// Classes of block IO that containers may choose.
    pub block_io: Option<BlockIoClasses>,
    /// Classes of processor caches that containers may choose, and the administrator makes.
    pub rdt_classes: Vec<String>,
    /// Those of a file, which the service makes.
    pub rdt: Option<RdtClasses>,
    /// Where hooks for containers are defined, the later directories before the earlier ones.
    pub hook_dirs: Vec<PathBuf>,
    /// Where vendors describe devices, the later directories before the earlier ones.
    pub cdi_dirs: Vec<PathBuf>,
}

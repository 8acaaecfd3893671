//! Parameters of a new keeper and its pod.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use orlop_keeper_protocol::{IdMap, Setup, ShmMount, Sysctl, VERSION};

use crate::open_files::open_files_of_pods;
use crate::runtime::ProtectedProgram;

/// Parameters of a new keeper and its pod.
#[derive(Clone, Debug, Default)]
pub struct KeeperSpec {
    /// Path of the `orlop-keeper` program.
    pub program: PathBuf,
    /// ID of the pod.
    pub pod_id: String,
    /// The pod's existing directory on a tmpfs. The keeper creates its socket, its log and the exit records there.
    pub dir: PathBuf,
    /// The namespaces that the pod does not share with the host.
    pub namespaces: PodNamespaces,
    /// Path of an existing network namespace to use; if set, no new one is created.
    pub net_path: Option<PathBuf>,
    /// Host name of the pod's own UTS namespace.
    pub hostname: Option<String>,
    /// Path of a file, created by the keeper, on which the pod's network namespace is bind-mounted in the daemon's
    /// mount namespace. [`remove_pin`](crate::remove_pin) undoes it. Without a pin, use
    /// [`Keeper::net_ns`](crate::Keeper::net_ns) while the keeper lives.
    pub net_pin: Option<PathBuf>,
    /// Kernel parameters of the pod's namespaces.
    pub sysctls: Vec<Sysctl>,
    /// A tmpfs for the pod's `/dev/shm`, on an existing directory below a [private](crate::make_private_dir) one.
    /// Containers bind-mount it.
    pub shm: Option<ShmMount>,
    /// The cgroup directories that the keeper moves into, one per hierarchy (v2: one).
    pub cgroups: Vec<PathBuf>,
    /// OOM score adjustment of the keeper. Containers inherit it unless their spec sets one, so it should.
    pub oom_score_adj: Option<i32>,
    /// Environment of the runtimes that the keeper calls; `PATH` has a default.
    pub env: Vec<OsString>,
    /// The [mount namespace](crate::few_mounts()) from which the keeper creates its own, instead of a copy of the
    /// daemon's.
    pub few_mounts: Option<Arc<OwnedFd>>,
    /// The runtime program that the keeper calls most. The keeper does not use it if the file has been replaced by
    /// then.
    pub runtime: Option<Arc<ProtectedProgram>>,
}

/// The namespaces that a pod does not share with the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodNamespaces {
    /// Network, with the loopback interface up.
    pub net: bool,
    /// System V IPC and POSIX message queues.
    pub ipc: bool,
    /// Host name (UTS).
    pub uts: bool,
    /// One PID namespace shared by all containers: see [`Keeper::pid_ns`](crate::Keeper::pid_ns).
    pub shared_pid: bool,
    /// The mappings of a user namespace that owns the others; see [`Keeper::user_ns`](crate::Keeper::user_ns).
    pub user: Option<(Vec<IdMap>, Vec<IdMap>)>,
}

impl KeeperSpec {
    /// Descriptors that are sent with the setup request.
    pub(super) fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let few_mounts = self.few_mounts.as_deref();
        let runtime = self.runtime.as_ref().map(|runtime| runtime.file());
        let all = few_mounts.into_iter().chain(runtime);
        all.map(OwnedFd::try_clone).collect()
    }

    pub(super) fn to_setup(&self) -> Setup {
        let (uid_map, gid_map) = self.namespaces.user.clone().unwrap_or_default();
        Setup {
            version: VERSION,
            pod_id: self.pod_id.clone(),
            dir: self.dir.clone(),
            net: self.namespaces.net && self.net_path.is_none(),
            ipc: self.namespaces.ipc,
            uts: self.namespaces.uts,
            pid: self.namespaces.shared_pid,
            hostname: self.hostname.clone().unwrap_or_default(),
            net_pin: self.net_pin.clone(),
            sysctls: self.sysctls.clone(),
            shm: self.shm.clone(),
            cgroups: self.cgroups.clone(),
            oom_score_adj: self.oom_score_adj,
            env: self.env.clone(),
            uid_map,
            gid_map,
            open_files: open_files_of_pods(),
            net_path: self.net_path.clone().unwrap_or_default(),
            few_mounts: self.few_mounts.is_some(),
            program: self
                .runtime
                .as_ref()
                .map_or_else(PathBuf::new, |runtime| runtime.path().to_owned()),
        }
    }
}

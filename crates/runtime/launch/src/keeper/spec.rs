//! What pod a new keeper is to keep.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use orlop_keeper_protocol::{IdMap, Setup, ShmMount, Sysctl, VERSION};

use crate::open_files::open_files_of_pods;
use crate::runtime::ProtectedProgram;

/// What pod a new keeper is to keep.
#[derive(Clone, Debug, Default)]
pub struct KeeperSpec {
    /// The `orlop-keeper` program.
    pub program: PathBuf,
    /// The pod's identity.
    pub pod_id: String,
    /// The pod's directory, which exists, on a tmpfs. The keeper makes its socket, its log and
    /// the exit records in it.
    pub dir: PathBuf,
    /// Which namespaces the pod has of its own; it shares the others with the host.
    pub namespaces: PodNamespaces,
    /// A network namespace that is there already, by a path. None of its own is made then.
    pub net_path: Option<PathBuf>,
    /// The host name of the pod's own UTS namespace.
    pub hostname: Option<String>,
    /// A file (made by the keeper) on which the pod's network namespace is bind-mounted in the
    /// daemon's mount namespace. [`remove_pin`](crate::remove_pin) undoes it. Without one,
    /// [`Keeper::net_ns`](crate::Keeper::net_ns) serves as long as the keeper lives.
    pub net_pin: Option<PathBuf>,
    /// Kernel parameters of the pod's namespaces.
    pub sysctls: Vec<Sysctl>,
    /// A tmpfs for the pod's `/dev/shm`, on an existing directory below a
    /// [private](crate::make_private_dir) one; containers bind-mount it.
    pub shm: Option<ShmMount>,
    /// The control group directories the keeper moves into, one per hierarchy (v2: one).
    pub cgroups: Vec<PathBuf>,
    /// The keeper's standing with the OOM killer. Containers inherit it unless their spec sets
    /// one, so it should.
    pub oom_score_adj: Option<i32>,
    /// The environment of the runtimes called by the keeper; `PATH` has a usual value unless set.
    pub env: Vec<OsString>,
    /// The [mount namespace](crate::few_mounts()) that the keeper makes its own of, in place of a copy of the daemon's.
    pub few_mounts: Option<Arc<OwnedFd>>,
    /// The program that the keeper calls most, unless another one is there by then.
    pub runtime: Option<Arc<ProtectedProgram>>,
}

/// Which namespaces a pod has of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodNamespaces {
    /// Network, with its loopback interface up.
    pub net: bool,
    /// System V IPC and POSIX message queues.
    pub ipc: bool,
    /// Host name.
    pub uts: bool,
    /// One PID namespace shared by all containers: see [`Keeper::pid_ns`](crate::Keeper::pid_ns).
    pub shared_pid: bool,
    /// The mappings of a user namespace that owns the others; see
    /// [`Keeper::user_ns`](crate::Keeper::user_ns).
    pub user: Option<(Vec<IdMap>, Vec<IdMap>)>,
}

impl KeeperSpec {
    /// What goes with the setup.
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

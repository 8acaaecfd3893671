//! The first message to a new keeper, which describes its pod.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::message::messages;
use crate::reply::Welcome;

messages! {
    /// The setup of a new keeper. Sent once, on the socket that is its standard input; afterwards the connection is
    /// like any other.
    struct Setup = 1 -> Welcome {
        /// The protocol version of the sender.
        1 version: u32,
        /// The ID of the pod.
        2 pod_id: String,
        /// The pod's directory on a volatile file system, for the keeper's socket and records.
        3 dir: PathBuf,
        /// Whether the pod has its own network namespace.
        4 net: bool,
        /// Whether the pod has its own IPC namespace.
        5 ipc: bool,
        /// Whether the pod has its own UTS namespace.
        6 uts: bool,
        /// Whether the pod's containers share a PID namespace, whose init the keeper creates.
        7 pid: bool,
        /// The host name for the pod's own UTS namespace.
        8 hostname: String,
        /// A file on which the network namespace is bind-mounted in the caller's mount namespace.
        9 net_pin: Option<PathBuf>,
        /// Kernel parameters of the pod's namespaces.
        10 sysctls: Vec<Sysctl>,
        /// The shared memory file system of the pod's containers.
        11 shm: Option<ShmMount>,
        /// Cgroup directories that the keeper enters, one per hierarchy.
        12 cgroups: Vec<PathBuf>,
        /// The keeper's OOM score adjustment; a lack of permission to set it is no error.
        13 oom_score_adj: Option<i32>,
        /// The environment of the runtimes that the keeper calls, as `NAME=value`.
        14 env: Vec<OsString>,
        /// The user ID mapping, if the pod has its own user namespace.
        15 uid_map: Vec<IdMap>,
        /// The group ID mapping that belongs to `uid_map`.
        16 gid_map: Vec<IdMap>,
        /// The limits of open files for the pod's processes; `None` to keep the current ones.
        17 open_files: Option<OpenFiles>,
        /// The path of an existing network namespace, used instead of a new one; empty for none.
        18 net_path: PathBuf,
        /// Whether the frame carries a mount namespace with few mounts, from which the keeper makes its own.
        19 few_mounts: bool,
        /// The program of a runtime that is called `protected`. Its file follows as the next descriptor, through a
        /// read-only mount. Empty for none.
        20 program: PathBuf,
    }

    /// Limits of open files; the largest number means no limit.
    struct OpenFiles {
        /// The soft limit.
        1 current: u64,
        /// The hard limit.
        2 maximum: u64,
    }

    /// A kernel parameter.
    struct Sysctl {
        /// The name, with dots or slashes between its parts.
        1 name: String,
        /// The value.
        2 value: String,
    }

    /// A tmpfs for `/dev/shm`.
    struct ShmMount {
        /// An existing directory below a mount without propagation.
        1 path: PathBuf,
        /// The size limit in bytes.
        2 size: u64,
        /// The SELinux context of its files; empty for the kernel's default.
        3 label: String,
    }

    /// A range of IDs of a user namespace.
    struct IdMap {
        /// The first ID inside.
        1 inside: u32,
        /// The first ID outside.
        2 outside: u32,
        /// The number of IDs.
        3 count: u32,
    }
}

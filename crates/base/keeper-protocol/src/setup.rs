//! The first message to a new keeper: what pod it keeps.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::message::messages;
use crate::reply::Welcome;

messages! {
    /// What a new keeper is to become. Sent once, on the socket that is its standard input; the
    /// connection goes on as any other afterwards.
    struct Setup = 1 -> Welcome {
        /// The protocol version of the sender.
        1 version: u32,
        /// The pod's identity.
        2 pod_id: String,
        /// The pod's directory on a volatile file system: the keeper's socket and records.
        3 dir: PathBuf,
        /// Whether the pod has a network namespace of its own.
        4 net: bool,
        /// Whether the pod has an IPC namespace of its own.
        5 ipc: bool,
        /// Whether the pod has a UTS namespace of its own.
        6 uts: bool,
        /// Whether the pod's containers share a PID namespace, whose init the keeper makes.
        7 pid: bool,
        /// The host name, for a UTS namespace of its own.
        8 hostname: String,
        /// A file on which the network namespace is bind-mounted in the caller's mount namespace.
        9 net_pin: Option<PathBuf>,
        /// Kernel parameters of the pod's namespaces.
        10 sysctls: Vec<Sysctl>,
        /// The shared memory file system of the pod's containers.
        11 shm: Option<ShmMount>,
        /// Control group directories the keeper moves itself into, one per hierarchy.
        12 cgroups: Vec<PathBuf>,
        /// The keeper's standing with the OOM killer; not being allowed to set it is no error.
        13 oom_score_adj: Option<i32>,
        /// The environment of the runtimes that the keeper calls, as `NAME=value`.
        14 env: Vec<OsString>,
        /// The user mapping, when the pod's namespaces belong to a user namespace of their own.
        15 uid_map: Vec<IdMap>,
        /// The group mapping that goes with `uid_map`.
        16 gid_map: Vec<IdMap>,
        /// How many files the pod's processes may open; none to leave it as it is.
        17 open_files: Option<OpenFiles>,
        /// A network namespace that is there already, in place of one of its own; empty for none.
        18 net_path: PathBuf,
        /// Whether a mount namespace with next to no mounts goes with this, of which the keeper makes its own.
        19 few_mounts: bool,
        /// The program of a runtime that is called `protected`, whose file goes with this after that, by a mount that
        /// nobody can write by; empty for none.
        20 program: PathBuf,
    }

    /// How many files a process may open; the largest number is no limit.
    struct OpenFiles {
        /// Until it asks for more.
        1 current: u64,
        /// At most.
        2 maximum: u64,
    }

    /// One kernel parameter.
    struct Sysctl {
        /// The name, with dots or slashes between its parts.
        1 name: String,
        /// The value.
        2 value: String,
    }

    /// A tmpfs for `/dev/shm`.
    struct ShmMount {
        /// An existing directory below a mount that propagates nothing.
        1 path: PathBuf,
        /// The size limit in bytes.
        2 size: u64,
        /// The SELinux context of its files; empty to leave it to the kernel.
        3 label: String,
    }

    /// A range of a user namespace's identities.
    struct IdMap {
        /// The first identity inside.
        1 inside: u32,
        /// The first identity outside.
        2 outside: u32,
        /// How many.
        3 count: u32,
    }
}

//! Replies of a keeper.

use crate::exit::ExitStatus;
use crate::message::{messages, numbered};

messages! {
    /// Success without a result.
    struct Done = 100 {}

    /// The request failed.
    struct Failure = 101 {
        /// The kind of failure.
        1 kind: FailureKind,
        /// The failed operation and the reason.
        2 message: String,
        /// The end of the runtime's log.
        3 runtime_log: String,
        /// The end of the runtime's output.
        4 runtime_output: String,
    }

    /// Identifies the keeper.
    struct Welcome = 102 {
        /// The protocol version of the keeper.
        1 version: u32,
        /// The ID of the pod.
        2 pod_id: String,
        /// The keeper's PID: `/proc/<pid>/ns/…` are the pod's namespaces.
        3 pid: u32,
        /// The init of the pod's PID namespace; 0 if the pod shares none.
        4 init_pid: u32,
        /// Harmless failures.
        5 warnings: Vec<String>,
        /// The keeper's descriptor of the pod's user namespace, if it has its own: `/proc/<pid>/fd/<this>`.
        6 user_ns_fd: Option<u32>,
    }

    /// All containers and exec sessions of the keeper.
    struct Listing = 103 {
        /// The containers.
        1 containers: Vec<ContainerInfo>,
        /// The exec sessions that have not been removed.
        2 execs: Vec<ExecInfo>,
    }

    /// A container as its keeper sees it.
    struct ContainerInfo {
        /// The ID of the container.
        1 id: String,
        /// The state of the container.
        2 state: ContainerState,
        /// The PID of its first process; 0 before that exists.
        3 pid: u32,
        /// When it was created, in nanoseconds since the epoch.
        4 created_ns: u64,
        /// When it was started; 0 before that.
        5 started_ns: u64,
        /// The exit status.
        6 exit: Option<ExitStatus>,
        /// Number of its processes killed by the OOM killer.
        7 oom_kills: u64,
        /// Number of bytes of output that its log lost.
        8 log_dropped_bytes: u64,
        /// Number of attachments.
        9 attachments: u32,
    }

    /// An exec session as its keeper sees it.
    struct ExecInfo {
        /// The ID of the session.
        1 id: String,
        /// The ID of its container.
        2 container: String,
        /// The PID of its first process; 0 before that exists.
        3 pid: u32,
        /// The exit status.
        4 exit: Option<ExitStatus>,
    }

    /// A container was created.
    struct Created = 104 {
        /// The PID of its first process.
        1 pid: u32,
        /// The creation time, in nanoseconds since the epoch.
        2 created_ns: u64,
        /// The start time if it was started at once; 0 while it waits for its start.
        3 started_ns: u64,
    }

    /// A container was started.
    struct Started = 105 {
        /// The start time, in nanoseconds since the epoch.
        1 started_ns: u64,
    }

    /// A command was started in a container; with a terminal, the frame carries its controlling end.
    struct ExecStarted = 106 {
        /// The PID of its first process.
        1 pid: u32,
    }

    /// A client was attached to the container's streams.
    struct Attached = 107 {
        /// The attachment's number.
        1 attachment: u64,
    }

    /// The frame carries the connected socket.
    struct Dialed = 108 {}
}

numbered! {
    /// The kind of a failure.
    enum FailureKind {
        /// An error without a more specific kind.
        #[default]
        Failed = 0,
        /// The named object does not exist.
        NotFound = 1,
        /// An object of that name exists already.
        Exists = 2,
        /// The object is in a state that does not allow the request.
        WrongState = 3,
        /// The request is invalid.
        Invalid = 4,
        /// The keeper does not know this request.
        Unsupported = 5,
        /// The runtime could not be executed.
        RuntimeMissing = 6,
        /// The runtime ended with an error.
        RuntimeFailed = 7,
        /// A timeout ended the operation.
        TimedOut = 8,
        /// No process listens on the port.
        Refused = 9,
        /// The runtime could not be executed because of a lack of processes, memory or files.
        Exhausted = 10,
    }

    /// The state of a container.
    enum ContainerState {
        /// Known only as the owner of mounts.
        #[default]
        Absent = 0,
        /// The runtime is creating it.
        Creating = 1,
        /// Created, not started.
        Created = 2,
        /// Started.
        Running = 3,
        /// Ended.
        Exited = 4,
    }
}

//! What a keeper answers.

use crate::exit::ExitStatus;
use crate::message::{messages, numbered};

messages! {
    /// All is well and there is nothing more to say.
    struct Done = 100 {}

    /// The request was not carried out.
    struct Failure = 101 {
        /// What sort of failure.
        1 kind: FailureKind,
        /// What was being done, and what went wrong.
        2 message: String,
        /// The end of the runtime's log, as it wrote it.
        3 runtime_log: String,
        /// The end of what the runtime printed.
        4 runtime_output: String,
    }

    /// Who the keeper is.
    struct Welcome = 102 {
        /// The protocol version of the keeper.
        1 version: u32,
        /// The pod's identity.
        2 pod_id: String,
        /// The keeper's process id: `/proc/<pid>/ns/…` are the pod's namespaces.
        3 pid: u32,
        /// The init of the pod's PID namespace; 0 if the pod shares none.
        4 init_pid: u32,
        /// What could not be done and does no harm.
        5 warnings: Vec<String>,
        /// The keeper's descriptor of the pod's user namespace, if it has one of its own:
        /// `/proc/<pid>/fd/<this>`.
        6 user_ns_fd: Option<u32>,
    }

    /// All that the keeper knows.
    struct Listing = 103 {
        /// The containers.
        1 containers: Vec<ContainerInfo>,
        /// The exec sessions that have not been forgotten.
        2 execs: Vec<ExecInfo>,
    }

    /// A container as its keeper knows it.
    struct ContainerInfo {
        /// The container's identity.
        1 id: String,
        /// What it does.
        2 state: ContainerState,
        /// Its first process; 0 before there is one.
        3 pid: u32,
        /// When it was created, in nanoseconds since the epoch.
        4 created_ns: u64,
        /// When it was started; 0 before.
        5 started_ns: u64,
        /// How it ended.
        6 exit: Option<ExitStatus>,
        /// How many times the OOM killer struck.
        7 oom_kills: u64,
        /// How many bytes of output its log lost.
        8 log_dropped_bytes: u64,
        /// How many attachments it has.
        9 attachments: u32,
    }

    /// An exec session as its keeper knows it.
    struct ExecInfo {
        /// The session's identity.
        1 id: String,
        /// The container it runs in.
        2 container: String,
        /// Its first process; 0 before there is one.
        3 pid: u32,
        /// How it ended.
        4 exit: Option<ExitStatus>,
    }

    /// A container has been made.
    struct Created = 104 {
        /// Its first process.
        1 pid: u32,
        /// When, in nanoseconds since the epoch.
        2 created_ns: u64,
        /// When it was let go, likewise; 0 while it waits for its start.
        3 started_ns: u64,
    }

    /// A container has been started.
    struct Started = 105 {
        /// When, in nanoseconds since the epoch.
        1 started_ns: u64,
    }

    /// A command runs in a container; with a terminal, the frame carries its controlling end.
    struct ExecStarted = 106 {
        /// Its first process.
        1 pid: u32,
    }

    /// The container's streams have been joined.
    struct Attached = 107 {
        /// The attachment's number.
        1 attachment: u64,
    }

    /// The frame carries the connected socket.
    struct Dialed = 108 {}
}

numbered! {
    /// What sort of failure.
    enum FailureKind {
        /// Something went wrong on the way.
        #[default]
        Failed = 0,
        /// There is nothing of that name.
        NotFound = 1,
        /// There is already something of that name.
        Exists = 2,
        /// What was asked for does not fit the state of things.
        WrongState = 3,
        /// The request makes no sense.
        Invalid = 4,
        /// The keeper does not know this request.
        Unsupported = 5,
        /// The runtime could not be executed.
        RuntimeMissing = 6,
        /// The runtime ended with an error.
        RuntimeFailed = 7,
        /// It took too long and was given up.
        TimedOut = 8,
        /// Nobody listens on the port dialled.
        Refused = 9,
        /// The runtime could not be executed for want of processes, memory or files.
        Exhausted = 10,
    }

    /// What a container does.
    enum ContainerState {
        /// Known only as the owner of mounts.
        #[default]
        Absent = 0,
        /// Its runtime is at work on it.
        Creating = 1,
        /// Made, not started.
        Created = 2,
        /// Started.
        Running = 3,
        /// Ended.
        Exited = 4,
    }
}

//! Requests of the daemon to a keeper.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::message::{messages, numbered};
use crate::reply::{Attached, Created, Dialed, Done, ExecStarted, Listing, Started, Welcome};

messages! {
    /// The first message on a connection to a running keeper.
    struct Hello = 2 -> Welcome {
        /// The protocol version of the sender.
        1 version: u32,
    }

    /// Requests all containers and exec sessions.
    struct List = 3 -> Listing {}

    /// Subscribes this connection to events. A client that subscribes first and then lists misses nothing.
    struct Subscribe = 4 -> Done {}

    /// Attaches a detached mount (the frame's descriptor) in the keeper's mount namespace, for a container whose
    /// deletion unmounts it.
    struct Mount = 5 -> Done {
        /// The ID of the container, which need not exist yet.
        1 container: String,
        /// The path that runtimes see: an existing directory or file below a mount without propagation.
        2 path: PathBuf,
    }

    /// Creates a container by calling its runtime's `create` or `restore`.
    struct Create = 6 -> Created {
        /// The ID of the container.
        1 container: String,
        /// The runtime's command line.
        2 call: RuntimeCall,
        /// The file to which the runtime writes the PID.
        3 pid_file: PathBuf,
        /// The path of the container's log; empty for none.
        4 log_path: PathBuf,
        /// The policy for output that the log cannot accept in time.
        5 log_policy: LogPolicy,
        /// Whether the container has a terminal. Then the keeper replaces `@console-socket@` in the runtime's arguments
        /// with the socket at which it receives the terminal.
        6 tty: bool,
        /// Whether the container's standard input is open.
        7 stdin: bool,
        /// Whether standard input is closed when the first attachment to it ends.
        8 stdin_once: bool,
        /// The cgroup directory (of the memory controller, for v1) to watch for OOM kills; empty for none. It is opened
        /// after the runtime has created the container.
        9 oom_cgroup: PathBuf,
        /// The terminal's initial height; 0 to leave it unchanged.
        10 rows: u16,
        /// The terminal's initial width; 0 to leave it unchanged.
        11 columns: u16,
        /// The maximum length of a log line, in bytes of content; 0 for the default of 16384.
        12 log_line_max: u32,
        /// Whether the container runs after the call, as with a runtime's `restore`: then no start is needed.
        13 running: bool,
        /// The directory chosen for the pod's logs, above `log_path`: no symlink is followed below it. Empty for the
        /// log's own directory.
        14 log_dir: PathBuf,
        /// The limit of log bytes per second; output beyond it is dropped. 0 for no limit.
        15 log_rate: u32,
        /// The limit of the log file's size until it is reopened; output beyond it is dropped. 0 for no limit.
        16 log_size: u64,
        /// Whether the frame carries standard input, output and error, in this order, for the container in place of the
        /// keeper's pipes. Not allowed with a terminal, a log or an attachment.
        17 streams: bool,
        /// The fifo in which the container's process waits for a reader, if it is to be started at once; empty if it
        /// waits for [`Start`]. The reply says whether it was started.
        18 fifo: PathBuf,
        /// Whether the runtime attaches the container's mounts itself, from `ORLOP_RUN_MOUNTS`; otherwise they are
        /// attached already.
        19 attaches: bool,
    }

    /// Starts a created container by calling its runtime's `start`.
    struct Start = 7 -> Started {
        /// The ID of the container.
        1 container: String,
        /// The command line of the runtime's `start`.
        2 call: RuntimeCall,
        /// The fifo in which the container's process waits for a reader before it executes its program. If it is given
        /// and exists, the runtime is not called.
        3 fifo: PathBuf,
    }

    /// Signals a container.
    struct Kill = 8 -> Done {
        /// The ID of the container.
        1 container: String,
        /// The signal's number.
        2 signal: u32,
        /// The runtime's `kill`; without it the keeper signals the container's first process.
        3 call: Option<RuntimeCall>,
    }

    /// Deletes a container: calls its runtime's `delete` if the runtime may know it, unmounts its mounts, and removes
    /// its exit record.
    struct Delete = 9 -> Done {
        /// The ID of the container. An unknown one is no error: the call is still made.
        1 container: String,
        /// The runtime's `delete`; `None` if the container never reached its runtime.
        2 call: Option<RuntimeCall>,
    }

    /// Runs a command in a container by calling its runtime's detached `exec`. Without a terminal
    /// the frame carries standard input, output and error, in this order.
    struct Exec = 10 -> ExecStarted {
        /// The ID of the new session.
        1 exec: String,
        /// The ID of the container.
        2 container: String,
        /// The command line of the runtime's `exec`.
        3 call: RuntimeCall,
        /// The file to which the runtime writes the PID.
        4 pid_file: PathBuf,
        /// Whether the command has a terminal, which is sent with the reply.
        5 tty: bool,
        /// The terminal's initial height; 0 to leave it unchanged.
        6 rows: u16,
        /// The terminal's initial width; 0 to leave it unchanged.
        7 columns: u16,
    }

    /// Signals a command of an exec session and all its descendants.
    struct KillExec = 11 -> Done {
        /// The ID of the session.
        1 exec: String,
        /// The signal's number.
        2 signal: u32,
        /// Whether to signal only the command itself.
        3 alone: bool,
    }

    /// Removes a finished exec session.
    struct ForgetExec = 12 -> Done {
        /// The ID of the session.
        1 exec: String,
    }

    /// Sets the size of a container's terminal.
    struct Resize = 13 -> Done {
        /// The ID of the container.
        1 container: String,
        /// The height in characters.
        2 rows: u16,
        /// The width in characters.
        3 columns: u16,
    }

    /// Attaches to a container's standard streams. The frame carries the requested descriptors in this order: one to
    /// read input from, one for output, one for errors.
    struct Attach = 14 -> Attached {
        /// The ID of the container.
        1 container: String,
        /// Whether a descriptor for input is sent.
        2 stdin: bool,
        /// Whether a descriptor for output is sent.
        3 stdout: bool,
        /// Whether a descriptor for errors is sent.
        4 stderr: bool,
        /// Whether the container waits without a time limit for this client if it reads too slowly.
        5 patient: bool,
    }

    /// Ends an attachment.
    struct Detach = 15 -> Done {
        /// The number from [`Attached`].
        1 attachment: u64,
    }

    /// Reopens a container's log, after it was renamed.
    struct ReopenLog = 16 -> Done {
        /// The ID of the container.
        1 container: String,
    }

    /// Connects to a port on the pod's loopback interface; the reply carries the socket.
    struct Dial = 17 -> Dialed {
        /// The TCP port.
        1 port: u16,
        /// The timeout in milliseconds.
        2 timeout_ms: u32,
    }

    /// Kills all processes of the pod, unmounts its mounts and stops the keeper.
    struct Shutdown = 18 -> Done {}

    /// A command line of a runtime, with its limits.
    struct RuntimeCall {
        /// The program and its arguments.
        1 argv: Vec<OsString>,
        /// The working directory.
        2 cwd: PathBuf,
        /// The file to which the runtime writes its log; its end is part of a failure. Removed afterwards.
        3 log: PathBuf,
        /// The timeout in milliseconds, after which it is killed.
        4 timeout_ms: u32,
        /// Whether the program is executed through a read-only mount: for a static program that would otherwise protect
        /// itself.
        5 protected: bool,
        /// When the client gives up, on the [clock](crate::monotonic_ns) of both ends; 0 if unknown. A request may be
        /// read long after it was sent.
        6 until_ns: u64,
    }
}

numbered! {
    /// The policy for output that a container's log cannot accept in time.
    enum LogPolicy {
        /// The container waits while the buffer is full.
        #[default]
        Block = 0,
        /// Output is dropped and counted while the buffer is full.
        Drop = 1,
    }
}

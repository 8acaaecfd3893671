//! What the daemon asks of a keeper.

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

    /// Asks for all that the keeper knows.
    struct List = 3 -> Listing {}

    /// Asks for events on this connection. Subscribe first, then list, and nothing is missed.
    struct Subscribe = 4 -> Done {}

    /// Attaches a detached mount (the frame's descriptor) in the keeper's mount namespace, on
    /// behalf of a container whose deletion undoes it.
    struct Mount = 5 -> Done {
        /// The container's identity; it need not exist yet.
        1 container: String,
        /// Where runtimes have it: an existing directory or file below a mount that propagates nothing.
        2 path: PathBuf,
    }

    /// Makes a container by calling its runtime's `create` or `restore`.
    struct Create = 6 -> Created {
        /// The container's identity.
        1 container: String,
        /// The runtime's command.
        2 call: RuntimeCall,
        /// Where the runtime writes the process id.
        3 pid_file: PathBuf,
        /// The container's log; empty for none.
        4 log_path: PathBuf,
        /// What happens to output that the log cannot take in time.
        5 log_policy: LogPolicy,
        /// Whether the container has a terminal. Then `@console-socket@` in the arguments of the
        /// runtime becomes the socket at which the keeper waits for it.
        6 tty: bool,
        /// Whether the container's standard input is open.
        7 stdin: bool,
        /// Whether standard input closes with the end of the first attachment to it.
        8 stdin_once: bool,
        /// The cgroup directory (of the memory controller, for v1) watched for OOM kills; empty
        /// for none. It is opened once the runtime has made the container.
        9 oom_cgroup: PathBuf,
        /// The terminal's first height, 0 to leave it.
        10 rows: u16,
        /// The terminal's first width, 0 to leave it.
        11 columns: u16,
        /// The longest line of the log, in bytes of content; 0 for the usual 16384.
        12 log_line_max: u32,
        /// Whether the call leaves the container running, as a runtime's `restore` does: then
        /// there is nothing to start.
        13 running: bool,
        /// The directory that was chosen for the pod's logs, above `log_path`: no link is followed
        /// beneath it. Empty for the log's own directory.
        14 log_dir: PathBuf,
        /// How many bytes of log are written in a second, what exceeds them being dropped; 0 for
        /// any number.
        15 log_rate: u32,
        /// How many bytes the log's file has before it is opened anew, what exceeds them being
        /// dropped; 0 for any number.
        16 log_size: u64,
        /// Whether the frame carries standard input, output and error, in this order, which the
        /// container gets in place of the keeper's pipes. Not with a terminal, a log or an attachment.
        17 streams: bool,
        /// The fifo in which its process waits for a reader, where it is to be let go as soon as it is made; empty
        /// where it waits for [`Start`]. Whether it was is in the reply.
        18 fifo: PathBuf,
        /// Whether the runtime puts the container's mounts in their places itself, by `ORLOP_RUN_MOUNTS`; else it finds
        /// them there.
        19 attaches: bool,
    }

    /// Starts a created container by calling its runtime's `start`.
    struct Start = 7 -> Started {
        /// The container's identity.
        1 container: String,
        /// The runtime's `start`.
        2 call: RuntimeCall,
        /// The fifo in which the container's process waits for a reader before it becomes the
        /// container's program. Where it is given and there, the runtime is not called.
        3 fifo: PathBuf,
    }

    /// Signals a container.
    struct Kill = 8 -> Done {
        /// The container's identity.
        1 container: String,
        /// The signal's number.
        2 signal: u32,
        /// The runtime's `kill`; without one the keeper signals the container's first process.
        3 call: Option<RuntimeCall>,
    }

    /// Forgets a container: calls its runtime's `delete` when the runtime may know it, detaches
    /// its mounts, removes its exit record.
    struct Delete = 9 -> Done {
        /// The container's identity. An unknown one is no error: the call is still made.
        1 container: String,
        /// The runtime's `delete`; none when the container never reached its runtime.
        2 call: Option<RuntimeCall>,
    }

    /// Runs a command in a container by calling its runtime's detached `exec`. Without a terminal
    /// the frame carries standard input, output and error, in this order.
    struct Exec = 10 -> ExecStarted {
        /// The new session's identity.
        1 exec: String,
        /// The container's identity.
        2 container: String,
        /// The runtime's `exec`.
        3 call: RuntimeCall,
        /// Where the runtime writes the process id.
        4 pid_file: PathBuf,
        /// Whether the command has a terminal, which comes with the reply.
        5 tty: bool,
        /// The terminal's first height, 0 to leave it.
        6 rows: u16,
        /// The terminal's first width, 0 to leave it.
        7 columns: u16,
    }

    /// Signals an exec'd command and all that descends from it.
    struct KillExec = 11 -> Done {
        /// The session's identity.
        1 exec: String,
        /// The signal's number.
        2 signal: u32,
        /// Whether only the command itself is meant.
        3 alone: bool,
    }

    /// Forgets a finished exec session.
    struct ForgetExec = 12 -> Done {
        /// The session's identity.
        1 exec: String,
    }

    /// Sets the size of a container's terminal.
    struct Resize = 13 -> Done {
        /// The container's identity.
        1 container: String,
        /// The height in characters.
        2 rows: u16,
        /// The width in characters.
        3 columns: u16,
    }

    /// Joins a container's standard streams. The frame carries, in this order, those descriptors
    /// that are asked for: one to read input from, one for output, one for errors.
    struct Attach = 14 -> Attached {
        /// The container's identity.
        1 container: String,
        /// Whether a descriptor for input comes along.
        2 stdin: bool,
        /// Whether a descriptor for output comes along.
        3 stdout: bool,
        /// Whether a descriptor for errors comes along.
        4 stderr: bool,
        /// Whether the container waits as long as it takes for whoever reads too slowly.
        5 patient: bool,
    }

    /// Ends an attachment.
    struct Detach = 15 -> Done {
        /// The number from [`Attached`].
        1 attachment: u64,
    }

    /// Opens a container's log anew, after it was moved aside.
    struct ReopenLog = 16 -> Done {
        /// The container's identity.
        1 container: String,
    }

    /// Connects to a port on the pod's loopback interface; the reply carries the socket.
    struct Dial = 17 -> Dialed {
        /// The TCP port.
        1 port: u16,
        /// How long to try, in milliseconds.
        2 timeout_ms: u32,
    }

    /// Kills what is left of the pod, undoes its mounts and ends the keeper.
    struct Shutdown = 18 -> Done {}

    /// A command line of a runtime, and what bounds it.
    struct RuntimeCall {
        /// The program and its arguments.
        1 argv: Vec<OsString>,
        /// The directory it is started in.
        2 cwd: PathBuf,
        /// Where the runtime writes its log; its end is part of a failure. Removed afterwards.
        3 log: PathBuf,
        /// After how many milliseconds it is killed.
        4 timeout_ms: u32,
        /// Whether the program is executed by a mount that nobody can write by: a static one that
        /// would see to that by itself otherwise.
        5 protected: bool,
        /// When whoever asks gives up, on the [clock](crate::monotonic_ns) of both ends; 0 where that is not said.
        /// A request may be read long after it was sent.
        6 until_ns: u64,
    }
}

numbered! {
    /// What happens to output that a container's log cannot take in time.
    enum LogPolicy {
        /// The container waits once the buffer is full.
        #[default]
        Block = 0,
        /// What comes while the buffer is full is dropped and counted.
        Drop = 1,
    }
}

//! Starts processes from OCI bundles.
//!
//! A pod's processes are children of its keeper ([`Keeper`]), a small process that outlives the daemon. The command
//! line of a runtime ([`OciRuntime`]) creates the containers. The keeper runs the commands that create or signal
//! processes (create, start, kill, delete, exec). This crate runs the others itself (state, update, features, pause …).
//!
//! ```text
//! engine ── Keeper::spawn(KeeperSpec) ──► orlop-keeper
//!        ── place_mount, create, start ─►   └─ runc create / start
//!        ◄─ KeeperEvents (Exited, …) ──
//! ```

mod blocking;
mod create_container;
mod error;
mod few_mounts;
mod keeper;
mod millis;
mod open_files;
mod pin;
mod private_dir;
mod runtime;

pub use create_container::{CreateContainer, Restore, TerminalSize};
pub use error::{Error, Result, RuntimeError, RuntimeFault};
pub use few_mounts::few_mounts;
pub use keeper::{
    AttachStreams, ExecCommand, ExecIo, FoundKeeper, Held, Keeper, KeeperEvent, KeeperEvents,
    KeeperSpec, PodNamespaces, StartBy, StartedExec, end_keeper, recorded_exit, remove_pod_dir,
};
pub use open_files::raise_open_files;
pub use orlop_keeper_protocol::{
    ContainerInfo, ContainerState, Created, ExecInfo, ExitStatus, FailureKind, IdMap, Listing,
    LogPolicy, ShmMount, Started, Sysctl,
};
pub use pin::remove_pin;
pub use private_dir::make_private_dir;
pub use runtime::{
    Candidate, CheckpointOptions, Detected, OciRuntime, ProtectedProgram, ProtectedPrograms,
    Rejection, RuntimeState, TRIAL_PREFIX, criu, detect,
};

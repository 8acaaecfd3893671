//! The protocols between the daemon and keepers, and between the daemon and the server of lazy layers.
//!
//! Both ends of a keeper's socket send *frames* ([`Frame`]): a fixed header, a payload of tagged fields, and file
//! descriptors. A receiver skips unknown fields and sets missing ones to their defaults, so that an older keeper can
//! serve a newer daemon and the other way round. [`VERSION`] changes only if that is not enough.
//!
//! The server of lazy layers uses frames, too ([`LazyHello`] and related messages).
//!
//! A keeper answers every request with exactly one reply that has the request's number; [events](Event) have number 0.

mod codec;
mod event;
mod exit;
mod frame;
mod lazy;
mod message;
mod moment;
mod reply;
mod request;
mod setup;
mod socket;

pub use codec::{Field, Malformed, Value};
pub use event::{Event, ExecExited, Exited, LogDropped, OomKilled};
pub use exit::{ExitRecordError, ExitStatus};
pub use frame::{Frame, FrameBuffer, HEADER_LEN, MAX_FDS, MAX_PAYLOAD};
pub use lazy::{
    AddLayer, Fetch, FetchAnswer, LAZY_SOCKET_NAME, LAZY_VERSION, LayerBook, LayerEntry, LayerInfo,
    LayerListing, LazyBegin, LazyHello, LazyReady, LazyStop, LazySubscribe, ListLayers, ReadFailed,
    RemoveLayer,
};
pub use message::{Body, Message, Request};
pub use moment::monotonic_ns;
pub use reply::{
    Attached, ContainerInfo, ContainerState, Created, Dialed, Done, ExecInfo, ExecStarted, Failure,
    FailureKind, Listing, Started, Welcome,
};
pub use request::{
    Attach, Create, Delete, Detach, Dial, Exec, ForgetExec, Hello, Kill, KillExec, List, LogPolicy,
    Mount, ReopenLog, Resize, RuntimeCall, Shutdown, Start, Subscribe,
};
pub use setup::{IdMap, OpenFiles, Setup, ShmMount, Sysctl};
pub use socket::{ACCEPT_AGAIN, accept, first_frame, recv, send};

/// The protocol's version. A keeper refuses a peer whose version it cannot serve.
pub const VERSION: u32 = 1;

/// The name of a keeper's socket in its pod's directory.
pub const SOCKET_NAME: &str = "keeper.sock";

/// The directory, below the pod's, with one exit record per container, written by a keeper.
pub const EXITS_DIR: &str = "exits";

/// The directory for a keeper's own mounts, at the root of a [namespace with few mounts](Setup::few_mounts).
pub const FEW_MOUNTS_PLACES: &str = "mounts";

/// The directory for a container's root, in the same namespace.
pub const FEW_MOUNTS_ROOT: &str = "root";

/// A placeholder in a runtime's arguments for the path of the keeper's console socket.
pub const CONSOLE_SOCKET: &str = "@console-socket@";

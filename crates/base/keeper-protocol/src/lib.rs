//! The words that the daemon exchanges with keepers, and with the server of lazy layers.
//!
//! Both ends of a keeper's socket speak *frames* ([`Frame`]): a fixed header, a payload of tagged
//! fields, and file descriptors beside it. An end skips the fields that it does not know and fills
//! those that are missing with their defaults, so that an older keeper serves a newer daemon and
//! the other way round. [`VERSION`] moves only when that is not enough.
//!
//! The server of lazy layers is spoken to in frames, too ([`LazyHello`] and what belongs to it).
//!
//! A keeper answers every request with exactly one reply that carries the request's number;
//! [events](Event) carry number 0.

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

/// The directory, below the pod's, in which a keeper writes one exit record per container.
pub const EXITS_DIR: &str = "exits";

/// The directory at the root of a [namespace with few mounts](Setup::few_mounts) that a keeper's own mounts are below.
pub const FEW_MOUNTS_PLACES: &str = "mounts";

/// The directory there that a container's root may be put on.
pub const FEW_MOUNTS_ROOT: &str = "root";

/// Stands in a runtime's arguments where the keeper puts the path of its console socket.
pub const CONSOLE_SOCKET: &str = "@console-socket@";

//! The protocol between the daemon and the server of lazy layers, on a separate socket.
//!
//! The server answers every request with one reply of the same number. [`FetchAnswer`] has no reply; [`Fetch`] and
//! [`ReadFailed`] are events, which have number 0 and go to the latest subscriber.

use std::path::PathBuf;

use crate::message::messages;
use crate::reply::Done;

/// The protocol's version. A server refuses a peer whose version it cannot serve.
pub const LAZY_VERSION: u32 = 1;

/// The name of the server's socket in its directory.
pub const LAZY_SOCKET_NAME: &str = "lazy.sock";

messages! {
    /// The first message to a new server. If it takes over a session, the frame carries the session's `/dev/fuse` and
    /// journal.
    struct LazyBegin = 300 -> LazyReady {
        /// The protocol version of the sender.
        1 version: u32,
        /// Whether a session is taken over.
        2 take_over: bool,
        /// Whether requests that a dead server had read are taken from the journal, even if the kernel would send them
        /// again.
        3 by_journal: bool,
    }

    /// The first message on a connection to a running server.
    struct LazyHello = 301 -> LazyReady {
        /// The protocol version of the sender.
        1 version: u32,
    }

    /// Subscribes this connection to events, and requests all fetches in progress again.
    struct LazySubscribe = 302 -> Done {}

    /// Adds a layer, or updates the location of a layer.
    struct AddLayer = 303 -> Done {
        /// The layer's name in the file system.
        1 key: String,
        /// The directory with its parts.
        2 directory: PathBuf,
        /// The size of the layer in bytes.
        3 size: u64,
        /// The timeout in milliseconds of a read of missing data.
        4 timeout_ms: u64,
    }

    /// Removes a layer's name. Processes that have it open can still read its local data.
    struct RemoveLayer = 304 -> Done {
        /// The layer's name.
        1 key: String,
    }

    /// Requests all layers.
    struct ListLayers = 305 -> LayerListing {}

    /// Stops the server.
    struct LazyStop = 306 -> Done {
        /// Whether the mount is kept for a successor.
        1 keep: bool,
    }

    /// The result of a fetch.
    struct FetchAnswer = 307 {
        /// The fetch's number.
        1 id: u64,
        /// 0 if the data is available now, else the error.
        2 errno: u32,
        /// The error message.
        3 reason: String,
    }

    /// The server is ready. The frame carries the session's `/dev/fuse` and journal.
    struct LazyReady = 350 {
        /// The protocol version of the server.
        1 version: u32,
        /// The PID of the server.
        2 pid: u32,
    }

    /// All layers.
    struct LayerListing = 351 {
        /// The layers, by name.
        1 layers: Vec<LayerInfo>,
    }

    /// A layer as the server sees it.
    struct LayerInfo {
        /// Its name.
        1 key: String,
        /// The size in bytes.
        2 size: u64,
        /// Number of reads that wait for parts of it.
        3 waiting: u64,
        /// Whether its files could be opened.
        4 open: bool,
    }

    /// A process reads data that is not available locally.
    struct Fetch = 360 {
        /// The fetch's number.
        1 id: u64,
        /// The layer's name.
        2 key: String,
        /// The offset of the data.
        3 offset: u64,
        /// The length in bytes.
        4 length: u64,
        /// The thread that read first; 0 from servers of earlier versions.
        5 pid: u32,
    }

    /// A read has failed.
    struct ReadFailed = 361 {
        /// The layer's name.
        1 key: String,
        /// The offset of the read.
        2 offset: u64,
        /// The length in bytes.
        3 length: u64,
        /// The reason.
        4 reason: String,
        /// Whether it timed out.
        5 timed_out: bool,
    }

    /// The layers of a session, saved by the server for its successor.
    struct LayerBook = 390 {
        /// The number of the next layer.
        1 next_node: u64,
        /// The layers.
        2 layers: Vec<LayerEntry>,
    }

    /// A layer of a session.
    struct LayerEntry {
        /// Its number in the file system.
        1 node: u64,
        /// Its name.
        2 key: String,
        /// The directory with its parts.
        3 directory: PathBuf,
        /// The size in bytes.
        4 size: u64,
        /// The timeout in milliseconds of a read of missing data.
        5 timeout_ms: u64,
        /// Whether its name was removed.
        6 removed: bool,
    }
}

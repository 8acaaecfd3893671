//! What the daemon and the server of lazy layers say to each other, on a socket of their own.
//!
//! The server answers every request with one reply of the same number. [`FetchAnswer`] has no reply;
//! [`Fetch`] and [`ReadFailed`] are events, which carry number 0 and go to who subscribed last.

use std::path::PathBuf;

use crate::message::messages;
use crate::reply::Done;

/// The protocol's version. A server refuses a peer whose version it cannot serve.
pub const LAZY_VERSION: u32 = 1;

/// The name of the server's socket in its directory.
pub const LAZY_SOCKET_NAME: &str = "lazy.sock";

messages! {
    /// The first message to a new server. The frame of one that takes a session over carries the
    /// session's `/dev/fuse` and journal.
    struct LazyBegin = 300 -> LazyReady {
        /// The protocol version of the sender.
        1 version: u32,
        /// Whether a session is taken over.
        2 take_over: bool,
        /// Whether requests that a dead server had read are found in the journal even where the
        /// kernel would send them again.
        3 by_journal: bool,
    }

    /// The first message on a connection to a running server.
    struct LazyHello = 301 -> LazyReady {
        /// The protocol version of the sender.
        1 version: u32,
    }

    /// Asks for events on this connection, and for all fetches that are under way once more.
    struct LazySubscribe = 302 -> Done {}

    /// Adds a layer, or tells anew where a layer is.
    struct AddLayer = 303 -> Done {
        /// The layer's name in the file system.
        1 key: String,
        /// The directory that has its parts.
        2 directory: PathBuf,
        /// How many bytes the layer has.
        3 size: u64,
        /// After how many milliseconds a read of what is not here fails.
        4 timeout_ms: u64,
    }

    /// Takes a layer's name away. Who has it open reads on what is here.
    struct RemoveLayer = 304 -> Done {
        /// The layer's name.
        1 key: String,
    }

    /// Asks for all layers.
    struct ListLayers = 305 -> LayerListing {}

    /// Ends the server.
    struct LazyStop = 306 -> Done {
        /// Whether the mount is left for a successor.
        1 keep: bool,
    }

    /// How a fetch went.
    struct FetchAnswer = 307 {
        /// The fetch's number.
        1 id: u64,
        /// 0 if what was asked for is here now, else why not.
        2 errno: u32,
        /// Why not, in words.
        3 reason: String,
    }

    /// The server is ready. The frame carries the session's `/dev/fuse` and journal.
    struct LazyReady = 350 {
        /// The protocol version of the server.
        1 version: u32,
        /// The server's process.
        2 pid: u32,
    }

    /// All layers.
    struct LayerListing = 351 {
        /// By their names.
        1 layers: Vec<LayerInfo>,
    }

    /// A layer as the server knows it.
    struct LayerInfo {
        /// Its name.
        1 key: String,
        /// How many bytes it has.
        2 size: u64,
        /// How many reads wait for parts of it.
        3 waiting: u64,
        /// Whether its files could be opened.
        4 open: bool,
    }

    /// Somebody reads what is not here.
    struct Fetch = 360 {
        /// The fetch's number.
        1 id: u64,
        /// The layer's name.
        2 key: String,
        /// Where it begins.
        3 offset: u64,
        /// How many bytes.
        4 length: u64,
        /// The thread that read first; 0 if the server is of an earlier version.
        5 pid: u32,
    }

    /// A read has failed.
    struct ReadFailed = 361 {
        /// The layer's name.
        1 key: String,
        /// Where the read began.
        2 offset: u64,
        /// How many bytes.
        3 length: u64,
        /// Why, in words.
        4 reason: String,
        /// Whether it waited too long.
        5 timed_out: bool,
    }

    /// The layers of a session, as the server writes them down for its successor.
    struct LayerBook = 390 {
        /// The number that the next layer gets.
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
        /// The directory that has its parts.
        3 directory: PathBuf,
        /// How many bytes it has.
        4 size: u64,
        /// After how many milliseconds a read of what is not here fails.
        5 timeout_ms: u64,
        /// Whether its name was taken away.
        6 removed: bool,
    }
}

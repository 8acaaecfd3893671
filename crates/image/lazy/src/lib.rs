//! Files of which parts are not here yet: layers that are mounted while they are fetched.
//!
//! A lazy layer is one file, an EROFS image whose metadata is complete from the start and whose data
//! arrives as it is read. The kernel mounts it from a file of the FUSE file system that `orlop-lazy`
//! serves, a small program of its own, one for a node; directories, attributes and the cache of small
//! files are EROFS' and stay in the kernel. When all of a layer is here, its file is mounted without us.
//!
//! ```text
//! container ── overlay ── EROFS ── <mount point>/<key> ──FUSE── orlop-lazy ── <layer>/image, present
//!                                                                  │ socket          ▲
//!                                                                  └─ fetch ► daemon ┘ write, mark
//! ```
//!
//! This library is the daemon's side. [`Parts`] is a layer on disk; [`Server`] starts the program, finds
//! one that runs, or has a successor take over from one that died; [`Events`] says what is to be fetched,
//! [`Answers`] that it is here. All of it blocks: events belong to a thread of their own.
//!
//! What happens to who reads when somebody dies:
//!
//! | who | what is here | what is not |
//! |---|---|---|
//! | the daemon | is read on | waits for the next daemon, up to the layer's timeout |
//! | the server | waits for a successor ([`Server::succeed`]), a few milliseconds | as well, and its fetch is asked for again |
//! | the reader | | is let go of, when a signal ends it |
//! | both the daemon and the server | is read from the kernel's cache alone | fails |
//!
//! In the last case nobody holds the session, and the kernel ends it: reads of what is not cached fail
//! with `ENOTCONN`, in an EROFS mount with `EIO`. The next daemon sees that nobody listens
//! ([`Server::connect`]) and starts a new session, which detaches the dead mount; mounts that were made
//! from it stay dead, so that containers on them have to be made anew. A daemon that outlived a session
//! that ended otherwise (by `umount -f`, say) sees it by [`Held::is_alive`].
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod client;
mod container;
mod parts;

pub use client::{Answers, Error, Event, Events, Held, Place, Result, Server};
pub use container::container_ids;
pub use orlop_keeper_protocol::{Fetch, LayerInfo, ReadFailed};
pub use parts::{IMAGE, LARGEST, PART, Parts};

//! Lazy layers: layers that are mounted while their data is still being fetched.
//!
//! A lazy layer is one EROFS image file. Its metadata is complete from the start, and its data arrives when it is
//! read. The kernel mounts it from a file of the FUSE file system of `orlop-lazy`, a small separate program with one
//! process per node. EROFS handles directories, attributes and the cache of small files in the kernel. When a layer
//! is complete, its file is mounted without FUSE.
//!
//! ```text
//! container ── overlay ── EROFS ── <mount point>/<key> ──FUSE── orlop-lazy ── <layer>/image, present
//!                                                                  │ socket          ▲
//!                                                                  └─ fetch ► daemon ┘ write, mark
//! ```
//!
//! This library is the daemon's side. [`Parts`] is a layer on disk. [`Server`] starts the program, connects to a
//! running one, or starts a successor of a dead one. [`Events`] reports the parts to fetch, [`Answers`] reports that
//! they are present. All calls block: events need a thread of their own.
//!
//! Effects on readers if a process dies:
//!
//! | process | present parts | missing parts |
//! |---|---|---|
//! | the daemon | reads continue | reads wait for the next daemon, up to the layer's timeout |
//! | the server | reads wait a few ms for a successor ([`Server::succeed`]) | the same; the fetch is repeated |
//! | the reader | | the wait ends if a signal kills the reader |
//! | both the daemon and the server | reads only succeed from the kernel's cache | reads fail |
//!
//! In the last case no process holds the session, and the kernel ends it. Uncached reads fail with `ENOTCONN`, in an
//! EROFS mount with `EIO`. The next daemon finds no server ([`Server::connect`]) and starts a new session, which
//! detaches the dead mount. EROFS mounts from the old session stay dead, so their containers must be recreated.
//! [`Held::is_alive`] shows a daemon that its session ended in another way (for example by `umount -f`).
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

//! The part of the kernel's FUSE protocol that a flat directory of read-only files needs.
//!
//! Numbers and layouts are those of Linux' `include/uapi/linux/fuse.h`, version 7.31 and later. All numbers are in
//! the machine's byte order.

mod begin;
mod device;
mod number;
mod reply;
mod request;

pub(crate) use begin::{Agreed, agree};
pub(crate) use device::{forget_name, mount, open, send_again};
pub(crate) use number::{MOST_AT_ONCE, REQUEST_SIZE, ROOT, opcode};
pub(crate) use reply::{About, Entries, Reply};
pub(crate) use request::Request;

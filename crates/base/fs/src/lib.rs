//! Access to files and directories that untrusted processes write to.
//!
//! Files of a container, an image or a pod's user are hostile: trees are as deep as the disk allows, files have no end,
//! names are symlinks. Code that handles such files uses this crate.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

mod changes;
mod children;
mod descent;
mod followed;
mod idmap;
mod log;
mod membership;
mod mount_attr;
mod mountinfo;
mod mounts;
mod probe;
mod read;
mod remove;
mod room;
mod walk;
mod write;

pub use changes::{Change, ChangeKind, changes};
pub use children::children_of;
pub use descent::Descent;
pub use followed::FollowedLog;
pub use idmap::{mapped_clone, set_idmap};
pub use log::{LogPlace, make_log_dir};
pub use membership::Membership;
pub use mount_attr::{MountAttr, detached, detached_read_only, set_mount_attributes};
pub use mountinfo::{Mount, Mountinfo, unescape};
pub use mounts::{MountTable, Stranger};
pub use probe::{prepare_probe, probe};
pub use read::{
    KERNEL_FILE, SMALL_FILE, open_file, read_end, read_file, read_kernel_file, read_kernel_text,
    read_start, read_tail, read_text, read_whole, read_whole_text,
};
pub use remove::{remove_tree, remove_tree_at};
pub use room::Room;
pub use walk::{Entry, Step, Walk, each_below};
pub use write::{
    Draft, Outlives, Output, remove_drafts, remove_file, write_file, write_new_file, write_output,
};

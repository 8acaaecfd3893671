//! The mounts of a container and their targets.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use super::source::Source;
use super::tree::Tree;
use crate::sys::MountAttr;

/// One mount, in the order of the configuration.
#[derive(Debug)]
pub(crate) struct MountStep {
    /// The index in `mounts`.
    pub(crate) index: u16,
    /// The path below the root, without a leading slash.
    pub(crate) target: CString,
    /// Whether a missing target is created as a directory, else as a file.
    pub(crate) directory: bool,
    pub(crate) what: What,
    /// Propagation flags, set once it is attached.
    pub(crate) propagation: Vec<(u64, bool)>,
    /// Whether the path of the target must contain no symlink.
    pub(crate) plain_target: bool,
    /// Whether the target may be inside a `/proc`.
    pub(crate) within_proc: bool,
    /// Whether it becomes read-only only after all mounts are attached.
    pub(crate) read_only_later: bool,
    /// The mount itself, kept for that.
    pub(crate) made: Option<OwnedFd>,
}

/// The kind of a mount.
#[derive(Debug)]
pub(crate) enum What {
    /// A tree of the host, with its attributes.
    Tree(OwnedFd),
    /// A tree that is opened in order: earlier mounts may have put it there.
    Source {
        source: Source,
        /// The process that opens it.
        by: By,
        /// Whether the target is `/proc`, where only a `/proc` may be mounted.
        is_at_proc: bool,
    },
    /// A new file system.
    Fresh(Fresh),
    /// No mount: changes the attributes of an existing one.
    Change { own: MountAttr, below: MountAttr },
    /// Cgroup v1, each hierarchy in a directory.
    Hierarchies { base: Fresh, below: Vec<Hierarchy> },
    /// Cgroup v2, or a replacement if it cannot be mounted.
    Unified { fresh: Fresh, instead: Option<Tree> },
}

/// The process that opens a bind source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The parent, before the clone.
    Parent,
    /// The child, in the order of mounts.
    Child,
    /// The parent at the child's request: a process that left the host's user namespace may not reach the source.
    Asked,
}

/// A file system to be created.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) kind: CString,
    pub(crate) data: Vec<(CString, Option<CString>)>,
    /// `MOUNT_ATTR_…`.
    pub(crate) attr: u32,
    /// Attributes of all mounts below it as well, set afterwards.
    pub(crate) below: MountAttr,
    pub(crate) is_proc: bool,
    /// Whether its root gets the mode of the directory that it hides.
    pub(crate) keeps_mode: bool,
    /// Whether the hidden content is copied into it.
    pub(crate) copy_up: bool,
    /// The SELinux label of its root, if it cannot be given as a mount option.
    pub(crate) root_label: Option<CString>,
}

/// The entry of a v1 hierarchy.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    pub(crate) name: CString,
    /// Its other names, made as symlinks.
    pub(crate) links: Vec<CString>,
    /// The cgroup itself, or the file system for a cgroup namespace.
    pub(crate) what: HierarchyWhat,
}

/// A cgroup of the host, or the options of a file system that shows the namespace's part.
pub(crate) type HierarchyWhat = std::result::Result<Tree, Vec<CString>>;

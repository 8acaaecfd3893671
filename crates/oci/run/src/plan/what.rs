//! What is mounted for a container, and where.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use super::source::Source;
use super::tree::Tree;
use crate::sys::MountAttr;

/// One mount, in the order of the configuration.
#[derive(Debug)]
pub(crate) struct MountStep {
    /// Which of `mounts`.
    pub(crate) index: u16,
    /// Where, below the root, without a slash before it.
    pub(crate) target: CString,
    /// Whether a directory is made where nothing is, else a file.
    pub(crate) directory: bool,
    pub(crate) what: What,
    /// Set once it is in its place.
    pub(crate) propagation: Vec<(u64, bool)>,
    /// Its target must not be reached by a link.
    pub(crate) plain_target: bool,
    /// Whether it may lie in a `/proc`.
    pub(crate) within_proc: bool,
    /// Whether it becomes read-only only after all has been put there.
    pub(crate) read_only_later: bool,
    /// The mount itself, kept for that.
    pub(crate) made: Option<OwnedFd>,
}

/// What is mounted.
#[derive(Debug)]
pub(crate) enum What {
    /// A tree of the host's, with its attributes.
    Tree(OwnedFd),
    /// One that is opened when its turn has come: mounts before it may have put it where it is.
    Source {
        source: Source,
        /// Who opens it.
        by: By,
        /// Whether it lies at `/proc`, where nothing else may.
        is_at_proc: bool,
    },
    /// A file system of its own.
    Fresh(Fresh),
    /// Nothing new: attributes of what is there.
    Change { own: MountAttr, below: MountAttr },
    /// Cgroups of version 1, each hierarchy below a directory.
    Hierarchies { base: Fresh, below: Vec<Hierarchy> },
    /// Cgroups of version 2, or what stands for them where they cannot be mounted.
    Unified { fresh: Fresh, instead: Option<Tree> },
}

/// Who opens what is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The parent, before the clone.
    Parent,
    /// The child, when its turn has come.
    Child,
    /// The parent, as the child asks for it: who has left the host's users may not reach the source.
    Asked,
}

/// A file system to be made.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) kind: CString,
    pub(crate) data: Vec<(CString, Option<CString>)>,
    /// `MOUNT_ATTR_…`.
    pub(crate) attr: u32,
    /// Of all below as well, afterwards.
    pub(crate) below: MountAttr,
    pub(crate) is_proc: bool,
    /// Its root has the mode of the directory that it hides.
    pub(crate) keeps_mode: bool,
    /// What it hides is copied into it.
    pub(crate) copy_up: bool,
    /// What its root is labelled with once it is there, for one that is not given it as an option.
    pub(crate) root_label: Option<CString>,
}

/// What is put into one directory of version 1.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    pub(crate) name: CString,
    /// Other names of it.
    pub(crate) links: Vec<CString>,
    /// The cgroup itself, or the file system for a namespace.
    pub(crate) what: HierarchyWhat,
}

/// A cgroup of the host, or the options of a file system that a namespace shows its part of.
pub(crate) type HierarchyWhat = std::result::Result<Tree, Vec<CString>>;

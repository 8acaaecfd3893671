//! Cgroup mounts of a container.

use std::path::PathBuf;

use super::text::c_string;
use super::tree::{Copied, Tree};
use super::what::{Fresh, Hierarchy, HierarchyWhat, What};
use crate::error::{Result, While};
use crate::sys::MountAttr;

/// The cgroups of a container, by hierarchy.
#[derive(Debug)]
pub(crate) struct CgroupMounts<'a> {
    /// Whether it has a cgroup namespace, in which its own cgroup is the root.
    pub(crate) namespace: bool,
    /// The container's directory in the v2 hierarchy, if only v2 is mounted.
    pub(crate) unified: Option<PathBuf>,
    /// The v1 hierarchies.
    pub(crate) hierarchies: &'a [V1],
}

/// A v1 hierarchy.
#[derive(Debug)]
pub(crate) struct V1 {
    /// The name of its directory, such as `cpu,cpuacct`.
    pub(crate) name: String,
    /// Its controllers, or `name=systemd`.
    pub(crate) controllers: Vec<String>,
    /// The container's directory.
    pub(crate) directory: PathBuf,
}

impl CgroupMounts<'_> {
    /// Plans a mount of type `cgroup` or `cgroup2`.
    pub(crate) fn what(&self, fresh: Fresh, read_only: bool, copied: Copied) -> Result<What> {
        if let Some(directory) = &self.unified {
            let attr = MountAttr {
                set: u64::from(fresh.attr),
                ..MountAttr::default()
            };
            let instead = Tree::open(directory, attr, copied).ok();
            // Options for cgroup v1 are left out.
            let named = fresh
                .data
                .into_iter()
                .find(|(key, _)| key.as_c_str() == c"source");
            let fresh = Fresh {
                kind: c"cgroup2".to_owned(),
                data: named.into_iter().collect(),
                ..fresh
            };
            return Ok(What::Unified { fresh, instead });
        }
        if fresh.kind.as_c_str() == c"cgroup2" {
            return Ok(What::Fresh(fresh));
        }
        let below = self
            .hierarchies
            .iter()
            .map(|it| self.hierarchy(it, read_only, copied));
        let below = below.collect::<Result<_>>()?;
        let label = fresh
            .data
            .into_iter()
            .find(|(key, _)| key.as_c_str() == c"context");
        let data = [
            (c"source".to_owned(), Some(c"tmpfs".to_owned())),
            (c"mode".to_owned(), Some(c"755".to_owned())),
        ];
        let base = Fresh {
            kind: c"tmpfs".to_owned(),
            data: data.into_iter().chain(label).collect(),
            // Read-only only after the directories are made.
            attr: fresh.attr & !(MountAttr::RDONLY as u32),
            below: MountAttr {
                set: u64::from(fresh.attr) & MountAttr::RDONLY,
                ..fresh.below
            },
            is_proc: false,
            keeps_mode: false,
            copy_up: false,
            root_label: None,
        };
        Ok(What::Hierarchies { base, below })
    }

    fn hierarchy(&self, of: &V1, read_only: bool, copied: Copied) -> Result<Hierarchy> {
        let what: HierarchyWhat = if self.namespace {
            Err(of
                .controllers
                .iter()
                .map(|it| c_string(it.as_str(), "cgroup"))
                .collect::<Result<_>>()?)
        } else {
            let set = if read_only { MountAttr::RDONLY } else { 0 };
            let attr = MountAttr {
                set: set | MountAttr::NOSUID | MountAttr::NODEV | MountAttr::NOEXEC,
                ..MountAttr::default()
            };
            let tree = Tree::open(&of.directory, attr, copied)
                .doing(|| of.directory.display().to_string())?;
            Ok(tree)
        };
        let links = of
            .controllers
            .iter()
            .filter(|it| **it != of.name && of.controllers.len() > 1);
        Ok(Hierarchy {
            name: c_string(of.name.as_str(), "cgroup")?,
            links: links
                .map(|it| c_string(it.as_str(), "cgroup"))
                .collect::<Result<_>>()?,
            what,
        })
    }
}

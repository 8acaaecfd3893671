//! The root file system of a container.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use orlop_fs::Mountinfo;
use orlop_oci_types::{Linux, NamespaceKind};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::cgroup_mount::CgroupMounts;
use super::devices::{DeviceStep, devices};
use super::few::Few;
use super::idmap::Mappings;
use super::mounts::{Opener, mounts, relative};
use super::namespaces::Namespaces;
use super::options::root_propagation;
use super::text::c_string;
use super::tree::Copied;
use super::what::{By, MountStep};
use crate::bundle::Bundle;
use crate::error::{Error, Result, While};
use crate::mount::{detach, name};
use crate::sys::{MountAttr, set_mount_attributes};

/// Everything needed to make a root file system from a tree.
#[derive(Debug)]
pub(crate) struct RootPlan {
    /// The tree: a detached copy, or an `O_PATH` descriptor until the child makes its copy.
    pub(crate) tree: OwnedFd,
    /// A namespace to copy instead of the host's.
    pub(crate) few: Option<Few>,
    /// Mounts that the caller has made, and their directories; attached before all others.
    pub(crate) attached: Vec<(OwnedFd, CString)>,
    /// The process that copies the tree and the bind sources.
    pub(crate) copied: Copied,
    /// Its mount point in the new mount namespace before the switch of the root.
    pub(crate) place: CString,
    /// The propagation from the host's mounts to the new namespace.
    pub(crate) host_propagation: (u64, bool),
    /// The final propagation of the root mount.
    pub(crate) propagation: Option<(u64, bool)>,
    pub(crate) mounts: Vec<MountStep>,
    /// `None` if the bundle provides `/dev`.
    pub(crate) devices: Option<Vec<DeviceStep>>,
    pub(crate) masked: Vec<CString>,
    pub(crate) mask_data: Vec<(CString, Option<CString>)>,
    pub(crate) read_only_paths: Vec<CString>,
    pub(crate) read_only: bool,
    /// The mount points of the host's `/proc` and `/sys`, if the host's root stays below the container's. None of them
    /// may stay in the same mount namespace, or the container could mount its own without restrictions.
    pub(crate) hidden: Option<Vec<CString>>,
}

impl RootPlan {
    /// Opens everything needed from the host.
    pub(crate) fn open(
        bundle: &Bundle,
        linux: &Linux,
        namespaces: &Namespaces,
        cgroups: &CgroupMounts<'_>,
        mappings: &mut Mappings,
        pivots: bool,
        in_users: bool,
    ) -> Result<Self> {
        let rootfs = bundle.rootfs();
        let told = || format!("root.path: {}", rootfs.display());
        let rootfs = rootfs
            .canonicalize()
            .doing(|| format!("{}: invalid rootfs", told()))?;
        let given = bundle.attached.at(&rootfs)?;
        let (tree, copied) = match given.map_or_else(|| detach(&rootfs), Ok) {
            // A caller who may not copy the host's mounts may do so in a user namespace.
            Err(Errno::PERM) if namespaces.makes(NamespaceKind::Mount) => {
                (name(&rootfs).doing(told)?, Copied::There)
            }
            copied => (
                copied.doing(|| format!("{}: open_tree", told()))?,
                Copied::Here,
            ),
        };
        let look = rustix::fs::fstat(&tree).doing(told)?;
        if FileType::from_raw_mode(look.st_mode) != FileType::Directory {
            return Err(Error::new(format!("{}: not a directory", told())));
        }
        let propagation = match linux.rootfs_propagation.as_str() {
            "" => None,
            word => Some(root_propagation(word).ok_or_else(|| {
                Error::new(format!(
                    "linux.rootfsPropagation: rootfsPropagation={word} is not supported"
                ))
            })?),
        };
        let host_propagation = propagation.unwrap_or((libc::MS_SLAVE, true));
        if copied == Copied::Here {
            let attr = propagation_of_tree(host_propagation.0);
            set_mount_attributes(tree.as_fd(), true, &attr).doing(told)?;
        }
        let own_dev = bundle.spec.mounts.iter().any(|mount| {
            let binds = mount.kind == "bind"
                || mount.options.iter().any(|it| it == "bind" || it == "rbind");
            relative(&mount.destination) == "dev" && binds
        });
        let paths = |paths: &[String], what: &str| -> Result<Vec<CString>> {
            let one = |(index, path): (usize, &String)| {
                c_string(relative(path), &format!("linux.{what}[{index}]"))
            };
            paths.iter().enumerate().map(one).collect()
        };
        let mut mask_data = vec![
            (c"source".to_owned(), Some(c"tmpfs".to_owned())),
            (c"nr_blocks".to_owned(), Some(c"1".to_owned())),
            (c"nr_inodes".to_owned(), Some(c"1".to_owned())),
        ];
        if !linux.mount_label.is_empty() {
            let label = c_string(linux.mount_label.as_str(), "linux.mountLabel")?;
            mask_data.push((c"context".to_owned(), Some(label)));
        }
        let own_mounts = namespaces.makes(NamespaceKind::Mount) && !namespaces.has_users();
        let of_few = if own_mounts && !in_users && pivots && !own_dev && copied == Copied::Here {
            let hides = !linux.masked_paths.is_empty();
            Few::of(bundle, cgroups, mappings, &rootfs, host_propagation, hides)?
        } else {
            None
        };
        let (few, opened) = of_few.unzip();
        let elsewhere = bundle.attached.but_at(&rootfs);
        // Without a copy of the host's mounts to attach them in, all of them are used for volumes.
        let elsewhere = elsewhere.filter(|_| few.is_none()).map(|(mount, path)| {
            let told = || path.display().to_string();
            let path = c_string(path.as_os_str().as_bytes(), "path of a mount")?;
            Ok((mount.try_clone().doing(told)?, path))
        });
        Ok(Self {
            attached: elsewhere.collect::<Result<_>>()?,
            tree,
            copied,
            place: c_string(rootfs.as_os_str().as_bytes(), "root.path")?,
            host_propagation,
            few,
            // It is private by now; mounts in it keep their own propagation.
            propagation: propagation.filter(|(flag, _)| *flag != libc::MS_PRIVATE),
            mounts: match opened {
                Some(opened) => opened,
                None => mounts(
                    bundle,
                    cgroups,
                    mappings,
                    namespaces.has_users(),
                    copied,
                    |source| {
                        Ok(Opener::is(who_opens(
                            source, bundle, &rootfs, namespaces, copied,
                        )))
                    },
                )?,
            },
            devices: if own_dev {
                None
            } else {
                let bound = namespaces.has_users() || in_users;
                Some(devices(linux, bound.then_some(copied))?)
            },
            masked: paths(&linux.masked_paths, "maskedPaths")?,
            mask_data,
            read_only_paths: paths(&linux.readonly_paths, "readonlyPaths")?,
            read_only: bundle.spec.root.as_ref().is_some_and(|root| root.readonly),
            hidden: if pivots {
                None
            } else {
                Some(tells_of_the_kernel(&rootfs)?)
            },
        })
    }
}

/// Chooses the process that opens a mount source.
fn who_opens(
    source: &Path,
    bundle: &Bundle,
    rootfs: &Path,
    namespaces: &Namespaces,
    copied: Copied,
) -> By {
    if copied == Copied::There {
        return By::Child;
    }
    if !namespaces.makes(NamespaceKind::Mount) {
        return By::Parent;
    }
    if !namespaces.has_users() {
        return By::Child;
    }
    // Only below the root file system can earlier mounts of the container change the source.
    let below = [rootfs, &bundle.rootfs()]
        .into_iter()
        .any(|root| source.starts_with(root));
    let leads_below = || source.canonicalize().is_ok_and(|it| it.starts_with(rootfs));
    if below || leads_below() {
        By::Asked
    } else {
        By::Parent
    }
}

impl RootPlan {
    /// Returns the propagation of the tree that the child copies.
    pub(crate) fn tree_propagation(&self) -> MountAttr {
        propagation_of_tree(self.host_propagation.0)
    }
}

/// Mounts in the container must not propagate to the host through their parent mount.
fn propagation_of_tree(host: u64) -> MountAttr {
    let reaches = host == libc::MS_SHARED || host == libc::MS_SLAVE;
    MountAttr::propagation(if reaches {
        libc::MS_SLAVE
    } else {
        libc::MS_PRIVATE
    })
}

/// Returns the mount points of `/proc` and `/sys` outside a root file system, inner ones first.
fn tells_of_the_kernel(rootfs: &Path) -> Result<Vec<CString>> {
    let table = Mountinfo::own().doing(|| "open /proc/self/mountinfo".to_owned())?;
    let mut points: Vec<_> = table
        .mounts()
        .filter(|mount| matches!(mount.kind(), "proc" | "sysfs"))
        .map(|mount| mount.point())
        .filter(|point| !point.starts_with(rootfs))
        .collect();
    points.sort();
    points
        .iter()
        .rev()
        .map(|point| c_string(point.as_os_str().as_bytes(), "path of a mount"))
        .collect()
}

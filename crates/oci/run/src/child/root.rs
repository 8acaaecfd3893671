//! Creates the root file system and switches to it.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use orlop_fs::detached;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, XattrFlags, chownat, fsetxattr, fstat, fstatfs, mkdirat,
    mknodat, openat, symlinkat, unlinkat,
};
use rustix::io::{Errno, dup};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
    open_tree, unmount,
};
use rustix::process::{chroot, fchdir, pivot_root};

use super::fresh::{make_file_system, make_fresh, make_fresh_with};
use super::walk::{Make, find};
use crate::mount::{detach, make_private_below};
use crate::null::is_null;
use crate::plan::{
    By, Copied, DeviceWhat, Few, Fresh, Hierarchy, MountStep, PROC_MAGIC, RootPlan, What, is_proc,
};
use crate::report::{At, Channel, Fault, Step, Word};
use crate::sys::{MountAttr, enter_namespaces, set_mount_attributes, unshare_mounts};

/// Attaches the tree and everything in it. Also returns a descriptor of the container's `/proc`, if it has its own.
pub(super) fn fill(plan: &mut RootPlan, channel: &Channel) -> Result<Option<OwnedFd>, Fault> {
    match &mut plan.few {
        Some(few) => enter_few(few, plan.tree.as_fd()).at(Step::PlaceRoot)?,
        None => place_in_copy(plan)?,
    }
    let root = dup(&plan.tree).at(Step::PlaceRoot)?;
    channel.did(Step::PlaceRoot, 0);
    let mut proc = None;
    for step in &mut plan.mounts {
        if let Some(made) = mount(root.as_fd(), step, channel)? {
            proc = Some(made);
        }
        channel.did(Step::Mount, step.index);
    }
    if let Some(devices) = &plan.devices {
        for (index, device) in devices.iter().enumerate() {
            make_device(root.as_fd(), &device.target, &device.what)
                .at_index(Step::Device, index as u16)?;
        }
        link_devices(root.as_fd()).at(Step::DevLinks)?;
        channel.did(Step::Device, 0);
    }
    Ok(proc)
}

/// Makes a mount namespace from one with few mounts, and attaches the tree there. The host's files stay reachable.
fn enter_few(few: &mut Few, tree: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let host = open_dir(CWD, c"/")?;
    enter_namespaces(few.namespace.as_fd(), libc::CLONE_NEWNS as u64)?;
    unshare_mounts()?;
    few.root = Some(open_dir(CWD, c"/")?);
    attach(tree, CWD, &few.place)?;
    fchdir(&host)?;
    chroot(c".")
}

/// Attaches the tree in a copy of the host's mounts.
fn place_in_copy(plan: &mut RootPlan) -> Result<(), Fault> {
    let host = open_dir(CWD, c"/").at(Step::HostPropagation)?;
    let (flag, recursive) = plan.host_propagation;
    set_mount_attributes(host.as_fd(), recursive, &MountAttr::propagation(flag))
        .at(Step::HostPropagation)?;
    if flag == libc::MS_SHARED {
        // Mounts at these paths must not propagate to the host.
        for place in plan
            .attached
            .iter()
            .map(|(_, path)| path)
            .chain([&plan.place])
        {
            let place = open_dir(CWD, place).at(Step::PlaceRoot)?;
            make_private_below(place.as_fd()).at(Step::PlaceRoot)?;
        }
    }
    for (mount, path) in &plan.attached {
        attach(mount.as_fd(), CWD, path).at(Step::PlaceRoot)?;
    }
    if plan.copied == Copied::There {
        plan.tree = detach(plan.place.as_c_str()).at(Step::PlaceRoot)?;
        set_mount_attributes(plan.tree.as_fd(), true, &plan.tree_propagation())
            .at(Step::PlaceRoot)?;
    }
    attach(plan.tree.as_fd(), CWD, &plan.place).at(Step::PlaceRoot)
}

/// Makes the working directory if it is missing. Entering it later reports errors.
pub(super) fn make_directory(plan: &RootPlan, path: &CStr) {
    let _ = find(plan.tree.as_fd(), path, Make::Directory, false);
}

/// Mounts over hidden paths: the first of a kind, of which the others are copies.
#[derive(Default)]
struct Masks {
    directory: Option<OwnedFd>,
    file: Option<OwnedFd>,
    /// The null device from the parent, used as the first mount over a file.
    given: Option<OwnedFd>,
}

/// Hides masked paths and makes paths read-only, once all mounts are in place.
pub(super) fn close(plan: &mut RootPlan) -> Result<(), Fault> {
    let root = plan.tree.as_fd();
    for step in &mut plan.mounts {
        if let Some(made) = step.made.take() {
            set_mount_attributes(made.as_fd(), false, &read_only())
                .at_index(Step::ReadOnlyMount, step.index)?;
        }
    }
    for (index, path) in plan.read_only_paths.iter().enumerate() {
        make_read_only(root, path).at_index(Step::ReadOnlyPath, index as u16)?;
    }
    let mut masks = Masks {
        given: plan.few.as_mut().and_then(|few| few.nothing.take()),
        ..Masks::default()
    };
    for (index, path) in plan.masked.iter().enumerate() {
        if plan.masked[..index].contains(path) {
            continue;
        }
        hide(root, path, &plan.mask_data, &mut masks).at_index(Step::Mask, index as u16)?;
    }
    if plan.read_only {
        set_mount_attributes(root, false, &read_only()).at(Step::ReadOnlyRoot)?;
    }
    Ok(())
}

/// Switches to the new root and drops the host's.
pub(super) fn enter(plan: &RootPlan) -> Result<(), Fault> {
    if let Some(root) = plan.few.as_ref().and_then(|few| few.root.as_ref()) {
        // The root of this namespace: the host's is in another one.
        fchdir(root).and_then(|()| chroot(c".")).at(Step::Pivot)?;
    }
    fchdir(&plan.tree).at(Step::Pivot)?;
    if let Some(hidden) = &plan.hidden {
        for point in hidden {
            hide_from_below(point).at(Step::Pivot)?;
        }
        // On an initial ramdisk the root mount cannot be replaced.
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&plan.tree, c"", CWD, c"/", flags).at(Step::Pivot)?;
        chroot(c".").at(Step::Pivot)?;
    } else {
        // The old root is now mounted over the new one and is unmounted from there.
        let old = open_dir(CWD, c"/").at(Step::Pivot)?;
        pivot_root(c".", c".").at(Step::Pivot)?;
        // Through its own descriptor: here `.` is the new root, whose mounts keep their propagation.
        fchdir(&old).at(Step::Pivot)?;
        set_mount_attributes(old.as_fd(), true, &MountAttr::propagation(libc::MS_SLAVE))
            .at(Step::Pivot)?;
        unmount(c".", UnmountFlags::DETACH).at(Step::Pivot)?;
    }
    rustix::process::chdir(c"/").at(Step::Pivot)?;
    if let Some((flag, recursive)) = plan.propagation {
        let root = open_dir(CWD, c"/").at(Step::RootPropagation)?;
        set_mount_attributes(root.as_fd(), recursive, &MountAttr::propagation(flag))
            .at(Step::RootPropagation)?;
    }
    Ok(())
}

/// Unmounts a mount of the host in this namespace, or hides it if it cannot be unmounted.
fn hide_from_below(point: &CStr) -> rustix::io::Result<()> {
    let place = match open_dir(CWD, point) {
        // It was removed together with another mount.
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        place => place?,
    };
    match set_mount_attributes(
        place.as_fd(),
        true,
        &MountAttr::propagation(libc::MS_PRIVATE),
    )
    .and_then(|()| unmount(point, UnmountFlags::DETACH))
    {
        Err(Errno::INVAL | Errno::PERM) => {
            let cover = make_file_system(c"tmpfs", &[], None, MountAttr::RDONLY as u32)?;
            self::place(cover.as_fd(), place.as_fd())
        }
        done => done,
    }
}

fn mount(
    root: BorrowedFd<'_>,
    step: &mut MountStep,
    channel: &Channel,
) -> Result<Option<OwnedFd>, Fault> {
    let index = step.index;
    let source = match &step.what {
        What::Source {
            source,
            by,
            is_at_proc,
        } => {
            let tree = match by {
                By::Asked => channel
                    .tell(&Word::Source(index))
                    .and_then(|()| channel.take())
                    .map_err(|errno| (Step::MountSource, errno)),
                By::Parent | By::Child => source.open(),
            };
            let tree = tree.map_err(|(step, errno)| Fault { step, index, errno })?;
            if *is_at_proc && !is_proc(&tree) {
                return Err(Errno::PERM).at_index(Step::MountInProc, index);
            }
            let look = fstat(&tree).at_index(Step::MountSource, index)?;
            step.directory = FileType::from_raw_mode(look.st_mode) == FileType::Directory;
            Some(tree)
        }
        _ => None,
    };
    let make = if step.directory {
        Make::Directory
    } else {
        Make::File
    };
    let hides = match &step.what {
        What::Fresh(fresh) if fresh.keeps_mode => {
            find(root, &step.target, Make::Nothing, step.plain_target).ok()
        }
        _ => None,
    };
    let target = match hides.as_ref().map(dup) {
        Some(Ok(target)) => target,
        _ => {
            find(root, &step.target, make, step.plain_target).at_index(Step::MountTarget, index)?
        }
    };
    let within_proc = fstatfs(&target).is_ok_and(|fs| fs.f_type == PROC_MAGIC);
    if within_proc && !step.within_proc {
        return Err(Fault {
            step: Step::MountInProc,
            index,
            errno: Errno::PERM,
        });
    }
    let mut made = None;
    match &step.what {
        What::Tree(tree) => {
            place(tree.as_fd(), target.as_fd()).at_index(Step::Mount, index)?;
            propagate(tree.as_fd(), step)?;
        }
        What::Source { .. } => {
            if let Some(tree) = source {
                place(tree.as_fd(), target.as_fd()).at_index(Step::Mount, index)?;
                propagate(tree.as_fd(), step)?;
            }
        }
        What::Fresh(fresh) => {
            let mode = match &hides {
                Some(hidden) => Some(fstat(hidden).at_index(Step::Mount, index)?.st_mode),
                // The file system has its own mode if it hides nothing.
                None => None,
            };
            let mount = make_fresh_with(fresh, mode).at_index(Step::Mount, index)?;
            if let Some(label) = &fresh.root_label {
                label_root(mount.as_fd(), label).at_index(Step::Mount, index)?;
            }
            let mount = if fresh.copy_up {
                let words = Word::CopyUp(mount, target);
                channel
                    .tell(&words)
                    .and_then(|()| channel.wait())
                    .at_index(Step::CopyUp, index)?;
                let Word::CopyUp(mount, target) = words else {
                    return Err(Fault {
                        step: Step::CopyUp,
                        index,
                        errno: Errno::BADMSG,
                    });
                };
                place(mount.as_fd(), target.as_fd()).at_index(Step::Mount, index)?;
                mount
            } else {
                place(mount.as_fd(), target.as_fd()).at_index(Step::Mount, index)?;
                mount
            };
            settle(mount.as_fd(), fresh, step)?;
            if step.read_only_later {
                step.made = Some(mount);
            } else if fresh.is_proc {
                made = Some(mount);
            }
        }
        What::Change { own, below } => {
            let mount = top_of(target.as_fd()).at_index(Step::Mount, index)?;
            set_mount_attributes(mount.as_fd(), false, own).at_index(Step::MountOptions, index)?;
            if !below.is_nothing() {
                set_mount_attributes(mount.as_fd(), true, below)
                    .at_index(Step::MountOptions, index)?;
            }
            propagate(mount.as_fd(), step)?;
        }
        What::Hierarchies { base, below } => {
            let mount = make_fresh(base).at_index(Step::Mount, index)?;
            place(mount.as_fd(), target.as_fd()).at_index(Step::Mount, index)?;
            for hierarchy in below {
                place_hierarchy(mount.as_fd(), hierarchy, base.attr | base.below.set as u32)
                    .at_index(Step::Mount, index)?;
            }
            settle(mount.as_fd(), base, step)?;
        }
        What::Unified { fresh, instead } => {
            let mount = match (make_fresh(fresh), instead) {
                (Ok(mount), _) => mount,
                // A user namespace may be allowed to see only its own cgroups.
                (Err(Errno::PERM | Errno::BUSY), Some(tree)) => {
                    tree.using(|tree| dup(tree)).at_index(Step::Mount, index)?
                }
                (Err(errno), _) => {
                    return Err(Fault {
                        step: Step::Mount,
                        index,
                        errno,
                    });
                }
            };
            place(mount.as_fd(), target.as_fd()).at_index(Step::Mount, index)?;
            settle(mount.as_fd(), fresh, step)?;
        }
    }
    Ok(made)
}

/// Sets the SELinux label of the root of a file system.
fn label_root(mount: BorrowedFd<'_>, label: &CStr) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(mount, c".", flags, Mode::empty())?;
    let label = label.to_bytes_with_nul();
    match fsetxattr(&root, c"security.selinux", label, XattrFlags::empty()) {
        // File systems of a user namespace have no labels.
        Err(Errno::OPNOTSUPP) => Ok(()),
        labelled => labelled,
    }
}

fn settle(mount: BorrowedFd<'_>, fresh: &Fresh, step: &MountStep) -> Result<(), Fault> {
    if !fresh.below.is_nothing() {
        let only_itself = matches!(step.what, What::Hierarchies { .. });
        set_mount_attributes(mount, !only_itself, &fresh.below)
            .at_index(Step::MountOptions, step.index)?;
    }
    propagate(mount, step)
}

fn propagate(mount: BorrowedFd<'_>, step: &MountStep) -> Result<(), Fault> {
    for &(flag, recursive) in &step.propagation {
        set_mount_attributes(mount, recursive, &MountAttr::propagation(flag))
            .at_index(Step::MountPropagation, step.index)?;
    }
    Ok(())
}

fn place_hierarchy(
    base: BorrowedFd<'_>,
    hierarchy: &Hierarchy,
    attr: u32,
) -> rustix::io::Result<()> {
    mkdirat(base, hierarchy.name.as_c_str(), Mode::from_raw_mode(0o755))?;
    let target = open_dir(base, &hierarchy.name)?;
    match &hierarchy.what {
        Ok(tree) => tree.using(|tree| place(tree, target.as_fd()))?,
        Err(options) => {
            let context = fsopen(c"cgroup", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_set_string(context.as_fd(), c"source", c"cgroup")?;
            for option in options {
                match option.to_bytes().strip_prefix(b"name=") {
                    Some(_) => {
                        fsconfig_set_flag(context.as_fd(), c"none")?;
                        let name = &option.to_bytes_with_nul()[5..];
                        let name = CStr::from_bytes_with_nul(name).map_err(|_| Errno::INVAL)?;
                        fsconfig_set_string(context.as_fd(), c"name", name)?;
                    }
                    None => fsconfig_set_flag(context.as_fd(), option.as_c_str())?,
                }
            }
            fsconfig_create(context.as_fd())?;
            let attr = MountAttrFlags::from_bits_retain(attr);
            let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attr)?;
            place(mount.as_fd(), target.as_fd())?;
        }
    }
    for link in &hierarchy.links {
        symlinkat(hierarchy.name.as_c_str(), base, link.as_c_str())?;
    }
    Ok(())
}

/// Moves a detached mount onto the target of a descriptor.
pub(super) fn place(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, c"", target, c"", flags)
}

fn attach(mount: BorrowedFd<'_>, at: BorrowedFd<'_>, path: &CStr) -> rustix::io::Result<()> {
    // The path was resolved before, without symlinks.
    move_mount(
        mount,
        c"",
        at,
        path,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}

/// Returns the topmost mount at the target of a descriptor.
fn top_of(target: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    open_tree(
        target,
        c"",
        OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH,
    )
}

fn open_dir(at: BorrowedFd<'_>, path: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

fn read_only() -> MountAttr {
    MountAttr {
        set: MountAttr::RDONLY,
        ..MountAttr::default()
    }
}

/// Finds a mount target that the bundle does not name. A symlink in the image must not redirect it over a kernel file
/// about this process.
pub(super) fn find_outside_proc(
    root: BorrowedFd<'_>,
    path: &CStr,
    plain: bool,
) -> rustix::io::Result<OwnedFd> {
    let target = find(root, path, Make::File, plain)?;
    if fstatfs(&target)?.f_type == PROC_MAGIC {
        return Err(Errno::PERM);
    }
    Ok(target)
}

fn make_device(root: BorrowedFd<'_>, target: &CStr, what: &DeviceWhat) -> rustix::io::Result<()> {
    if let DeviceWhat::Tree(tree) = what {
        let target = find_outside_proc(root, target, false)?;
        return tree.using(|tree| place(tree, target.as_fd()));
    }
    let DeviceWhat::Node {
        kind,
        device,
        mode,
        uid,
        gid,
    } = what
    else {
        return Ok(());
    };
    let path = target.to_bytes_with_nul();
    let cut = path.iter().rposition(|&byte| byte == b'/');
    let name = &path[cut.map_or(0, |at| at + 1)..];
    let name = CStr::from_bytes_with_nul(name).map_err(|_| Errno::INVAL)?;
    let mut parent = [0u8; libc::PATH_MAX as usize];
    let above = &path[..cut.unwrap_or(0)];
    parent
        .get_mut(..above.len())
        .ok_or(Errno::NAMETOOLONG)?
        .copy_from_slice(above);
    let parent = CStr::from_bytes_until_nul(&parent).map_err(|_| Errno::NAMETOOLONG)?;
    let directory = find(root, parent, Make::Directory, false)?;
    match mknodat(&directory, name, *kind, *mode, *device) {
        Ok(()) => {}
        // The node exists in the image. The device cgroup decides about its use.
        Err(Errno::EXIST) => return Ok(()),
        Err(error) => return Err(error),
    }
    if !uid.is_root() || gid.as_raw() != 0 {
        chownat(
            &directory,
            name,
            Some(*uid),
            Some(*gid),
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
    }
    Ok(())
}

fn link_devices(root: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let dev = find(root, c"dev", Make::Directory, false)?;
    for (target, name) in [
        (c"/proc/self/fd", c"fd"),
        (c"/proc/self/fd/0", c"stdin"),
        (c"/proc/self/fd/1", c"stdout"),
        (c"/proc/self/fd/2", c"stderr"),
        (c"/proc/kcore", c"core"),
    ] {
        if name == c"core"
            && rustix::fs::access(c"/proc/kcore", rustix::fs::Access::EXISTS).is_err()
        {
            continue;
        }
        match symlinkat(target, &dev, name) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    match unlinkat(&dev, c"ptmx", AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    symlinkat(c"pts/ptmx", &dev, c"ptmx")
}

/// Mounts an empty directory over a directory; does nothing for other files.
fn hide(
    root: BorrowedFd<'_>,
    path: &CStr,
    data: &[(std::ffi::CString, Option<std::ffi::CString>)],
    masks: &mut Masks,
) -> rustix::io::Result<()> {
    let target = match find(root, path, Make::Nothing, false) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        target => target?,
    };
    if FileType::from_raw_mode(fstat(&target)?.st_mode) != FileType::Directory {
        if let Some(first) = &masks.file {
            return place(copy_of(first)?.as_fd(), target.as_fd());
        }
        let nothing = masks.given.take().map_or_else(nothing, Ok)?;
        set_mount_attributes(nothing.as_fd(), false, &read_only())?;
        place(nothing.as_fd(), target.as_fd())?;
        masks.file = Some(nothing);
        return Ok(());
    }
    let copy = match &masks.directory {
        None => {
            let attr = MountAttr::RDONLY | MountAttr::NOSUID | MountAttr::NODEV | MountAttr::NOEXEC;
            let made = make_file_system(c"tmpfs", data, None, attr as u32)?;
            place(made.as_fd(), target.as_fd())?;
            masks.directory = Some(made);
            return Ok(());
        }
        Some(first) => copy_of(first)?,
    };
    place(copy.as_fd(), target.as_fd())
}

/// Makes a detached copy of a mount.
fn copy_of(mount: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(mount, c"", flags)
}

/// Opens the host's `/dev/null` and checks it, before the switch to the new root.
fn nothing() -> rustix::io::Result<OwnedFd> {
    let tree = detached(c"/dev/null")?;
    if is_null(&fstat(&tree)?) {
        Ok(tree)
    } else {
        Err(Errno::NODEV)
    }
}

fn make_read_only(root: BorrowedFd<'_>, path: &CStr) -> rustix::io::Result<()> {
    let target = match find(root, path, Make::Nothing, false) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        target => target?,
    };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let copy = open_tree(&target, c"", flags)?;
    set_mount_attributes(copy.as_fd(), true, &read_only())?;
    place(copy.as_fd(), target.as_fd())
}

//! Where CRIU restores a container: in the container's cgroup, and among mounts that nobody else sees, so
//! that none is left behind whatever becomes of us.

use std::ffi::{CString, OsString};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, fstat};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mount::{MoveMountFlags, UnmountFlags, move_mount, unmount};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::umask;

use super::external::is_bind;
use super::session::{Session, program, sockets};
use crate::bundle::Bundle;
use crate::cgroup::Entry;
use crate::child::{Make, find};
use crate::error::{Error, Result, While};
use crate::plan::{c_string, detach, name, relative};
use crate::sys::{
    CloneArgs, Image, MountAttr, Side, clone, execute, exit_now, set_mount_attributes,
};

/// The most that is read of why it could not be made.
const REASON_MAX: u64 = 4096;

/// What a CRIU is given that restores a container.
pub(super) struct Stage<'a> {
    pub(super) bundle: &'a Bundle,
    /// The cgroup that it is born in.
    pub(super) entry: &'a Entry,
    /// The directory where the root file system is put: that has to be a mount, and what is below it
    /// to be nothing else's place.
    pub(super) root: &'a Path,
    /// What is open in it, by our own numbers.
    pub(super) keeps: &'a [OwnedFd],
}

impl Stage<'_> {
    /// Starts CRIU there.
    pub(super) fn start(&self) -> Result<Session> {
        let (ours, theirs) = sockets()?;
        let (reason, tell) = pipe_with(PipeFlags::CLOEXEC).doing(|| "making a pipe".to_owned())?;
        let c = |text: OsString| CString::new(text.into_vec()).doing(|| "criu".to_owned());
        let program = c(program()?.into())?;
        let number = c_string(theirs.as_raw_fd().to_string(), "a descriptor")?;
        let args = Image::new(vec![c"criu".to_owned(), c"swrk".to_owned(), number]);
        let env = std::env::vars_os().map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            c(name)
        });
        let env = Image::new(env.collect::<Result<_>>()?);
        let born = CloneArgs {
            namespaces: libc::CLONE_NEWNS as u64,
            cgroup: self.entry.into.as_ref().map(AsFd::as_fd),
            sibling: false,
        };
        let process = match clone(&born).doing(|| "clone3: executing criu".to_owned())? {
            Side::Parent(process) => process,
            Side::Child => {
                let error = match self.set(&theirs) {
                    Ok(()) => format!("executing criu: {}", execute(&program, &args, &env)),
                    Err(error) => error.to_string(),
                };
                let _ = rustix::io::write(&tell, error.as_bytes());
                exit_now(1)
            }
        };
        let session = Session::of(ours, process.pid);
        drop((theirs, tell));
        let mut said = String::new();
        let reason = std::fs::File::from(reason);
        let heard = reason.take(REASON_MAX).read_to_string(&mut said);
        heard.doing(|| "executing criu".to_owned())?;
        if said.is_empty() {
            Ok(session)
        } else {
            Err(Error::new(said))
        }
    }

    /// What is done in the process that becomes CRIU.
    fn set(&self, socket: &OwnedFd) -> Result<()> {
        for tasks in &self.entry.tasks {
            rustix::io::write(tasks, b"0")
                .doing(|| "entering the container's cgroup".to_owned())?;
        }
        let host = name(Path::new("/")).doing(|| "/".to_owned())?;
        let slave = MountAttr::propagation(libc::MS_SLAVE);
        set_mount_attributes(host.as_fd(), true, &slave)
            .doing(|| "keeping mounts apart".to_owned())?;
        let mask = umask(Mode::empty());
        self.make_targets()?;
        umask(mask);
        let rootfs = self.bundle.rootfs();
        lay(&rootfs, self.root).doing(|| format!("root.path: {}", rootfs.display()))?;
        for fd in self.keeps.iter().chain([socket]) {
            fcntl_setfd(fd, FdFlags::empty()).doing(|| "passing a descriptor on".to_owned())?;
        }
        Ok(())
    }

    /// Makes what is mounted on, as it was made for the container that was written out: CRIU does not.
    /// What is in a mount is made there, so that all are mounted once, and go again.
    fn make_targets(&self) -> Result<()> {
        let rootfs = self.bundle.rootfs();
        lay(&rootfs, self.root).doing(|| format!("root.path: {}", rootfs.display()))?;
        let root = name(self.root).doing(|| self.root.display().to_string())?;
        let mounts = &self.bundle.spec.mounts;
        let tmpfs = mounts.iter().filter(|mount| mount.kind == "tmpfs");
        let tmpfs: Vec<String> = tmpfs.map(|it| relative(&it.destination)).collect();
        for (index, mount) in mounts.iter().enumerate() {
            let target = relative(&mount.destination);
            let told = || {
                format!(
                    "mounts[{index}]: making {:?} to be restored",
                    mount.destination
                )
            };
            // CRIU restores what is in the container's own file systems.
            let within = |outer: &String| {
                let inner = target.strip_prefix(outer.as_str());
                inner.is_some_and(|rest| rest.starts_with('/'))
            };
            if mount.kind == "cgroup" || tmpfs.iter().any(within) {
                continue;
            }
            let path = c_string(target.as_str(), "destination")?;
            if !is_bind(mount) {
                find(root.as_fd(), &path, Make::Directory, false).doing(told)?;
                continue;
            }
            let source = self.bundle.dir.join(&mount.source);
            let tree = detach(&source, true).doing(|| source.display().to_string())?;
            let look = fstat(&tree).doing(told)?;
            let make = match FileType::from_raw_mode(look.st_mode) {
                FileType::Directory => Make::Directory,
                _ => Make::File,
            };
            let target = find(root.as_fd(), &path, make, false).doing(told)?;
            let flags =
                MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(&tree, c"", &target, c"", flags).doing(told)?;
        }
        drop(root);
        unmount(self.root, UnmountFlags::DETACH).doing(|| self.root.display().to_string())
    }
}

/// Puts a tree in a place.
fn lay(tree: &PathBuf, place: &Path) -> rustix::io::Result<()> {
    let tree = detach(tree, true)?;
    // Nothing that is mounted here comes to where the tree is from.
    set_mount_attributes(tree.as_fd(), true, &MountAttr::propagation(libc::MS_SLAVE))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&tree, c"", rustix::fs::CWD, place, flags)
}

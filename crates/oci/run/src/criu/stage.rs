//! The environment in which CRIU restores a container: the container's cgroup and a private mount namespace, so that no
//! mount is left behind whatever happens to this process.

use std::convert::Infallible;
use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, fstat};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mount::{MoveMountFlags, UnmountFlags, move_mount, unmount};
use rustix::process::umask;

use super::dump::directory;
use super::external::is_bind;
use super::session::{Session, program, sockets};
use crate::bundle::Bundle;
use crate::cgroup::Entry;
use crate::child::{Make, find};
use crate::error::{Error, Result, While};
use crate::mount::{detach, name};
use crate::plan::{c_string, relative};
use crate::sys::{
    CloneArgs, Image, MountAttr, Side, clone, execute, exit_now, receive_with, send_with,
    set_mount_attributes,
};

/// Settings for a CRIU that restores a container.
pub(super) struct Stage<'a> {
    pub(super) bundle: &'a Bundle,
    /// The cgroup that CRIU starts in.
    pub(super) entry: &'a Entry,
    /// The mount point of the root file system. CRIU needs it to be a mount, with nothing else below it.
    pub(super) root: &'a Path,
    /// Descriptors that CRIU inherits under the same numbers.
    pub(super) keeps: &'a [OwnedFd],
    pub(super) images: &'a Path,
    pub(super) work: Option<&'a Path>,
}

impl Stage<'_> {
    /// Starts CRIU; also returns its descriptor numbers of the image and log directories. It cannot use ours: they are
    /// in our mounts, not in its own.
    pub(super) fn start(&self) -> Result<(Session, [i32; 2])> {
        let told = || "cannot execute CRIU".to_owned();
        let (hear, tell) = sockets()?;
        let c = |text: OsString| CString::new(text.into_vec()).doing(told);
        let program = c(program()?.into())?;
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
            here: false,
        };
        let process = match clone(&born).doing(|| "clone3: cannot start CRIU".to_owned())? {
            Side::Parent(process) => process,
            Side::Child => {
                // Restored processes start on the processor that CRIU runs on.
                let _ = orlop_process::processor::anywhere();
                let error = match self.become_criu(&program, &env, &tell) {
                    Ok(never) => match never {},
                    Err(error) => error.to_string(),
                };
                let _ = rustix::io::write(&tell, error.as_bytes());
                exit_now(1)
            }
        };
        drop(tell);
        let mut session = Session::of(None, process.pid);
        let (socket, said) = receive_with(hear.as_fd()).doing(told)?;
        let Some(socket) = socket else {
            return Err(Error::new(String::from_utf8_lossy(&said)));
        };
        session.socket = Some(socket);
        let (_, failed) = receive_with(hear.as_fd()).doing(told)?;
        if !failed.is_empty() {
            return Err(Error::new(String::from_utf8_lossy(&failed)));
        }
        let number = |bytes: &[u8]| bytes.try_into().map_or(-1, i32::from_ne_bytes);
        let (images, work) = said.split_at_checked(4).unwrap_or_default();
        Ok((session, [number(images), number(work)]))
    }

    /// Runs in the process that becomes CRIU; returns only if that fails.
    fn become_criu(&self, program: &CStr, env: &Image, tell: &OwnedFd) -> Result<Infallible> {
        for tasks in &self.entry.tasks {
            rustix::io::write(tasks, b"0")
                .doing(|| "cannot enter the container's cgroup".to_owned())?;
        }
        let host = name(Path::new("/")).doing(|| "/".to_owned())?;
        let slave = MountAttr::propagation(libc::MS_SLAVE);
        set_mount_attributes(host.as_fd(), true, &slave)
            .doing(|| "cannot set the mount propagation of / to slave".to_owned())?;
        let images = directory(self.images)?;
        let work = self.work.map(directory).transpose()?;
        let mask = umask(Mode::empty());
        self.make_targets()?;
        umask(mask);
        let rootfs = self.bundle.rootfs();
        lay(&rootfs, self.root).doing(|| format!("root.path: {}", rootfs.display()))?;
        // Opened here, so that CRIU looks up the directories in this mount namespace.
        let (theirs, own) = sockets()?;
        let passed = [Some(&own), Some(&images), work.as_ref()];
        for fd in self.keeps.iter().chain(passed.into_iter().flatten()) {
            fcntl_setfd(fd, FdFlags::empty())
                .doing(|| "cannot pass a file descriptor to CRIU".to_owned())?;
        }
        let number = |fd: Option<&OwnedFd>| fd.map_or(-1, AsRawFd::as_raw_fd).to_ne_bytes();
        let numbers = [number(Some(&images)), number(work.as_ref())].concat();
        send_with(tell.as_fd(), &numbers, theirs.as_fd())
            .doing(|| "cannot pass a socket to CRIU".to_owned())?;
        drop(theirs);
        let own = c_string(own.as_raw_fd().to_string(), "file descriptor")?;
        let args = Image::new(vec![c"criu".to_owned(), c"swrk".to_owned(), own]);
        let errno = execute(program, &args, env);
        Err(errno).doing(|| format!("cannot execute {}", program.to_string_lossy()))
    }

    /// Makes mount targets as they were made for the original container: CRIU does not. Targets inside a mount are made
    /// in that mount, so all are mounted once and unmounted again.
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
                    "mounts[{index}]: cannot prepare {:?} for the restore",
                    mount.destination
                )
            };
            // CRIU restores the content of the container's own file systems.
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
            let tree = detach(&source).doing(|| source.display().to_string())?;
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

/// Attaches a copy of a tree at a path.
fn lay(tree: &Path, place: &Path) -> rustix::io::Result<()> {
    let tree = detach(tree)?;
    // Mounts made here must not propagate to the source of the tree.
    set_mount_attributes(tree.as_fd(), true, &MountAttr::propagation(libc::MS_SLAVE))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&tree, c"", rustix::fs::CWD, place, flags)
}

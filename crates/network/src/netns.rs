//! Network namespaces: create, pin, enter and remove.

#![allow(unsafe_code)]

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use orlop_pool::started;
use orlop_process::processor::Here;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use rustix::process::getpid;
use rustix::thread::{
    LinkNameSpaceType, UnshareFlags, gettid, move_into_link_name_space, unshare_unsafe,
};

use crate::Error;
use crate::netlink::Rtnl;

/// Creates a network namespace with its loopback interface up. Only the file descriptor keeps it alive.
pub fn create() -> io::Result<OwnedFd> {
    on_own_thread(|| {
        leave_for_new()?;
        Ok(File::open("/proc/thread-self/ns/net")?.into())
    })
}

/// A new network namespace that other processes can enter by a path, as long as this value lives.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    /// Dropping this sender ends the thread that owns the namespace.
    _end: Sender<Infallible>,
}

impl Held {
    /// Creates a namespace that belongs to a new thread, with its loopback interface up. If this process dies and
    /// another gets the thread's number, the path leads to another namespace or nowhere.
    pub fn new() -> io::Result<Self> {
        let (end, ended) = channel();
        let (tell, told) = channel();
        let work = move || {
            let made = leave_for_new().map(|()| {
                let (process, thread) = (getpid(), gettid());
                let (process, thread) = (process.as_raw_nonzero(), thread.as_raw_nonzero());
                PathBuf::from(format!("/proc/{process}/task/{thread}/ns/net"))
            });
            let _ = tell.send(made);
            let _ = ended.recv();
        };
        let thread = std::thread::Builder::new()
            .name("orlop-netns".to_owned())
            .stack_size(256 << 10);
        started(thread.spawn(work))?;
        let made = told.recv();
        let path = made.unwrap_or_else(|_| {
            Err(io::Error::other(
                "the thread in the network namespace exited",
            ))
        })?;
        Ok(Self { path, _end: end })
    }

    /// Returns the path, which is valid in any process.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Moves the calling thread, and the threads and processes that it starts later, into a new network namespace with
/// its loopback interface up.
pub fn leave_for_new() -> io::Result<()> {
    // SAFETY: only the network namespace of this thread changes; no file
    // descriptor table is unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    loopback_up()
}

/// Creates a network namespace and pins it to `path`, which is created.
pub fn create_pinned(path: &Path) -> Result<OwnedFd, Error> {
    let namespace = create().map_err(|source| failed("create", path, source))?;
    pin(namespace.as_fd(), path)?;
    Ok(namespace)
}

/// Pins a namespace to `path`, which is created. The namespace lives until [`remove_pin`].
pub fn pin(namespace: BorrowedFd<'_>, path: &Path) -> Result<(), Error> {
    use std::os::fd::AsRawFd as _;
    let mount = || {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        File::options().create_new(true).write(true).open(path)?;
        let source = format!("/proc/self/fd/{}", namespace.as_raw_fd());
        mount_bind(source, path).inspect_err(|_| {
            let _ = std::fs::remove_file(path);
        })?;
        // A peer mount elsewhere would keep the namespace alive.
        mount_change(path, MountPropagationFlags::PRIVATE)?;
        Ok(())
    };
    mount().map_err(|source| failed("pin", path, source))
}

/// Removes a pin; a missing pin is not an error. The kernel removes the unused namespace (and its interfaces) later.
pub fn remove_pin(path: &Path) -> Result<(), Error> {
    match unmount(path, UnmountFlags::DETACH) {
        // No mount at the path (any more), or no such file.
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(failed("remove", path, error.into())),
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, error)),
        _ => Ok(()),
    }
}

/// Runs `work` on a separate thread inside a namespace, and waits for it.
pub fn inside<T: Send>(
    namespace: BorrowedFd<'_>,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    on_own_thread(|| {
        move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?;
        work()
    })
}

/// Brings up the loopback interface of the calling thread's namespace.
pub fn loopback_up() -> io::Result<()> {
    // The loopback interface is always the first one.
    Rtnl::open()?.set_up(1)
}

/// Runs `work` on a new thread: a thread that changed its namespace is never used for other work.
fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        // The caller only waits for this thread.
        let here = Here::stay();
        let thread = std::thread::Builder::new()
            .name("orlop-netns".to_owned())
            .stack_size(256 << 10);
        let thread = started(thread.spawn_scoped(scope, work))?;
        drop(here);
        thread.join().unwrap_or_else(|_| {
            Err(io::Error::other(
                "the thread in the network namespace exited",
            ))
        })
    })
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Netns {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_namespace_is_held_by_its_path_and_gone_with_who_held_it() {
        let held = Held::new().unwrap();
        let inode = |path: &Path| std::fs::metadata(path).map(|its| its.ino());
        let theirs = inode(held.path()).unwrap();
        assert_ne!(theirs, inode(Path::new("/proc/self/ns/net")).unwrap());
        let space = File::open(held.path()).unwrap();
        let up = inside(space.as_fd(), || Rtnl::open()?.link_by_index(1)).unwrap();
        assert!(up.is_some_and(|link| link.is_up()));
        let path = held.path().to_owned();
        drop(held);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while inode(&path).is_ok_and(|inode| inode == theirs) {
            assert!(std::time::Instant::now() < deadline, "its thread lives on");
            std::thread::yield_now();
        }
    }
}

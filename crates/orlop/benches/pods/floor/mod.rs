//! The floor: what the kernel takes for a pod without any daemon. It makes the same kinds of namespaces, interfaces,
//! cgroups and mounts as a pod of one container on a bridge, starts one process in them, and removes all of it.
//!
//! Every pod is made by a thread of its own, because a thread cannot leave the namespaces that it has entered.
#![allow(unsafe_code)]

mod cgroup;
mod link;

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use orlop_testkit::Scratch;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::mount::{mount, mount_bind, mount_change, unmount};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pivot_root};
use rustix::thread::{
    ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces, unshare_unsafe,
};

use cgroup::Cgroups;
use link::Route;

/// A bridge, a root file system and a cgroup in each hierarchy, beneath which pods are made.
pub(crate) struct Floor {
    scratch: Scratch,
    bridge: u32,
}

/// How long the steps of a pod's life took.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// A part of `run`.
    pub(crate) network: Duration,
    pub(crate) run: Duration,
    pub(crate) start: Duration,
    pub(crate) exec: Duration,
    pub(crate) down: Duration,
}

/// A pod that runs.
struct Pod {
    dir: PathBuf,
    netns: PathBuf,
    cgroups: Cgroups,
    process: Child,
}

impl Floor {
    pub(crate) fn new() -> io::Result<Self> {
        let scratch = Scratch::new();
        let bin = scratch.subdir("lower/bin");
        for dir in ["proc", "dev", "sys"] {
            scratch.subdir(&format!("lower/{dir}"));
        }
        fs::copy("/bin/busybox", bin.join("busybox"))?;
        Cgroups::new(scratch.id()).make_parents()?;
        let bridge = Route::open()?.make_bridge(scratch.id())?;
        Ok(Self { scratch, bridge })
    }

    /// One pod's life.
    pub(crate) fn cycle(&self, name: &str) -> io::Result<Life> {
        let (mut pod, mut life) = self.up(name)?;
        let begin = Instant::now();
        pod.exec()?;
        life.exec = begin.elapsed();
        let begin = Instant::now();
        pod.down()?;
        life.down = begin.elapsed();
        Ok(life)
    }

    /// How long it takes so many clients at once to run and remove so many pods each.
    pub(crate) fn throughput(&self, clients: usize, lives: usize) -> io::Result<Duration> {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let live = |client| {
                (0..lives).try_for_each(|n| {
                    let (pod, _) = self.up(&format!("life-{client}-{n}"))?;
                    pod.down()
                })
            };
            let clients: Vec<_> = (0..clients)
                .map(|client| scope.spawn(move || live(client)))
                .collect();
            clients.into_iter().try_for_each(joined)
        })?;
        Ok(start.elapsed())
    }

    fn up(&self, name: &str) -> io::Result<(Pod, Life)> {
        let (pod, mut life, begin) =
            std::thread::scope(|scope| joined(scope.spawn(|| self.up_in_this_thread(name))))?;
        pod.cgroups.join(pod.process.id())?;
        life.start = begin.elapsed();
        Ok((pod, life))
    }

    /// Also returns when the start of the container began.
    fn up_in_this_thread(&self, name: &str) -> io::Result<(Pod, Life, Instant)> {
        let dir = self.scratch.subdir(name);
        let netns = dir.join("netns");
        File::create(&netns)?;
        let (mut node, input) = (Route::open()?, no_input()?);
        let mut life = Life::default();
        let begin = Instant::now();
        unshare(UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS)?;
        mount_bind(OWN_NETWORK, &netns)?;
        node.make_pair(self.bridge, &File::open(&netns)?)?;
        Route::open()?.configure()?;
        life.network = begin.elapsed();
        let cgroups = Cgroups::new(&format!("{}/{name}", self.scratch.id()));
        cgroups.make()?;
        life.run = begin.elapsed();
        let begin = Instant::now();
        for part in ["upper", "work", "root"] {
            fs::create_dir(dir.join(part))?;
        }
        unshare(UnshareFlags::NEWNS | UnshareFlags::NEWPID)?;
        // Their files are out of sight in the pod's root.
        cgroups.join_this_thread()?;
        enter_root(&dir, &self.scratch.path("lower"))?;
        let process = busybox(&["sleep", "86399"], input).spawn()?;
        let pod = Pod {
            dir,
            netns,
            cgroups,
            process,
        };
        Ok((pod, life, begin))
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = Route::open().and_then(|mut node| node.remove(self.bridge));
        let _ = Cgroups::new(self.scratch.id()).remove();
    }
}

impl Pod {
    /// Runs `true` in the pod, like ExecSync.
    fn exec(&mut self) -> io::Result<()> {
        std::thread::scope(|scope| joined(scope.spawn(|| self.exec_in_this_thread())))
    }

    fn exec_in_this_thread(&self) -> io::Result<()> {
        let pid = Pid::from_child(&self.process);
        let (target, input) = (pidfd_open(pid, PidfdFlags::empty())?, no_input()?);
        self.cgroups.join_this_thread()?;
        unshare(UnshareFlags::FS)?;
        let all = ThreadNameSpaceType::MOUNT
            | ThreadNameSpaceType::PROCESS_ID
            | ThreadNameSpaceType::NETWORK
            | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
            | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
        move_into_thread_name_spaces(target.as_fd(), all)?;
        let status = busybox(&["true"], input).status()?;
        status
            .success()
            .then_some(())
            .ok_or_else(|| io::Error::other(format!("true: {status}")))
    }

    fn down(mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        unmount(&self.netns, UnmountFlags::DETACH)?;
        self.cgroups.remove()?;
        orlop_fs::remove_tree(&self.dir)
    }
}

const OWN_NETWORK: &str = "/proc/thread-self/ns/net";

/// Makes an overlay with `/proc`, `/dev` and `/sys` the root of this thread.
fn enter_root(dir: &Path, lower: &Path) -> io::Result<()> {
    mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )?;
    let root = dir.join("root");
    let options = format!(
        "lowerdir={},upperdir={},workdir={}\0",
        lower.display(),
        dir.join("upper").display(),
        dir.join("work").display()
    );
    let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).expect("one NUL");
    let flags = MountFlags::empty();
    mount("overlay", &root, "overlay", flags, options)?;
    mount("proc", root.join("proc"), "proc", flags, None)?;
    mount("tmpfs", root.join("dev"), "tmpfs", flags, None)?;
    mount("sysfs", root.join("sys"), "sysfs", flags, None)?;
    std::env::set_current_dir(&root)?;
    pivot_root(".", ".")?;
    Ok(unmount(".", UnmountFlags::DETACH)?)
}

fn busybox(arguments: &[&str], input: File) -> Command {
    let mut command = Command::new("/bin/busybox");
    command.args(arguments).stdin(input);
    command
}

/// The pod's `/dev` has none: it is opened before.
fn no_input() -> io::Result<File> {
    File::open("/dev/null")
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the table of descriptors stays shared with the other threads.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().expect("the thread does not panic")
}

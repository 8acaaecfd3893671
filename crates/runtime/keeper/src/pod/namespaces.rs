//! Enters the pod's namespaces: new ones, or ones that belong to a new user namespace.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use orlop_keeper_protocol::{IdMap, Setup};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::init;
use crate::read::read_start;
use crate::sys::namespace::{UnshareFlags, unshare};
use crate::sys::process;
use crate::text::text;

/// Sent in place of a PID, which it can never be: an error message follows.
const COMPLAINT: [u8; 4] = [0xff; 4];
/// A longer message is cut.
const MAX_COMPLAINT: u64 = 1024;

/// The namespaces that result from a user namespace.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    /// The user namespace that owns the others.
    pub(crate) user: Option<OwnedFd>,
    /// The init of the shared PID namespace, if it belongs to the user namespace.
    pub(crate) init: Option<Pid>,
}

/// Enters the pod's network, IPC and UTS namespaces.
pub(crate) fn enter(setup: &Setup) -> Result<Spaces, String> {
    let mut flags = UnshareFlags::empty();
    flags.set(UnshareFlags::NEWNET, setup.net);
    flags.set(UnshareFlags::NEWIPC, setup.ipc);
    flags.set(UnshareFlags::NEWUTS, setup.uts);
    if !setup.net_path.as_os_str().is_empty() {
        let path = setup.net_path.display();
        let space = open_ns(&setup.net_path)?;
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| format!("cannot join the network namespace {path}: {error}"))?;
    }
    if setup.uid_map.is_empty() && setup.gid_map.is_empty() {
        if !flags.is_empty() {
            unshare(flags)
                .map_err(|error| format!("cannot create the pod's namespaces: {error}"))?;
        }
        return Ok(Spaces::default());
    }
    enter_owned(setup, flags)
        .map_err(|error| format!("cannot create the pod's user namespace: {error}"))
}

/// Lets a child create the user namespace and the others in it, and joins the others. The keeper itself stays in the
/// host's user namespace.
#[allow(unsafe_code, reason = "this comes before any thread")]
fn enter_owned(setup: &Setup, flags: UnshareFlags) -> Result<Spaces, String> {
    let text = |error: std::io::Error| error.to_string();
    let (mut ours, theirs) = UnixStream::pair().map_err(text)?;
    // SAFETY: the only other thread, the log's, is started once there is a pod.
    let child = match unsafe { process::fork() }.map_err(text)? {
        process::Fork::Parent(child) => child,
        process::Fork::Child => {
            drop(ours);
            let ended = make_owned(&theirs, flags, setup.pid);
            if let Err(complaint) = &ended {
                let _ = (&theirs).write_all(&COMPLAINT);
                let _ = (&theirs).write_all(complaint.as_bytes());
            }
            process::exit_now(i32::from(ended.is_err()));
        }
    };
    drop(theirs);
    let proc = format!("/proc/{}", child.as_raw_pid());
    answer(&ours)?;
    write_map(&format!("{proc}/uid_map"), &setup.uid_map)?;
    write_map(&format!("{proc}/gid_map"), &setup.gid_map)?;
    ours.write_all(&[0]).map_err(text)?;
    let init = Pid::from_raw(i32::from_ne_bytes(answer(&ours)?));

    for (flag, name, kind) in [
        (UnshareFlags::NEWNET, "net", LinkNameSpaceType::Network),
        (
            UnshareFlags::NEWIPC,
            "ipc",
            LinkNameSpaceType::InterProcessCommunication,
        ),
        (
            UnshareFlags::NEWUTS,
            "uts",
            LinkNameSpaceType::HostNameAndNISDomainName,
        ),
    ] {
        if flags.contains(flag) {
            let space = open_ns(format!("{proc}/ns/{name}"))?;
            move_into_link_name_space(space.as_fd(), Some(kind))
                .map_err(|error| format!("cannot join its {name} namespace: {error}"))?;
        }
    }
    let user = open_ns(format!("{proc}/ns/user"))?;
    // The child ends; the keeper holds its namespaces.
    drop(ours);
    let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
    Ok(Spaces {
        user: Some(user),
        init,
    })
}

/// Reads the child's answer or its error message.
fn answer(mut from: &UnixStream) -> Result<[u8; 4], String> {
    let mut answer = [0; 4];
    from.read_exact(&mut answer)
        .map_err(|error| format!("the process in the user namespace has exited: {error}"))?;
    if answer != COMPLAINT {
        return Ok(answer);
    }
    let complaint = read_start(from, MAX_COMPLAINT).unwrap_or_default();
    Err(text(&complaint))
}

/// Runs in the child: creates a user namespace and, once its ID maps are written, the other namespaces in it.
fn make_owned(mut parent: &UnixStream, flags: UnshareFlags, pid: bool) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    unshare(UnshareFlags::NEWUSER).map_err(|error| error.to_string())?;
    parent.write_all(&[0; 4]).map_err(text)?;
    parent.read_exact(&mut [0]).map_err(text)?;
    rustix::thread::set_thread_gid(rustix::process::Gid::ROOT).map_err(|e| e.to_string())?;
    rustix::thread::set_thread_uid(rustix::process::Uid::ROOT).map_err(|e| e.to_string())?;
    if !flags.is_empty() {
        unshare(flags).map_err(|error| error.to_string())?;
    }
    let init = if pid {
        init::spawn(process::Parent::Grandparent, false)?.as_raw_pid()
    } else {
        0
    };
    parent.write_all(&init.to_ne_bytes()).map_err(text)?;
    // Keeps the namespaces until the keeper has opened them.
    let _ = parent.read(&mut [0]);
    Ok(())
}

fn write_map(path: &str, map: &[IdMap]) -> Result<(), String> {
    let mut lines = String::new();
    for range in map {
        let _ = writeln!(lines, "{} {} {}", range.inside, range.outside, range.count);
    }
    fs::write(path, lines).map_err(|error| format!("writing {path}: {error}"))
}

fn open_ns(path: impl AsRef<Path>) -> Result<OwnedFd, String> {
    let path = path.as_ref();
    open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| format!("opening {}: {error}", path.display()))
}

//! Startup of a keeper, from `execve` to the event loop.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use orlop_keeper_protocol::{
    Body, Failure, FailureKind, Frame, FrameBuffer, Message, Setup, VERSION,
};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{chdir, set_child_subreaper, setsid, umask};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::keeper::Keeper;
use crate::pod::{Given, Pod, lock_dir, set_open_files};
use crate::sys::{heap, process, signal};

/// The keeper's log in the pod's directory: panics, and errors that no reply can carry.
const LOG_NAME: &str = "keeper.log";

/// Detaches from the daemon, receives the pod's setup, and runs the keeper.
pub(crate) fn run() -> ExitCode {
    heap::be_frugal();
    let socket = match detach() {
        Ok(Some(socket)) => socket,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orlop-keeper: cannot detach from the daemon: {error}");
            return ExitCode::FAILURE;
        }
    };
    // Without a daemon on standard input the keeper has no peer.
    let Some((request, setup, given, buffer)) = first_message(&socket) else {
        eprintln!("orlop-keeper is started by the orlop daemon; do not run it by hand");
        return ExitCode::FAILURE;
    };
    match settle(setup, given) {
        Ok((pod, children)) => match Keeper::new(pod, children, socket, buffer, request) {
            Ok(keeper) => keeper.run(),
            Err(error) => {
                eprintln!("orlop-keeper: {error}");
                ExitCode::FAILURE
            }
        },
        Err(failure) => {
            if let Ok(bytes) = Frame::encode(&failure, request, 0) {
                let _ = orlop_keeper_protocol::send(&socket, &bytes, &[]);
            }
            ExitCode::FAILURE
        }
    }
}

/// Leaves the daemon's session and closes all inherited descriptors except the socket. Returns `None` in the process
/// that the daemon started, which then exits.
#[allow(unsafe_code, reason = "this is the start of the process")]
fn detach() -> io::Result<Option<OwnedFd>> {
    // The starter may have left its session already. Older daemons and callers without a daemon have not.
    let left = std::env::args_os()
        .nth(2)
        .is_some_and(|word| word == "left");
    // SAFETY: no thread has been started yet.
    if !left && matches!(unsafe { process::fork() }?, process::Fork::Parent(_)) {
        return Ok(None);
    }
    setsid()?;
    // SAFETY: nothing has been opened yet; what is open came from the daemon.
    unsafe { process::close_from(3) }?;
    chdir("/")?;
    umask(Mode::from_bits_truncate(0o022));
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok(Some(socket))
}

/// Waits for the first message, which describes the pod.
fn first_message(socket: &OwnedFd) -> Option<(u32, Setup, Given, FrameBuffer)> {
    let (frame, buffer) = orlop_keeper_protocol::first_frame(socket)?;
    let setup = Setup::decode(&frame.payload).ok()?;
    let given = Given::with(&setup, frame.fds);
    (frame.kind == Setup::KIND).then_some((frame.request, setup, given, buffer))
}

/// Creates the pod's cgroups, namespaces and mounts.
#[inline(never)]
fn settle(setup: Setup, given: Given) -> Result<(Pod, OwnedFd), Failure> {
    let failure = |message: String| Failure {
        kind: FailureKind::Failed,
        message,
        ..Failure::default()
    };
    if setup.version != VERSION {
        return Err(Failure {
            kind: FailureKind::Unsupported,
            ..failure(format!("unsupported protocol version {}", setup.version))
        });
    }
    if let Some(limits) = &setup.open_files {
        // Before this process has any children.
        set_open_files(limits).map_err(&failure)?;
    }
    let dir = lock_dir(&setup.dir).map_err(&failure)?;
    divert_errors(&setup.dir).map_err(|error| {
        failure(format!(
            "cannot open a log in {}: {error}",
            setup.dir.display()
        ))
    })?;
    set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| failure(format!("cannot become a child subreaper: {error}")))?;
    let pod = Pod::make(setup, dir, given).map_err(failure)?;
    // After the fork of the pod's init, which handles signals differently.
    let children = signal::install()
        .map_err(|error| failure(format!("cannot install signal handlers: {error}")))?;
    Ok((pod, children))
}

/// Redirects standard error to a file in the pod's directory.
fn divert_errors(dir: &Path) -> io::Result<()> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(dir.join(LOG_NAME))?;
    dup2_stderr(file.as_fd())?;
    Ok(())
}

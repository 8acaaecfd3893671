//! Code that all supervisors of pods share: start, clients and lifetime.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::arguments::{Settings, Words};
use crate::background::background;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::ready::{Streams, spawn};
use crate::state_dir::PodDir;

/// Who stands for a process in a sandbox sees its end by itself, and is to tell it before the pod's.
pub(crate) const AFTER: Duration = Duration::from_millis(100);

/// What a pod shares: what is there, or a new one once what was there is cleared away. One that was made with
/// its pod has no second.
pub(crate) fn ensure_one(
    settings: &Settings,
    pod: &PodDir,
    bundle: &Path,
    is_there: impl FnOnce(&Endpoint) -> bool,
    clear_away: impl FnOnce(Option<&Endpoint>) -> Result<()>,
) -> Result<Endpoint> {
    pod.make()?;
    let alone = pod.lock()?;
    let before = pod.endpoint().ok();
    match before {
        Some(shared) if is_there(&shared) => return Ok(shared),
        _ if pod.was_made() => return Err(pod.has_ended()),
        before => clear_away(before.as_ref())?,
    }
    watch_over(settings, pod, bundle, None, &alone)?;
    pod.endpoint()
}

/// What a pod shares, as a container of its own: who watches over it is that container's process.
pub(crate) fn make_once_cleared(
    settings: &Settings,
    pod: &PodDir,
    words: &Words,
    bundle: &Path,
    clear_away: impl FnOnce() -> Result<()>,
) -> Result<()> {
    pod.make()?;
    let alone = pod.lock()?;
    clear_away()?;
    pod.note_made()?;
    watch_over(settings, pod, bundle, words.option("--pid-file"), &alone)
}

/// Starts the one that watches over a pod, which makes what there is to be watched. It holds the lock, too,
/// until that is made: who starts it may be killed.
fn watch_over(
    settings: &Settings,
    pod: &PodDir,
    bundle: &Path,
    pid_file: Option<PathBuf>,
    lock: &File,
) -> Result<()> {
    // Not `--bundle`: who ends all that works on that container is to spare what is the pod's.
    let words = ["supervise", "--from"].map(Into::into);
    let more = [bundle.into(), "--pod".into(), pod.id.clone().into()];
    let mut words: Vec<_> = words.into_iter().chain(more).collect();
    if let Some(path) = pid_file {
        words.extend(["--pid-file".into(), path.into()]);
    }
    let failed = |source| Error::Io {
        doing: "passing the lock of a pod to the supervisor".into(),
        source,
    };
    let shared = lock.try_clone().map_err(failed)?;
    fcntl_setfd(&shared, FdFlags::empty()).map_err(|errno| failed(errno.into()))?;
    words.extend(["--lock".into(), shared.as_raw_fd().to_string().into()]);
    spawn(settings, &words, Streams::None)
}

/// Waits for the end of the process of this number, and a moment longer.
pub(crate) fn outlive(pid: u32) {
    let Some(pid) = Pid::from_raw(pid as i32) else {
        return;
    };
    let Ok(shim) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    let mut fds = [PollFd::new(&shim, PollFlags::IN)];
    while poll(&mut fds, None) == Err(rustix::io::Errno::INTR) {}
    thread::sleep(AFTER);
}

/// Serves each who connects on a thread of its own.
pub(crate) fn serve(path: &Path, each: impl Fn(UnixStream) + Clone + Send + 'static) -> Result<()> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).map_err(Error::file("listening at", path))?;
    background(move || {
        for socket in listener.incoming() {
            match socket {
                Ok(socket) => {
                    let each = each.clone();
                    // One that can't be served is turned away.
                    let _ = background(move || each(socket));
                }
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    })
}

//! Code that the supervisors of both kinds share: start, clients and lifetime.

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

/// Delay before the pod's end is reported: the proxies detect the end of their processes and must report it first.
pub(crate) const AFTER: Duration = Duration::from_millis(100);

/// Returns the running shim or sandbox of a pod. If it does not run, its remains are cleared away and a new one is
/// started. An explicitly created sandbox is not recreated.
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

/// Creates the shim or sandbox of a pod as a container of its own, whose process is the supervisor.
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

/// Starts the supervisor, which starts the shim or sandbox. It shares the lock until that is done, because its parent
/// may be killed.
fn watch_over(
    settings: &Settings,
    pod: &PodDir,
    bundle: &Path,
    pid_file: Option<PathBuf>,
    lock: &File,
) -> Result<()> {
    // Not `--bundle`: the kill of all programs for this container must spare the pod's supervisor.
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

/// Waits for the exit of a process, plus [`AFTER`].
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

/// Serves each connection on its own thread.
pub(crate) fn serve(path: &Path, each: impl Fn(UnixStream) + Clone + Send + 'static) -> Result<()> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).map_err(Error::file("listening at", path))?;
    background(move || {
        for socket in listener.incoming() {
            match socket {
                Ok(socket) => {
                    let each = each.clone();
                    // A connection without a thread is closed.
                    let _ = background(move || each(socket));
                }
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    })
}

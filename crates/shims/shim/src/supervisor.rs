//! What stays beside a pod's shim: it starts the shim, hears its events and log, and ends the
//! processes in it whose stand-ins are killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use orlop_containerd_api::Any;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, pidfd_open, setsid};

use crate::arguments::{Sandboxer, Settings, Words};
use crate::background::background;
use crate::command::Command;
use crate::controller::{self, Asked, Controller};
use crate::error::{Error, Result};
use crate::processes::note_shared;
use crate::questions::{self, Question};
use crate::ready::{Ready, Streams, inherited, spawn};
use crate::spec::Spec;
use crate::state_dir::{PodDir, StateDir, private};
use crate::task::{Endpoint, Tasks};
use crate::{events, hostname, launch, pause, proxy};

/// The most that is kept of what a shim says.
const LARGEST_LOG: u64 = 1 << 20;
/// Nor have those more to say that announce themselves, or ask.
const LONGEST_WORDS: u64 = 64 << 10;
/// No request is larger.
const LARGEST_CONFIG: u64 = 16 << 20;
/// Who stands for a process in a sandbox sees its end by itself, and is to tell it before the pod's.
const AFTER: Duration = Duration::from_millis(100);
const SIGKILL: u32 = 9;

/// The shim of a pod: the one that runs, or a new one.
pub(crate) fn ensure(settings: &Settings, pod: &PodDir, bundle: &Path) -> Result<Endpoint> {
    let is_there = |shim: &Endpoint| shim.has_come_up() && Tasks::connect(shim).is_ok();
    ensure_one(settings, pod, bundle, is_there, |before| {
        clear_away(settings, pod, before);
        Ok(())
    })
}

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

/// The shim of a pod as a container of its own.
pub(crate) fn make(settings: &Settings, pod: &PodDir, words: &Words, bundle: &Path) -> Result<()> {
    make_once_cleared(settings, pod, words, bundle, || {
        clear_away(settings, pod, pod.endpoint().ok().as_ref());
        Ok(())
    })
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
pub(crate) fn watch_over(
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

/// Lives as long as the shim.
pub(crate) fn run(settings: &Settings, state: &StateDir, words: &Words) -> Result<()> {
    let ready = Ready::of(words)?;
    let pod = state.pod(&words.needed("--pod")?.to_string_lossy())?;
    let lock = inherited(words, "--lock")?;
    // Whoever starts us may be killed with all its group.
    let _ = setsid();
    let begun = begin(settings, state, &pod, &words.needed("--from")?);
    let endpoint = ready.tell(begun.and_then(|endpoint| {
        proxy::note_own_pid(words)?;
        Ok(endpoint)
    }))?;
    drop(lock);
    let waited = controller::of(settings).wait(&pod, &endpoint);
    if matches!(waited, Err(Error::Refused { .. })) {
        // It does not tell; its own end is one of what it has made, too.
        outlive(endpoint.pid);
    } else {
        // Those that stand for processes in it see it themselves.
        thread::sleep(AFTER);
    }
    Ok(())
}

fn begin(
    settings: &Settings,
    state: &StateDir,
    pod: &PodDir,
    container: &Path,
) -> Result<Endpoint> {
    let bundle = pod.bundle();
    let rootfs = bundle.join("rootfs");
    private(&rootfs)?;
    pause::write(&rootfs.join("pause"))?;
    let asked_for = Spec::read(container)?;
    note_shared(pod, &asked_for)?;
    let mut spec = asked_for.of_pod(&pod.id);
    if spec.namespace("uts").is_some() {
        // Namespaces do not reach into a machine: it has to be told.
        spec = spec.with_hostname(hostname::of(&asked_for)?);
    }
    spec.write(&bundle)?;
    let (told, of) = (state.clone(), pod.clone());
    serve(&pod.events(), move |socket| {
        events::hear(&told, &of, socket);
    })?;
    let (told, watched, of) = (state.clone(), pod.clone(), settings.clone());
    serve(&pod.supervisor(), move |socket| {
        watch(&of, &told, &watched, socket);
    })?;
    keep_log(pod, &bundle)?;
    let controller = controller::of(settings);
    let endpoint = controller.bootstrap(pod)?;
    // Whoever comes after us, should we die, finds it by this.
    pod.note_endpoint(&endpoint)?;
    let explained = |error: Error| match launch::last_words(pod) {
        words if words.is_empty() => error,
        words => Error::Failed(format!("{error}; log of the shim: {words}")),
    };
    let config = controller::config_of(container);
    let config = orlop_fs::read_file(&config, LARGEST_CONFIG).ok();
    let asked = Asked {
        network: spec
            .namespace("network")
            .map_or_else(String::new, |path| path.to_string_lossy().into_owned()),
        annotations: spec.annotations().into_iter().collect(),
        config: config.map(|value| Any {
            type_url: "runtime.v1.PodSandboxConfig".into(),
            value,
        }),
    };
    let started = controller
        .create(pod, &endpoint, &asked)
        .and_then(|()| controller.start(pod, &endpoint));
    let started = started.and_then(|endpoint| {
        has_our_platform(controller.as_ref(), pod, &endpoint)?;
        Ok(endpoint)
    });
    let endpoint = started.map_err(|error| {
        clear_away(settings, pod, Some(&endpoint));
        explained(error)
    })?;
    pod.note_endpoint(&endpoint)?;
    if let Sandboxer::Proxy { address, .. } = &settings.sandboxer {
        let (state, pod) = (state.clone(), pod.clone());
        let controller = Endpoint::of_controller(address);
        background(move || {
            // What is not told stays unknown.
            let _ = events::subscribe(&state, &pod, &controller);
        })?;
    }
    Ok(endpoint)
}

/// Images here are those of this machine's platform; a sandbox whose programs are others' runs none of them.
fn has_our_platform(controller: &dyn Controller, pod: &PodDir, endpoint: &Endpoint) -> Result<()> {
    let ours = controller::our_platform();
    // Many do not say it.
    let Ok(Some(theirs)) = controller.platform(pod, endpoint) else {
        return Ok(());
    };
    // An image for such a machine names itself.
    if theirs == ours || theirs.starts_with("wasi") || theirs.ends_with("/wasm") {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "the sandbox runs programs for {theirs}, but the images of this node are for {ours}; use \
         another runtime handler for this pod"
    )))
}

/// Ends a shim that has not come up, or is dead, with what it has made by then: that would be in
/// the way of the next try.
fn clear_away(settings: &Settings, pod: &PodDir, shim: Option<&Endpoint>) {
    if let Some(shim) = shim.filter(|shim| Tasks::connect(shim).is_ok()) {
        let controller = controller::of(settings);
        // What it can't do itself its program does without it.
        let _ = controller.stop(pod, shim);
        controller.shutdown(pod, shim);
    }
    launch::clean_up_pod(settings, pod, shim);
    // Its runtime may have died in the middle, and would not make a second time what it has left.
    let _ = orlop_fs::remove_tree(&pod.bundle());
}

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

/// What a shim prints goes to a pipe of this name in its working directory.
pub(crate) fn keep_log(pod: &PodDir, bundle: &Path) -> Result<()> {
    let fifo = bundle.join("log");
    make_fifo(&fifo)?;
    // With a writing end of our own it never comes to an end.
    let options = File::options().read(true).write(true).open(&fifo);
    let mut from = options.map_err(Error::file("opening", &fifo))?;
    let path = pod.log();
    let to = File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path);
    let mut to = to.map_err(Error::file("opening", &path))?;
    background(move || {
        let mut kept = 0;
        let mut bytes = [0; 4096];
        while let Ok(read) = from.read(&mut bytes) {
            if kept < LARGEST_LOG && to.write_all(&bytes[..read]).is_ok() {
                kept += read as u64;
            }
        }
    })
}

pub(crate) fn make_fifo(path: &Path) -> Result<()> {
    let made = mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
    match made {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(errno) => Err(Error::file("creating the FIFO", path)(errno.into())),
    }
}

/// Listens to one who stands for a process, and has the shim forget a command that has ended. Who
/// leaves without a word was killed, and so is what it stood for.
fn watch(settings: &Settings, state: &StateDir, pod: &PodDir, socket: UnixStream) {
    let answer = |question, of: &str| questions::answer(settings, pod, question, of);
    let Some(Watched { id, exec, ended }) = watched(socket, answer) else {
        return;
    };
    if let (false, Ok(task)) = (exec.is_empty(), state.task(&id)) {
        // The shim has its fifos open.
        let _ = orlop_fs::remove_tree(&task.dir.join(&exec));
    }
    // What the shim can't do now it could not do later.
    let _ = match (ended, exec.is_empty()) {
        (true, true) => return,
        // Some wait for the descendants that keep its output open.
        (true, false) => pod.tasks().and_then(|mut tasks| tasks.delete(&id, &exec)),
        (false, _) => end(pod, &id, &exec),
    };
}

/// A process that was stood for.
pub(crate) struct Watched {
    pub(crate) id: String,
    pub(crate) exec: String,
    /// By itself; else whoever stood for it was killed.
    pub(crate) ended: bool,
}

/// Listens to one who stands for a process, until it leaves; or to the daemon, which asks something.
pub(crate) fn watched(
    mut socket: UnixStream,
    answer: impl FnOnce(Question, &str) -> Option<String>,
) -> Option<Watched> {
    let mut lines = BufReader::new(socket.try_clone().ok()?.take(LONGEST_WORDS))
        .lines()
        .map_while(std::io::Result::ok);
    let first = lines.next()?;
    if let Some(question) = Question::of(&first) {
        if let Some(answer) = answer(question, &lines.next()?) {
            let _ = socket.write_all(answer.as_bytes());
            if questions::tells_the_end(question, &answer) {
                // Its own end is the sandbox's.
                std::process::exit(0);
            }
        }
        return None;
    }
    Some(Watched {
        id: first,
        exec: lines.next()?,
        ended: lines.next().as_deref() == Some(DONE),
    })
}

fn end(pod: &PodDir, id: &str, exec: &str) -> Result<()> {
    let shim = pod.endpoint()?;
    let mut tasks = Tasks::connect(&shim)?;
    if exec.is_empty() {
        return tasks.kill(id, "", SIGKILL, true);
    }
    let (command, container) = (tasks.state(id, exec)?.pid, tasks.state(id, "")?.pid);
    let command = Command::on_host(command, container, shim.pid);
    // One that has ended is to be forgotten all the same.
    let _ = tasks.kill(id, exec, SIGKILL, false);
    if let Some(command) = command {
        command.kill();
    }
    tasks.wait(id, exec)?;
    tasks.delete(id, exec)
}

const DONE: &str = "done";

/// Tells the supervisor, as long as it is held, that one stands for a process.
#[derive(Debug)]
pub(crate) struct Announcement(UnixStream);

impl Announcement {
    pub(crate) fn make(pod: &PodDir, id: &str, exec: &str) -> Result<Self> {
        let path = pod.supervisor();
        let failed = |doing| Error::file(doing, &path);
        let mut socket = UnixStream::connect(&path).map_err(failed("connecting to"))?;
        let word = format!("{id}\n{exec}\n");
        socket
            .write_all(word.as_bytes())
            .map_err(failed("writing to"))?;
        Ok(Self(socket))
    }

    pub(crate) fn done(mut self) {
        let _ = writeln!(self.0, "{DONE}");
    }
}

//! The server: connections, dispatch of calls, and responses.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use orlop_ttrpc::Call;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{chdir, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin};

use crate::arguments::Arguments;
use crate::caller::Caller;
use crate::calls::unimplemented;
use crate::error::{Result, failed};
use crate::place::Place;
use crate::program::background;
use crate::shim::Shim;
use crate::{sandbox, task};

const TASKS: [&str; 2] = ["containerd.task.v2.Task", "containerd.task.v3.Task"];
const SANDBOX: &str = "containerd.runtime.sandbox.v1.Sandbox";

/// Serves the pod until it is shut down.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let place = Place::of(&arguments.address, &arguments.namespace, &arguments.id);
    let listener = settle()?;
    let shim = Shim::new(&arguments.namespace, &arguments.id, place)?;
    for socket in listener.incoming() {
        let Ok(socket) = socket else {
            std::thread::sleep(std::time::Duration::from_millis(100));
            continue;
        };
        let shim = Arc::clone(&shim);
        // A connection without a thread is closed.
        let _ = background(move || serve(&shim, socket));
    }
    Ok(())
}

/// Takes over the socket and closes all other inherited descriptors.
fn settle() -> Result<UnixListener> {
    let own = |doing: &str| failed(doing, Path::new("the server's socket"));
    crate::memory::close_inherited();
    let listener = rustix::io::fcntl_dupfd_cloexec(stdin(), 3).map_err(own("duplicating"))?;
    let path = Path::new("/dev/null");
    let null = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let null = null.map_err(failed("opening", path))?;
    dup2_stdin(&null).map_err(own("replacing"))?;
    dup2_stdout(&null).map_err(own("replacing"))?;
    // containerd reads our log from this FIFO. Our own reading end keeps it open while containerd is away.
    let log = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let log = open("log", log, Mode::empty()).unwrap_or(null);
    dup2_stderr(&log).map_err(own("replacing"))?;
    let _ = setsid();
    raise_oom_score();
    Ok(UnixListener::from(listener))
}

/// Raises our OOM score above containerd's, so that containerd outlives us if memory is short.
fn raise_oom_score() {
    let parent = rustix::process::getppid().map_or(1, rustix::process::Pid::as_raw_pid);
    let path = format!("/proc/{parent}/oom_score_adj");
    let score = orlop_fs::read_kernel_text(path).ok();
    let score = score.and_then(|score| score.trim().parse::<i32>().ok());
    if let Some(score) = score.filter(|score| *score < 1000) {
        // Only a privileged process may set a lower score than its current one.
        let _ = std::fs::write("/proc/self/oom_score_adj", (score + 1).to_string());
    }
}

fn serve(shim: &Arc<Shim>, mut socket: UnixStream) {
    let Ok(writing) = socket.try_clone() else {
        return;
    };
    let connection = Arc::new(Mutex::new(writing));
    while let Ok(call) = Call::read(&mut socket) {
        let caller = Caller {
            connection: Arc::clone(&connection),
            number: call.number,
        };
        let answered = if is_short(&call.method) {
            answer(shim, &call, &caller);
            Ok(())
        } else {
            let (shim, caller) = (Arc::clone(shim), caller.clone());
            background(move || answer(&shim, &call, &caller))
        };
        if let Err(status) = answered {
            caller.answer(&Err(status));
        }
    }
}

/// Whether a call does not block, or responds later.
fn is_short(method: &str) -> bool {
    matches!(
        method,
        "State"
            | "Wait"
            | "Connect"
            | "Pids"
            | "CloseIO"
            | "ResizePty"
            | "WaitSandbox"
            | "SandboxStatus"
            | "PingSandbox"
            | "Platform"
    )
}

fn answer(shim: &Arc<Shim>, call: &Call, caller: &Caller) {
    let service = call.service.as_str();
    let outcome = if TASKS.contains(&service) {
        task::call(shim, &call.method, &call.payload, caller)
    } else if service == SANDBOX {
        sandbox::call(shim, &call.method, &call.payload, caller)
    } else {
        Err(unimplemented(service, &call.method))
    };
    match outcome {
        // The response follows when the awaited event happens.
        Ok(None) => {}
        Ok(Some(answer)) => caller.answer(&Ok(answer)),
        Err(status) => caller.answer(&Err(status)),
    }
}

/// Changes to the bundle directory, by which tools find the pod of the server.
pub(crate) fn enter(bundle: &Path) -> Result<()> {
    chdir(bundle).map_err(failed("entering", bundle))
}

/// Opens the server's listening socket.
pub(crate) fn listen(place: &Place) -> Result<UnixListener> {
    let path = place.socket();
    let _ = std::fs::remove_file(&path);
    UnixListener::bind(&path).map_err(failed("listening at", &path))
}

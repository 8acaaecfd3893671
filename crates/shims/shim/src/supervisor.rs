//! The supervisor of a pod's shim: it starts the shim, receives its events and log, and kills processes whose proxies
//! were killed.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use orlop_containerd_api::Any;
use rustix::process::setsid;

use crate::announcement::{Watched, watched};
use crate::arguments::{Sandboxer, Settings, Words};
use crate::background::background;
use crate::command::Command;
use crate::controller::{self, Asked, Controller};
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::processes::note_shared;
use crate::ready::{Ready, inherited, note_own_pid};
use crate::spec::Spec;
use crate::state_dir::{PodDir, StateDir, private};
use crate::task::Tasks;
use crate::watching::{AFTER, ensure_one, make_once_cleared, outlive, serve};
use crate::{answers, events, hostname, launch, pause, shim_log};

/// Maximum size of a pod configuration; no request is larger.
const LARGEST_CONFIG: u64 = 16 << 20;
const SIGKILL: u32 = 9;

/// Returns the shim of a pod, or starts it.
pub(crate) fn ensure(settings: &Settings, pod: &PodDir, bundle: &Path) -> Result<Endpoint> {
    let is_there = |shim: &Endpoint| shim.has_come_up() && Tasks::connect(shim).is_ok();
    ensure_one(settings, pod, bundle, is_there, |before| {
        clear_away(settings, pod, before);
        Ok(())
    })
}

/// Starts the shim of a pod as a container of its own.
pub(crate) fn make(settings: &Settings, pod: &PodDir, words: &Words, bundle: &Path) -> Result<()> {
    make_once_cleared(settings, pod, words, bundle, || {
        clear_away(settings, pod, pod.endpoint().ok().as_ref());
        Ok(())
    })
}

/// Runs the supervisor until the shim exits.
pub(crate) fn run(settings: &Settings, state: &StateDir, words: &Words) -> Result<()> {
    let ready = Ready::of(words)?;
    let pod = state.pod(&words.needed("--pod")?.to_string_lossy())?;
    let lock = inherited(words, "--lock")?;
    // The caller may be killed with its process group.
    let _ = setsid();
    let begun = begin(settings, state, &pod, &words.needed("--from")?);
    let endpoint = ready.tell(begun.and_then(|endpoint| {
        note_own_pid(words)?;
        Ok(endpoint)
    }))?;
    drop(lock);
    let waited = controller::of(settings).wait(&pod, &endpoint);
    if matches!(waited, Err(Error::Refused { .. })) {
        // The shim does not report its end; its exit also ends its sandbox.
        outlive(endpoint.pid);
    } else {
        // The proxies see the end of the shim themselves.
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
        // The host's UTS namespace has no effect in a virtual machine: pass the hostname.
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
    shim_log::keep(pod, &bundle)?;
    let controller = controller::of(settings);
    let endpoint = controller.bootstrap(pod)?;
    // If we die, a successor finds the shim by this record.
    pod.note_endpoint(&endpoint)?;
    let explained = |error: Error| match shim_log::last_words(pod) {
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
            // Without events, out-of-memory kills stay unknown.
            let _ = events::subscribe(&state, &pod, &controller);
        })?;
    }
    Ok(endpoint)
}

/// Checks the sandbox's platform: images here are for this machine's platform, and another platform cannot run them.
fn has_our_platform(controller: &dyn Controller, pod: &PodDir, endpoint: &Endpoint) -> Result<()> {
    let ours = controller::our_platform();
    // Many controllers do not report it.
    let Ok(Some(theirs)) = controller.platform(pod, endpoint) else {
        return Ok(());
    };
    // An image for WebAssembly declares itself.
    if theirs == ours || theirs.starts_with("wasi") || theirs.ends_with("/wasm") {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "the sandbox runs programs for {theirs}, but the images of this node are for {ours}; use \
         another runtime handler for this pod"
    )))
}

/// Cleans up a shim that is dead or did not start, because its remains would block the next start.
fn clear_away(settings: &Settings, pod: &PodDir, shim: Option<&Endpoint>) {
    if let Some(shim) = shim.filter(|shim| Tasks::connect(shim).is_ok()) {
        let controller = controller::of(settings);
        // If this fails, the shim's program cleans up below.
        let _ = controller.stop(pod, shim);
        controller.shutdown(pod, shim);
    }
    launch::clean_up_pod(settings, pod, shim);
    // Its runtime may have died during creation, and would refuse to create over its remains.
    let _ = orlop_fs::remove_tree(&pod.bundle());
}

/// Waits on a proxy's connection, and deletes a finished command in the shim. A proxy that leaves without a report was
/// killed, so its process is killed, too.
fn watch(settings: &Settings, state: &StateDir, pod: &PodDir, socket: UnixStream) {
    let answer = |question, of: &str| answers::answer(settings, pod, question, of);
    let Some(Watched { id, exec, ended }) = watched(socket, answer) else {
        return;
    };
    if let (false, Ok(task)) = (exec.is_empty(), state.task(&id)) {
        // The shim has its FIFOs open.
        let _ = orlop_fs::remove_tree(&task.dir.join(&exec));
    }
    // If the shim fails now, it would also fail later.
    let _ = match (ended, exec.is_empty()) {
        (true, true) => return,
        // Some shims wait here for descendants that keep the output open.
        (true, false) => pod.tasks().and_then(|mut tasks| tasks.delete(&id, &exec)),
        (false, _) => end(pod, &id, &exec),
    };
}

fn end(pod: &PodDir, id: &str, exec: &str) -> Result<()> {
    let shim = pod.endpoint()?;
    let mut tasks = Tasks::connect(&shim)?;
    if exec.is_empty() {
        return tasks.kill(id, "", SIGKILL, true);
    }
    let (command, container) = (tasks.state(id, exec)?.pid, tasks.state(id, "")?.pid);
    let command = Command::on_host(command, container, shim.pid);
    // A process that has exited is deleted nevertheless.
    let _ = tasks.kill(id, exec, SIGKILL, false);
    if let Some(command) = command {
        command.kill();
    }
    tasks.wait(id, exec)?;
    tasks.delete(id, exec)
}

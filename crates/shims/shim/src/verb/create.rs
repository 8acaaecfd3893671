//! `create`: creates a container, whose first process waits to be started.

use std::path::Path;

use super::end_pod;
use crate::arguments::{Settings, Words};
use crate::end_task::without_shim;
use crate::error::{Error, Result};
use crate::mounts;
use crate::ready::{Streams, spawn};
use crate::spec::Spec;
use crate::state_dir::{PodDir, StateDir, TaskDir};
use crate::supervisor;

pub(crate) fn run(settings: &Settings, state: &StateDir, words: &Words) -> Result<()> {
    let bundle = words.needed("--bundle")?;
    let task = state.task(&words.word(0)?)?;
    if task.exists() {
        let problem = format!("container {} already exists", task.id);
        return Err(Error::Failed(problem));
    }
    let spec = Spec::read(&bundle)?;
    if spec.is_sandbox() {
        return supervisor::make(settings, &state.pod(&task.id)?, words, &bundle);
    }
    if spec.terminal() != words.option("--console-socket").is_some() {
        let problem = "process.terminal in config.json and --console-socket must be set together";
        return Err(Error::Usage(problem.into()));
    }
    let alone = spec.pod().is_none();
    let pod = match spec.pod() {
        Some(pod) => state.pod(pod)?,
        None => state.pod_of_one(&task)?,
    };
    let shim = supervisor::ensure(settings, &pod, &bundle)?;
    let made = make(settings, words, &task, &pod.id, &bundle, spec, shim.pid);
    if made.is_err() {
        if !is_alive(&pod, shim.pid) {
            // The shim cannot undo what the runtime has already created.
            without_shim(settings, &pod, &task);
        }
        let _ = mounts::take_back(&task.mounts(), shim.pid);
        let _ = task.erase();
        if alone {
            // No other process will do it.
            let _ = end_pod::end_pod(settings, state, &pod);
        }
    }
    made
}

/// Whether this process is still the pod's shim and responds.
fn is_alive(pod: &PodDir, shim: u32) -> bool {
    let answer = pod.tasks().and_then(|mut tasks| tasks.shim_pid(&pod.id));
    match answer {
        Ok(pid) => pid == shim,
        // The pod may have no task of its own.
        Err(error) => matches!(error, Error::Refused { .. }),
    }
}

fn make(
    settings: &Settings,
    words: &Words,
    task: &TaskDir,
    pod: &str,
    bundle: &Path,
    spec: Spec,
    shim: u32,
) -> Result<()> {
    let root = spec.root(bundle);
    task.make(pod, shim)?;
    spec.with_own_root().write(&task.dir)?;
    // All mounts of the daemon for a container are in one directory.
    let mut shared = mounts::within(root.parent().unwrap_or(&root))?;
    if settings.guest_pull {
        // The guest provides the root filesystem, but not images mounted as volumes.
        shared.retain(|mounted| *mounted != root);
    }
    task.note_mounts(&shared)?;
    mounts::give(&shared, shim)?;
    let mut proxy: Vec<_> = vec!["proxy".into(), task.id.clone().into()];
    proxy.extend(["--rootfs".into(), root.into_os_string()]);
    if let Some(path) = words.option("--pid-file") {
        proxy.extend(["--pid-file".into(), path.into()]);
    }
    if let Some(socket) = words.option("--console-socket") {
        proxy.extend(["--console-socket".into(), socket.into()]);
    }
    spawn(settings, &proxy, Streams::Ours)
}

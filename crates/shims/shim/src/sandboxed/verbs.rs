//! Commands that create and delete containers.

use super::files::leave;
use super::runtime::Runtime;
use super::{pod, stand_in};
use crate::arguments::{Settings, Words};
use crate::error::{Error, Result};
use crate::ready::{Streams, spawn};
use crate::spec::Spec;
use crate::state_dir::StateDir;

pub(super) fn create(
    settings: &Settings,
    runtime: &Runtime,
    state: &StateDir,
    words: &Words,
) -> Result<()> {
    let bundle = words.needed("--bundle")?;
    let task = state.task(&words.word(0)?)?;
    if task.exists() {
        let problem = format!("container {} already exists", task.id);
        return Err(Error::Failed(problem));
    }
    let spec = Spec::read(&bundle)?;
    if spec.is_sandbox() {
        return pod::make(settings, runtime, &state.pod(&task.id)?, words, &bundle);
    }
    let pod = match spec.pod() {
        Some(pod) => state.pod(pod)?,
        None => state.pod_of_one(&task)?,
    };
    let sandbox = pod::ensure(settings, runtime, &pod, &bundle)?;
    if spec.pod().is_none() {
        // The runtime finds the sandbox by this annotation.
        spec.clone().in_pod(&pod.id).write(&bundle)?;
    }
    let made = task.make(&pod.id, sandbox.pid).and_then(|()| {
        let mut proxy: Vec<_> = vec!["proxy".into(), task.id.clone().into()];
        proxy.extend(["--bundle".into(), bundle.clone().into_os_string()]);
        for option in ["--pid-file", "--console-socket"] {
            if let Some(path) = words.option(option) {
                proxy.extend([option.into(), path.into()]);
            }
        }
        spawn(settings, &proxy, Streams::Ours)
    });
    if made.is_err() {
        let _ = leave(&spec, &bundle);
        let _ = runtime.delete(&task.id);
        let _ = task.erase();
        if spec.pod().is_none() {
            // No other process will do it.
            let _ = pod::end(runtime, state, &pod);
        }
    }
    made
}

pub(super) fn delete(runtime: &Runtime, state: &StateDir, words: &Words) -> Result<()> {
    let task = state.task(&words.word(0)?)?;
    if !task.exists() {
        return if words.has("--force") {
            runtime.delete(&task.id)
        } else {
            Err(Error::NoContainer(task.id))
        };
    }
    stand_in::end(&task);
    runtime.delete(&task.id)?;
    let pod = task.pod(state);
    task.erase()?;
    match pod {
        Ok(pod) if pod.id == state.pod_of_one(&task)?.id => pod::end(runtime, state, &pod),
        _ => Ok(()),
    }
}

//! The sandbox container of a pod, and its supervisor.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::setsid;

use super::runtime::Runtime;
use super::stand_in;
use crate::announcement::{Watched, watched};
use crate::arguments::{Settings, Words};
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::hostname;
use crate::processes::note_shared;
use crate::question::Question;
use crate::ready::{Ready, inherited, note_own_pid};
use crate::spec::Spec;
use crate::state_dir::{PodDir, StateDir, private};
use crate::watching::{ensure_one, make_once_cleared, outlive, serve};
use crate::{launch, pause};

/// How long statistics are cached: monitoring polls every ten seconds.
const FRESH: Duration = Duration::from_secs(5);

/// Returns the sandbox of a pod, or creates it.
pub(super) fn ensure(
    settings: &Settings,
    runtime: &Runtime,
    pod: &PodDir,
    bundle: &Path,
) -> Result<Endpoint> {
    // The supervisor lives slightly longer than the sandbox.
    let is_there =
        |sandbox: &Endpoint| UnixStream::connect(pod.supervisor()).is_ok() && sandbox.is_alive();
    ensure_one(settings, pod, bundle, is_there, |_| {
        clear_away(runtime, pod)
    })
}

/// Creates the sandbox of a pod as a container of its own.
pub(super) fn make(
    settings: &Settings,
    runtime: &Runtime,
    pod: &PodDir,
    words: &Words,
    bundle: &Path,
) -> Result<()> {
    make_once_cleared(settings, pod, words, bundle, || clear_away(runtime, pod))
}

/// Creates the sandbox and runs until it ends.
pub(super) fn supervise(runtime: &Runtime, state: &StateDir, words: &Words) -> Result<()> {
    let ready = Ready::of(words)?;
    let pod = state.pod(&words.needed("--pod")?.to_string_lossy())?;
    let lock = inherited(words, "--lock")?;
    // The caller may be killed with its process group.
    let _ = setsid();
    let container = Spec::read(&words.needed("--from")?);
    let begun = container.and_then(|spec| begin(runtime, state, &pod, &spec));
    let begun = begun.and_then(|sandbox| {
        note_own_pid(words)?;
        Ok(sandbox)
    });
    if begun.is_err() {
        let _ = clear_away(runtime, &pod);
    }
    let sandbox = ready.tell(begun)?;
    drop(lock);
    outlive(sandbox.pid);
    Ok(())
}

fn begin(runtime: &Runtime, state: &StateDir, pod: &PodDir, container: &Spec) -> Result<Endpoint> {
    let bundle = pod.bundle();
    let rootfs = bundle.join("rootfs");
    private(&rootfs)?;
    private(&runtime.root)?;
    pause::write(&rootfs.join("pause"))?;
    note_shared(pod, container)?;
    container
        .of_pod(&pod.id)
        .with_limits_of_pod()
        .with_hostname(hostname::of(container)?)
        .write(&bundle)?;
    let create = ["create".into(), "--bundle".into(), bundle.into()];
    let create: Vec<_> = create.into_iter().chain([pod.id.clone().into()]).collect();
    runtime.call(&create)?;
    runtime.call(&["start", &pod.id].map(Into::into))?;
    let told = runtime.answer(&["state", &pod.id].map(Into::into))?;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
    let pid = told["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let garbled = || Error::Garbled(format!("the state of {} from {}", pod.id, runtime.name()));
    let sandbox = Endpoint {
        socket: PathBuf::new(),
        version: 0,
        grpc: false,
        pid: pid.filter(|&pid| pid > 1).ok_or_else(garbled)?,
        guest: None,
    };
    pod.note_endpoint(&sandbox)?;
    let (runtime, state) = (runtime.clone(), state.clone());
    let figures = Arc::new(Kept::default());
    serve(&pod.supervisor(), move |socket| {
        watch(&runtime, &state, &figures, socket);
    })?;
    Ok(sandbox)
}

/// Cache of recent statistics, because a query runs a program.
#[derive(Default)]
struct Kept(Mutex<BTreeMap<String, (Instant, Option<Figures>)>>);

impl Kept {
    fn of(&self, runtime: &Runtime, state: &StateDir, id: &str) -> Result<Option<Figures>> {
        if !state.task(id)?.exists() {
            return Err(Error::NoContainer(id.to_owned()));
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, (at, _)| at.elapsed() < FRESH);
        if let Some((_, figures)) = kept.get(id) {
            return Ok(*figures);
        }
        let told = runtime.answer(&["events", "--stats", id].map(Into::into))?;
        let figures = Figures::of_event(&told);
        kept.insert(id.to_owned(), (Instant::now(), figures));
        Ok(figures)
    }
}

/// Waits on a stand-in's connection. A stand-in that leaves without a report was killed, so its process is killed,
/// too.
fn watch(runtime: &Runtime, state: &StateDir, figures: &Kept, socket: UnixStream) {
    let answer = |question, id: &str| {
        let asked = question == Question::Figures;
        let figures = asked.then(|| figures.of(runtime, state, id))?;
        figures.ok()?.map(|figures| figures.to_string())
    };
    let Some(Watched { id, exec, ended }) = watched(socket, answer) else {
        return;
    };
    let Ok(task) = state.task(&id) else {
        return;
    };
    if exec.is_empty() {
        if !ended {
            // The process may have just exited by itself.
            let _ = runtime.kill(&id, "KILL", true);
        }
        return;
    }
    let dir = task.dir.join(&exec);
    if !ended {
        let _ = stand_in::end_command(runtime, &id, &dir);
    }
    let _ = orlop_fs::remove_tree(&dir);
}

/// Ends the sandbox of a pod with all its containers.
pub(super) fn end(runtime: &Runtime, state: &StateDir, pod: &PodDir) -> Result<()> {
    if !pod.dir.is_dir() {
        return Ok(());
    }
    let lock = pod.lock_to_end()?;
    for task in state.tasks_of(&pod.id) {
        stand_in::end(&task);
        runtime.delete(&task.id)?;
        task.erase()?;
    }
    clear_away(runtime, pod)?;
    pod.erase()?;
    drop(lock);
    Ok(())
}

/// Removes a dead or incomplete sandbox.
fn clear_away(runtime: &Runtime, pod: &PodDir) -> Result<()> {
    launch::end_orphans(&pod.bundle(), &pod.id)?;
    runtime.delete(&pod.id)?;
    orlop_fs::remove_tree(&pod.bundle()).map_err(Error::file("removing", &pod.bundle()))
}

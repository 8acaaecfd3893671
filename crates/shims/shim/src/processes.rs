//! PID namespaces of containers.
//!
//! The daemon names a PID namespace by a process in it: the first process of a pod's shared namespace, or the proxy of
//! a container. A proxy is a host process, so a runtime that used its pid would show the host's processes to the
//! container. The runtime gets another path, as in containerd: that of the other container's task, or that of the
//! pod's own task if it runs on another kernel.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use orlop_containerd_api::task_types::Status;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::spec::Spec;
use crate::state_dir::{PodDir, StateDir, TaskDir};
use crate::task::Tasks;

pub(crate) const PID: &str = "pid";
const SHARED: &str = "shared-processes";
const STANDS: &str = "stands";

/// The PID namespace for a container.
#[derive(Debug)]
pub(crate) enum Whose {
    /// The namespace that the pod runs in.
    Surroundings,
    /// The container's own.
    Own,
    /// The namespace that all containers of the pod share.
    Pods,
    /// That of another container.
    Of(TaskDir),
    /// This path, in a pod created by an earlier version that recorded nothing.
    Unnoted(PathBuf),
}

/// If the pod's containers share a PID namespace, records its path as the daemon gave it.
pub(crate) fn note_shared(pod: &PodDir, container: &Spec) -> Result<()> {
    note(&pod.dir, SHARED, &container.namespace(PID))
}

/// Records the PID namespace path by which the daemon names the container that this proxy stands for.
pub(crate) fn note_stands(task: &TaskDir) -> Result<PathBuf> {
    let told = of_process(std::process::id());
    note(&task.dir, STANDS, &told)?;
    Ok(told)
}

/// Determines the PID namespace that a container's specification requests.
pub(crate) fn whose(state: &StateDir, pod: &PodDir, spec: &Spec) -> Result<Whose> {
    let Some(path) = spec.namespace(PID) else {
        return Ok(if spec.has_namespace(PID) {
            Whose::Own
        } else {
            Whose::Surroundings
        });
    };
    let Ok(shared) = noted::<Option<PathBuf>>(&pod.dir, SHARED) else {
        return Ok(Whose::Unnoted(path));
    };
    if shared.as_ref() == Some(&path) {
        return Ok(Whose::Pods);
    }
    let stands =
        |task: &TaskDir| noted::<PathBuf>(&task.dir, STANDS).is_ok_and(|told| told == path);
    let found = state.tasks_of(&pod.id).into_iter().find(stands);
    found.map(Whose::Of).ok_or_else(|| {
        let path = path.display();
        Error::Failed(format!(
            "{path} is not the PID namespace of a container of pod {}",
            pod.id
        ))
    })
}

/// The process whose PID namespace a container joins, held by pidfd. If it still runs after the container's creation,
/// its pid was not reused.
#[derive(Debug)]
pub(crate) struct Joined(Option<(u32, OwnedFd)>);

/// Rewrites a container's specification for a shim.
pub(crate) fn for_shim(
    tasks: &mut Tasks,
    state: &StateDir,
    pod: &PodDir,
    spec: Spec,
) -> Result<(Spec, Joined)> {
    let id = match whose(state, pod, &spec)? {
        Whose::Unnoted(path) if is_ours(&path)? => {
            let path = path.display();
            return Err(Error::Failed(format!(
                "{path} is the host's PID namespace; delete the pod and create it again, so that \
                 orlop-shim can record the PID namespaces of its containers"
            )));
        }
        Whose::Surroundings | Whose::Own | Whose::Unnoted(_) => return Ok((spec, Joined(None))),
        // Containers on the host's kernel can join the daemon's namespace directly.
        Whose::Pods if is_elsewhere(tasks, pod) != Some(true) => return Ok((spec, Joined(None))),
        Whose::Pods => pod.id.clone(),
        Whose::Of(task) => task.id,
    };
    let gone = || {
        Error::Failed(format!(
            "{id} is not running; the new container needs its PID namespace"
        ))
    };
    let before = tasks.state(&id, "")?.pid;
    let process = Pid::from_raw(before as i32).filter(|pid| !pid.is_init());
    let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let process = process.ok_or_else(gone)?;
    // The shim has not reaped the process, so the pidfd refers to it.
    let after = tasks.state(&id, "")?;
    if after.pid != before || matches!(after.status(), Status::Stopped | Status::Unknown) {
        return Err(gone());
    }
    let spec = spec.with_namespace(PID, Some(&of_process(before)));
    Ok((spec, Joined(Some((before, process)))))
}

impl Joined {
    /// Checks after the container's creation that the process still runs.
    pub(crate) fn check(&self) -> Result<()> {
        let Some((pid, process)) = &self.0 else {
            return Ok(());
        };
        let mut fds = [PollFd::new(process, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec::default())) {
            Ok(0) => Ok(()),
            _ => Err(Error::Failed(format!(
                "process {pid}, whose PID namespace the container joined, has exited"
            ))),
        }
    }
}

/// Whether the pod's own task runs on another kernel, so that its pid means something else here; `None` if there is no
/// such task.
fn is_elsewhere(tasks: &mut Tasks, pod: &PodDir) -> Option<bool> {
    let pid = tasks.state(&pod.id, "").ok()?.pid;
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(!program.ends_with("pause"))
}

fn of_process(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/ns/pid"))
}

fn is_ours(path: &Path) -> Result<bool> {
    let number = |path: &Path| -> Result<(u64, u64)> {
        let about = fs::metadata(path).map_err(Error::file("reading the attributes of", path))?;
        Ok((about.dev(), about.ino()))
    };
    Ok(number(path)? == number(Path::new("/proc/self/ns/pid"))?)
}

pub(crate) fn note(dir: &Path, name: &str, what: &impl Serialize) -> Result<()> {
    let path = dir.join(name);
    let failed = |error| Error::Failed(format!("writing {} as JSON: {error}", path.display()));
    let text = serde_json::to_vec(what).map_err(failed)?;
    fs::write(&path, text).map_err(Error::file("writing", &path))
}

pub(crate) fn noted<T: for<'a> Deserialize<'a>>(dir: &Path, name: &str) -> Result<T> {
    let path = dir.join(name);
    let text =
        orlop_fs::read_file(&path, orlop_fs::SMALL_FILE).map_err(Error::file("reading", &path))?;
    serde_json::from_slice(&text).map_err(|_| Error::Garbled(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use serde_json::json;

    use super::{Joined, Whose, is_ours, note, note_shared, note_stands, whose};
    use crate::spec::Spec;
    use crate::state_dir::StateDir;

    #[test]
    fn it_is_told_from_what_was_noted_whose_processes_are_meant() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(dir.path().to_owned());
        let bundle = dir.path().join("bundle");
        std::fs::create_dir(&bundle).unwrap();
        let spec = |namespaces: serde_json::Value| {
            let text = json!({"linux": {"namespaces": namespaces}}).to_string();
            std::fs::write(bundle.join("config.json"), text).unwrap();
            Spec::read(&bundle).unwrap()
        };
        let joins = |path: &str| spec(json!([{"type": "mount"}, {"type": "pid", "path": path}]));
        let pod = state.pod("p").unwrap();
        pod.make().unwrap();
        let of = |pod: &str, spec: &Spec| whose(&state, &state.pod(pod).unwrap(), spec);

        let early = of("p", &joins("/proc/7/ns/pid")).unwrap();
        assert!(matches!(early, Whose::Unnoted(path) if path.ends_with("7/ns/pid")));

        note_shared(&pod, &joins("/proc/7/ns/pid")).unwrap();
        let task = state.task("t").unwrap();
        task.make("p", 1).unwrap();
        let stands = note_stands(&task).unwrap();
        let stands = stands.to_str().unwrap();
        assert!(matches!(of("p", &joins("/proc/7/ns/pid")), Ok(Whose::Pods)));
        assert!(matches!(of("p", &joins(stands)), Ok(Whose::Of(found)) if found.id == "t"));
        let own = spec(json!([{"type": "pid"}]));
        assert!(matches!(of("p", &own), Ok(Whose::Own)));
        let none = spec(json!([{"type": "mount"}]));
        assert!(matches!(of("p", &none), Ok(Whose::Surroundings)));
        of("p", &joins("/proc/1/ns/pid")).expect_err("nobody's");

        let other = state.pod("q").unwrap();
        other.make().unwrap();
        note(&other.dir, super::SHARED, &None::<PathBuf>).unwrap();
        of("q", &joins(stands)).expect_err("another pod's");
    }

    #[test]
    fn a_process_that_ends_while_it_is_joined_is_noticed() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let held = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let joined = Joined(Some((child.id(), held)));
        joined.check().unwrap();
        assert!(is_ours(&super::of_process(child.id())).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        joined.check().expect_err("its number may be another's");
    }
}

//! Restores the state of an earlier run of the daemon, as far as clients must see it before the daemon serves them. The
//! rest is [tidied](super::tidy) up afterwards, in the background.
//!
//! | state found | result |
//! |---|---|
//! | a pod was ready, its keeper lives | the pod continues; missed exits are taken from the keeper |
//! | a pod was ready, it has no keeper (reboot, crash) | the pod is not ready, its containers have exited |
//! | a record is unreadable, of another version or on a bad disk | the whole pod is left alone |
//! | a pod or container is half created | undone later |
//! | a pod or container is half removed | removed later |
//! | a directory without a record | removed later |
//! | a container without a record, in its keeper or its runtime | stopped |
//! | a lease or network attachment has no owner | released later |

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use orlop_cri_api::v1::ContainerEventType;
use orlop_launch::{
    ContainerInfo, ContainerState, Error as LaunchError, ExecInfo, FailureKind, Keeper,
    KeeperEvents,
};

use crate::after_restart::unrecorded;
use crate::error::{Result, chain};
use crate::node::Node;
use crate::pod::{keeper_events, shared};
use crate::record::container::{self, Container, Exit};
use crate::record::directories::{names_in, remove_tree};
use crate::record::ids::{ContainerId, PodId};
use crate::record::pod::{self, Pod};
use crate::{blocking, clock};

/// Exit code of a container whose exit status is unknown, the same as other CRI runtimes report.
const UNKNOWN: i32 = 255;

/// Time to wait for a keeper's answer before clients are served.
const HURRY: Duration = Duration::from_millis(500);

/// Time to wait for the start of a command; the keeper kills a runtime that takes longer.
const STARTING: Duration = Duration::from_secs(65);

/// Pause between two attempts to kill a command that is being started.
const AGAIN: Duration = Duration::from_millis(50);

/// Number of pods that are restored concurrently.
const SIDE_BY_SIDE: usize = 32;

/// Work that remains for [`tidy`](super::tidy).
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Pods with an unreadable record; nothing of them is touched.
    pub unread: HashSet<String>,
    /// Directories without a record.
    pub debris: Vec<PathBuf>,
    /// Names in the directory of keepers and bundles, listed before clients are served: later ones belong to new pods.
    pub runs: Vec<String>,
    /// The pods and containers of the earlier run, not those that clients create in this one.
    pub pods: Vec<PodRecords>,
    /// Pods whose keeper may live but has not answered yet.
    pub silent: Vec<Arc<Pod>>,
    /// Pods whose keeper is gone.
    pub lost: Vec<Arc<Pod>>,
    /// Containers whose start was interrupted.
    pub half_started: Vec<Arc<Container>>,
}

/// Reads all records and adopts the running keepers.
pub async fn run(node: &Arc<Node>) -> Result<Leftovers> {
    let (pods, runs) = (node.paths.pods(), node.paths.runs());
    let mut left = blocking(move || read_pods(&pods, &runs)).await?;
    for (pod, containers) in &left.pods {
        node.levels.restore(pod);
        node.pods.insert(Arc::clone(pod));
        for container in containers {
            node.containers.insert(Arc::clone(container));
        }
    }
    node.tell_earlier();
    let pods: Vec<_> = left.pods.iter().map(|(pod, _)| Arc::clone(pod)).collect();
    let mut restored = stream::iter(pods)
        .map(|pod| async move {
            let fate = restore_pod(node, &pod).await;
            (pod, fate)
        })
        .buffer_unordered(SIDE_BY_SIDE);
    while let Some((pod, fate)) = restored.next().await {
        match fate {
            Fate::Known(half_started) => left.half_started.extend(half_started),
            Fate::Lost => left.lost.push(pod),
            Fate::Silent => left.silent.push(pod),
        }
    }
    Ok(left)
}

fn read_pods(pods: &Path, runs: &Path) -> Result<Leftovers> {
    let mut left = Leftovers {
        runs: names_in(runs)?,
        ..Leftovers::default()
    };
    for name in names_in(pods)? {
        let (dir, run) = (pods.join(&name), runs.join(&name));
        let read = match PodId::parse(&name) {
            Some(id) => read_pod(id, dir.clone(), run, &mut left.debris),
            None => Ok(None),
        };
        match read {
            Ok(Some(pod)) => left.pods.push(pod),
            Ok(None) => left.debris.push(dir),
            Err(error) => {
                // One bad disk block must not take the whole node down.
                tracing::error!(
                    pod = name,
                    error = chain(&*error),
                    "cannot read the record of a pod; leaving the pod unmanaged"
                );
                left.unread.insert(name);
            }
        }
    }
    Ok(left)
}

/// A pod and its containers.
pub type PodRecords = (Arc<Pod>, Vec<Arc<Container>>);

fn read_pod(
    id: PodId,
    dir: PathBuf,
    run: PathBuf,
    debris: &mut Vec<PathBuf>,
) -> Result<Option<PodRecords>> {
    let Some(pod) = Pod::restore(id, dir, run)? else {
        return Ok(None);
    };
    let pod = Arc::new(pod);
    let directory = pod.containers_dir();
    let mut containers = Vec::new();
    let mut without_record = Vec::new();
    for name in names_in(&directory)? {
        let container = match ContainerId::parse(&name) {
            Some(id) => Container::restore(id, &pod)?,
            None => None,
        };
        match container {
            Some(container) => containers.push(Arc::new(container)),
            None => without_record.push(directory.join(&name)),
        }
    }
    debris.append(&mut without_record);
    Ok(Some((pod, containers)))
}

/// Result of contacting a pod's keeper.
enum Fate {
    /// The state is known. These containers were being started.
    Known(Vec<Arc<Container>>),
    /// The keeper is dead.
    Lost,
    /// The keeper has not answered in time.
    Silent,
}

async fn restore_pod(node: &Arc<Node>, pod: &Arc<Pod>) -> Fate {
    let greeted = match Keeper::find(&pod.run) {
        Ok(mut found) => found.greet(HURRY).await,
        Err(error) => Err(error),
    };
    match greeted {
        Ok((keeper, events)) => Fate::Known(adopt(node, pod, keeper, events).await),
        Err(error) if error.is_nobody() => {
            if pod.phase() != pod::Phase::Ready {
                return Fate::Known(Vec::new());
            }
            keeper_events::note_loss(node, pod).await;
            Fate::Lost
        }
        Err(error) => {
            tracing::warn!(pod = %pod.id, %error, "the pod's keeper does not respond yet");
            Fate::Silent
        }
    }
}

/// Adopts a pod's keeper and records the events that the daemon missed. Returns the containers whose start was
/// interrupted.
pub async fn adopt(
    node: &Arc<Node>,
    pod: &Arc<Pod>,
    keeper: Keeper,
    events: KeeperEvents,
) -> Vec<Arc<Container>> {
    // Read before this run can start a command in the pod.
    let run = pod.run.clone();
    let prepared = blocking(move || Ok(prepared_commands(&run))).await;
    let prepared = prepared.unwrap_or_default();
    pod.set_keeper(Some(keeper.clone()));
    let half_started = match keeper.list().await {
        Ok(listing) => {
            forget_unsent_commands(node, prepared, &listing.execs);
            end_commands(node, pod, &keeper, listing.execs);
            shared::take_over(node, pod, &listing.containers);
            unrecorded::end_in(node, pod, &keeper, &listing.containers);
            take_over(node, pod, &listing.containers).await
        }
        Err(error) => {
            tracing::error!(pod = %pod.id, %error, "cannot list the containers of a keeper");
            Vec::new()
        }
    };
    keeper_events::watch(node, pod, events);
    half_started
}

/// Finds the directories of exec commands in a pod's bundles, with the commands' IDs.
fn prepared_commands(run: &Path) -> Vec<(String, PathBuf)> {
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bundles = entries(run).flat_map(|bundle| entries(&bundle.path()));
    bundles
        .filter_map(|entry| {
            let name = entry.file_name();
            let id = name.to_str()?.strip_prefix("exec-")?.to_owned();
            Some((id, entry.path()))
        })
        .collect()
}

/// Removes the directories of commands that an earlier run prepared but did not send to the keeper.
fn forget_unsent_commands(node: &Node, prepared: Vec<(String, PathBuf)>, execs: &[ExecInfo]) {
    let unsent = prepared.into_iter().filter(|(id, _)| {
        let is_known = execs.iter().any(|exec| exec.id == *id);
        !is_known && !node.commands.awaits(id)
    });
    let dirs: Vec<PathBuf> = unsent.map(|(_, dir)| dir).collect();
    if !dirs.is_empty() {
        node.tasks.spawn(blocking(move || {
            for dir in &dirs {
                let _ = remove_tree(dir);
            }
            Ok(())
        }));
    }
}

/// Kills the commands of an earlier run, whose clients lost their connection with it.
fn end_commands(node: &Node, pod: &Arc<Pod>, keeper: &Keeper, execs: Vec<ExecInfo>) {
    for exec in execs {
        if node.commands.awaits(&exec.id) {
            continue;
        }
        let bundle = pod.run.join(&exec.container);
        let (keeper, dir) = (keeper.clone(), bundle.join(format!("exec-{}", exec.id)));
        node.tasks.spawn(async move {
            if exec.exit.is_none()
                && let Err(error) = end_command(&keeper, &exec.id).await
            {
                tracing::warn!(exec = exec.id, %error, "cannot stop a command that an earlier daemon started");
            }
            let _ = keeper.forget_exec(&exec.id).await;
            let _ = blocking(move || remove_tree(&dir)).await;
        });
    }
}

/// Kills a command. If the earlier run died during its start, waits for the start to complete.
async fn end_command(keeper: &Keeper, exec: &str) -> orlop_launch::Result<()> {
    let deadline = tokio::time::Instant::now() + STARTING;
    loop {
        let ended = keeper.kill_exec(exec, 9).await;
        match ended.as_ref().err().and_then(LaunchError::failure_kind) {
            Some(FailureKind::WrongState) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(AGAIN).await;
            }
            // The command could not be started.
            Some(FailureKind::NotFound) => return Ok(()),
            _ => return ended,
        }
    }
}

async fn take_over(
    node: &Arc<Node>,
    pod: &Arc<Pod>,
    listing: &[ContainerInfo],
) -> Vec<Arc<Container>> {
    let mut half_started = Vec::new();
    for container in node.containers.of(pod) {
        let known = listing.iter().find(|info| info.id == container.id.as_str());
        match known {
            Some(info) => {
                if let Some(status) = &info.exit {
                    // The exit may have been recorded before the start.
                    if info.started_ns > 0 && container.started_at() == 0 {
                        note_start(&container, info).await;
                    }
                    keeper_events::ended(node, container, status.clone());
                } else if info.started_ns > 0 && container.phase() == container::Phase::Created {
                    note_start(&container, info).await;
                } else if info.started_ns == 0 && info.state != ContainerState::Absent {
                    // Half started: the client of the start got no answer and does not repeat the request.
                    let message = "the daemon was restarted while the container was being started";
                    if container.exited(exit(128, "StartError", message)).await {
                        let stopped = ContainerEventType::ContainerStoppedEvent;
                        node.tell_container(&container, stopped);
                    }
                    half_started.push(container);
                }
            }
            None if container.phase() == container::Phase::Running => {
                let message = "the pod's keeper no longer has this container";
                if container.exited(exit(UNKNOWN, "Unknown", message)).await {
                    node.tell_container(&container, ContainerEventType::ContainerStoppedEvent);
                }
            }
            None => {}
        }
    }
    half_started
}

fn exit(code: i32, reason: &str, message: &str) -> Exit {
    Exit {
        at: clock::now(),
        code,
        reason: reason.into(),
        message: message.into(),
    }
}

/// Records the start of a container that was started just before the daemon was killed.
async fn note_start(container: &Container, info: &ContainerInfo) {
    let end = info.exit.as_ref().map_or(u64::MAX, |exit| exit.time_ns);
    let at = i64::try_from(info.started_ns.min(end)).unwrap_or(i64::MAX);
    let started = container::Event::Started { at, pid: info.pid };
    container.record_if_possible(started).await;
}

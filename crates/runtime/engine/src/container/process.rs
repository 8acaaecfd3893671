//! Starts, stops and cleans up after the processes of a container.
//!
//! All of it goes through the pod's keeper, which is their parent. If the keeper is lost, the daemon kills the
//! remaining processes through the cgroup and calls the runtime itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::{ContainerEventType, NamespaceMode, Signal};
use orlop_launch::{CreateContainer, FailureKind, Keeper, StartBy};
use orlop_pool::Place;
use tokio::time::{Instant, sleep, timeout};

use crate::checkpoint::go_on;
use crate::container::{bundle, hung_keeper, pid_namespace, without_keeper};
use crate::error::{Error, Result, chain};
use crate::node::Node;
use crate::node::cgroups::Cgroups;
use crate::node::runtimes::{Handler, Runtimes};
use crate::off_reactor::waiting;
use crate::reach::{self, Named};
use crate::record::container::{Container, Event, Exit, Phase};
use crate::record::directories::remove_tree;
use crate::spec::StopSignal;
use crate::timeline::Trace;
use crate::{blocking, clock};

/// Time limit for one step of the runtime, after which it is killed.
const RUNTIME_LIMIT: Duration = Duration::from_secs(100);

/// Time to wait for a process after SIGKILL; one that remains longer is blocked in the kernel.
const KILL_LIMIT: Duration = Duration::from_mins(1);

/// Time to wait for the exit of a keeper whose connection is lost; it is usually about to exit.
const KEEPER_LIMIT: Duration = Duration::from_secs(1);

/// Time to wait for killed runtime processes; they create nothing more once they have exited.
const ORPHAN_LIMIT: Duration = Duration::from_secs(5);

/// Pause between two attempts to clean up after a container that is still being created.
const AGAIN: Duration = Duration::from_millis(100);

/// Waits for runtime processes whose parent is gone.
static ENDING: Place = Place::new("killing leftover runtime processes", 32, 2, 4096);

const SIGKILL: u32 = 9;
const SIGTERM: u32 = 15;

/// Exit code of a container that could not be started, the same as other CRI runtimes report.
const START_ERROR: i32 = 128;

/// Starts a created container. If the start fails, the container counts as exited.
pub async fn start(node: &Arc<Node>, container: &Arc<Container>, trace: &Trace) -> Result<()> {
    let keeper = container.pod.keeper()?;
    let handler = node.runtimes.of(&container.pod)?;
    let name = container.metadata().name;
    node.cgroups.expect_move(&handler.features, &node.tasks);
    trace
        .step("record", &name, container.record(Event::Starting))
        .await?;
    let cgroup = node.cgroups.make_ahead(container, &handler.features);
    let launching = launch(node, container, &keeper, &handler, trace);
    // Both complete before a failure removes anything.
    let ((), launched) = tokio::join!(cgroup, launching);
    match launched {
        Ok(started) => {
            node.container_started.notify_waiters();
            // The container runs, whether or not the record can be written.
            container.record_if_possible(started).await;
            node.tell_container(container, ContainerEventType::ContainerStartedEvent);
            Ok(())
        }
        Err(error) => {
            could_not_start(node, container, &error).await;
            Err(error)
        }
    }
}

/// Records a container that could not be started as exited, and cleans up after it.
pub async fn could_not_start(node: &Node, container: &Arc<Container>, error: &Error) {
    let exit = Exit {
        at: clock::now(),
        code: START_ERROR,
        reason: reason_of_failure(error).into(),
        message: chain(error),
    };
    container.exited(exit).await;
    let cleaning = clean_up(&node.cgroups, &node.runtimes, container);
    let cleaned = hung_keeper::unless_hangs(container, "cleaning up after", cleaning);
    if let Err(error) = cleaned.await {
        tracing::warn!(container = %container.id, %error, "cannot clean up after a failed start");
    }
    node.tell_container(container, ContainerEventType::ContainerStoppedEvent);
}

async fn launch(
    node: &Arc<Node>,
    container: &Arc<Container>,
    keeper: &Keeper,
    handler: &Handler,
    trace: &Trace,
) -> Result<Event> {
    let id = container.id.as_str();
    let name = container.metadata().name;
    let failed = |doing: &str| {
        let doing = format!("{doing} container {id}");
        |source| Arc::new(Error::Launch { doing, source })
    };
    let log_path = container.log_path();
    let log_dir = log_path
        .is_some()
        .then(|| PathBuf::from(&container.pod.config.log_directory));
    let (container_too, log) = (Arc::clone(container), log_dir.clone().zip(log_path.clone()));
    let named = log.iter();
    let named = named.map(|(_, path)| Named::new("the pod's config.log_directory", path.clone()));
    let config = node.config();
    let by = reach::touching(&config, named.collect(), move || {
        if let Some((chosen, path)) = log {
            let doing = format!("creating the directory of the log {}", path.display());
            orlop_fs::make_log_dir(&chosen, &path).map_err(Error::io(doing))?;
        }
        Ok(if container_too.needs_runtime() {
            StartBy::Runtime
        } else {
            StartBy::Keeper
        })
    });
    let mounts = bundle::place_mounts(node, container, keeper);
    // One waits for the keeper, the other for a disk.
    let (mounted, by) = tokio::join!(trace.step("mounts", &name, mounts), by);
    mounted?;
    let by = by?;
    let joined = pid_namespace::hold(&node.containers, &node.runtimes, container, keeper).await?;
    let create = CreateContainer {
        id: id.to_owned(),
        bundle: container.bundle.clone(),
        log_path,
        log_dir,
        log_policy: config.containers.log_policy,
        log_line_max: u32::try_from(config.containers.max_log_line).ok(),
        log_rate: config.containers.log_rate,
        log_size: config.containers.log_size,
        tty: container.config.tty,
        stdin: container.config.stdin,
        stdin_once: container.config.stdin_once,
        oom_cgroup: node.cgroups.memory_dir(container),
        // If it has joined the PID namespace of another process, that process is checked before the start.
        starts: by == StartBy::Keeper && joined.is_none(),
        own_users: bundle::id_of_root(&container.pod)?.is_some(),
        restore: container.goes_on.map(|_| go_on::restore(container)),
        ..CreateContainer::default()
    };
    let creating = keeper.create(&handler.runtime, &create, RUNTIME_LIMIT);
    let created = trace.step("runtime", &name, creating).await;
    if container.goes_on.is_some() {
        return match created.map_err(failed("restoring")) {
            Ok(created) => {
                if let Some(joined) = joined {
                    joined.check(container)?;
                }
                go_on::started(container).await;
                let (at, pid) = (clock::now(), created.pid);
                Ok(Event::Started { at, pid })
            }
            Err(error) => Err(go_on::failed(container, error).await),
        };
    }
    let created = created.map_err(failed("creating"))?;
    if let Some(joined) = joined {
        joined.check(container)?;
    }
    if created.started_ns != 0 {
        return Ok(Event::Started {
            at: created.started_ns as i64,
            pid: created.pid,
        });
    }
    // Taken before the start: a short-lived process may have ended when the runtime returns.
    let at = clock::now();
    let bundle = &container.bundle;
    let starting = keeper.start(&handler.runtime, id, bundle, by, RUNTIME_LIMIT);
    let started = trace.step("exec", &name, starting).await;
    started.map_err(failed("starting"))?;
    Ok(Event::Started {
        at,
        pid: created.pid,
    })
}

fn reason_of_failure(error: &Error) -> &'static str {
    match error {
        Error::Launch { source, .. }
            if source.failure_kind() == Some(FailureKind::RuntimeMissing) =>
        {
            "ContainerCannotRun"
        }
        _ => "StartError",
    }
}

/// Waits for a start in progress, which ends within its time limit. Returns earlier if the keeper hangs.
pub async fn wait_for_start(container: &Arc<Container>) -> Result<()> {
    let started = async {
        drop(container.turn.lock().await);
        Ok(())
    };
    hung_keeper::unless_hangs(container, "waiting for the start of", started).await
}

/// Sends a container its stop signal, and kills it after `grace`. A container that does not run is already stopped.
pub async fn stop(node: &Node, container: &Arc<Container>, grace: Duration) -> Result<()> {
    // Finish a start in progress first; it ends within its time limit.
    drop(container.turn.lock().await);
    if container.phase() != Phase::Running {
        return Ok(());
    }
    let id = container.id.as_str();
    let Ok(keeper) = container.pod.keeper() else {
        return stop_without_keeper(node, container).await;
    };
    if !grace.is_zero() {
        if container.claim_stop_signal() {
            let signal = stop_signal(container);
            match signal_first_process(&keeper, id, signal).await {
                Err(error) if is_unanswered(&error) => {
                    return without_keeper::stop(node, container, error, signal, grace).await;
                }
                asked => asked?,
            }
        }
        if timeout(grace, container.wait()).await.is_ok() {
            return Ok(());
        }
    }
    match kill(&node.cgroups, container, &keeper).await {
        Err(error) if is_unanswered(&error) => {
            return without_keeper::stop(node, container, error, SIGKILL, Duration::ZERO).await;
        }
        killed => killed?,
    }
    if timeout(KILL_LIMIT, container.wait()).await.is_ok() {
        return Ok(());
    }
    Err(Error::Timeout(format!(
        "container {id} still runs {KILL_LIMIT:?} after SIGKILL; one of its processes probably \
         waits in the kernel for a disk or a file server"
    ))
    .into())
}

/// Whether a request to a keeper timed out.
fn is_unanswered(error: &Error) -> bool {
    matches!(error, Error::Launch { source, .. } if source.is_unanswered())
}

/// Kills a container whose keeper is gone, and cleans up after it.
async fn stop_without_keeper(node: &Node, container: &Arc<Container>) -> Result<()> {
    let _turn = container.turn.lock().await;
    if container.phase() != Phase::Running {
        return Ok(());
    }
    without_keeper::end(node, container).await?;
    clean_up(&node.cgroups, &node.runtimes, container).await
}

fn stop_signal(container: &Container) -> u32 {
    let asked = Signal::try_from(container.now().effective.stop_signal).unwrap_or_default();
    StopSignal::from_cri(asked).map_or(SIGTERM, |signal| signal.number().unsigned_abs())
}

async fn signal_first_process(keeper: &Keeper, id: &str, signal: u32) -> Result<()> {
    match keeper.kill(id, signal).await {
        // The keeper was lost just now; the watcher of its events handles the container.
        Err(error) if error.is_gone() => Ok(()),
        result => result.map_err(|source| {
            Error::Launch {
                doing: format!("signalling container {id}"),
                source,
            }
            .into()
        }),
    }
}

/// Kills the first process, and also the others if they outlive it.
async fn kill(cgroups: &Cgroups, container: &Arc<Container>, keeper: &Keeper) -> Result<()> {
    signal_first_process(keeper, container.id.as_str(), SIGKILL).await?;
    cgroups.kill_processes(container).await;
    Ok(())
}

/// Lets the runtime delete a container that has ended, and undoes its mounts. May be repeated.
pub async fn clean_up(
    cgroups: &Cgroups,
    runtimes: &Runtimes,
    container: &Arc<Container>,
) -> Result<()> {
    if container.is_clean() {
        return Ok(());
    }
    let id = container.id.as_str();
    let Ok(handler) = runtimes.of(&container.pod) else {
        return without_runtime(cgroups, container).await;
    };
    let keeper = container.pod.keeper();
    if keeper.is_err() || container.now().started_at == 0 {
        end_orphans(cgroups, container, &handler).await;
    }
    if let Ok(keeper) = &keeper
        && let Some(state) = state_to_remove(cgroups, container, &handler).await
    {
        match directly(cgroups, container, keeper, state).await {
            Ok(()) => return Ok(()),
            // The runtime may succeed.
            Err(error) => {
                tracing::debug!(container = id, %error, "cannot clean up without the runtime; calling the runtime");
            }
        }
    }
    let deleted = match keeper {
        Ok(keeper) => {
            let (runtime, bundle) = (&handler.runtime, &container.bundle);
            keeper.delete(runtime, id, bundle, RUNTIME_LIMIT).await
        }
        Err(_) => handler.runtime.delete(id, RUNTIME_LIMIT).await,
    };
    let deleted = match deleted {
        Err(error) if error.is_gone() => {
            end_orphans(cgroups, container, &handler).await;
            handler.runtime.delete(id, RUNTIME_LIMIT).await
        }
        result => result,
    };
    deleted.map_err(|source| Error::Launch {
        doing: format!("cleaning up after container {id}"),
        source,
    })?;
    // A runtime that died halfway, or together with its shim, leaves processes and cgroups that its next call does not
    // know.
    cgroups.kill_processes(container).await;
    cgroups.remove(container).await?;
    container.set_clean();
    Ok(())
}

/// Cleans up after a container that its keeper may still be creating for an earlier run of the daemon. The creation
/// ends within its time limit.
pub async fn clean_up_half_made(
    cgroups: &Cgroups,
    runtimes: &Runtimes,
    container: &Arc<Container>,
) -> Result<()> {
    let deadline = Instant::now() + RUNTIME_LIMIT;
    loop {
        let cleaned = clean_up(cgroups, runtimes, container).await;
        match cleaned {
            Err(error) if is_at_work(&error) && Instant::now() < deadline => sleep(AGAIN).await,
            cleaned => return cleaned,
        }
    }
}

/// Whether the keeper refuses because it still works on the container.
fn is_at_work(error: &Error) -> bool {
    matches!(error, Error::Launch { source, .. }
        if source.failure_kind() == Some(FailureKind::WrongState))
}

/// Kills the runtime processes that a dead keeper or shim has left behind, and their children. They could still create
/// things that nothing would ever remove.
async fn end_orphans(cgroups: &Cgroups, container: &Arc<Container>, handler: &Handler) {
    let id = container.id.to_string();
    if let Ok(keeper) = container.pod.keeper()
        && !keeper.is_connected()
    {
        // The keeper still runs if only the connection broke.
        let _ = timeout(KEEPER_LIMIT, keeper.ended()).await;
    }
    let (root, of) = (handler.runtime.root.clone(), id.clone());
    let ended = waiting(&ENDING, &id, move || {
        let ended = orlop_process::orphans::end(&root, &of, ORPHAN_LIMIT);
        ended.map_err(|error| Error::Internal(error.to_string()).into())
    });
    if let Err(error) = ended.await {
        tracing::warn!(container = id, %error, "cannot kill leftover runtime processes");
    }
    cgroups.kill_processes(container).await;
}

/// Path of the runtime's state of a container, if removing it is all that the runtime's `delete` would do beyond our
/// own cleanup. That requires plain cgroup directories and nothing that the runtime undoes by other means.
async fn state_to_remove(
    cgroups: &Cgroups,
    container: &Arc<Container>,
    handler: &Handler,
) -> Option<PathBuf> {
    let state = handler.runtime.state_of(container.id.as_str())?;
    // A container that could not be started may be half created.
    if container.now().started_at == 0 || !cgroups.are_directories() {
        return None;
    }
    let container = Arc::clone(container);
    let needs_runtime = blocking(move || Ok(container.needs_runtime())).await;
    needs_runtime.is_ok_and(|needs| !needs).then_some(state)
}

/// Whether all other processes die with the first, as with the init of a PID namespace.
fn dies_as_one(container: &Container) -> bool {
    let modes = container.namespaces();
    modes.is_some_and(|modes| modes.pid() == NamespaceMode::Container)
}

/// Cleans up without running the OCI runtime.
async fn directly(
    cgroups: &Cgroups,
    container: &Container,
    keeper: &Keeper,
    state: PathBuf,
) -> Result<()> {
    let id = container.id.as_str();
    if !dies_as_one(container) {
        cgroups.kill_processes(container).await;
    }
    keeper.forget(id).await.map_err(|source| Error::Launch {
        doing: format!("removing container {id} from the keeper"),
        source,
    })?;
    cgroups.remove(container).await?;
    blocking(move || remove_tree(&state)).await?;
    container.set_clean();
    Ok(())
}

/// Cleans up after a container whose runtime is no longer configured.
async fn without_runtime(cgroups: &Cgroups, container: &Container) -> Result<()> {
    let id = container.id.as_str();
    tracing::warn!(
        container = id,
        "the container's runtime is no longer configured; stopping the container without it"
    );
    cgroups.kill_processes(container).await;
    if let Ok(keeper) = container.pod.keeper() {
        keeper.forget(id).await.map_err(|source| Error::Launch {
            doing: format!("removing container {id} from the keeper"),
            source,
        })?;
    }
    cgroups.remove(container).await?;
    container.set_clean();
    Ok(())
}

/// Reopens the container's log file.
pub async fn reopen_log(container: &Container) -> Result<()> {
    let id = container.id.as_str();
    container
        .pod
        .keeper()?
        .reopen_log(id)
        .await
        .map_err(|source| {
            Error::Launch {
                doing: format!("reopening the log of container {id}"),
                source,
            }
            .into()
        })
}

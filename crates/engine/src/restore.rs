//! Taking up what an earlier run of the daemon left.
//!
//! | what is found | what becomes of it |
//! |---|---|
//! | a pod that was ready, its keeper lives | it goes on; exits that nobody saw are taken over |
//! | a pod that was ready, no keeper (reboot, crash) | it is not ready, its containers have ended |
//! | a pod or container half made | undone |
//! | a pod or container half removed | removed |
//! | a directory without a readable record | removed |
//! | a lease or network attachment without owner | released |

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use orlop_launch::{ContainerInfo, Keeper, KeeperEvents};

use crate::container::{self, Container, Exit};
use crate::engine::Engine;
use crate::error::{Error, Result, chain};
use crate::ids::{ContainerId, PodId};
use crate::pod::{self, Pod};
use crate::{blocking, clock, exits, teardown};

/// The exit code of a container whose end nobody saw, as the peers report it.
const UNKNOWN: i32 = 255;

/// How often to try again to reach a keeper that may be alive.
const KEEPER_TRIES: u32 = 20;

/// Reads all records and brings the node in line with them.
pub async fn run(engine: &Engine) -> Result<()> {
    let (pods, runs) = (engine.pods_dir(), engine.runs_dir());
    let Records { found, unread } = blocking(move || read_pods(&pods, &runs)).await?;
    for (pod, containers) in found {
        engine.levels.restore(&pod);
        engine.pods.insert(pod.id.clone().as_str(), pod);
        for container in containers {
            engine
                .containers
                .insert(container.id.clone().as_str(), container);
        }
    }
    let pods = engine.pods.all();
    join_all(pods.iter().map(|pod| restore_pod(engine, pod))).await;
    release_leftovers(engine, unread).await
}

/// What the records say.
struct Records {
    found: Vec<(Arc<Pod>, Vec<Arc<Container>>)>,
    /// Pods whose record is there and could not be read: nothing of them is touched.
    unread: HashSet<String>,
}

fn read_pods(pods: &Path, runs: &Path) -> Result<Records> {
    let mut found = Vec::new();
    let mut unread = HashSet::new();
    for name in names_in(pods)? {
        let (dir, run) = (pods.join(&name), runs.join(&name));
        let pod = match PodId::parse(&name) {
            Some(id) => match Pod::restore(id, dir.clone(), run) {
                Ok(pod) => pod,
                Err(error) => {
                    // One bad disk block must not keep the whole node down.
                    tracing::error!(pod = name, error = chain(&*error), "leaving a pod alone");
                    unread.insert(name);
                    continue;
                }
            },
            None => None,
        };
        let Some(pod) = pod else {
            tracing::warn!(path = %dir.display(), "no readable record; removing what is left");
            teardown::remove_tree(&dir)?;
            continue;
        };
        let pod = Arc::new(pod);
        let containers = read_containers(&pod)?;
        found.push((pod, containers));
    }
    Ok(Records { found, unread })
}

fn read_containers(pod: &Arc<Pod>) -> Result<Vec<Arc<Container>>> {
    let directory = pod.containers_dir();
    let mut containers = Vec::new();
    for name in names_in(&directory)? {
        let container = match ContainerId::parse(&name) {
            Some(id) => Container::restore(id, pod)?,
            None => None,
        };
        match container {
            Some(container) => containers.push(Arc::new(container)),
            None => teardown::remove_tree(&directory.join(&name))?,
        }
    }
    Ok(containers)
}

async fn restore_pod(engine: &Engine, pod: &Arc<Pod>) {
    if let Err(error) = try_restore_pod(engine, pod).await {
        // It stays visible as it was recorded; stop and remove will try again.
        tracing::error!(pod = %pod.id, %error, "restoring a pod");
    }
}

async fn try_restore_pod(engine: &Engine, pod: &Arc<Pod>) -> Result<()> {
    let connected = find_keeper(pod).await;
    let alive = connected.is_some();
    if let Some((keeper, events)) = connected {
        pod.set_keeper(Some(keeper.clone()));
        adopt(engine, pod, &keeper).await;
        exits::watch(engine, pod, events);
    }
    match pod.phase() {
        pod::Phase::Creating => {
            teardown::stop(engine, pod).await?;
            teardown::erase(engine, pod).await
        }
        pod::Phase::Removing => teardown::remove(engine, pod).await,
        pod::Phase::Ready if alive => tidy_containers(engine, pod).await,
        pod::Phase::Ready => {
            exits::lost(engine, pod).await;
            tidy_containers(engine, pod).await
        }
        pod::Phase::NotReady => {
            if alive {
                teardown::stop(engine, pod).await?;
            }
            tidy_containers(engine, pod).await
        }
    }
}

/// The pod's keeper, if it lives. A busy machine or keeper is given time: a keeper taken for
/// dead costs its pod's life.
async fn find_keeper(pod: &Pod) -> Option<(Keeper, KeeperEvents)> {
    let mut tries = 0;
    loop {
        match Keeper::connect(&pod.run).await {
            Ok(found) => return Some(found),
            Err(error) if is_dead(&error) => return None,
            Err(error) if tries == KEEPER_TRIES => {
                tracing::error!(pod = %pod.id, %error, "giving up on the pod's keeper");
                return None;
            }
            Err(error) => {
                tracing::warn!(pod = %pod.id, %error, "the pod's keeper does not answer yet");
                tries += 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn is_dead(error: &orlop_launch::Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    let orlop_launch::Error::Connect { source, .. } = error else {
        return false;
    };
    matches!(source.kind(), NotFound | ConnectionRefused)
}

/// Takes over what happened while no daemon was there.
async fn adopt(engine: &Engine, pod: &Arc<Pod>, keeper: &Keeper) {
    let Ok(listing) = keeper.list().await else {
        return;
    };
    for container in engine.containers_of(pod) {
        let known = listing
            .containers
            .iter()
            .find(|info| info.id == container.id.as_str());
        match known {
            Some(info) => {
                if let Some(status) = &info.exit {
                    if info.started_ns > 0 && container.phase() == container::Phase::Created {
                        note_start(&container, info);
                    }
                    exits::ended(engine, container, status.clone());
                } else if info.started_ns > 0 && container.phase() == container::Phase::Created {
                    note_start(&container, info);
                } else if info.started_ns == 0 && info.pid > 0 {
                    // Half started: the start's caller got no answer and will not ask again.
                    give_up_start(engine, &container).await;
                }
            }
            None if container.phase() == container::Phase::Running => {
                let exit = Exit {
                    at: clock::now(),
                    code: UNKNOWN,
                    reason: "Unknown".into(),
                    message: "the pod's keeper does not know this container any more".into(),
                };
                container.exited(exit);
            }
            None => {}
        }
    }
}

/// It was started, and the daemon was killed before it could write that down.
fn note_start(container: &Container, info: &ContainerInfo) {
    let end = info.exit.as_ref().map_or(u64::MAX, |exit| exit.time_ns);
    let at = i64::try_from(info.started_ns.min(end)).unwrap_or(i64::MAX);
    container.record_if_possible(container::Event::Started { at, pid: info.pid });
}

async fn give_up_start(engine: &Engine, container: &Arc<Container>) {
    container.exited(Exit {
        at: clock::now(),
        code: 128,
        reason: "StartError".into(),
        message: "the daemon was restarted while the container was being started".into(),
    });
    if let Err(error) = crate::process::clean_up(engine, container).await {
        tracing::warn!(container = %container.id, %error, "cleaning up after half a start");
    }
}

/// Undoes containers that were half made, and finishes removals.
async fn tidy_containers(engine: &Engine, pod: &Arc<Pod>) -> Result<()> {
    for container in engine.containers_of(pod) {
        match container.phase() {
            container::Phase::Creating => teardown::erase_container(engine, &container).await?,
            container::Phase::Removing => teardown::remove_container(engine, &container).await?,
            _ => {}
        }
    }
    Ok(())
}

/// Releases what belongs to no pod or container.
async fn release_leftovers(engine: &Engine, unread: HashSet<String>) -> Result<()> {
    end_unknown_keepers(engine, &unread).await?;
    if unread.is_empty() {
        release_leases(engine).await?;
    } else {
        // Nobody can tell which containers the unread pods have.
        tracing::warn!(
            pods = unread.len(),
            "unread records: no image lease is released"
        );
    }
    let pods = engine.clone();
    let is_valid = move |id: &orlop_network::ContainerId| {
        unread.contains(id.as_str()) || pods.pods.find(id.as_str()).is_ok()
    };
    if let Err(error) = engine.networks.gc(is_valid).await {
        tracing::warn!(%error, "releasing network attachments of pods that are gone");
    }
    Ok(())
}

async fn end_unknown_keepers(engine: &Engine, unread: &HashSet<String>) -> Result<()> {
    let runs = engine.runs_dir();
    let names = {
        let runs = runs.clone();
        blocking(move || names_in(&runs)).await?
    };
    for name in names
        .into_iter()
        .filter(|name| !unread.contains(name) && engine.pods.find(name).is_err())
    {
        let run = runs.join(&name);
        if let Ok((keeper, _)) = Keeper::connect(&run).await
            && let Err(error) = keeper.shutdown().await
        {
            tracing::error!(pod = name, %error, "ending the keeper of an unknown pod");
            continue;
        }
        let pin = engine.config.state.join("netns").join(&name);
        blocking(move || {
            orlop_launch::remove_pin(&pin).map_err(|source| Error::Launch {
                doing: "removing the network namespace of an unknown pod".into(),
                source,
            })?;
            teardown::remove_tree(&run)
        })
        .await?;
    }
    Ok(())
}

async fn release_leases(engine: &Engine) -> Result<()> {
    for lease in engine.images.leases() {
        let container = lease.owner.split('/').next().unwrap_or_default();
        if engine.containers.find(container).is_err() {
            engine
                .images
                .release(&lease.owner)
                .await
                .map_err(|source| Error::Image {
                    doing: "releasing the images of containers that are gone".into(),
                    source,
                })?;
        }
    }
    Ok(())
}

fn names_in(dir: &Path) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(format!("reading {}", dir.display()))(error).into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io(format!("reading {}", dir.display())))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

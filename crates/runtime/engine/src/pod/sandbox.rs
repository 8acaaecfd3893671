//! Creation and removal of a pod sandbox: a keeper in namespaces, files, and a network.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::NamespaceMode;
use orlop_launch::{
    IdMap, Keeper, KeeperEvents, KeeperSpec, PodNamespaces, ShmMount, Sysctl, remove_pin,
};
use orlop_network::Attachment;
use orlop_network::netns::Held;
use orlop_network::spare::KEPT;
use tokio::time::{sleep, timeout};

use crate::ask::PodParts;
use crate::blocking;
use crate::error::{Error, Result};
use crate::node::cgroups::KEEPER_OOM_SCORE;
use crate::node::{Node, selinux_levels};
use crate::pod::{files, keeper_events, network, shared};
use crate::record::directories::{make_private_dir, remove_tree};
use crate::record::pod::{Event, Pod};
use crate::timeline::Trace;

/// Time to wait for the client to start the pod's first container, which must not compete for CPU time meanwhile.
const CONTAINER_WITHIN: Duration = Duration::from_millis(25);

/// Time for a container that was just started to answer the client and begin its program.
const UNDER_WAY: Duration = Duration::from_millis(1);

/// Creates the namespaces and the network, then the files, because the hosts file contains the pod's addresses. Creates
/// the shared sandbox last.
pub async fn build(
    node: &Arc<Node>,
    pod: &Arc<Pod>,
    parts: PodParts,
    net: Result<Option<Held>>,
    trace: &Trace,
) -> Result<()> {
    let net = net?;
    let PodParts {
        user,
        sysctls,
        shm_size,
        attachment,
        files,
    } = parts;
    let config = node.config();
    let policy = &config.containers.policy;
    node.levels.allot(&node.host, policy, pod).await?;
    let labels = selinux_levels::of_pod(&node.host, pod)?;
    let has_users = user.is_some();
    // Decided once, even if the configuration changes meanwhile.
    let by_programs = net.is_none() && by_programs(node, attachment.as_deref());
    let by_link = attachment.is_some() && !by_programs;
    let ahead = net.is_some();
    let inside = Inside {
        user,
        sysctls,
        shm_size,
        label: labels.map_or_else(String::new, |labels| labels.file),
        hostname: files.hostname.clone(),
        net_pin: by_programs.then(|| node.paths.net_pin(&pod.id)),
    };
    let net_path = net.as_ref().map(|net| net.path().to_owned());
    let first = attachment.as_deref().filter(|_| ahead);
    let spec = prepare(node, pod, inside, net_path, first).await?;
    let keeper = async {
        let started = trace.step("keeper", "", start_keeper(pod, spec)).await;
        settle(node, pod, started?, by_link, has_users).await
    };
    let attach = attachment.map(|attachment| {
        let attach = network::attach(&node.networks, pod, attachment, !ahead);
        Box::pin(trace.step("network", "", attach))
    });
    let keeper = Box::pin(keeper);
    let network = match attach {
        // Both run concurrently, and both complete even if one fails. Attaching the network takes longer, so it begins
        // first.
        Some(attach) if ahead => {
            let (attached, kept) = tokio::join!(attach, keeper);
            let network = attached?;
            if kept.is_err() {
                // The teardown needs the record.
                pod.record(Event::Attached { network }).await?;
                return kept;
            }
            Some(network)
        }
        Some(attach) => {
            keeper.await?;
            Some(attach.await?)
        }
        None => {
            keeper.await?;
            None
        }
    };
    // The keeper is in the namespace by now.
    drop(net);
    let pod_too = Arc::clone(pod);
    let write = blocking(move || {
        if let Some(network) = network {
            pod_too.record_here(Event::Attached { network })?;
        }
        files::write(&pod_too, &files)
    });
    trace.step("files", "", write).await?;
    shared::make(node, pod, trace).await
}

/// Settings of the namespaces that a keeper creates.
struct Inside {
    user: Option<(Vec<IdMap>, Vec<IdMap>)>,
    sysctls: BTreeMap<String, String>,
    shm_size: u64,
    /// SELinux label of the containers' files.
    label: String,
    hostname: String,
    /// Path where the network namespace is mounted, which only CNI programs need: they may pass it on to processes
    /// outside the host's PID namespace. Each such mount slows down every copy of the host's mount table, which each
    /// container start makes.
    net_pin: Option<PathBuf>,
}

/// Stores the pod's keeper, and creates links to its namespaces.
async fn settle(
    node: &Arc<Node>,
    pod: &Arc<Pod>,
    (keeper, events): (Keeper, KeeperEvents),
    net: bool,
    users: bool,
) -> Result<()> {
    let net = net.then(|| (keeper.net_ns(), node.paths.net_pin(&pod.id)));
    let users = users.then(|| (keeper.user_ns(), pod.user_ns()));
    pod.set_keeper(Some(keeper));
    keeper_events::watch(node, pod, events);
    let links: Vec<_> = net.into_iter().chain(users).collect();
    if links.is_empty() {
        return Ok(());
    }
    let run = pod.run.clone();
    blocking(move || {
        let mut links = links.iter();
        links.try_for_each(|(target, path)| link(target, path, &run))
    })
    .await
}

/// Creates a pod's network namespace before its keeper, or takes the spare one, so that both are set up concurrently.
/// Returns `None` if that is not possible. The namespace disappears if the daemon dies before the keeper joins it.
pub async fn net_ahead(node: &Node, parts: &PodParts) -> Result<Option<Held>> {
    let attachment = parts.attachment.as_deref();
    let may_be = attachment.is_some()
        && !by_programs(node, attachment)
        && parts.user.is_none()
        && may_come_first(&parts.sysctls);
    if !may_be {
        return Ok(None);
    }
    if let Some(spare) = node.spare_net.take() {
        return Ok(Some(spare));
    }
    blocking(|| {
        let made = Held::new().map_err(Error::io("creating a network namespace"));
        Ok(Some(made?))
    })
    .await
}

/// Creates a spare network namespace for the next pod in the background, because the kernel needs a quarter of a pod's
/// start time for it. Waits a short time for a container start first, usually that of this pod.
pub fn make_spare_net(node: &Arc<Node>) {
    let (node, spare) = (Arc::clone(node), Arc::clone(&node.spare_net));
    tokio::spawn(async move {
        let started = node.container_started.notified();
        if timeout(CONTAINER_WITHIN, started).await.is_ok() {
            sleep(UNDER_WAY).await;
        }
        drop(node);
        let spare_too = Arc::clone(&spare);
        let made = blocking(move || {
            let made = spare_too.make();
            Ok(made.map_err(Error::io("creating a network namespace"))?)
        });
        match made.await {
            Ok(true) => {
                sleep(KEPT).await;
                spare.drop_old();
            }
            Ok(false) => {}
            // The next pod creates its own and reports the error.
            Err(error) => {
                tracing::debug!(%error, "cannot create a spare network namespace for the next pod");
            }
        }
    });
}

/// Whether CNI programs attach the pod, not this process.
fn by_programs(node: &Node, attachment: Option<&Attachment>) -> bool {
    attachment.is_some_and(|attachment| {
        let conf_dir = attachment.conf_dir.as_deref();
        !node.networks.is_in_process(conf_dir)
    })
}

/// Whether the network may be attached before kernel parameters are set. Interfaces take some parameters from the time
/// of their creation.
fn may_come_first(sysctls: &BTreeMap<String, String>) -> bool {
    const OF_SOCKETS: [&str; 2] = [
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
    ];
    let mut names = sysctls.keys().map(|name| name.replace('/', "."));
    names.all(|name| !name.starts_with("net.") || OF_SOCKETS.contains(&name.as_str()))
}

/// Creates the files that a keeper needs at its start, and records the network attachment.
async fn prepare(
    node: &Arc<Node>,
    pod: &Arc<Pod>,
    inside: Inside,
    net_path: Option<PathBuf>,
    attachment: Option<&Attachment>,
) -> Result<KeeperSpec> {
    let (node, pod) = (Arc::clone(node), Arc::clone(pod));
    let attachment = attachment.cloned().map(Box::new);
    blocking(move || {
        let mut spec = keeper_spec(&node, &pod, inside);
        if let Some(shm) = &spec.shm {
            make_private_dir(&shm.path)?;
        }
        if let Some(attachment) = attachment {
            pod.record_here(Event::Attaching { attachment })?;
        }
        if let Some(path) = &net_path {
            // Until the keeper joins it; the link dangles if the process that holds the namespace dies before.
            link(path, &node.paths.net_pin(&pod.id), &pod.run)?;
        }
        spec.net_path = net_path;
        Ok(spec)
    })
    .await
}

async fn start_keeper(pod: &Pod, spec: KeeperSpec) -> Result<(Keeper, KeeperEvents)> {
    Keeper::spawn(spec).await.map_err(|source| {
        Error::Launch {
            doing: format!("starting the keeper of pod {}", pod.id),
            source,
        }
        .into()
    })
}

/// Links `path` to a namespace, atomically if the link exists. A half-done link is in the pod's volatile directory and
/// is removed with it.
fn link(target: &Path, path: &Path, run: &Path) -> Result<()> {
    let made = match symlink(target, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let new = run.join("link");
            symlink(target, &new).and_then(|()| std::fs::rename(&new, path))
        }
        made => made,
    };
    made.map_err(Error::io(format!("creating {}", path.display())))
        .map_err(Into::into)
}

/// Undoes the parts of [`build`] that exist.
pub async fn dismantle(node: &Node, pod: &Arc<Pod>) -> Result<()> {
    shared::end(&node.cgroups, &node.runtimes, pod).await?;
    network::detach(&node.networks, pod).await?;
    end_keeper(pod).await?;
    pod.meter.lock().close();
    node.cgroups.remove_pod(pod).await?;
    let (pin, shm) = (node.paths.net_pin(&pod.id), node.paths.shm(pod));
    blocking(move || {
        remove_pin(&pin).map_err(|source| Error::Launch {
            doing: format!("removing the network namespace {}", pin.display()),
            source,
        })?;
        remove_tree(&shm)
    })
    .await
}

/// Stops the pod's keeper, if it runs.
pub async fn end_keeper(pod: &Pod) -> Result<()> {
    let keeper = pod.now().keeper;
    // Otherwise its exit would be handled as a crash.
    pod.set_keeper(None);
    let ended = match keeper {
        Some(keeper) => keeper.end().await,
        // The keeper was never known or was given up, but may still run.
        None => orlop_launch::end_keeper(&pod.run).await,
    };
    ended.map_err(|source| {
        let doing = format!("stopping the keeper of pod sandbox {}", pod.id);
        Error::Launch { doing, source }.into()
    })
}

fn keeper_spec(node: &Node, pod: &Pod, inside: Inside) -> KeeperSpec {
    let modes = pod.namespaces();
    let own_net = modes.network() != NamespaceMode::Node;
    let own_ipc = modes.ipc() != NamespaceMode::Node;
    let handler = node.runtimes.of(pod).ok();
    KeeperSpec {
        program: node.config().keeper.clone(),
        pod_id: pod.id.to_string(),
        dir: pod.run.clone(),
        namespaces: PodNamespaces {
            net: own_net,
            ipc: own_ipc,
            // A host name of its own makes no sense on the host's network.
            uts: own_net,
            shared_pid: modes.pid() == NamespaceMode::Pod,
            user: inside.user,
        },
        hostname: own_net.then_some(inside.hostname),
        net_pin: inside.net_pin,
        net_path: None,
        sysctls: inside
            .sysctls
            .into_iter()
            .map(|(name, value)| Sysctl { name, value })
            .collect(),
        shm: own_ipc.then(|| ShmMount {
            path: node.paths.shm(pod),
            size: inside.shm_size,
            label: inside.label,
        }),
        cgroups: node.cgroups.of_keepers(),
        oom_score_adj: Some(KEEPER_OOM_SCORE),
        env: Vec::new(),
        few_mounts: node.few_mounts.clone(),
        runtime: handler.and_then(|handler| node.programs.of(&handler.runtime)),
    }
}

//! What a pod sandbox is made of: a keeper in namespaces, files, a network.

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

/// When a pod is made, the client goes on with its first container, which is not to wait for a processor meanwhile.
const CONTAINER_WITHIN: Duration = Duration::from_millis(25);

/// What is left to do for a container that was just started: its answer, and its program's own start.
const UNDER_WAY: Duration = Duration::from_millis(1);

/// Makes the namespaces and the network, then the files, because the hosts file has the pod's
/// addresses in it; then what stands on all of them.
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
    // Decided once, whatever the configuration says by now.
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
        // Neither waits for the other, nor is one left half done where the other fails. Most is left to be done where
        // the network is attached: that begins first.
        Some(attach) if ahead => {
            let (attached, kept) = tokio::join!(attach, keeper);
            let network = attached?;
            if kept.is_err() {
                // It is undone as a whole.
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
    // The keeper is in it by now.
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

/// What is asked of the namespaces that a keeper makes.
struct Inside {
    user: Option<(Vec<IdMap>, Vec<IdMap>)>,
    sysctls: BTreeMap<String, String>,
    shm_size: u64,
    /// Of the files of its containers.
    label: String,
    hostname: String,
    /// Where the network namespace is mounted. Each such mount costs all that copy the host's mounts,
    /// as every container does, so that only programs get it, which may pass the path on to others
    /// that have no view of the host's processes.
    net_pin: Option<PathBuf>,
}

/// Has the pod know its keeper, and what that holds have a path.
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

/// Makes a pod's network namespace before its keeper, where it may be, so that the network is attached while that starts,
/// unless one is there already. What dies before the keeper has it leaves none.
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

/// Has a network namespace made for the next pod, which seldom comes alone: a fourth of a pod sandbox's time is the
/// kernel's for that. It is made once a container was started, which is this pod's as a rule, if that does not take long.
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
            // The next pod makes its own, and tells why it can't.
            Err(error) => {
                tracing::debug!(%error, "cannot create a spare network namespace for the next pod");
            }
        }
    });
}

/// Whether a pod is attached by programs, and not in this process.
fn by_programs(node: &Node, attachment: Option<&Attachment>) -> bool {
    attachment.is_some_and(|attachment| {
        let conf_dir = attachment.conf_dir.as_deref();
        !node.networks.is_in_process(conf_dir)
    })
}

/// Whether a network may be attached before kernel parameters are set: those of its interfaces are what they were when
/// an interface is made.
fn may_come_first(sysctls: &BTreeMap<String, String>) -> bool {
    const OF_SOCKETS: [&str; 2] = [
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
    ];
    let mut names = sysctls.keys().map(|name| name.replace('/', "."));
    names.all(|name| !name.starts_with("net.") || OF_SOCKETS.contains(&name.as_str()))
}

/// Makes what a keeper finds when it starts, and writes down what the pod is attached to beside that.
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
            // Until the keeper has it; of what dies before it leads nowhere.
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

/// Gives a namespace a path that names the pod, or gives that path to this one, which is at each moment there. What is
/// half done is in the pod's volatile directory, and gone with it.
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

/// Undoes what [`build`] made, as far as it is there.
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

/// Ends the pod's keeper, if it lives.
pub async fn end_keeper(pod: &Pod) -> Result<()> {
    let keeper = pod.now().keeper;
    // Without this its end would be taken for an accident.
    pod.set_keeper(None);
    let ended = match keeper {
        Some(keeper) => keeper.end().await,
        // Never known, or given up, and yet it may live.
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
            // A host name of its own would make no sense on the host's network.
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

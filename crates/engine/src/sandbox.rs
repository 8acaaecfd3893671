//! What a pod sandbox is made of: a keeper in namespaces, files, a network.

use std::sync::Arc;
use std::time::Duration;

use orlop_cri::v1::NamespaceMode;
use orlop_launch::{
    IdMap, Keeper, KeeperEvents, KeeperSpec, PodNamespaces, ShmMount, Sysctl, oci, remove_pin,
};

use crate::cgroups::KEEPER_OOM_SCORE;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::files::{PodFiles, hostname};
use crate::pod::Pod;
use crate::spec::{self, IdRanges};
use crate::timeline::Trace;
use crate::{blocking, exits, network};

/// Shared memory of a pod, as the peers size it.
const SHM_SIZE: u64 = 64 << 20;

/// A shim that has not ended by then is stuck with what it runs.
const SHIM_LIMIT: Duration = Duration::from_mins(1);

/// Makes the namespaces, the network, and the files, in this order, because the hosts file
/// has the pod's addresses in it.
pub async fn build(engine: &Engine, pod: &Arc<Pod>, trace: &Trace) -> Result<()> {
    engine.levels.allot(engine, pod).await?;
    let keeper = start_keeper(engine, pod);
    let (keeper, events) = trace.step("keeper", "", keeper).await?;
    link_user_namespace(pod, &keeper).await?;
    pod.set_keeper(Some(keeper));
    exits::watch(engine, pod, events);
    if !pod.host_network() {
        let attach = network::attach(engine, pod);
        trace.step("network", "", attach).await?;
    }
    let pod_too = Arc::clone(pod);
    let write = blocking(move || PodFiles::of(&pod_too).write(&pod_too, &pod_too.ips()));
    trace.step("files", "", write).await
}

async fn start_keeper(engine: &Engine, pod: &Arc<Pod>) -> Result<(Keeper, KeeperEvents)> {
    let (engine, pod_too) = (engine.clone(), Arc::clone(pod));
    let spec = blocking(move || {
        let spec = keeper_spec(&engine, &pod_too)?;
        if let Some(shm) = &spec.shm {
            crate::pod::make_private_dir(&shm.path)?;
        }
        Ok(spec)
    })
    .await?;
    Keeper::spawn(spec).await.map_err(|source| {
        Error::Launch {
            doing: format!("starting the keeper of pod {}", pod.id),
            source,
        }
        .into()
    })
}

/// Gives the pod's user namespace a path, if it has one.
async fn link_user_namespace(pod: &Pod, keeper: &Keeper) -> Result<()> {
    if user_namespace(pod)?.is_none() {
        return Ok(());
    }
    let (target, path) = (keeper.user_ns(), pod.user_ns());
    blocking(move || {
        std::os::unix::fs::symlink(target, &path)
            .map_err(Error::io(format!("making {}", path.display())))
            .map_err(Into::into)
    })
    .await
}

/// Undoes what [`build`] made, as far as it is there.
pub async fn dismantle(engine: &Engine, pod: &Arc<Pod>) -> Result<()> {
    end_shim(engine, pod).await?;
    network::detach(engine, pod).await?;
    end_keeper(pod).await?;
    pod.meter.lock().close();
    engine.cgroups.remove_pod(pod).await?;
    let (pin, shm) = (engine.net_pin(pod), engine.shm_dir(pod));
    blocking(move || {
        remove_pin(&pin).map_err(|source| Error::Launch {
            doing: format!("removing the network namespace {}", pin.display()),
            source,
        })?;
        crate::teardown::remove_tree(&shm)
    })
    .await
}

/// Ends what the pod's containers shared beside its namespaces, a virtual machine for example.
async fn end_shim(engine: &Engine, pod: &Pod) -> Result<()> {
    let Ok(handler) = engine.runtimes.of(pod) else {
        return Ok(());
    };
    if !handler.settings.is_shim() {
        return Ok(());
    }
    let ended = handler.runtime.end_pod(pod.id.as_str(), SHIM_LIMIT).await;
    ended.map_err(|source| {
        let doing = format!("ending the shim of pod sandbox {}", pod.id);
        Error::Launch { doing, source }
    })?;
    engine.cgroups.remove_shim_task(pod).await
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
        let doing = format!("ending the keeper of pod sandbox {}", pod.id);
        Error::Launch { doing, source }.into()
    })
}

fn keeper_spec(engine: &Engine, pod: &Pod) -> Result<KeeperSpec> {
    let modes = pod.namespaces();
    let own_net = modes.network() != NamespaceMode::Node;
    let own_ipc = modes.ipc() != NamespaceMode::Node;
    Ok(KeeperSpec {
        program: engine.config.keeper.clone(),
        pod_id: pod.id.to_string(),
        dir: pod.run.clone(),
        namespaces: PodNamespaces {
            net: own_net,
            ipc: own_ipc,
            // A host name of its own would make no sense on the host's network.
            uts: own_net,
            shared_pid: modes.pid() == NamespaceMode::Pod,
            user: user_namespace(pod)?,
        },
        hostname: own_net.then(|| hostname(pod)).transpose()?,
        net_pin: own_net.then(|| engine.net_pin(pod)),
        sysctls: spec::pod_sysctls(&pod.config, &engine.config.containers.policy)
            .map_err(Error::Spec)?
            .into_iter()
            .map(|(name, value)| Sysctl { name, value })
            .collect(),
        shm: own_ipc.then(|| ShmMount {
            path: engine.shm_dir(pod),
            size: SHM_SIZE,
        }),
        cgroups: engine.cgroups.of_keepers(),
        oom_score_adj: Some(KEEPER_OOM_SCORE),
        env: Vec::new(),
    })
}

/// The mappings of the pod's user namespace, if it asks for one.
fn user_namespace(pod: &Pod) -> Result<Option<(Vec<IdMap>, Vec<IdMap>)>> {
    let ranges = IdRanges::parse(Some(pod.namespaces())).map_err(Error::Spec)?;
    let maps = |ranges: Vec<oci::IdMapping>| {
        let map = |range: oci::IdMapping| IdMap {
            inside: range.container_id,
            outside: range.host_id,
            count: range.size,
        };
        ranges.into_iter().map(map).collect()
    };
    Ok(ranges.map(|ranges| (maps(ranges.uids), maps(ranges.gids))))
}

//! Where a container's figures are: asked of the engine once per container, then remembered.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use orlop_cgroup::Cgroup;

use super::meter::Meter;
use crate::clock;
use crate::docker::types::Resources;
use crate::error::Result;
use crate::limits::cgroup_of;
use crate::shim::Shim;

/// The places of all containers and sandboxes that were asked about.
#[derive(Debug, Default)]
pub(crate) struct Stats(Mutex<HashMap<String, Arc<Place>>>);

/// Where one container's figures are.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) pid: i32,
    pub(super) cgroup: Option<Cgroup>,
    /// The directory of what it has written, if the engine says which.
    pub(super) upper: Option<PathBuf>,
    pub(super) host_network: bool,
    pub(super) limits: Resources,
    pub(super) started_at: i64,
    pub(super) meter: Mutex<Meter>,
    /// For a sandbox: the pod's own cgroup, above it.
    pub(super) pod: Option<(Cgroup, Mutex<Meter>)>,
}

impl Place {
    /// Whether the process that it was found by is still there.
    fn is_current(&self) -> bool {
        self.pid > 0 && self.cgroup.as_ref().is_none_or(Cgroup::exists)
    }
}

impl Stats {
    /// Forgets a container.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A container's place.
pub(super) async fn of(shim: &Shim, id: &str) -> Result<Arc<Place>> {
    let known = shim.stats.lock().get(id).cloned();
    if let Some(known) = known.filter(|known| known.is_current()) {
        return Ok(known);
    }
    let found = shim.docker.container(id).await;
    let found = found.map_err(crate::error::Error::engine(format!(
        "looking at container {id}"
    )))?;
    let cgroup = shim
        .hierarchies
        .as_ref()
        .and_then(|hierarchies| cgroup_of(hierarchies, found.state.pid));
    // Without a parent of the pod's own, what is above is everybody's.
    let pod = cgroup
        .as_ref()
        .filter(|_| !found.host_config.cgroup_parent.is_empty())
        .and_then(|cgroup| {
            let parent = cgroup.path().parent()?;
            let above = Cgroup::new(Arc::clone(shim.hierarchies.as_ref()?), parent);
            Some((above, Mutex::default()))
        });
    let place = Arc::new(Place {
        pid: found.state.pid,
        cgroup,
        upper: found.graph_driver.data.get("UpperDir").map(PathBuf::from),
        host_network: found.host_config.network_mode == "host",
        limits: found.host_config.resources.clone(),
        started_at: clock::parse(&found.state.started_at),
        meter: Mutex::default(),
        pod,
    });
    shim.stats.lock().insert(id.to_owned(), Arc::clone(&place));
    Ok(place)
}

//! Location of a container's statistics, requested from the engine once per container and then cached.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_cgroup::{Cgroup, Hierarchies};
use orlop_cri_server::usage::Meter;
use orlop_fs::Mountinfo;
use parking_lot::Mutex;

use crate::clock;
use crate::docker::Docker;
use crate::docker::types::Resources;
use crate::engine_info::EngineInfo;
use crate::error::{Error, Result};
use crate::limits::{Extra, cgroup_of};

/// The cached locations of the statistics of containers and sandboxes, and the parts needed to find them.
#[derive(Debug)]
pub(crate) struct Stats {
    pub(super) docker: Arc<Docker>,
    pub(super) info: EngineInfo,
    /// The cgroup hierarchies; without them there are no statistics.
    hierarchies: Option<Arc<Hierarchies>>,
    places: Mutex<HashMap<String, Arc<Place>>>,
}

/// The location of one container's statistics.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) pid: i32,
    pub(super) cgroup: Option<Cgroup>,
    /// The directory of the writable layer, if known.
    pub(super) upper: Option<PathBuf>,
    pub(super) host_network: bool,
    pub(super) limits: Resources,
    /// The requested `memory.low`.
    pub(super) memory_low: u64,
    pub(super) started_at: i64,
    pub(super) meter: Mutex<Meter>,
    /// For a sandbox: the pod's own cgroup, its parent.
    pub(super) pod: Option<(Cgroup, Mutex<Meter>)>,
}

impl Place {
    /// Whether the process that the location was found by still exists.
    fn is_current(&self) -> bool {
        self.pid > 0 && self.cgroup.as_ref().is_none_or(Cgroup::exists)
    }
}

impl Stats {
    pub(crate) fn new(
        docker: Arc<Docker>,
        info: EngineInfo,
        hierarchies: Option<Arc<Hierarchies>>,
    ) -> Self {
        Self {
            docker,
            info,
            hierarchies,
            places: Mutex::default(),
        }
    }

    /// Forgets a container.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<String, Arc<Place>>> {
        self.places.lock()
    }
}

/// Returns the directory of a container's writable layer if the engine uses containerd's image store and does not
/// report it. It is the upper layer of the root filesystem in the mount table of the first process.
fn upper_of(pid: i32) -> Option<PathBuf> {
    upper_in(&Mountinfo::of(u32::try_from(pid).ok()?).ok()?)
}

/// A privileged container can mount anything, so only a path that looks like a snapshot counts.
fn upper_in(table: &Mountinfo) -> Option<PathBuf> {
    let mut mounts = table.mounts();
    let root = mounts.find(|mount| mount.point() == Path::new("/"))?;
    let upper = root
        .options()
        .filter(|_| root.kind() == "overlay")
        .find_map(|option| option.strip_prefix(b"upperdir="))?;
    let upper = orlop_fs::unescape(upper);
    let mut parts = upper
        .components()
        .rev()
        .map(std::path::Component::as_os_str);
    let is_number = |part: &std::ffi::OsStr| {
        part.to_str()
            .is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_snapshot =
        parts.next()? == "fs" && is_number(parts.next()?) && parts.next()? == "snapshots";
    is_snapshot.then_some(upper)
}

/// Returns the location of a container's statistics.
pub(super) async fn of(stats: &Stats, id: &str) -> Result<Arc<Place>> {
    let known = stats.lock().get(id).cloned();
    if let Some(known) = known.filter(|known| known.is_current()) {
        return Ok(known);
    }
    let found = stats.docker.container(id).await;
    let found = found.map_err(Error::engine(format!("inspecting container {id}")))?;
    let cgroup = stats
        .hierarchies
        .as_ref()
        .and_then(|hierarchies| cgroup_of(hierarchies, found.state.pid, &found.id));
    // Without a parent cgroup of the pod, the cgroup above is shared with others.
    let pod = cgroup
        .as_ref()
        .filter(|_| !found.host_config.cgroup_parent.is_empty())
        .and_then(|cgroup| {
            let parent = cgroup.path().parent()?;
            let above = Cgroup::new(Arc::clone(stats.hierarchies.as_ref()?), parent);
            Some((above, Mutex::default()))
        });
    let place = Arc::new(Place {
        pid: found.state.pid,
        cgroup,
        upper: match found.graph_driver.data.get("UpperDir") {
            Some(upper) => Some(PathBuf::from(upper)),
            None => upper_of(found.state.pid),
        },
        host_network: found.host_config.network_mode == "host",
        limits: found.host_config.resources.clone(),
        memory_low: Extra::of_labels(&found.config.labels).memory_low(),
        started_at: clock::parse(&found.state.started_at),
        meter: Mutex::default(),
        pod,
    });
    stats.lock().insert(id.to_owned(), Arc::clone(&place));
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_layer_is_read_from_the_mount_of_the_root() {
        let line = |upper: &str| {
            format!(
                "1 2 0:3 / /proc rw - proc proc rw\n4 5 0:6 / / rw,relatime - overlay overlay \
                 rw,lowerdir=/a/snapshots/1/fs,upperdir={upper},workdir=/a/snapshots/2/work\n"
            )
        };
        assert_eq!(
            upper_in(&Mountinfo::from_text(line("/a/snapshots/2/fs"))).unwrap(),
            PathBuf::from("/a/snapshots/2/fs")
        );
        assert_eq!(upper_in(&Mountinfo::from_text(line("/etc"))), None);
        assert_eq!(
            upper_in(&Mountinfo::from_text(line("/a/snapshots/x/fs"))),
            None
        );
        assert_eq!(
            upper_in(&Mountinfo::from_text("1 2 0:3 / / rw - ext4 /dev/vda rw\n")),
            None
        );
    }
}

//! Resource usage of a cgroup, as the document of `events`.

mod document;
mod read;
mod v1;
mod v2;

pub(crate) use document::Stats;

use super::dirs::Dirs;
use super::place::Cgroup;
use crate::error::Result;

impl Cgroup {
    /// Reads the current usage. Parts whose controller is missing are empty.
    pub(crate) fn stats(&self) -> Result<Stats> {
        let dirs = Dirs::open(self)?;
        let stats = if self.is_v2() {
            v2::read(&dirs)
        } else {
            v1::read(&dirs)
        };
        Ok(stats?)
    }

    /// Returns the number of processes killed by the OOM killer, if the kernel counts them.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let dirs = Dirs::open(self).ok()?;
        let dir = dirs.find("memory")?;
        let file = if self.is_v2() {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        let told = dir.read(file).ok()?;
        read::keys(&told).find_map(|(key, value)| (key == "oom_kill").then_some(value))
    }

    /// Returns a watch that becomes readable when memory runs out in the cgroup.
    pub(crate) fn watch_oom(&self) -> Result<orlop_cgroup::OomWatch> {
        let watch = orlop_cgroup::OomWatch::new(&self.alive());
        watch.map_err(|error| crate::error::Error::new(error.to_string()))
    }
}

//! Changes the limits of a cgroup with processes in it.

use std::str::FromStr;

use orlop_oci_types::Resources;

use super::dirs::Dirs;
use super::files::Failed;
use super::place::Cgroup;
use super::{limits, properties};
use crate::error::Result;

impl Cgroup {
    /// Sets new limits; absent values and the device rules stay unchanged.
    pub(crate) fn update(&self, resources: &Resources) -> Result<()> {
        let dirs = Dirs::open(self)?;
        let resources = with_what_belongs_to_it(&dirs, resources)?;
        limits::check(&resources, self.version)?;
        let Some(unit) = &self.unit else {
            return limits::set(&dirs, &resources);
        };
        // Before systemd applies a limit that would kill all processes.
        limits::refuse_what_is_in_use(&dirs, &resources)?;
        self.update_unit(unit, &resources)?;
        limits::set(&dirs, &properties::as_systemd_rounds(&resources))
    }
}

/// Adds current values that a new value depends on.
fn with_what_belongs_to_it(dirs: &Dirs<'_>, resources: &Resources) -> Result<Resources, Failed> {
    let mut whole = resources.clone();
    if let (Some(memory), true) = (&mut whole.memory, dirs.is_v2())
        && let Some(dir) = dirs.find("")
        && memory.limit.unwrap_or(0) == 0
        && memory.swap > Some(0)
    {
        // Without a limit the kernel shows no number, and the swap limit stays a combined one.
        memory.limit = number(dir.read("memory.max")?.trim());
    }
    if let Some(cpu) = &mut whole.cpu {
        let (has_quota, has_period) = (
            limits::some(cpu.quota).is_some(),
            limits::some(cpu.period).is_some(),
        );
        if has_quota != has_period
            && let Some(dir) = dirs.find("cpu")
        {
            let told = if dirs.is_v2() {
                dir.read("cpu.max")?
            } else {
                dir.read("cpu.cfs_quota_us")? + &dir.read("cpu.cfs_period_us")?
            };
            let mut told = told.split_whitespace();
            let (quota, period) = (told.next(), told.next());
            if has_quota {
                cpu.period = period.and_then(number);
            } else {
                cpu.quota = quota.and_then(number).or(Some(-1));
            }
        }
    }
    Ok(whole)
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

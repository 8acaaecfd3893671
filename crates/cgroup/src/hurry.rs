//! Processes that are to end, and may use little of a processor: to die takes time of it, too. Of a
//! hundredth of one, six hundred processes took 39 seconds.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Cgroup;
use crate::cgroup::write_everywhere;

/// The limit of the cgroup above, which others live under as well. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Hurry {
    above: Option<(PathBuf, String)>,
}

impl Cgroup {
    /// Lifts the limits of processor time of this cgroup and of those below it for good, and has the one
    /// above allow a whole processor for now. Where that fails it takes longer.
    pub(crate) fn hurry(&self) -> Hurry {
        let (controller, name, none) = if self.hierarchies().is_v2() {
            ("cgroup", "cpu.max", "max")
        } else {
            ("cpu", "cpu.cfs_quota_us", "-1")
        };
        let Some(top) = self.directory(controller) else {
            return Hurry { above: None };
        };
        let above = self.path().parent().filter(|above| !above.is_root());
        let above = above.and(top.parent()).and_then(|dir| raise(dir, name));
        let _ = write_everywhere(&top, name, none);
        Hurry { above }
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        if let Some((file, limit)) = &self.above {
            // It may be gone by now.
            let _ = fs::write(file, limit);
        }
    }
}

/// Raises a limit to one processor; returns what it was if it was less.
fn raise(dir: &Path, name: &str) -> Option<(PathBuf, String)> {
    let file = dir.join(name);
    let text = orlop_disk::read_kernel_text(&file).ok()?;
    let limit = text.trim();
    // Version 2 has both in one file.
    let (quota, period, raised) = if let Some((quota, period)) = limit.split_once(' ') {
        (quota, period.to_owned(), format!("{period} {period}"))
    } else {
        let period = orlop_disk::read_kernel_text(dir.join("cpu.cfs_period_us")).ok()?;
        let period = period.trim().to_owned();
        (limit, period.clone(), period)
    };
    let (quota, period): (i64, i64) = (quota.parse().ok()?, period.parse().ok()?);
    if !(0..period).contains(&quota) {
        return None;
    }
    fs::write(&file, raised).ok()?;
    Some((file, limit.to_owned()))
}

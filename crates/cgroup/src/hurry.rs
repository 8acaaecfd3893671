//! Processes that are to end, and may use little of a processor: to die takes time of it, too. Of a
//! hundredth of one, six hundred processes took 39 seconds.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Cgroup;
use crate::cgroup::write_everywhere;

/// The limit of the cgroup above, which others live under as well. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Hurry {
    above: Option<Raised>,
}

#[derive(Debug)]
struct Raised {
    file: PathBuf,
    before: String,
    /// What the kernel says since.
    now: String,
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
        let Some(Raised { file, before, now }) = &self.above else {
            return;
        };
        // It may be gone by now, or have another limit of whose it is.
        if read(file).as_ref() == Some(now) {
            let _ = fs::write(file, before);
        }
    }
}

/// Raises a limit to one processor; returns what it was if it was less.
fn raise(dir: &Path, name: &str) -> Option<Raised> {
    let file = dir.join(name);
    let limit = read(&file)?;
    // Version 2 has both in one file.
    let (quota, period, raised) = if let Some((quota, period)) = limit.split_once(' ') {
        (quota, period.to_owned(), format!("{period} {period}"))
    } else {
        let period = read(&dir.join("cpu.cfs_period_us"))?;
        (limit.as_str(), period.clone(), period)
    };
    let (quota, period): (i64, i64) = (quota.parse().ok()?, period.parse().ok()?);
    if !(0..period).contains(&quota) {
        return None;
    }
    fs::write(&file, raised).ok()?;
    let now = read(&file)?;
    Some(Raised {
        file,
        before: limit,
        now,
    })
}

fn read(file: &Path) -> Option<String> {
    let text = orlop_disk::read_kernel_text(file).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_changed_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cpu.max");
        let limit = || fs::read_to_string(&file).unwrap();
        fs::write(&file, "1000 100000\n").unwrap();
        drop(Hurry {
            above: raise(dir.path(), "cpu.max"),
        });
        assert_eq!(limit(), "1000 100000");
        let hurry = Hurry {
            above: raise(dir.path(), "cpu.max"),
        };
        assert_eq!(limit(), "100000 100000");
        fs::write(&file, "20000 100000\n").unwrap();
        drop(hurry);
        assert_eq!(limit(), "20000 100000\n");
        // More than a processor is enough.
        fs::write(&file, "150000 100000\n").unwrap();
        assert!(raise(dir.path(), "cpu.max").is_none());
    }
}

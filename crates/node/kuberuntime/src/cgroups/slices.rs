//! Pod cgroups as systemd slices.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use orlop_cgroup::{Cgroup, CgroupPath, Hierarchies, Property, Systemd, Value};

use super::CgroupError;
use super::limits::{Limits, PERIOD};

/// How often to stop and recreate a slice that has no cgroup, and how long to wait for systemd.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// Creates a slice and sets its limits. Blocks.
pub(super) fn apply(slice: &str, limits: &Limits) -> Result<(), CgroupError> {
    let cgroup = cgroup(slice)?;
    let mut systemd = Systemd::connect().map_err(|e| fail(slice, e))?;
    let properties = properties(limits);
    let mut made = systemd.start_slice(&cgroup, &properties);
    for _ in 0..TRIES {
        if made.is_ok() || cgroup.exists() {
            break;
        }
        // The cgroup was removed, but systemd still considers the slice active.
        systemd.stop(slice).map_err(|e| fail(slice, e))?;
        thread::sleep(PAUSE);
        made = systemd.start_slice(&cgroup, &properties);
    }
    made.map_err(|e| fail(slice, e))
}

/// Stops a slice and everything in it. Blocks.
pub(super) fn stop(slice: &str) -> Result<(), CgroupError> {
    let mut systemd = Systemd::connect().map_err(|e| fail(slice, e))?;
    systemd.stop(slice).map_err(|e| fail(slice, e))
}

fn cgroup(slice: &str) -> Result<Cgroup, CgroupError> {
    let path = CgroupPath::of_slice(slice).map_err(|e| fail(slice, e))?;
    let hierarchies = Hierarchies::detect().map_err(|e| fail(slice, e))?;
    Ok(Cgroup::new(Arc::new(hierarchies), path))
}

fn fail(slice: &str, error: impl std::fmt::Display) -> CgroupError {
    CgroupError::Systemd {
        slice: slice.to_owned(),
        why: error.to_string(),
    }
}

fn properties(limits: &Limits) -> Vec<Property> {
    let words = orlop_cgroup::Limits {
        cpu_shares: u64::try_from(limits.cpu_shares).ok(),
        cpu_quota: Some(limits.cpu_quota.unwrap_or(-1)),
        cpu_period: u64::try_from(PERIOD).ok(),
        memory: Some(limits.memory.unwrap_or(-1)),
        pids: Some(
            limits
                .pids
                .map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX)),
        ),
        ..orlop_cgroup::Limits::default()
    };
    let mut properties = orlop_cgroup::limits_as_properties(&words);
    if let Some(kept) = limits.protection {
        for (name, bytes) in [("MemoryMin", kept.min), ("MemoryLow", kept.low)] {
            let bytes = u64::try_from(bytes).unwrap_or(0);
            properties.push(Property::new(name, Value::Number(bytes)));
        }
    }
    properties
}

#[cfg(test)]
mod tests {
    use orlop_kubelet_rules::cri_config::Protection;

    use super::*;

    #[test]
    fn limits_in_systemds_words() {
        let limits = Limits {
            cpu_shares: 1024,
            cpu_quota: Some(50_000),
            memory: None,
            pids: Some(7),
            protection: Some(Protection { min: 1, low: 2 }),
        };
        let number = |name, value| Property::new(name, Value::Number(value));
        let made = properties(&limits);
        for wanted in [
            number("CPUWeight", 100),
            number("CPUQuotaPerSecUSec", 500_000),
            number("MemoryMax", u64::MAX),
            number("TasksMax", 7),
            number("MemoryMin", 1),
            number("MemoryLow", 2),
        ] {
            assert!(made.contains(&wanted), "{wanted:?} not in {made:?}");
        }
        let unlimited = properties(&Limits::of_shares(0));
        assert!(unlimited.contains(&number("CPUQuotaPerSecUSec", u64::MAX)));
        assert!(cgroup("kubepods.slice").is_ok() && cgroup("kubepods").is_err());
    }
}

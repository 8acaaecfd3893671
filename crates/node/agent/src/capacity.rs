//! Capacity of the node, and the part that pods can use.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use orlop_kubelet_rules::pod::{Quantity, ResourceList};

use super::KubeletConfiguration;
use super::eviction::Thresholds;
use super::meminfo::meminfo;

/// The node's resources.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Capacity {
    /// The total capacity.
    pub(crate) total: ResourceList,
    /// The part that pods can use.
    pub(crate) allocatable: ResourceList,
}

impl Capacity {
    /// Reads the capacity of this machine.
    pub(crate) fn of_this_machine(
        configuration: &KubeletConfiguration,
        thresholds: &Thresholds,
        root: &Path,
    ) -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as i64;
        let memory = meminfo()
            .get("MemTotal")
            .copied()
            .ok_or("MemTotal is missing in /proc/meminfo")?;
        let disk = rustix::fs::statvfs(root)
            .map(|found| found.f_blocks.saturating_mul(found.f_frsize))
            .unwrap_or_default();
        let mut pods = i64::from(configuration.max_pods);
        if configuration.pods_per_core > 0 {
            pods = pods.min(i64::from(configuration.pods_per_core) * cores);
        }
        let mut total = ResourceList::new();
        let mut put = |name: &str, amount: Quantity| {
            total.insert(name.to_owned(), amount);
        };
        put("cpu", Quantity::from_units(cores));
        put("memory", Quantity::from_bytes(units(memory)));
        put("ephemeral-storage", Quantity::from_bytes(units(disk)));
        put("pods", Quantity::from_units(pods));
        for (size, pages) in hugepages() {
            let bytes = units(size.saturating_mul(pages));
            put(
                &format!("hugepages-{}", binary(size)),
                Quantity::from_bytes(bytes),
            );
        }
        let mut reserved = reserve("kubeReserved", &configuration.kube_reserved)?;
        for (name, amount) in reserve("systemReserved", &configuration.system_reserved)? {
            let sum = reserved
                .get(&name)
                .copied()
                .unwrap_or_default()
                .plus(amount);
            reserved.insert(name, sum);
        }
        for (name, bytes) in [
            ("memory", thresholds.hard_bytes("memory.available", memory)),
            (
                "ephemeral-storage",
                thresholds.hard_bytes("nodefs.available", disk),
            ),
        ] {
            let more = Quantity::from_bytes(units(bytes));
            let sum = reserved.get(name).copied().unwrap_or_default().plus(more);
            reserved.insert(name.to_owned(), sum);
        }
        let allocatable = total
            .iter()
            .map(|(name, amount)| {
                let less = reserved.get(name).copied().unwrap_or_default();
                let left = (amount.milli() - less.milli()).max(0);
                (name.clone(), Quantity::from_milli(left))
            })
            .collect();
        Ok(Self { total, allocatable })
    }
}

fn reserve(field: &str, reserved: &BTreeMap<String, String>) -> Result<ResourceList, String> {
    let mut list = ResourceList::new();
    for (name, text) in reserved {
        let amount: Quantity = text
            .parse()
            .map_err(|error| format!("{field}[{name}]: {error}"))?;
        list.insert(name.clone(), amount);
    }
    Ok(list)
}

/// Lists the huge page sizes and the number of pages of each.
fn hugepages() -> Vec<(u64, u64)> {
    let entries = fs::read_dir("/sys/kernel/mm/hugepages")
        .into_iter()
        .flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let kib = name
                .to_str()?
                .strip_prefix("hugepages-")?
                .strip_suffix("kB")?;
            let pages = orlop_fs::read_kernel_text(entry.path().join("nr_hugepages")).ok()?;
            Some((kib.parse::<u64>().ok()? << 10, pages.trim().parse().ok()?))
        })
        .collect();
    found.sort_unstable();
    found
}

fn binary(bytes: u64) -> String {
    if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) {
        format!("{}Gi", bytes >> 30)
    } else {
        format!("{}Mi", bytes >> 20)
    }
}

fn units(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_not_for_pods() {
        let mut configuration = KubeletConfiguration {
            max_pods: 50,
            ..KubeletConfiguration::default()
        };
        configuration
            .kube_reserved
            .insert("cpu".to_owned(), "100m".to_owned());
        configuration
            .system_reserved
            .insert("cpu".to_owned(), "150m".to_owned());
        let thresholds = Thresholds::read(&configuration).unwrap();
        let capacity =
            Capacity::of_this_machine(&configuration, &thresholds, Path::new("/")).unwrap();
        let milli = |list: &ResourceList, name: &str| list[name].milli();
        assert_eq!(
            milli(&capacity.total, "cpu") - milli(&capacity.allocatable, "cpu"),
            250
        );
        let memory = milli(&capacity.total, "memory") - milli(&capacity.allocatable, "memory");
        assert_eq!(memory, (100 << 20) * 1000);
        assert_eq!(capacity.allocatable["pods"].units(), 50);
        configuration
            .kube_reserved
            .insert("cpu".to_owned(), "lots".to_owned());
        assert!(Capacity::of_this_machine(&configuration, &thresholds, Path::new("/")).is_err());
    }
}

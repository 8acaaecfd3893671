//! Node properties from the kernel, for options that are not set.

use std::net::IpAddr;

use orlop_kubelet_rules::cri_config::NodeFacts;

use crate::options::NodeOptions;

/// Node properties from the kernel, for options that are not set. Blocks.
pub(super) struct Machine {
    pub(super) memory: u64,
    pub(super) cpu_milli: u64,
    pub(super) hugepage_sizes: Vec<String>,
    /// The node's swap in bytes.
    pub(super) swap: u64,
    /// Whether the kernel can limit the swap of a cgroup.
    pub(super) can_limit_swap: bool,
}

impl Machine {
    pub(super) fn look(options: &NodeOptions) -> Self {
        let memory = match options.memory {
            0 => of_kernel("MemTotal:"),
            memory => memory,
        };
        let cpu_milli = match options.cpu_milli {
            0 => {
                std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64 * 1000
            }
            cpu => cpu,
        };
        Self {
            memory,
            cpu_milli,
            hugepage_sizes: hugepage_sizes(),
            swap: of_kernel("SwapTotal:"),
            can_limit_swap: can_limit_swap(),
        }
    }

    pub(super) fn facts(&self, options: &NodeOptions) -> NodeFacts {
        let or = |own: u64, other: u64| if own == 0 { other } else { own };
        NodeFacts {
            node_name: options.name.clone(),
            host_ips: options.addresses.clone(),
            pod_ips: Vec::<IpAddr>::new(),
            memory: or(options.allocatable_memory, self.memory),
            cpu_milli: or(options.allocatable_cpu_milli, self.cpu_milli),
        }
    }
}

/// Reads a size that the kernel reports, in bytes.
fn of_kernel(name: &str) -> u64 {
    let text = orlop_fs::read_kernel_text("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Whether the kernel accounts for swap. The root of cgroup v2 has no limit files, so this checks a
/// child cgroup.
fn can_limit_swap() -> bool {
    let top = std::path::Path::new("/sys/fs/cgroup");
    if top.join("memory/memory.memsw.limit_in_bytes").exists() {
        return true;
    }
    let beneath = std::fs::read_dir(top).into_iter().flatten().flatten();
    beneath
        .map(|entry| entry.path().join("memory.swap.max"))
        .any(|limit| limit.exists())
}

/// Lists the huge page sizes of the kernel in CRI notation: `2MB`, `1GB`.
fn hugepage_sizes() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/kernel/mm/hugepages")
        .into_iter()
        .flatten()
        .flatten();
    let mut sizes: Vec<u64> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_prefix("hugepages-")?
                .strip_suffix("kB")?
                .parse()
                .ok()
        })
        .collect();
    sizes.sort_unstable();
    let text = |kilobytes: u64| match kilobytes {
        n if n % (1 << 20) == 0 => format!("{}GB", n >> 20),
        n if n % (1 << 10) == 0 => format!("{}MB", n >> 10),
        n => format!("{n}KB"),
    };
    sizes.into_iter().map(text).collect()
}

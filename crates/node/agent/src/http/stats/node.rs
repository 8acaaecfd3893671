//! Resource usage of the node.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::shared::{now, time};
use crate::tasks;

/// Returns the CPU time that the node was not idle, over all CPUs.
pub(super) fn node_cpu_nanos() -> Option<u64> {
    let text = orlop_fs::read_kernel_text("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .map_while(|it| it.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; user includes guests.
    let busy: u64 = ticks.iter().take(8).sum::<u64>()
        - ticks.get(3).copied().unwrap_or_default()
        - ticks.get(4).copied().unwrap_or_default();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(busy.saturating_mul(1_000_000_000 / per_second))
}

/// Returns the boot time of the kernel.
pub(super) fn boot_time() -> Option<i64> {
    let text = orlop_fs::read_kernel_text("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(
        line.trim()
            .parse::<i64>()
            .ok()?
            .saturating_mul(1_000_000_000),
    )
}

/// Describes the file system of a path.
pub(super) fn filesystem(path: &Path) -> Value {
    let Ok(found) = rustix::fs::statvfs(path) else {
        return Value::Null;
    };
    let block = found.f_frsize;
    json!({
        "time": time(now()),
        "availableBytes": found.f_bavail.saturating_mul(block),
        "capacityBytes": found.f_blocks.saturating_mul(block),
        "usedBytes": found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(block),
        "inodesFree": found.f_favail,
        "inodes": found.f_files,
        "inodesUsed": found.f_files.saturating_sub(found.f_ffree),
    })
}

/// Describes the number of processes and threads, and its limit.
pub(super) fn rlimit() -> Value {
    json!({"time": time(now()), "maxpid": tasks::most(), "curproc": tasks::count()})
}

/// Returns the numbers of page faults and major page faults.
pub(super) fn page_faults() -> (Option<u64>, Option<u64>) {
    let text = orlop_fs::read_kernel_text("/proc/vmstat").unwrap_or_default();
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    (field("pgfault "), field("pgmajfault "))
}

/// Returns the pressure stall information of a resource, if the kernel has it.
pub(super) fn pressure(what: &str) -> Option<Value> {
    parse_pressure(&orlop_fs::read_kernel_text(format!("/proc/pressure/{what}")).ok()?)
}

fn parse_pressure(text: &str) -> Option<Value> {
    let zero = || json!({"total": 0, "avg10": 0.0, "avg60": 0.0, "avg300": 0.0});
    let mut all = json!({"full": zero(), "some": zero()});
    for line in text.lines() {
        let (kind, fields) = line.split_once(' ')?;
        if !matches!(kind, "full" | "some") {
            continue;
        }
        for field in fields.split_ascii_whitespace() {
            let (name, value) = field.split_once('=')?;
            all[kind][name] = match name {
                "total" => json!(value.parse::<u64>().ok()?),
                _ => json!(value.parse::<f64>().ok()?),
            };
        }
    }
    Some(all)
}

/// Describes the network interfaces; the one with the default route represents the node.
pub(super) fn network() -> Option<Value> {
    let text = orlop_fs::read_kernel_text("/proc/net/dev").ok()?;
    let interfaces = parse_interfaces(&text);
    let routes = orlop_fs::read_kernel_text("/proc/net/route").unwrap_or_default();
    let default = routes.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let name = fields.next()?;
        (fields.next()? == "00000000").then_some(name)
    });
    let mut all = default
        .and_then(|name| interfaces.get(name).cloned())
        .unwrap_or_else(|| json!({}));
    all["time"] = json!(time(now()));
    all["interfaces"] = interfaces.into_values().collect();
    Some(all)
}

fn parse_interfaces(text: &str) -> BTreeMap<String, Value> {
    let lines = text.lines().filter_map(|line| {
        let (name, fields) = line.split_once(':')?;
        let name = name.trim();
        let fields: Vec<u64> = fields
            .split_ascii_whitespace()
            .map_while(|it| it.parse().ok())
            .collect();
        let (received, sent) = fields.split_at_checked(8)?;
        let interface = json!({
            "name": name,
            "rxBytes": received[0],
            "rxErrors": received.get(2)?,
            "txBytes": sent.first()?,
            "txErrors": sent.get(2)?,
        });
        (name != "lo").then(|| (name.to_owned(), interface))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n\
                    eth0:10 2 3 0 0 0 0 0 40 5 6 0 0 0 0 0\n";
        let interfaces = parse_interfaces(text);
        assert_eq!(
            interfaces["eth0"],
            json!({"name": "eth0", "rxBytes": 10, "rxErrors": 3, "txBytes": 40, "txErrors": 6})
        );
        assert_eq!(interfaces.len(), 1, "loopback is no network");
        let psi = parse_pressure(
            "some avg10=1.50 avg60=0.00 avg300=0.25 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        );
        assert_eq!(
            psi.unwrap()["some"],
            json!({"avg10": 1.5, "avg60": 0.0, "avg300": 0.25, "total": 77})
        );
        assert_eq!(parse_pressure("some avg10=x"), None);
        assert!(network().is_some() && node_cpu_nanos().is_some() && boot_time().is_some());
        assert!(rlimit()["maxpid"].as_u64() > rlimit()["curproc"].as_u64());
    }
}

//! Memory usage of the daemon.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use orlop_cri_server::timeline::Traces;
use serde_json::{Value, json};

use crate::memory::allocated;
use crate::metrics::Backend;
use crate::rpc::Policy;

/// Size limit of the kernel's list of mappings.
const LONGEST: u64 = 16 << 20;

/// Reports memory usage by kernel, allocator and the daemon's own lists. Blocks on files.
pub(crate) fn memory(policy: &Policy, backend: Option<&Backend>) -> Value {
    let mut memory = json!({
        "mapped": mapped(),
        "allocator": allocated(),
        "open_files": open_files(),
        "calls_in_work": policy.calls().len(),
    });
    let traces = match backend {
        Some(Backend::Native(engine)) => {
            let gauges = engine.gauges();
            let sum = |states: &BTreeMap<&'static str, i64>| states.values().sum::<i64>();
            memory["held"] = json!({
                "pods": sum(&gauges.pods),
                "containers": sum(&gauges.containers),
                "keepers_connected": gauges.keepers,
                "commands": gauges.commands,
                "event_subscribers": gauges.subscribers,
                "images": gauges.images,
                "image_leases": gauges.leases,
                "pulls": gauges.pulls,
                "lazy_layers": gauges.lazy_layers,
                "state_json_bytes": engine.state().to_string().len(),
            });
            engine.traces()
        }
        Some(Backend::Docker(shim)) => shim.traces(),
        None => return memory,
    };
    memory["timelines"] = timelines(traces);
    memory
}

fn timelines(traces: &Traces) -> Value {
    let traces = traces.latest();
    let spans: usize = traces.iter().map(|trace| trace.spans().len()).sum();
    json!({ "traces": traces.len(), "spans": spans })
}

/// Returns resident bytes by kind: program, heap, thread stacks, other anonymous memory, files.
fn mapped() -> Value {
    let Ok(text) = orlop_fs::read_file(Path::new("/proc/self/smaps"), LONGEST) else {
        return Value::Null;
    };
    let own = std::env::current_exe().unwrap_or_default();
    let own = own.to_string_lossy();
    // After an upgrade the running program is deleted, which the kernel marks in the name.
    let own = own.strip_suffix(" (deleted)").unwrap_or(&own);
    sums(&String::from_utf8_lossy(&text), own)
}

/// Returns for each kind of mapping the number of mappings and their resident and dirty bytes.
fn sums(smaps: &str, program: &str) -> Value {
    let mut kinds: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    let mut kind = "other";
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if !first.ends_with(':') {
            // Fields: address, permissions, offset, device, inode, name.
            kind = match words.nth(4).unwrap_or_default() {
                "" => "anonymous",
                "[heap]" => "heap",
                name if name.starts_with("[stack") => "stacks",
                name if name.starts_with('[') => "kernel",
                name if name == program => "program",
                _ => "files",
            };
            kinds.entry(kind).or_default()[0] += 1;
            continue;
        }
        let kilobytes: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let sums = kinds.entry(kind).or_default();
        match first {
            "Rss:" => sums[1] += kilobytes << 10,
            "Private_Dirty:" => sums[2] += kilobytes << 10,
            _ => {}
        }
    }
    let told = kinds.into_iter().map(|(kind, [count, resident, changed])| {
        let sums = json!({ "mappings": count, "resident_bytes": resident, "private_dirty_bytes": changed });
        (kind.to_owned(), sums)
    });
    Value::Object(told.collect())
}

/// Counts open files by kind.
fn open_files() -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for file in fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
    {
        let Ok(target) = fs::read_link(file.path()) else {
            continue;
        };
        let target = target.to_string_lossy();
        let kind = match target.split_once(':') {
            Some((kind, _)) if !target.starts_with('/') => kind,
            _ => "file",
        };
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_summed_by_what_they_are() {
        let smaps = "1-2 r-xp 00000000 fe:00 7 /usr/bin/orlop\nRss: 8 kB\nPrivate_Dirty: 4 kB\n\
                     2-3 rw-p 00000000 00:00 0 \nRss: 16 kB\nPrivate_Dirty: 16 kB\n\
                     3-4 rw-p 00000000 00:00 0 [heap]\nRss: 1 kB\nVmFlags: rd wr\nPrivate_Dirty: x kB\n";
        let sums = sums(smaps, "/usr/bin/orlop");
        assert_eq!(sums["program"]["resident_bytes"], 8192);
        assert_eq!(sums["program"]["private_dirty_bytes"], 4096);
        assert_eq!(sums["anonymous"]["resident_bytes"], 16384);
        assert_eq!(sums["heap"]["mappings"], 1);
        assert_eq!(sums["heap"]["private_dirty_bytes"], 0);
    }
}

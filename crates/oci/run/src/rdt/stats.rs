//! Statistics of a group, as the part `intel_rdt` of `events`.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::Rdt;

impl Rdt {
    /// Reads the current values. Values that the machine does not report are left out.
    pub(crate) fn stats(&self) -> Map<String, Value> {
        let mut all = Map::new();
        let (of_root, own) = (lines(&self.root), lines(&self.group));
        let info = self.root.join("info");
        if info.join("L3").is_dir() {
            let dir = info.join("L3");
            let known = json!({
                "cbm_mask": text(&dir, "cbm_mask"),
                "min_cbm_bits": number(&dir, "min_cbm_bits"),
                "num_closids": number(&dir, "num_closids"),
            });
            all.insert("l3_cache_info".to_owned(), known);
            insert(&mut all, "l3_cache_schema_root", named(&of_root, "L3"));
            insert(&mut all, "l3_cache_schema", named(&own, "L3"));
        }
        if info.join("MB").is_dir() {
            let dir = info.join("MB");
            let known = json!({
                "bandwidth_gran": number(&dir, "bandwidth_gran"),
                "delay_linear": number(&dir, "delay_linear"),
                "min_bandwidth": number(&dir, "min_bandwidth"),
                "num_closids": number(&dir, "num_closids"),
            });
            all.insert("mem_bw_info".to_owned(), known);
            insert(&mut all, "mem_bw_schema_root", named(&of_root, "MB"));
            insert(&mut all, "mem_bw_schema", named(&own, "MB"));
        }
        all.insert("schemata".to_owned(), json!(own));
        self.count(&mut all);
        all
    }

    /// Adds the counters of each cache: of the container's monitoring group, else of the class.
    fn count(&self, all: &mut Map<String, Value>) {
        let features = text(&self.root.join("info/L3_MON"), "mon_features");
        let has = |name: &str| features.lines().any(|it| it == name);
        let (bandwidth, occupancy) = (
            has("mbm_total_bytes") || has("mbm_local_bytes"),
            has("llc_occupancy"),
        );
        let data = self
            .monitor
            .as_ref()
            .unwrap_or(&self.group)
            .join("mon_data");
        let Ok(entries) = fs::read_dir(data) else {
            return;
        };
        let mut caches: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        caches.sort();
        if bandwidth {
            let of = |cache: &std::path::PathBuf| {
                json!({
                    "mbm_total_bytes": number(cache, "mbm_total_bytes"),
                    "mbm_local_bytes": number(cache, "mbm_local_bytes"),
                })
            };
            all.insert("mbm_stats".to_owned(), caches.iter().map(of).collect());
        }
        if occupancy {
            let of = |cache: &std::path::PathBuf| json!({ "llc_occupancy": number(cache, "llc_occupancy") });
            all.insert("cmt_stats".to_owned(), caches.iter().map(of).collect());
        }
    }
}

fn lines(group: &Path) -> Vec<String> {
    let text = text(group, "schemata");
    text.lines().map(|line| line.trim().to_owned()).collect()
}

fn named(lines: &[String], name: &str) -> Option<String> {
    lines.iter().rev().find(|line| line.contains(name)).cloned()
}

fn insert(all: &mut Map<String, Value>, key: &str, line: Option<String>) {
    if let Some(line) = line {
        all.insert(key.to_owned(), json!(line));
    }
}

fn text(dir: &Path, file: &str) -> String {
    let text = orlop_fs::read_kernel_text(dir.join(file)).unwrap_or_default();
    text.trim().to_owned()
}

fn number(dir: &Path, file: &str) -> u64 {
    text(dir, file).parse().unwrap_or(0)
}

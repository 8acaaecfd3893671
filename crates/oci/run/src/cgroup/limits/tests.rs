//! Tests of the written limits, in directories that only look like cgroups.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::cgroup::Cgroup;
use crate::cgroup::dirs::Dirs;
use crate::cgroup::place::Place;
use crate::json;

use super::*;

/// Directories with these files, empty or with the given content.
struct Tree {
    dir: tempfile::TempDir,
    cgroup: Cgroup,
}

impl Tree {
    fn new(version: u8, files: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let (name, content) = file.split_once('=').unwrap_or((file, ""));
            fs::write(dir.path().join(name), content).unwrap();
        }
        let controllers = match version {
            1 => [
                "cpu", "cpuset", "memory", "blkio", "pids", "hugetlb", "net_cls", "net_prio",
                "rdma",
            ]
            .as_slice(),
            _ => &[],
        };
        let place = Place {
            controllers: controllers.iter().map(|it| (*it).to_owned()).collect(),
            dir: dir.path().to_owned(),
            point: dir.path().to_owned(),
        };
        let cgroup = Cgroup {
            version,
            places: vec![place],
            unit: None,
            optional: false,
            rootless: false,
        };
        Self { dir, cgroup }
    }

    fn set(&self, resources: &str) -> Result<BTreeMap<String, String>> {
        let resources = json::parse(resources.as_bytes()).unwrap();
        set(&Dirs::open(&self.cgroup)?, &resources)?;
        Ok(self.written())
    }

    fn update(&self, resources: &str) -> Result<BTreeMap<String, String>> {
        self.cgroup
            .update(&json::parse(resources.as_bytes()).unwrap())?;
        Ok(self.written())
    }

    /// Files that are not empty.
    fn written(&self) -> BTreeMap<String, String> {
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let files = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let read = files.map(|path| (name(&path), fs::read_to_string(path).unwrap()));
        read.filter(|(_, content)| !content.is_empty()).collect()
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

const ALL: &str = r#"{
    "memory": {"limit": 1000, "swap": 3000, "reservation": 500, "kernel": 7, "kernelTCP": 8, "swappiness": 60,
               "disableOOMKiller": true, "useHierarchy": true},
    "cpu": {"shares": 2048, "quota": 50000, "period": 200000, "burst": 1000, "realtimeRuntime": 900,
            "realtimePeriod": 5000, "cpus": "0-1", "mems": "0", "idle": 0},
    "pids": {"limit": -1},
    "blockIO": {"weight": 500, "leafWeight": 300,
        "weightDevice": [{"major": 8, "minor": 0, "weight": 400, "leafWeight": 200}],
        "throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": 1}],
        "throttleWriteBpsDevice": [{"major": 8, "minor": 1, "rate": 2}],
        "throttleReadIOPSDevice": [{"major": 8, "minor": 2, "rate": 3}],
        "throttleWriteIOPSDevice": [{"major": 8, "minor": 3, "rate": 4}]},
    "hugepageLimits": [{"pageSize": "2MB", "limit": 4194304}],
    "rdma": {"mlx5_1": {"hcaHandles": 3, "hcaObjects": 10000}}
"#;

#[test]
fn every_limit_has_its_file_with_version_1() {
    let files = [
        "memory.limit_in_bytes",
        "memory.memsw.limit_in_bytes",
        "memory.soft_limit_in_bytes",
        "memory.kmem.limit_in_bytes",
        "memory.swappiness",
        "memory.oom_control",
        "cpu.shares",
        "cpu.cfs_quota_us",
        "cpu.cfs_period_us",
        "cpu.cfs_burst_us",
        "cpu.rt_runtime_us",
        "cpu.rt_period_us",
        "cpu.idle",
        "cpuset.cpus",
        "cpuset.mems",
        "pids.max",
        "blkio.bfq.weight",
        "blkio.leaf_weight",
        "blkio.bfq.weight_device",
        "blkio.leaf_weight_device",
        "blkio.throttle.read_bps_device",
        "blkio.throttle.write_bps_device",
        "blkio.throttle.read_iops_device",
        "blkio.throttle.write_iops_device",
        "hugetlb.2MB.limit_in_bytes",
        "hugetlb.2MB.rsvd.limit_in_bytes",
        "net_cls.classid",
        "net_prio.ifpriomap",
        "rdma.max",
    ];
    let network =
        r#", "network": {"classID": 1048577, "priorities": [{"name": "eth0", "priority": 500}]}}"#;
    let written = Tree::new(1, &files)
        .set(&format!("{ALL}{network}"))
        .unwrap();
    let wanted = [
        ("memory.limit_in_bytes", "1000"),
        ("memory.memsw.limit_in_bytes", "3000"),
        ("memory.soft_limit_in_bytes", "500"),
        ("memory.swappiness", "60"),
        ("memory.oom_control", "1"),
        ("cpu.shares", "2048"),
        ("cpu.cfs_quota_us", "50000"),
        ("cpu.cfs_period_us", "200000"),
        ("cpu.cfs_burst_us", "1000"),
        ("cpu.rt_runtime_us", "900"),
        ("cpu.rt_period_us", "5000"),
        ("cpu.idle", "0"),
        ("cpuset.cpus", "0-1"),
        ("cpuset.mems", "0"),
        ("pids.max", "max"),
        ("blkio.bfq.weight", "500"),
        ("blkio.leaf_weight", "300"),
        ("blkio.bfq.weight_device", "8:0 400"),
        ("blkio.leaf_weight_device", "8:0 200"),
        ("blkio.throttle.read_bps_device", "8:0 1"),
        ("blkio.throttle.write_bps_device", "8:1 2"),
        ("blkio.throttle.read_iops_device", "8:2 3"),
        ("blkio.throttle.write_iops_device", "8:3 4"),
        ("hugetlb.2MB.limit_in_bytes", "4194304"),
        ("hugetlb.2MB.rsvd.limit_in_bytes", "4194304"),
        ("net_cls.classid", "1048577"),
        ("net_prio.ifpriomap", "eth0 500"),
        ("rdma.max", "mlx5_1 hca_handle=3 hca_object=10000"),
    ];
    assert_eq!(written, map(&wanted));
}

const V2: [&str; 17] = [
    "memory.max",
    "memory.swap.max",
    "memory.low",
    "memory.high",
    "cpu.weight",
    "cpu.max",
    "cpu.max.burst",
    "cpu.idle",
    "cpuset.cpus",
    "cpuset.mems",
    "pids.max",
    "io.weight",
    "io.max",
    "hugetlb.2MB.max",
    "hugetlb.2MB.rsvd.max",
    "rdma.max",
    "cgroup.controllers=cpu memory",
];

#[test]
fn every_limit_has_its_file_with_version_2() {
    let unified = r#", "unified": {"memory.high": "900"}}"#;
    let written = Tree::new(2, &V2).set(&format!("{ALL}{unified}")).unwrap();
    let wanted = [
        ("memory.max", "1000"),
        ("memory.swap.max", "2000"),
        ("memory.low", "500"),
        ("memory.high", "900"),
        ("cpu.weight", "174"),
        ("cpu.max", "50000 200000"),
        ("cpu.max.burst", "1000"),
        ("cpu.idle", "0"),
        ("cpuset.cpus", "0-1"),
        ("cpuset.mems", "0"),
        ("pids.max", "max"),
        ("io.weight", "4950"),
        // The kernel takes a line for each device; this file keeps only the last one.
        ("io.max", "8:3 wiops=4"),
        ("hugetlb.2MB.max", "4194304"),
        ("hugetlb.2MB.rsvd.max", "4194304"),
        ("rdma.max", "mlx5_1 hca_handle=3 hca_object=10000"),
        ("cgroup.controllers", "cpu memory"),
    ];
    assert_eq!(written, map(&wanted));
}

#[test]
fn a_scheduler_that_weighs_devices_is_told() {
    let tree = Tree::new(2, &["io.bfq.weight=default 100\n", "io.weight"]);
    let io = r#"{"blockIO": {"weight": 500, "weightDevice": [{"major": 8, "minor": 0, "weight": 400}]}}"#;
    let written = tree.set(io).unwrap();
    assert_eq!(written, map(&[("io.bfq.weight", "5008:0 400\n\n")]));
}

#[test]
fn what_is_0_is_no_limit_save_for_a_number_of_processes() {
    let none = r#"{"memory": {"limit": 0, "swap": 0, "reservation": 0}, "cpu": {"shares": 0, "quota": 0, "period": 0},
                   "blockIO": {"weight": 0}, "pids": {"limit": 0}}"#;
    assert_eq!(
        Tree::new(1, &["pids.max"]).set(none).unwrap(),
        map(&[("pids.max", "1")])
    );
    assert_eq!(
        Tree::new(2, &["pids.max"]).set(none).unwrap(),
        map(&[("pids.max", "1")])
    );
}

#[test]
fn without_a_limit_of_memory_there_is_none_of_both() {
    let none = r#"{"memory": {"limit": -1}}"#;
    let tree = Tree::new(1, &["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]);
    let both = [
        ("memory.limit_in_bytes", "-1"),
        ("memory.memsw.limit_in_bytes", "-1"),
    ];
    assert_eq!(tree.set(none).unwrap(), map(&both));
    // If swap is not counted, it has no file.
    let tree = Tree::new(1, &["memory.limit_in_bytes"]);
    assert_eq!(
        tree.set(none).unwrap(),
        map(&[("memory.limit_in_bytes", "-1")])
    );
    let tree = Tree::new(2, &["memory.max"]);
    assert_eq!(tree.set(none).unwrap(), map(&[("memory.max", "max")]));
}

#[test]
fn an_update_keeps_what_belongs_to_what_it_says() {
    let tree = Tree::new(
        2,
        &[
            "memory.max=1000\n",
            "memory.swap.max",
            "cpu.max=max 50000\n",
            "cpu.weight",
        ],
    );
    let written = tree
        .update(r#"{"memory": {"swap": 1500}, "cpu": {"quota": 20000}}"#)
        .unwrap();
    assert_eq!(written["memory.swap.max"], "500");
    assert_eq!(written["cpu.max"], "20000 50000");
    assert!(!written.contains_key("cpu.weight"));
    let tree = Tree::new(2, &["cpu.max=max 100000\n"]);
    let written = tree.update(r#"{"cpu": {"period": 50000}}"#).unwrap();
    assert_eq!(
        written["cpu.max"], "max 500000\n",
        "the rest is what was there"
    );
    let error = Tree::new(2, &["memory.max=max\n", "memory.swap.max"]);
    let error = error
        .update(r#"{"memory": {"swap": 1500}}"#)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "unable to set swap limit without memory limit");
}

#[test]
fn a_limit_below_what_is_in_use_is_refused_where_that_is_asked_for() {
    let tree = Tree::new(2, &["memory.max", "memory.current=2000\n"]);
    let check = r#"{"memory": {"limit": 1000, "checkBeforeUpdate": true}}"#;
    let error = tree.update(check).unwrap_err().to_string();
    assert_eq!(error, "rejecting memory limit 1000 <= usage 2000");
    tree.update(r#"{"memory": {"limit": 1000}}"#).unwrap();
}

#[test]
fn what_cannot_be_is_refused_in_words_that_are_known() {
    let dir = |tree: &Tree| tree.dir.path().display().to_string();
    for (version, files, resources, said) in [
        (
            1,
            &[][..],
            r#"{"unified": {"memory.high": "1"}}"#,
            "invalid configuration: cannot use unified on cgroup v1",
        ),
        (
            1,
            &["cpu.shares"],
            r#"{"cpu": {"shares": 1}}"#,
            "the minimum allowed cpu-shares is 2",
        ),
        (
            1,
            &["cpu.shares"],
            r#"{"cpu": {"shares": 262145}}"#,
            "the maximum allowed cpu-shares is 262144",
        ),
        (
            1,
            &[],
            r#"{"memory": {"swappiness": 101}}"#,
            "invalid memory swappiness value: 101 (valid range is 0-100)",
        ),
        (
            1,
            &[],
            r#"{"pids": {"limit": 5}}"#,
            "open DIR/pids.max: no such file or directory",
        ),
        (
            2,
            &[],
            r#"{"memory": {"limit": 200, "swap": 100}}"#,
            "memory+swap limit should be >= memory limit",
        ),
        (
            2,
            &[],
            r#"{"memory": {"swap": 100}}"#,
            "unable to set swap limit without memory limit",
        ),
        (
            2,
            &[],
            r#"{"unified": {"../x": "1"}}"#,
            "unified resource \"../x\" must be a file name (no slashes)",
        ),
        (
            2,
            &[],
            r#"{"unified": {"memory": "1"}}"#,
            "unified resource \"memory\" must be in the form CONTROLLER.PARAMETER",
        ),
        (
            2,
            &["cgroup.controllers=cpu\n"],
            r#"{"unified": {"memory.high": "1"}}"#,
            "unified resource \"memory.high\" can't be set: controller \"memory\" not available",
        ),
        (
            2,
            &["cgroup.controllers=cpu\n"],
            r#"{"unified": {"cpu.nonsense": "1"}}"#,
            "unable to set unified resource \"cpu.nonsense\": open DIR/cpu.nonsense: no such file or directory",
        ),
    ] {
        let tree = Tree::new(version, files);
        let error = tree.set(resources).unwrap_err().to_string();
        assert_eq!(error.replace(&dir(&tree), "DIR"), said);
    }
}

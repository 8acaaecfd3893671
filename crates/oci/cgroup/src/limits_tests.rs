//! Tests of the values written for limits, in each cgroup version.

use std::sync::Arc;

use super::*;
use crate::{CgroupPath, Hierarchies};

/// Returns a version 2 cgroup made of plain files.
fn v2(files: &[(&str, &str)]) -> (tempfile::TempDir, Cgroup) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("cgroup.controllers"),
        "cpu memory pids hugetlb cpuset\n",
    )
    .unwrap();
    fs::create_dir(dir.path().join("c")).unwrap();
    for (name, text) in files {
        fs::write(dir.path().join("c").join(name), text).unwrap();
    }
    let mounts = format!(
        "1 0 0:1 / {} rw - cgroup2 cgroup2 rw\n",
        dir.path().display()
    );
    let hierarchies = Arc::new(
        Hierarchies::from_mounts(&orlop_fs::Mountinfo::from_text(mounts.as_str())).unwrap(),
    );
    let cgroup = Cgroup::new(hierarchies, CgroupPath::parse("c").unwrap());
    (dir, cgroup)
}

fn written(dir: &tempfile::TempDir, name: &str) -> String {
    fs::read_to_string(dir.path().join("c").join(name)).unwrap()
}

#[test]
fn version_2_has_its_own_words() {
    let files = [
        "cpu.weight",
        "cpu.max",
        "memory.max",
        "memory.swap.max",
        "pids.max",
        "cpuset.cpus",
        "hugetlb.2MB.max",
        "memory.high",
    ];
    let (dir, cgroup) = v2(&files.map(|name| (name, "")));
    let limits = Limits {
        cpu_shares: Some(1024),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        cpuset_cpus: Some("0-1".into()),
        memory: Some(1000),
        memory_and_swap: Some(1500),
        pids: Some(-1),
        hugepages: BTreeMap::from([("2MB".into(), 0)]),
        unified: BTreeMap::from([("memory.high".into(), "900".into())]),
        ..Limits::default()
    };
    cgroup.set(&limits).unwrap();
    for (name, text) in [
        ("cpu.weight", "100"),
        ("cpu.max", "50000 100000"),
        ("memory.max", "1000"),
        ("memory.swap.max", "500"),
        ("pids.max", "max"),
        ("cpuset.cpus", "0-1"),
        ("hugetlb.2MB.max", "0"),
        ("memory.high", "900"),
    ] {
        assert_eq!(written(&dir, name), text, "{name}");
    }
}

#[test]
fn half_a_bandwidth_keeps_the_other_half() {
    let (dir, cgroup) = v2(&[("cpu.max", "70000 100000")]);
    cgroup
        .set(&Limits {
            cpu_period: Some(50_000),
            ..Limits::default()
        })
        .unwrap();
    // Plain files keep the rest of a longer old value; kernel files do not.
    assert!(written(&dir, "cpu.max").starts_with("70000 50000"));
}

#[test]
fn a_limit_without_its_file_is_an_error_and_makes_none() {
    let (dir, cgroup) = v2(&[]);
    let error = cgroup
        .set(&Limits {
            memory: Some(1),
            ..Limits::default()
        })
        .unwrap_err();
    assert!(
        error.is_not_found() && error.to_string().contains("memory.max"),
        "{error}"
    );
    assert!(!dir.path().join("c/memory.max").exists());
}

#[test]
fn unified_files_lie_in_the_cgroup() {
    let (_dir, cgroup) = v2(&[]);
    for bad in ["../memory.max", "memory", ".x"] {
        let unified = BTreeMap::from([(bad.to_owned(), "1".to_owned())]);
        let error = cgroup
            .set(&Limits {
                unified,
                ..Limits::default()
            })
            .unwrap_err();
        assert!(matches!(error, Error::Format { .. }), "{bad}: {error}");
    }
}

//! Tests on directories that only look like `resctrl`: no machine of the project has it.

use super::*;

/// Makes a tree with these files.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (file, content) in files {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

const INFO: [(&str, &str); 6] = [
    ("info/L3/cbm_mask", "fffff\n"),
    ("info/L3/min_cbm_bits", "2\n"),
    ("info/MB/bandwidth_gran", "10\n"),
    ("info/last_cmd_status", "ok\n"),
    ("schemata", "    MB:0=100\n    L3:0=fffff\n"),
    (
        "info/L3_MON/mon_features",
        "llc_occupancy\nmbm_total_bytes\n",
    ),
];

fn wanted() -> IntelRdt {
    IntelRdt {
        l3_cache_schema: "L3:0=f0".into(),
        mem_bw_schema: "MB:0=50".into(),
        ..IntelRdt::default()
    }
}

#[test]
fn a_class_of_its_own_comes_and_goes_with_the_container() {
    let root = tree(&INFO);
    let mut rdt = Rdt::below(root.path(), "c1", &wanted()).unwrap();
    rdt.make(&wanted()).unwrap();
    let group = root.path().join("c1");
    assert_eq!(
        fs::read_to_string(group.join("schemata")).unwrap(),
        "L3:0=f0\nMB:0=50\n"
    );
    rdt.add(4711).unwrap();
    assert_eq!(fs::read_to_string(group.join("tasks")).unwrap(), "4711");
    rdt.update("L3:0=0f", "").unwrap();
    assert_eq!(
        fs::read_to_string(group.join("schemata")).unwrap(),
        "L3:0=0f\n"
    );
    let stats = rdt.stats();
    assert_eq!(stats["l3_cache_schema_root"], "L3:0=fffff");
    assert_eq!(stats["l3_cache_schema"], "L3:0=0f");
    assert_eq!(stats["l3_cache_info"]["cbm_mask"], "fffff");
    assert_eq!(stats["mem_bw_info"]["bandwidth_gran"], 10);
    // The kernel removes these files with their directory.
    for file in ["schemata", "tasks"] {
        fs::remove_file(group.join(file)).unwrap();
    }
    rdt.remove().unwrap();
    assert!(!group.exists());
    rdt.remove().unwrap();
}

#[test]
fn a_class_that_was_named_stays_and_counts_for_the_container_alone() {
    let root = tree(&INFO);
    let wanted = IntelRdt {
        clos_id: "gold".into(),
        enable_monitoring: true,
        ..wanted()
    };
    fs::create_dir_all(root.path().join("gold/mon_groups")).unwrap();
    let mut rdt = Rdt::below(root.path(), "c1", &wanted).unwrap();
    rdt.make(&wanted).unwrap();
    let monitor = root.path().join("gold/mon_groups/c1");
    rdt.add(4711).unwrap();
    assert_eq!(fs::read_to_string(monitor.join("tasks")).unwrap(), "4711");
    let cache = monitor.join("mon_data/mon_L3_00");
    fs::create_dir_all(&cache).unwrap();
    fs::write(cache.join("llc_occupancy"), "123\n").unwrap();
    let stats = rdt.stats();
    assert_eq!(
        stats["cmt_stats"],
        serde_json::json!([{"llc_occupancy": 123}])
    );
    assert_eq!(stats["mbm_stats"][0]["mbm_total_bytes"], 0);
    fs::remove_file(cache.join("llc_occupancy")).unwrap();
    for dir in [&cache, &monitor.join("mon_data")] {
        fs::remove_dir(dir).unwrap();
    }
    fs::remove_file(monitor.join("tasks")).unwrap();
    rdt.remove().unwrap();
    assert!(!monitor.exists() && root.path().join("gold").exists());
}

#[test]
fn a_class_that_was_named_outlives_the_container_that_made_it() {
    let root = tree(&INFO);
    let wanted = IntelRdt {
        clos_id: "gold".into(),
        ..wanted()
    };
    let mut rdt = Rdt::below(root.path(), "c1", &wanted).unwrap();
    rdt.make(&wanted).unwrap();
    fs::remove_file(root.path().join("gold/schemata")).unwrap();
    rdt.remove().unwrap();
    assert!(root.path().join("gold").exists());
}

#[test]
fn what_this_machine_has_not_is_refused() {
    let bare = tree(&[("schemata", "")]);
    let of = |wanted: IntelRdt| {
        let planned = Rdt::below(bare.path(), "c1", &wanted);
        planned
            .and_then(|mut rdt| rdt.make(&wanted))
            .unwrap_err()
            .to_string()
    };
    for (wanted, said) in [
        (
            wanted(),
            "intelRdt.l3CacheSchema is specified in config, but Intel RDT/CAT is not enabled",
        ),
        (
            IntelRdt {
                clos_id: "..".into(),
                ..IntelRdt::default()
            },
            "invalid intelRdt.ClosID \"..\"",
        ),
        (
            IntelRdt {
                clos_id: "a/b".into(),
                ..IntelRdt::default()
            },
            "invalid intelRdt.ClosID \"a/b\"",
        ),
        (
            IntelRdt {
                clos_id: "gold".into(),
                ..IntelRdt::default()
            },
            "clos dir not accessible (must be pre-created",
        ),
    ] {
        let error = of(wanted);
        assert!(error.starts_with(said), "{error}");
    }
    assert!(!bare.path().join("c1").exists());
    let error = check_update(None, "L3:0=f", "").unwrap_err().to_string();
    assert_eq!(error, "Intel RDT/CAT: l3 cache schema is not enabled");
}

#[test]
fn the_kernel_says_why_it_refuses() {
    let root = tree(&INFO);
    fs::write(
        root.path().join("info/last_cmd_status"),
        "mask f0f has non-consecutive 1-bits\n",
    )
    .unwrap();
    let mut rdt = Rdt::below(root.path(), "c1", &wanted()).unwrap();
    // Makes the file impossible to write.
    fs::create_dir_all(root.path().join("c1/schemata")).unwrap();
    let error = rdt.make(&wanted()).unwrap_err().to_string();
    assert!(
        error.starts_with("intelrdt: unable to write \"L3:0=f0"),
        "{error}"
    );
    assert!(
        error.ends_with("last_cmd_status: mask f0f has non-consecutive 1-bits"),
        "{error}"
    );
}

//! Tests of OCI specs with NRI adjustments.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use orlop_nri::v1alpha1::{
    ContainerAdjustment, Hook, IoPrioClass, KeyValue, LinuxContainerAdjustment, LinuxCpu,
    LinuxDevice, LinuxIoPriority, LinuxMemory, LinuxMemoryPolicy, LinuxNamespace, LinuxNetDevice,
    LinuxPids, LinuxRdt, LinuxResources, LinuxScheduler, LinuxSchedulerPolicy, LinuxSeccomp,
    LinuxSyscall, MpolMode, OptionalInt, OptionalInt64, OptionalString, OptionalUInt64,
    PosixRlimit,
};
use orlop_oci_types::{
    DeviceKind, Features, Linux, Mount, Namespace, NamespaceKind, Process, Resources, SeccompAction,
};

use super::super::host::tests::facts;
use super::super::input::Policy;
use super::*;

fn spec() -> Spec {
    let namespace = |kind| Namespace {
        kind,
        path: String::new(),
    };
    let mount = |destination: &str| Mount {
        destination: destination.into(),
        ..Mount::default()
    };
    Spec {
        process: Some(Process {
            args: vec!["sleep".into()],
            env: vec!["PATH=/bin".into(), "A=1".into(), "B=2".into()],
            ..Process::default()
        }),
        mounts: vec![mount("/proc"), mount("/data")],
        annotations: BTreeMap::from([("own".into(), "1".into())]),
        linux: Some(Linux {
            namespaces: [NamespaceKind::Ipc, NamespaceKind::Mount]
                .map(namespace)
                .to_vec(),
            resources: Some(Resources::default()),
            ..Linux::default()
        }),
        ..Spec::default()
    }
}

fn adjusted(wanted: &ContainerAdjustment) -> Result<Spec, Error> {
    let mut spec = spec();
    let (host, policy, features) = (facts(), Policy::default(), Features::default());
    let facts = AdjustFacts {
        host: &host,
        policy: &policy,
        features: &features,
    };
    adjust(wanted, &facts, &mut spec).map(|_| spec)
}

fn of_linux(linux: LinuxContainerAdjustment) -> Result<Linux, Error> {
    let wanted = ContainerAdjustment {
        linux: Some(linux),
        ..ContainerAdjustment::default()
    };
    adjusted(&wanted).map(|spec| spec.linux.unwrap())
}

fn problem<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn no_wish_changes_nothing() {
    assert_eq!(adjusted(&ContainerAdjustment::default()).unwrap(), spec());
}

#[test]
fn names_are_set_changed_and_removed() {
    let pair = |key: &str, value: &str| KeyValue {
        key: key.into(),
        value: value.into(),
    };
    let wanted = ContainerAdjustment {
        annotations: [("-own", ""), ("new", "2")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        env: vec![pair("-B", ""), pair("A", "9"), pair("C", "3")],
        args: vec!["echo".into(), "hi".into()],
        ..ContainerAdjustment::default()
    };
    let spec = adjusted(&wanted).unwrap();
    assert_eq!(
        spec.annotations,
        BTreeMap::from([("new".into(), "2".into())])
    );
    let process = spec.process.unwrap();
    assert_eq!(process.env, ["PATH=/bin", "A=9", "C=3"]);
    assert_eq!(process.args, ["echo", "hi"]);

    let bad = ContainerAdjustment {
        env: vec![pair("A=B", "")],
        ..ContainerAdjustment::default()
    };
    assert!(problem(adjusted(&bad)).starts_with("NRI adjustment: env: "));
}

#[test]
fn mounts_replace_what_has_their_place_and_deeper_ones_come_later() {
    let mount = |destination: &str, options: &[&str]| nri::Mount {
        destination: destination.into(),
        r#type: "bind".into(),
        source: "/etc".into(),
        options: options.iter().map(|&one| one.into()).collect(),
    };
    let wanted = |mounts: Vec<nri::Mount>| ContainerAdjustment {
        mounts,
        ..ContainerAdjustment::default()
    };
    let mounts = vec![
        mount("/a/b/c", &["bind", "relabel"]),
        mount("/a", &["rbind", "ro"]),
        mount("-/proc", &[]),
        mount("/data/", &["bind"]),
    ];
    let spec = adjusted(&wanted(mounts)).unwrap();
    let places: Vec<_> = spec
        .mounts
        .iter()
        .map(|own| own.destination.as_str())
        .collect();
    assert_eq!(places, ["/a", "/data", "/a/b/c"]);
    assert_eq!(spec.mounts[2].options, ["bind"], "relabel is ours to do");
    for bad in ["/", "rel", "/../.."] {
        assert!(adjusted(&wanted(vec![mount(bad, &[])])).is_err(), "{bad}");
    }
}

#[test]
fn limits_of_a_process() {
    let limit = |name: &str, hard, soft| ContainerAdjustment {
        rlimits: vec![PosixRlimit {
            r#type: name.into(),
            hard,
            soft,
        }],
        ..ContainerAdjustment::default()
    };
    let process = adjusted(&limit("RLIMIT_NOFILE", 5, 4))
        .unwrap()
        .process
        .unwrap();
    assert_eq!((process.rlimits[0].hard, process.rlimits[0].soft), (5, 4));
    assert!(adjusted(&limit("RLIMIT_NOFILE", 4, 5)).is_err());
    assert!(adjusted(&limit("nofile", 5, 5)).is_err());
}

#[test]
fn hooks_are_added_by_absolute_path() {
    let hook = |path: &str| ContainerAdjustment {
        hooks: Some(nri::Hooks {
            create_runtime: vec![Hook {
                path: path.into(),
                timeout: Some(OptionalInt { value: 3 }),
                ..Hook::default()
            }],
            ..nri::Hooks::default()
        }),
        ..ContainerAdjustment::default()
    };
    let hooks = adjusted(&hook("/bin/true")).unwrap().hooks.unwrap();
    assert_eq!(hooks.create_runtime[0].timeout, Some(3));
    assert!(problem(adjusted(&hook("true"))).contains("hooks.create_runtime"));
}

#[test]
fn devices_come_with_their_rules() {
    let device = |path: &str, kind: &str| LinuxDevice {
        path: path.into(),
        r#type: kind.into(),
        major: 10,
        minor: 229,
        ..LinuxDevice::default()
    };
    let wanted = LinuxContainerAdjustment {
        devices: vec![device("/dev/fuse", "c"), device("/dev/sdx", "b")],
        net_devices: [
            ("eth7".to_owned(), LinuxNetDevice { name: "in0".into() }),
            ("-eth8".to_owned(), LinuxNetDevice::default()),
        ]
        .into(),
        ..LinuxContainerAdjustment::default()
    };
    let linux = of_linux(wanted).unwrap();
    assert_eq!(linux.devices.len(), 2);
    let rules = linux.resources.unwrap().devices;
    assert_eq!(
        (rules[0].kind, rules[0].access.as_str()),
        (Some(DeviceKind::Char), "rw")
    );
    assert_eq!(rules[1].access, "rwm");
    assert_eq!(linux.net_devices["eth7"].name, "in0");
    for bad in [device("fuse", "c"), device("/dev/x", "z")] {
        let wanted = LinuxContainerAdjustment {
            devices: vec![bad],
            ..LinuxContainerAdjustment::default()
        };
        assert!(of_linux(wanted).is_err());
    }
}

#[test]
fn resources_are_overlaid_and_bad_ones_named() {
    let wanted = LinuxResources {
        cpu: Some(LinuxCpu {
            shares: Some(OptionalUInt64 { value: 512 }),
            cpus: "0-1".into(),
            ..LinuxCpu::default()
        }),
        memory: Some(LinuxMemory {
            limit: Some(OptionalInt64 { value: 1 << 26 }),
            reservation: Some(OptionalInt64 { value: 1 << 25 }),
            ..LinuxMemory::default()
        }),
        pids: Some(LinuxPids { limit: 77 }),
        ..LinuxResources::default()
    };
    let adjustment = |resources| LinuxContainerAdjustment {
        resources: Some(resources),
        ..LinuxContainerAdjustment::default()
    };
    let own = of_linux(adjustment(wanted)).unwrap().resources.unwrap();
    let (cpu, memory) = (own.cpu.unwrap(), own.memory.unwrap());
    assert_eq!((cpu.shares, cpu.cpus.as_str()), (Some(512), "0-1"));
    assert_eq!(memory.limit, Some(1 << 26));
    assert_eq!(memory.reservation, Some(1 << 25));
    assert_eq!(own.pids.unwrap().limit, Some(77));
    let bad = LinuxResources {
        cpu: Some(LinuxCpu {
            cpus: "x".into(),
            ..LinuxCpu::default()
        }),
        ..LinuxResources::default()
    };
    assert!(problem(of_linux(adjustment(bad))).contains("linux.resources.cpu.cpus"));
    for class in ["blockio", "rdt"] {
        let name = Some(OptionalString {
            value: "fast".into(),
        });
        let mut wanted = LinuxResources::default();
        if class == "rdt" {
            wanted.rdt_class = name;
        } else {
            wanted.blockio_class = name;
        }
        assert!(problem(of_linux(adjustment(wanted))).contains(class));
    }
}

#[test]
fn the_rest_of_linux() {
    let wanted = LinuxContainerAdjustment {
        cgroups_path: "/elsewhere/c".into(),
        memory_policy: Some(LinuxMemoryPolicy {
            mode: MpolMode::MpolBind.into(),
            nodes: "0".into(),
            ..LinuxMemoryPolicy::default()
        }),
        rdt: Some(LinuxRdt {
            clos_id: Some(OptionalString {
                value: "gold".into(),
            }),
            ..LinuxRdt::default()
        }),
        namespaces: vec![LinuxNamespace {
            r#type: "network".into(),
            path: "/run/netns/x".into(),
        }],
        sysctl: [("net.core.somaxconn".to_owned(), "9".to_owned())].into(),
        ..LinuxContainerAdjustment::default()
    };
    let linux = of_linux(wanted).unwrap();
    assert_eq!(linux.cgroups_path, "/elsewhere/c");
    assert_eq!(linux.memory_policy.unwrap().mode, "MPOL_BIND");
    assert_eq!(linux.intel_rdt.unwrap().clos_id, "gold");
    assert_eq!(linux.namespaces.len(), 3);
    assert_eq!(linux.sysctl["net.core.somaxconn"], "9");

    let sysctl = |name: &str| LinuxContainerAdjustment {
        sysctl: [(name.to_owned(), "1".to_owned())].into(),
        ..LinuxContainerAdjustment::default()
    };
    assert!(of_linux(sysctl("kernel.shmmax")).is_ok());
    assert!(problem(of_linux(sysctl("net.core.somaxconn"))).contains("would change the node"));
    assert!(of_linux(sysctl("kernel.panic")).is_err());
    let removed = LinuxContainerAdjustment {
        namespaces: vec![LinuxNamespace {
            r#type: "-ipc".into(),
            path: String::new(),
        }],
        ..LinuxContainerAdjustment::default()
    };
    assert_eq!(of_linux(removed).unwrap().namespaces.len(), 1);
    let astray = LinuxContainerAdjustment {
        cgroups_path: "/../x".into(),
        ..LinuxContainerAdjustment::default()
    };
    assert!(problem(of_linux(astray)).contains("cgroups_path"));
}

#[test]
fn priorities_and_schedulers_are_set_and_cleared() {
    let wanted = |class: IoPrioClass, policy: LinuxSchedulerPolicy| ContainerAdjustment {
        linux: Some(LinuxContainerAdjustment {
            io_priority: Some(LinuxIoPriority {
                class: class.into(),
                priority: 4,
            }),
            scheduler: Some(LinuxScheduler {
                policy: policy.into(),
                nice: 3,
                ..LinuxScheduler::default()
            }),
            oom_score_adj: Some(OptionalInt { value: 500 }),
            ..LinuxContainerAdjustment::default()
        }),
        ..ContainerAdjustment::default()
    };
    let set = wanted(
        IoPrioClass::IoprioClassIdle,
        LinuxSchedulerPolicy::SchedBatch,
    );
    let process = adjusted(&set).unwrap().process.unwrap();
    assert_eq!(process.io_priority.unwrap().class, "IOPRIO_CLASS_IDLE");
    assert_eq!(process.scheduler.unwrap().policy, "SCHED_BATCH");
    assert_eq!(process.oom_score_adj, Some(500));
    let none = wanted(
        IoPrioClass::IoprioClassNone,
        LinuxSchedulerPolicy::SchedNone,
    );
    let process = adjusted(&none).unwrap().process.unwrap();
    assert!(process.io_priority.is_none() && process.scheduler.is_none());
}

#[test]
fn a_seccomp_policy_replaces_the_filter() {
    let wanted = |action: &str| LinuxContainerAdjustment {
        seccomp_policy: Some(LinuxSeccomp {
            default_action: "SCMP_ACT_ALLOW".into(),
            syscalls: vec![LinuxSyscall {
                names: vec!["mkdir".into()],
                action: action.into(),
                ..LinuxSyscall::default()
            }],
            ..LinuxSeccomp::default()
        }),
        ..LinuxContainerAdjustment::default()
    };
    let seccomp = of_linux(wanted("SCMP_ACT_ERRNO"))
        .unwrap()
        .seccomp
        .unwrap()
        .understood()
        .unwrap();
    assert_eq!(seccomp.default_action, SeccompAction::Allow);
    assert_eq!(seccomp.syscalls[0].action, SeccompAction::Errno);
    assert!(problem(of_linux(wanted("deny"))).contains("syscalls.action"));
}

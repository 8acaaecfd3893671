//! Tests of the conversion of a container request to its OCI spec.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsFd;

use orlop_cgroup::Driver;
use orlop_oci_types::{Features, NamespaceKind};

use super::super::host::tests::facts;
use super::super::selinux::{Labels, SelinuxDefaults};
use super::super::{
    BaseSpec, CgroupParent, HandlerFacts, HandlerRules, HostFacts, ImageFacts, PodFacts, PodFiles,
    PodNamespaces, Policy, RootfsFacts,
};
use super::*;

struct Scene {
    config: v1::ContainerConfig,
    pod: v1::PodSandboxConfig,
    host: HostFacts,
    policy: Policy,
    labels: Option<Labels>,
    rules: HandlerRules,
}

impl Scene {
    fn new() -> Self {
        let config = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata {
                name: "web".into(),
                attempt: 0,
            }),
            command: vec!["sleep".into(), "1".into()],
            linux: Some(v1::LinuxContainerConfig {
                security_context: Some(v1::LinuxContainerSecurityContext::default()),
                ..Default::default()
            }),
            ..Default::default()
        };
        Self {
            config,
            pod: v1::PodSandboxConfig::default(),
            host: facts(),
            policy: Policy::default(),
            labels: None,
            rules: HandlerRules::default(),
        }
    }

    fn security(&mut self) -> &mut v1::LinuxContainerSecurityContext {
        self.config
            .linux
            .as_mut()
            .unwrap()
            .security_context
            .as_mut()
            .unwrap()
    }

    fn build(&self) -> Result<(Spec, Effective), Error> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("rootfs/etc")).unwrap();
        fs::write(dir.path().join("rootfs/etc/passwd"), "web:x:33:34:::\n").unwrap();
        let rootfs = File::open(dir.path().join("rootfs")).unwrap();
        let namespaces = PodNamespaces {
            network: Some("/proc/7/ns/net".into()),
            pid: Some("/proc/8/ns/pid".into()),
            ..PodNamespaces::default()
        };
        let known = Known {
            config: &self.config,
            pod_config: &self.pod,
            namespaces: &namespaces,
            labels: self.labels.as_ref(),
            image: ImageFacts {
                name: "img:1",
                user: "web",
                ..ImageFacts::default()
            },
            handler: HandlerFacts {
                features: &Features::default(),
                pod_annotations: &["pod.io/*".to_owned()],
                container_annotations: &["ctr.io/a".to_owned()],
                shares_sandbox: false,
                privileged_without_host_devices: false,
                rules: &self.rules,
            },
            host: &self.host,
            policy: &self.policy,
        };
        let input = SpecInput {
            known,
            container_id: "c1",
            pod: PodFacts {
                id: "p1",
                files: PodFiles::default(),
                cgroup: &CgroupParent::parse("/kubepods/pod1", Driver::Cgroupfs, "").unwrap(),
            },
            rootfs: RootfsFacts {
                path: "/run/rootfs",
                dir: rootfs.as_fd(),
            },
            image_mounts: &[],
            volumes_dir: &dir.path().join("volumes"),
            abandoned: &|| false,
        };
        build(&input, Asked::read(&known)?)
    }
}

#[test]
fn a_plain_request_becomes_a_plain_container() {
    let mut scene = Scene::new();
    scene.pod.annotations = HashMap::from([("pod.io/x".into(), "1".into())]);
    scene.config.annotations = HashMap::from([
        ("ctr.io/a".into(), "2".into()),
        ("ctr.io/b".into(), "3".into()),
    ]);
    let (spec, effective) = scene.build().unwrap();

    let process = spec.process.unwrap();
    assert_eq!(process.args, ["sleep", "1"]);
    assert_eq!(
        (process.user.uid, process.user.gid, process.cwd.as_str()),
        (33, 34, "/")
    );
    assert!(process.env.contains(&"HOSTNAME=node".to_owned()));
    assert!(!process.no_new_privileges && !process.terminal);
    assert_eq!(process.oom_score_adj, Some(0));

    let linux = spec.linux.unwrap();
    assert_eq!(linux.cgroups_path, "/kubepods/pod1/c1");
    assert!(linux.seccomp.is_none());
    assert!(!linux.resources.unwrap().devices[0].allow);
    assert!(
        linux
            .namespaces
            .iter()
            .any(|own| own.kind == NamespaceKind::Network)
    );
    assert_eq!(spec.root.unwrap().path, "/run/rootfs");
    assert_eq!(spec.hostname, "");

    let annotations = spec.annotations;
    assert_eq!(annotations["io.kubernetes.cri.sandbox-id"], "p1");
    assert_eq!(annotations["io.kubernetes.cri.container-name"], "web");
    assert_eq!(annotations["io.kubernetes.cri.image-name"], "img:1");
    assert_eq!(
        (
            annotations["pod.io/x"].as_str(),
            annotations["ctr.io/a"].as_str()
        ),
        ("1", "2")
    );
    assert!(!annotations.contains_key("ctr.io/b"));

    assert_eq!(effective.user.linux.unwrap().uid, 33);
    assert_eq!(effective.stop_signal, StopSignal::TERM);
    assert!(effective.warnings.is_empty());
}

#[test]
fn pods_on_the_host_s_network_go_unconfined_if_the_node_says_so() {
    let mut scene = Scene::new();
    let defaults = SelinuxDefaults {
        process: "system_u:system_r:container_t:s0".into(),
        file: "system_u:object_r:container_file_t:s0".into(),
        layers: None,
    };
    scene.labels = Some(Labels::new(None, &defaults, "s0:c1,c2").unwrap());
    scene.host.selinux = Some(defaults);
    let label = |scene: &Scene| {
        let (spec, _) = scene.build().unwrap();
        spec.process.unwrap().selinux_label
    };
    let confined = "system_u:system_r:container_t:s0:c1,c2";
    scene.policy.host_network_unconfined = true;
    assert_eq!(label(&scene), confined, "it has a network of its own");
    let mut pod = v1::LinuxSandboxSecurityContext {
        namespace_options: Some(v1::NamespaceOption {
            network: v1::NamespaceMode::Node.into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let config = |security: &v1::LinuxSandboxSecurityContext| {
        Some(v1::LinuxPodSandboxConfig {
            security_context: Some(security.clone()),
            ..Default::default()
        })
    };
    scene.pod.linux = config(&pod);
    assert_eq!(label(&scene), "");
    pod.selinux_options = Some(v1::SeLinuxOption::default());
    scene.pod.linux = config(&pod);
    assert_eq!(label(&scene), confined, "it asks for a context");
    pod.selinux_options = None;
    scene.pod.linux = config(&pod);
    scene.policy.host_network_unconfined = false;
    assert_eq!(label(&scene), confined, "the node confines all");
}

#[test]
fn a_privileged_container_needs_a_privileged_pod() {
    let mut scene = Scene::new();
    scene.security().privileged = true;
    let error = scene.build().unwrap_err().to_string();
    assert!(
        error.starts_with("config.linux.security_context.privileged: "),
        "{error}"
    );

    scene.pod.linux = Some(v1::LinuxPodSandboxConfig {
        security_context: Some(v1::LinuxSandboxSecurityContext {
            privileged: true,
            ..Default::default()
        }),
        ..Default::default()
    });
    scene.security().masked_paths = vec!["/proc/kcore".into()];
    scene.policy.seccomp_when_unset = true;
    let (spec, _) = scene.build().unwrap();
    let linux = spec.linux.unwrap();
    assert!(linux.seccomp.is_none() && linux.masked_paths.is_empty());
    assert!(linux.devices.iter().any(|own| own.path == "/dev/null"));
    let bounding = spec.process.unwrap().capabilities.unwrap().bounding;
    assert_eq!(bounding.len(), scene.host.capabilities.len());
}

#[test]
fn only_cgroup_v2_gives_a_namespace_of_its_own() {
    let mut scene = Scene::new();
    let has = |scene: &Scene| {
        let (spec, _) = scene.build().unwrap();
        spec.linux
            .unwrap()
            .namespaces
            .iter()
            .any(|own| own.kind == NamespaceKind::Cgroup)
    };
    assert!(!has(&scene));
    scene.host.cgroup_v2 = true;
    assert!(has(&scene));
}

#[test]
fn limits_and_security_reach_the_specification_and_the_status() {
    let mut scene = Scene::new();
    scene.host.oom_score_floor = Some(0);
    scene.policy.pids_limit = Some(99);
    scene.policy.seccomp_when_unset = true;
    scene.config.linux.as_mut().unwrap().resources = Some(v1::LinuxContainerResources {
        cpu_shares: 512,
        memory_limit_in_bytes: 1 << 24,
        oom_score_adj: -500,
        ..Default::default()
    });
    let security = scene.security();
    security.no_new_privs = true;
    security.readonly_rootfs = true;
    security.readonly_paths = vec!["/proc/sys".into()];
    let (spec, effective) = scene.build().unwrap();

    let process = spec.process.unwrap();
    assert!(process.no_new_privileges);
    assert_eq!(process.oom_score_adj, Some(0));
    assert!(spec.root.unwrap().readonly);
    let linux = spec.linux.unwrap();
    assert_eq!(linux.readonly_paths, ["/proc/sys"]);
    assert!(linux.seccomp.is_some());
    assert_eq!(linux.resources.unwrap().pids.unwrap().limit, Some(99));

    let reported = effective.resources.linux.unwrap();
    assert_eq!((reported.cpu_shares, reported.oom_score_adj), (512, 0));
    assert!(
        effective.warnings[0].contains("oom_score_adj"),
        "{:?}",
        effective.warnings
    );
}

#[test]
fn a_device_nobody_describes_is_an_error() {
    let mut scene = Scene::new();
    scene.config.cdi_devices = vec![v1::CdiDevice {
        name: "vendor.com/gpu=0".into(),
    }];
    let error = scene.build().unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }));
    assert!(error.to_string().contains("vendor.com/gpu=0"), "{error}");
}

#[test]
fn a_base_is_beneath_what_is_asked_for() {
    let mut scene = Scene::new();
    scene.policy.rlimits = vec![rlimit("RLIMIT_NOFILE", 10), rlimit("RLIMIT_CORE", 0)];
    scene.policy.pids_limit = Some(99);
    scene.policy.default_annotations = text_map(&[("a", "node"), ("b", "node"), ("d", "node")]);
    scene.rules.default_annotations = text_map(&[("b", "handler"), ("pod.io/x", "handler")]);
    scene.pod.annotations = HashMap::from([("pod.io/x".into(), "pod".into())]);
    let base = r#"{
        "annotations": {"a": "base", "c": "base"},
        "root": {"path": "elsewhere", "readonly": true}, "hostname": "elsewhere",
        "process": {"args": ["other"], "cwd": "/elsewhere", "env": ["A=base", "HOSTNAME=base"],
            "user": {"uid": 7, "gid": 7, "umask": 63}, "noNewPrivileges": true,
            "apparmorProfile": "other", "selinuxLabel": "other",
            "capabilities": {"bounding": ["CAP_KILL", "CAP_CHOWN"], "ambient": ["CAP_KILL"]},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 7, "soft": 7}]},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc", "options": ["hidepid=2"]},
            {"destination": "/extra", "type": "tmpfs", "source": "tmpfs"}],
        "hooks": {"poststop": [{"path": "/bin/true"}]},
        "linux": {"cgroupsPath": "/elsewhere", "seccomp": {"defaultAction": "SCMP_ACT_ERRNO"},
            "namespaces": [{"type": "network", "path": "/elsewhere"}],
            "maskedPaths": ["/masked"], "readonlyPaths": ["/readonly"],
            "devices": [{"path": "/dev/extra", "type": "c", "major": 10, "minor": 229}],
            "resources": {"pids": {"limit": 7}, "unified": {"memory.high": "1000"},
                "devices": [{"allow": false, "access": "rwm"},
                    {"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rw"}]}}
    }"#;
    scene.rules.base = Some(BaseSpec::parse(base).unwrap());
    scene.security().readonly_paths = vec!["/asked".into()];
    scene.config.envs = vec![v1::KeyValue {
        key: "A".into(),
        value: "asked".into(),
    }];
    let (spec, _) = scene.build().unwrap();

    let annotation = |name: &str| spec.annotations[name].as_str();
    let found = ["a", "b", "c", "d", "pod.io/x"].map(annotation);
    assert_eq!(found, ["node", "handler", "base", "node", "pod"]);
    let process = spec.process.unwrap();
    assert_eq!(
        (process.args.as_slice(), process.cwd.as_str()),
        (&["sleep".to_owned(), "1".to_owned()][..], "/")
    );
    assert!(process.env.contains(&"A=asked".to_owned()));
    assert!(process.env.contains(&"HOSTNAME=base".to_owned()));
    assert_eq!((process.user.uid, process.user.umask), (33, Some(0o77)));
    assert!(process.no_new_privileges);
    assert_eq!(
        (process.apparmor_profile, process.selinux_label),
        (String::new(), String::new())
    );
    assert_eq!(
        process.rlimits,
        [rlimit("RLIMIT_CORE", 0), rlimit("RLIMIT_NOFILE", 7)]
    );
    let capabilities = process.capabilities.unwrap();
    assert_eq!(capabilities.bounding, ["CAP_CHOWN", "CAP_KILL"]);
    assert!(capabilities.ambient.is_empty());

    let mount = |path: &str| spec.mounts.iter().find(|it| it.destination == path);
    assert_eq!(mount("/proc").unwrap().options, ["hidepid=2"]);
    assert!(mount("/extra").is_some() && mount("/sys").is_some());
    assert_eq!(spec.hooks.unwrap().poststop.len(), 1);
    assert!(!spec.root.unwrap().readonly && spec.hostname.is_empty());
    let linux = spec.linux.unwrap();
    assert_eq!(linux.cgroups_path, "/kubepods/pod1/c1");
    assert!(linux.seccomp.is_none());
    assert!(linux.namespaces.iter().all(|it| it.path != "/elsewhere"));
    assert_eq!(
        (linux.masked_paths, linux.readonly_paths),
        (vec!["/masked".to_owned()], vec!["/asked".to_owned()])
    );
    assert!(linux.devices.iter().any(|it| it.path == "/dev/extra"));
    let resources = linux.resources.unwrap();
    let last = resources.devices.last().unwrap();
    assert!(last.allow && last.minor == Some(229));
    assert_eq!(resources.pids.unwrap().limit, Some(7));
    assert_eq!(resources.unified["memory.high"], "1000");
}

fn rlimit(kind: &str, value: u64) -> orlop_oci_types::Rlimit {
    orlop_oci_types::Rlimit {
        kind: kind.into(),
        hard: value,
        soft: value,
    }
}

fn text_map(entries: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    let entries = entries.iter();
    entries
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn control_groups_can_be_written_to_only_where_the_kernel_keeps_limits_from_it() {
    const ANNOTATION: &str = "io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw";
    let mut scene = Scene::new();
    let access = |scene: &Scene| {
        let (spec, effective) = scene.build().unwrap();
        let mount = spec
            .mounts
            .into_iter()
            .find(|it| it.destination == "/sys/fs/cgroup")
            .unwrap();
        (
            mount.options.contains(&"rw".to_owned()),
            effective.warnings.concat(),
        )
    };
    scene.rules.cgroup_writable = true;
    let (writable, told) = access(&scene);
    assert!(!writable && told.contains("cgroup v1"), "{told}");
    scene.host.cgroup_v2 = true;
    let (writable, told) = access(&scene);
    assert!(!writable && told.contains("nsdelegate"), "{told}");
    scene.host.cgroup_mount_options = vec!["nsdelegate".into()];
    assert_eq!(access(&scene), (true, String::new()));
    // The pod's value counts if the handler allows the annotation.
    scene.pod.annotations = HashMap::from([(ANNOTATION.into(), "false".into())]);
    assert!(access(&scene).0);
    scene.rules.allowed_annotations = vec![ANNOTATION.into()];
    assert!(!access(&scene).0);
    scene
        .pod
        .annotations
        .insert(ANNOTATION.into(), "yes".into());
    assert!(
        scene
            .build()
            .unwrap_err()
            .to_string()
            .contains("not a boolean")
    );
}

#[test]
fn a_mask_is_octal() {
    const ANNOTATION: &str = "io.kubernetes.cri-o.umask";
    let mut scene = Scene::new();
    scene.rules.allowed_annotations = vec![ANNOTATION.into()];
    let umask = |scene: &Scene| {
        scene
            .build()
            .map(|(spec, _)| spec.process.unwrap().user.umask)
    };
    assert_eq!(umask(&scene).unwrap(), None);
    for (text, mask) in [
        ("0027", Some(0o27)),
        ("777", Some(0o777)),
        ("8", None),
        ("1000", None),
        ("", None),
        ("+7", None),
    ] {
        scene.pod.annotations = HashMap::from([(ANNOTATION.into(), text.into())]);
        assert_eq!(umask(&scene).ok().flatten(), mask, "{text}");
        assert_eq!(umask(&scene).is_ok(), mask.is_some(), "{text}");
    }
}

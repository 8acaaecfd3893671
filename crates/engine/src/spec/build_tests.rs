//! From a container as it is asked for to its OCI spec.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsFd;

use orlop_cgroup::Driver;
use orlop_oci::{Features, NamespaceKind};

use super::super::host::tests::facts;
use super::super::selinux::{Labels, SelinuxDefaults};
use super::super::{
    CgroupParent, HandlerFacts, HostFacts, ImageFacts, PodFacts, PodFiles, PodNamespaces, Policy,
    RootfsFacts,
};
use super::*;

struct Scene {
    config: v1::ContainerConfig,
    pod: v1::PodSandboxConfig,
    host: HostFacts,
    policy: Policy,
    labels: Option<Labels>,
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
                skip_relabel: false,
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
    assert_eq!(process.oom_score_adj, None);

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

//! Tests of all kinds of mounts.

use std::fs::File;
use std::os::fd::AsFd;

use orlop_cgroup::Driver;
use orlop_oci_types::{Features, LinuxFeatures, MountExtensions};

use super::super::cgroup_parent::CgroupParent;
use super::super::handler_rules::HandlerRules;
use super::super::host::tests::facts;
use super::super::input::{
    HandlerFacts, HostFacts, ImageFacts, PodFacts, PodFiles, PodNamespaces, Policy, RootfsFacts,
};
use super::*;

/// A pod and image on disk, with a request to fill.
struct Scene {
    dir: tempfile::TempDir,
    config: v1::ContainerConfig,
    features: Features,
    host: HostFacts,
    volumes: Vec<String>,
    privileged: bool,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["rootfs", "hosts", "shm"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self {
            dir,
            config: v1::ContainerConfig::default(),
            features: Features {
                mount_options: vec!["rro".into()],
                ..Features::default()
            },
            host: facts(),
            volumes: Vec::new(),
            privileged: false,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Adds a request to mount a directory of the scene.
    fn request(&mut self, host: &str, container: &str) -> &mut v1::Mount {
        let host_path = self.path(host).to_str().unwrap().to_owned();
        self.config.mounts.push(v1::Mount {
            host_path,
            container_path: container.into(),
            ..v1::Mount::default()
        });
        self.config.mounts.last_mut().unwrap()
    }

    fn plan(&self) -> Result<Mounts, Error> {
        let rootfs = File::open(self.path("rootfs")).unwrap();
        let (hosts, shm, volumes) = (self.path("hosts"), self.path("shm"), self.path("volumes"));
        let handler = HandlerFacts {
            features: &self.features,
            pod_annotations: &[],
            container_annotations: &[],
            shares_sandbox: false,
            privileged_without_host_devices: false,
            rules: &HandlerRules::default(),
        };
        let situation = Situation {
            host: &self.host,
            privileged: self.privileged,
            ranges: None,
            host_network: false,
            own_cgroup_namespace: false,
            cgroup_writable: false,
            pod_shm: true,
        };
        let known = Known {
            config: &self.config,
            pod_config: &v1::PodSandboxConfig::default(),
            namespaces: &PodNamespaces::default(),
            labels: None,
            image: ImageFacts {
                volumes: &self.volumes,
                ..ImageFacts::default()
            },
            handler,
            host: &self.host,
            policy: &Policy::default(),
        };
        let input = SpecInput {
            known,
            container_id: "c",
            pod: PodFacts {
                id: "p",
                files: PodFiles {
                    hosts: Some(&hosts),
                    shm: Some(&shm),
                    ..PodFiles::default()
                },
                cgroup: &CgroupParent::parse("", Driver::Cgroupfs, "/x").unwrap(),
            },
            rootfs: RootfsFacts {
                path: "rootfs",
                dir: rootfs.as_fd(),
            },
            image_mounts: &[],
            volumes_dir: &volumes,
            abandoned: &|| false,
        };
        plan(&input, Asked::read(&known)?, &situation, "")
    }

    fn error(&self) -> Error {
        self.plan().unwrap_err()
    }
}

fn find<'a>(mounts: &'a Mounts, destination: &str) -> Option<&'a Mount> {
    mounts
        .list
        .iter()
        .find(|mount| mount.destination == destination)
}

fn has(mount: &Mount, option: &str) -> bool {
    mount.options.iter().any(|own| own == option)
}

#[test]
fn a_container_has_the_usual_mounts_and_the_pods_files() {
    let scene = Scene::new();
    let mounts = scene.plan().unwrap();
    let destinations: Vec<_> = mounts
        .list
        .iter()
        .map(|own| own.destination.as_str())
        .collect();
    assert_eq!(
        destinations,
        [
            "/proc",
            "/dev",
            "/dev/pts",
            "/dev/mqueue",
            "/sys",
            "/sys/fs/cgroup",
            "/etc/hosts",
            "/dev/shm"
        ]
    );
    assert!(has(find(&mounts, "/sys").unwrap(), "ro"));
    assert!(has(find(&mounts, "/sys/fs/cgroup").unwrap(), "ro"));
    let shm = find(&mounts, "/dev/shm").unwrap();
    assert_eq!(Path::new(&shm.source), scene.path("shm"));
    assert!(has(shm, "nosuid") && has(shm, "rw"));
    assert_eq!(mounts.root_propagation, "");
}

#[test]
fn privileged_containers_write_to_sys_and_cgroups() {
    let scene = Scene {
        privileged: true,
        ..Scene::new()
    };
    let mounts = scene.plan().unwrap();
    assert!(has(find(&mounts, "/sys").unwrap(), "rw"));
    assert!(has(find(&mounts, "/sys/fs/cgroup").unwrap(), "rw"));
}

#[test]
fn a_request_replaces_defaults_and_pod_files() {
    let mut scene = Scene::new();
    scene.request("own", "/etc//hosts");
    scene.request("dev", "/dev");
    scene.request("sys", "/sys");
    let mounts = scene.plan().unwrap();
    assert_eq!(
        Path::new(&find(&mounts, "/etc/hosts").unwrap().source),
        scene.path("own")
    );
    assert!(
        find(&mounts, "/dev/pts").is_none(),
        "hidden by the request's /dev"
    );
    assert_eq!(find(&mounts, "/sys").unwrap().kind, "bind");
    let count = |path: &str| {
        mounts
            .list
            .iter()
            .filter(|own| own.destination == path)
            .count()
    };
    assert_eq!(
        (count("/etc/hosts"), count("/dev"), count("/dev/shm")),
        (1, 1, 1)
    );
}

#[test]
fn deeper_mounts_come_after_what_they_lie_on() {
    let mut scene = Scene::new();
    scene.request("a", "/data/deep/er");
    scene.request("b", "/data/../data");
    let mounts = scene.plan().unwrap();
    let place = |path: &str| {
        mounts
            .list
            .iter()
            .position(|own| own.destination == path)
            .unwrap()
    };
    assert!(place("/data") < place("/data/deep/er"));
}

#[test]
fn a_missing_host_path_is_made_and_links_are_resolved() {
    let mut scene = Scene::new();
    fs::create_dir(scene.path("real")).unwrap();
    std::os::unix::fs::symlink("real", scene.path("link")).unwrap();
    scene.request("not/yet", "/a");
    scene.request("link", "/b");
    let mounts = scene.plan().unwrap();
    assert!(scene.path("not/yet").is_dir());
    assert_eq!(
        Path::new(&find(&mounts, "/b").unwrap().source),
        scene.path("real")
    );
}

#[test]
fn read_only_comes_in_two_strengths() {
    let mut scene = Scene::new();
    scene.request("a", "/plain").readonly = true;
    let strong = scene.request("a", "/strong");
    strong.readonly = true;
    strong.recursive_read_only = true;
    let mounts = scene.plan().unwrap();
    assert!(has(find(&mounts, "/plain").unwrap(), "ro"));
    assert!(has(find(&mounts, "/strong").unwrap(), "rro"));
}

#[test]
fn recursive_read_only_has_its_conditions() {
    let mut scene = Scene::new();
    let mount = scene.request("a", "/a");
    mount.recursive_read_only = true;
    assert!(matches!(scene.error(), Error::InvalidArgument { .. }));
    scene.config.mounts[0].readonly = true;
    scene.config.mounts[0].set_propagation(v1::MountPropagation::PropagationHostToContainer);
    assert!(matches!(scene.error(), Error::InvalidArgument { .. }));
    scene.config.mounts[0].set_propagation(v1::MountPropagation::PropagationPrivate);
    scene.features = Features::default();
    assert!(
        scene
            .error()
            .to_string()
            .starts_with("RROUnsupported: config.mounts[0]")
    );
}

#[test]
fn volumes_of_the_image_are_made_unless_replaced() {
    let mut scene = Scene::new();
    fs::create_dir_all(scene.path("rootfs/var/data")).unwrap();
    fs::write(scene.path("rootfs/var/data/seed"), "s").unwrap();
    scene.volumes = vec![
        "/var/data".into(),
        "relative".into(),
        "/taken".into(),
        "/var/data/".into(),
    ];
    scene.request("own", "/taken");
    let mounts = scene.plan().unwrap();
    let volume = find(&mounts, "/var/data").unwrap();
    assert_eq!(
        fs::read_to_string(Path::new(&volume.source).join("seed")).unwrap(),
        "s"
    );
    assert!(find(&mounts, "/relative").is_some());
    assert_eq!(
        Path::new(&find(&mounts, "/taken").unwrap().source),
        scene.path("own")
    );
    let count = mounts
        .list
        .iter()
        .filter(|own| own.destination == "/var/data")
        .count();
    assert_eq!(count, 1);
}

#[test]
fn added_options_are_those_of_bind_mounts() {
    let mut scene = Scene::new();
    scene.features = Features::default();
    scene.request("a", "/a").mount_options = vec!["noexec".into(), "nosuid".into()];
    let mounts = scene.plan().unwrap();
    assert!(has(find(&mounts, "/a").unwrap(), "noexec"));
    for bad in ["rw", "rshared", "bind", "size=1", "idmap"] {
        scene.config.mounts[0].mount_options = vec![bad.into()];
        assert!(
            matches!(scene.error(), Error::InvalidArgument { .. }),
            "{bad}"
        );
    }
}

#[test]
fn ids_are_mapped_only_by_a_handler_that_can() {
    let mut scene = Scene::new();
    let mapping = vec![v1::IdMapping {
        host_id: 1000,
        container_id: 0,
        length: 10,
    }];
    let mount = scene.request("a", "/a");
    mount.uid_mappings.clone_from(&mapping);
    mount.gid_mappings = mapping;
    assert!(matches!(scene.error(), Error::FailedPrecondition { .. }));
    let mut extensions = MountExtensions::default();
    extensions.idmap.enabled = Some(true);
    scene.features.linux = Some(LinuxFeatures {
        mount_extensions: Some(extensions),
        ..LinuxFeatures::default()
    });
    let mounts = scene.plan().unwrap();
    assert_eq!(find(&mounts, "/a").unwrap().uid_mappings[0].host_id, 1000);
}

#[test]
fn bad_paths_name_their_field() {
    for (host, container, field) in [
        ("/a", "relative", "config.mounts[0].container_path"),
        ("/a", "/x/..", "config.mounts[0].container_path"),
        ("/a", "/x\0", "config.mounts[0].container_path"),
        ("relative", "/a", "config.mounts[0].host_path"),
        ("", "/a", "config.mounts[0].host_path"),
    ] {
        let mut scene = Scene::new();
        scene.config.mounts = vec![v1::Mount {
            host_path: host.into(),
            container_path: container.into(),
            ..v1::Mount::default()
        }];
        let error = scene.error();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        assert!(error.to_string().starts_with(field), "{error}");
    }
}

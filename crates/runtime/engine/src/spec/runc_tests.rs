//! Tests of specifications with a real runtime: `runc` runs the containers, which report their state.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use orlop_cgroup::{Cgroup, Driver, Hierarchies, Systemd};
use orlop_cri_api::v1;
use orlop_cri_api::v1::security_profile::ProfileType;
use orlop_oci_types::Features;

use super::{
    AppArmor, Asked, CgroupParent, HandlerFacts, HandlerRules, HostFacts, ImageFacts, Known,
    PodFacts, PodFiles, PodNamespaces, Policy, RootfsFacts, SpecInput, build,
};

/// A container on `runc` with a root filesystem of busybox, removed with the test.
struct Scene {
    dir: tempfile::TempDir,
    hierarchies: Hierarchies,
    parent: CgroupParent,
    config: v1::ContainerConfig,
    pod: v1::PodSandboxConfig,
    volumes: Vec<String>,
    policy: Policy,
    apparmor: Option<String>,
}

/// Returns the cgroup drivers that work on this machine.
fn drivers() -> Vec<Driver> {
    let systemd = Systemd::is_running().then_some(Driver::Systemd);
    [Driver::Cgroupfs].into_iter().chain(systemd).collect()
}

impl Scene {
    fn new(script: &str) -> Self {
        Self::with(script, Driver::Cgroupfs)
    }

    fn with(script: &str, driver: Driver) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let dir = tempfile::tempdir().unwrap();
        // Other users must be able to traverse it to the root filesystem.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let root = dir.path().join("rootfs");
        for name in ["bin", "etc", "proc", "dev", "sys", "tmp", "var/data"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
        for name in [
            "sh", "cat", "grep", "id", "touch", "mount", "mknod", "hostname", "ls", "stat",
        ] {
            symlink("busybox", root.join("bin").join(name)).unwrap();
        }
        fs::write(
            root.join("etc/passwd"),
            "root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/bin/sh\n",
        )
        .unwrap();
        fs::write(root.join("etc/group"), "www:x:34:\nextra:x:77:web\n").unwrap();
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = match driver {
            Driver::Cgroupfs => format!("/orlop-spec-test-{}-{id}", std::process::id()),
            Driver::Systemd => format!("orlopspectest{}_{id}.slice", std::process::id()),
        };
        let options = v1::NamespaceOption {
            network: v1::NamespaceMode::Node.into(),
            ipc: v1::NamespaceMode::Node.into(),
            pid: v1::NamespaceMode::Container.into(),
            ..Default::default()
        };
        let config = v1::ContainerConfig {
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            linux: Some(v1::LinuxContainerConfig {
                security_context: Some(v1::LinuxContainerSecurityContext {
                    namespace_options: Some(options.clone()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let pod = v1::PodSandboxConfig {
            linux: Some(v1::LinuxPodSandboxConfig {
                security_context: Some(v1::LinuxSandboxSecurityContext {
                    namespace_options: Some(options),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        Self {
            dir,
            hierarchies: Hierarchies::detect().unwrap(),
            parent: CgroupParent::parse(&name, driver, "").unwrap(),
            config,
            pod,
            volumes: Vec::new(),
            policy: Policy::default(),
            apparmor: None,
        }
    }

    /// Returns an id that is unique on the machine, because systemd identifies scopes by it alone.
    fn id(&self) -> String {
        format!("{}-c", self.parent.path().name().replace(".slice", ""))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn linux(&mut self) -> &mut v1::LinuxContainerConfig {
        self.config.linux.as_mut().unwrap()
    }

    fn security(&mut self) -> &mut v1::LinuxContainerSecurityContext {
        self.linux().security_context.as_mut().unwrap()
    }

    fn privileged(&mut self) {
        self.security().privileged = true;
        let pod = self.pod.linux.as_mut().unwrap();
        pod.security_context.as_mut().unwrap().privileged = true;
    }

    /// Runs the container to its end and returns its output.
    fn run(&self) -> String {
        let output = self.command().output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let spec = fs::read_to_string(self.path("config.json")).unwrap();
        assert!(output.status.success(), "{errors}\n{spec}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes the bundle and returns the command that runs it.
    fn command(&self) -> Command {
        let driver = self.parent.driver();
        let host = HostFacts::detect(&self.hierarchies, driver, self.apparmor.clone()).unwrap();
        let rootfs = File::open(self.path("rootfs")).unwrap();
        let features = Command::new("runc")
            .arg("features")
            .output()
            .unwrap()
            .stdout;
        let features: Features = serde_json::from_slice(&features).unwrap();
        fs::write(self.path("hosts"), "127.0.0.1 localhost\n").unwrap();
        let rootfs_path = self.path("rootfs").to_string_lossy().into_owned();
        let known = Known {
            config: &self.config,
            pod_config: &self.pod,
            namespaces: &PodNamespaces::default(),
            labels: None,
            image: ImageFacts {
                user: "web",
                volumes: &self.volumes,
                ..ImageFacts::default()
            },
            handler: HandlerFacts {
                features: &features,
                pod_annotations: &[],
                container_annotations: &[],
                shares_sandbox: false,
                privileged_without_host_devices: false,
                rules: &HandlerRules::default(),
            },
            host: &host,
            policy: &self.policy,
        };
        let input = SpecInput {
            known,
            container_id: &self.id(),
            pod: PodFacts {
                id: "p",
                files: PodFiles {
                    hosts: Some(&self.path("hosts")),
                    ..PodFiles::default()
                },
                cgroup: &self.parent,
            },
            rootfs: RootfsFacts {
                path: &rootfs_path,
                dir: rootfs.as_fd(),
            },
            image_mounts: &[],
            volumes_dir: &self.path("volumes"),
            abandoned: &|| false,
        };
        let (spec, _) = build(&input, Asked::read(&known).unwrap()).unwrap();
        fs::write(self.path("config.json"), serde_json::to_vec(&spec).unwrap()).unwrap();
        let mut command = Command::new("timeout");
        command
            .args(["--foreground", "-k", "1", "300", "runc", "--root"])
            .arg(self.path("runc"));
        if driver == Driver::Systemd {
            command.arg("--systemd-cgroup");
        }
        command.args(["run", "--bundle"]).arg(self.dir.path());
        command.arg(self.id());
        command
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if self.parent.driver() == Driver::Systemd {
            let _ = Systemd::connect().and_then(|mut it| it.stop(self.parent.path().name()));
        }
        let hierarchies = Arc::new(self.hierarchies.clone());
        let cgroup = Cgroup::new(hierarchies, self.parent.path().clone());
        let _ = cgroup.kill(Duration::from_secs(5));
        let _ = cgroup.remove(Duration::from_secs(5));
    }
}

#[test]
fn a_restricted_container_is_restricted() {
    let mut scene = Scene::new(
        "id; grep -E '^(CapBnd|CapEff|CapInh|NoNewPrivs|Seccomp):' /proc/self/status; \
         cat /etc/hosts /mnt/seed; touch /file 2>&1; touch /var/data/file && echo volume; \
         touch /mnt/file 2>&1; cat /proc/keys | grep -c .; mount -t tmpfs x /tmp 2>&1",
    );
    scene.volumes = vec!["/var/data".into()];
    fs::set_permissions(
        scene.path("rootfs/var/data"),
        fs::Permissions::from_mode(0o777),
    )
    .unwrap();
    fs::create_dir(scene.path("mnt")).unwrap();
    fs::write(scene.path("mnt/seed"), "seed\n").unwrap();
    scene.config.mounts = vec![v1::Mount {
        host_path: scene.path("mnt").to_str().unwrap().into(),
        container_path: "/mnt".into(),
        readonly: true,
        ..Default::default()
    }];
    // Otherwise the last command fails.
    scene.config.command[2].push_str("; true");
    let security = scene.security();
    security.no_new_privs = true;
    security.readonly_rootfs = true;
    security.masked_paths = vec!["/proc/keys".into()];
    security.seccomp = Some(v1::SecurityProfile {
        profile_type: ProfileType::RuntimeDefault.into(),
        ..Default::default()
    });
    security.capabilities = Some(v1::Capability {
        drop_capabilities: vec!["ALL".into()],
        add_capabilities: vec!["NET_BIND_SERVICE".into()],
        ..Default::default()
    });
    let output = scene.run();
    for line in [
        "uid=33(web) gid=34(www) groups=34(www),77(extra)",
        "CapInh:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000400",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "127.0.0.1 localhost",
        "seed",
        "touch: /file: Read-only file system",
        "volume",
        "touch: /mnt/file: Read-only file system",
        "0",
        "mount: permission denied (are you root?)",
    ] {
        assert!(
            output.lines().any(|own| own == line),
            "{line:?} is not in\n{output}"
        );
    }
}

#[test]
fn limits_arrive_in_the_cgroup() {
    for driver in drivers() {
        let mut scene = Scene::with(
            "cd /sys/fs/cgroup; \
             cat memory/memory.limit_in_bytes cpu/cpu.shares pids/pids.max 2>/dev/null || \
             cat memory.max cpu.weight pids.max; cat /proc/self/oom_score_adj",
            driver,
        );
        scene.policy.pids_limit = Some(99);
        scene.linux().resources = Some(v1::LinuxContainerResources {
            memory_limit_in_bytes: 64 << 20,
            cpu_shares: 1024,
            oom_score_adj: 321,
            hugepage_limits: vec![v1::HugepageLimit {
                page_size: "2MB".into(),
                limit: 0,
            }],
            ..Default::default()
        });
        let output = scene.run();
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(
            (lines[0], lines[2], lines[3]),
            ("67108864", "99", "321"),
            "{driver:?}"
        );
        // Shares, or a weight, which depends on the runtime's version.
        assert!(
            ["1024", "39", "100"].contains(&lines[1]),
            "{driver:?} {output}"
        );
    }
}

#[test]
fn a_container_is_in_the_cgroup_its_pod_says() {
    for driver in drivers() {
        let scene = Scene::with("echo up; read line", driver);
        let mut command = scene.command();
        let mut runc = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(runc.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "up\n", "{driver:?}");
        let path = scene.parent.container_path(&scene.id()).unwrap();
        let cgroup = Cgroup::new(Arc::new(scene.hierarchies.clone()), path);
        assert!(
            !cgroup.processes().unwrap().is_empty(),
            "{driver:?} {}",
            cgroup.path()
        );
        runc.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(runc.wait().unwrap().success(), "{driver:?}");
    }
}

#[test]
fn the_default_apparmor_profile_confines() {
    if !AppArmor::is_enabled() {
        orlop_testkit::skip!("this kernel has no AppArmor");
    }
    let mut scene = Scene::new(
        "cat /proc/self/attr/current; mount -t tmpfs x /tmp 2>&1; cat /proc/kcore 2>&1; \
         echo file > /tmp/file && cat /tmp/file",
    );
    scene.apparmor = Some(AppArmor::load_default().unwrap());
    let security = scene.security();
    security.run_as_user = Some(v1::Int64Value { value: 0 });
    security.capabilities = Some(v1::Capability {
        add_capabilities: vec!["ALL".into()],
        ..Default::default()
    });
    let output = scene.run();
    assert!(output.starts_with("orlop-default (enforce)\n"), "{output}");
    assert_eq!(output.matches("ermission denied").count(), 2, "{output}");
    assert!(output.ends_with("file\n"), "{output}");
}

#[test]
fn a_privileged_container_is_not_restricted() {
    let mut scene = Scene::new(
        "grep -E '^(CapBnd|CapEff|Seccomp):' /proc/self/status; mount -t tmpfs x /tmp && echo mounted; \
         mknod /tmp/null c 1 3 && cat /tmp/null && echo device; ls /dev | grep -c .; \
         mount | grep ' /sys ' | grep -c '(rw,'",
    );
    scene.security().run_as_user = Some(v1::Int64Value { value: 0 });
    scene.privileged();
    scene.security().seccomp = Some(v1::SecurityProfile {
        profile_type: ProfileType::RuntimeDefault.into(),
        ..Default::default()
    });
    let output = scene.run();
    let lines: Vec<&str> = output.lines().collect();
    let set = |name: &str| {
        let line = lines
            .iter()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_eq!(set("CapEff:"), set("CapBnd:"));
    assert!(set("CapEff:") & 1 << 21 != 0, "CAP_SYS_ADMIN");
    assert!(
        lines.contains(&"Seccomp:\t0") && lines.contains(&"mounted"),
        "{output}"
    );
    assert!(lines.contains(&"device"), "{output}");
    assert_eq!(lines.last(), Some(&"1"), "{output}");
}

#[test]
fn only_requested_devices_can_be_used() {
    let mut scene = Scene::new(
        "cat /dev/asked && echo asked; mknod /tmp/mem c 1 1 && cat /tmp/mem 2>&1 | grep -c permitted; \
         echo x > /dev/null && echo null",
    );
    scene.security().run_as_user = Some(v1::Int64Value { value: 0 });
    scene.config.devices = vec![v1::Device {
        host_path: "/dev/null".into(),
        container_path: "/dev/asked".into(),
        permissions: "r".into(),
    }];
    let output = scene.run();
    assert_eq!(output.lines().collect::<Vec<_>>(), ["asked", "1", "null"]);
}

#[test]
fn ambient_capabilities_reach_an_unprivileged_user() {
    let mut scene = Scene::new("grep -E '^Cap(Eff|Amb|Inh):' /proc/self/status");
    scene.security().capabilities = Some(v1::Capability {
        drop_capabilities: vec!["ALL".into()],
        add_ambient_capabilities: vec!["NET_BIND_SERVICE".into()],
        ..Default::default()
    });
    let output = scene.run();
    assert_eq!(output.matches("0000000000000400").count(), 3, "{output}");
}

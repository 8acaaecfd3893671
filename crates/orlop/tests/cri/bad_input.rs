//! Requests that make no sense: the right code, the field's name, and nothing left behind.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use orlop_cri_api::v1::{
    ContainerConfig, Device, ImageSpec, Int64Value, KeyValue, Mount, NamespaceMode,
    NamespaceOption, PodSandboxConfig, PortMapping, UserNamespace,
};
use orlop_testkit::Node;
use tonic::{Code, Status};

use crate::world::world;

mod ours;

/// What is wrong, the code that tells it, and a word that the message must have.
struct Case<T> {
    what: &'static str,
    spoil: fn(&mut T),
    code: Code,
    word: &'static str,
}

fn case<T>(what: &'static str, word: &'static str, spoil: fn(&mut T)) -> Case<T> {
    let code = Code::InvalidArgument;
    Case {
        what,
        spoil,
        code,
        word,
    }
}

impl<T> Case<T> {
    fn with(self, code: Code) -> Self {
        Self { code, ..self }
    }
}

fn pod_cases() -> Vec<Case<PodSandboxConfig>> {
    vec![
        case("a pod without metadata", "metadata", |pod| {
            pod.metadata = None;
        }),
        case("a pod without a name", "name", |pod| {
            pod.metadata.as_mut().unwrap().name.clear();
        }),
        case("a relative log directory", "log_directory", |pod| {
            pod.log_directory = "logs/here".to_owned();
        }),
        case("a host name that is too long", "hostname", |pod| {
            pod.hostname = "h".repeat(80);
            let linux = pod.linux.as_mut().unwrap();
            let security = linux.security_context.as_mut().unwrap();
            security.namespace_options.as_mut().unwrap().network = 0;
        }),
    ]
}

/// Pods of which it shows only in the part that is asked for that they cannot be.
fn impossible_pods() -> Vec<Case<PodSandboxConfig>> {
    vec![
        case(
            "a host port beyond all ports",
            "config.port_mappings[0].host_port",
            |pod| {
                pod.port_mappings = vec![PortMapping {
                    host_port: 70_000,
                    container_port: 80,
                    ..PortMapping::default()
                }];
            },
        ),
        case(
            "a bandwidth that is none",
            "kubernetes.io/ingress-bandwidth",
            |pod| {
                let name = "kubernetes.io/ingress-bandwidth".to_owned();
                pod.annotations.insert(name, "fast".to_owned());
            },
        ),
        case("a user namespace without its ids", "uids", |pod| {
            options(pod).userns_options = Some(UserNamespace {
                mode: NamespaceMode::Pod.into(),
                ..UserNamespace::default()
            });
        }),
        case(
            "a setting of the kernel that no pod has",
            "vm.swappiness",
            |pod| {
                let linux = pod.linux.get_or_insert_default();
                linux.sysctls.insert("vm.swappiness".into(), "1".into());
            },
        ),
        case(
            "a name server over two lines",
            "config.dns_config.servers",
            |pod| {
                let dns = pod.dns_config.get_or_insert_default();
                dns.servers = vec!["10.0.0.1\nnameserver 6.6.6.6".to_owned()];
            },
        ),
        case(
            "a cgroup whose name no directory can have",
            "config.linux.cgroup_parent",
            |pod| pod.linux.get_or_insert_default().cgroup_parent = "a\0b".to_owned(),
        ),
    ]
}

fn options(pod: &mut PodSandboxConfig) -> &mut NamespaceOption {
    let security = pod
        .linux
        .get_or_insert_default()
        .security_context
        .get_or_insert_default();
    security.namespace_options.get_or_insert_default()
}

fn container_cases() -> Vec<Case<ContainerConfig>> {
    vec![
        case("a container without metadata", "metadata", |container| {
            container.metadata = None;
        }),
        case("a container without an image", "image", |container| {
            container.image = None;
        }),
        case(
            "an image that is not there",
            "no/such",
            |container: &mut ContainerConfig| {
                container.image.as_mut().unwrap().image = "127.0.0.1:1/no/such:1".to_owned();
            },
        )
        .with(Code::NotFound),
        case("a relative mount target", "container_path", |container| {
            container.mounts.push(Mount {
                host_path: "/tmp".to_owned(),
                container_path: "relative".to_owned(),
                ..Mount::default()
            });
        }),
        case(
            "a log outside of the log directory",
            "log_path",
            |container| container.log_path = "../../outside.log".to_owned(),
        ),
        case(
            "a user that the image does not know",
            "nobody-knows",
            |container| security(container).run_as_username = "nobody-knows".to_owned(),
        ),
        case("a group without a user", "run_as_group", |container| {
            security(container).run_as_group = Some(Int64Value { value: 1000 });
        }),
        case("an unknown capability", "FLY", |container| {
            let capabilities = security(container).capabilities.get_or_insert_default();
            capabilities.add_capabilities.push("FLY".to_owned());
        }),
    ]
}

fn security(
    container: &mut ContainerConfig,
) -> &mut orlop_cri_api::v1::LinuxContainerSecurityContext {
    container
        .linux
        .get_or_insert_default()
        .security_context
        .get_or_insert_default()
}

fn last_change(place: &Path) -> (i64, i64) {
    let found = std::fs::metadata(place).expect("look at a directory of the daemon's");
    (found.mtime(), found.mtime_nsec())
}

#[tokio::test]
async fn an_unknown_handler_is_refused() {
    let world = world!();
    let request = orlop_cri_api::v1::RunPodSandboxRequest {
        config: Some(world.node.pod("handled").config()),
        runtime_handler: "submarine".to_owned(),
    };
    let error = world.cri.runtime().run_pod_sandbox(request).await;
    let error = error.expect_err("unknown");
    check(
        &world.node,
        "an unknown handler",
        &error,
        Code::InvalidArgument,
        "submarine",
    );
    world.finish().await;
}

#[tokio::test]
async fn senseless_containers_are_refused() {
    let world = world!();
    let pod = world.node.pod("sensible");
    let pod_id = world.run_pod(&pod).await;
    for case in container_cases() {
        if world.node.is_peer() && UNCHECKED_BY_REFERENCE.contains(&case.word) {
            continue;
        }
        let spec = world.container("main").shell("true").with(case.spoil);
        let error = world
            .cri
            .create(&pod_id, &pod, &spec)
            .await
            .expect_err(case.what);
        check(&world.node, case.what, &error, case.code, case.word);
        assert_eq!(
            world.cri.containers().await.expect("list"),
            [""; 0],
            "{}",
            case.what
        );
    }
    // The pod is as good as before.
    let spec = world.container("main").shell("exit 0");
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    assert_eq!(world.cri.wait_exited(&id).await.exit_code, 0);
    world.finish().await;
}

/// What can be told without the files of the image and the paths of the node.
fn impossible_containers() -> Vec<Case<ContainerConfig>> {
    let mut cases = container_cases();
    cases.retain(|case| case.word != "nobody-knows");
    cases.extend([
        case(
            "a privileged container in another pod",
            "privileged",
            |container| security(container).privileged = true,
        ),
        case(
            "the processes of a container that is not there",
            "0000",
            |container| {
                let security = security(container);
                let options = security.namespace_options.get_or_insert_default();
                options.pid = NamespaceMode::Target.into();
                options.target_id = "0".repeat(64);
            },
        )
        .with(Code::NotFound),
        case("a profile of no kind", "seccomp", |container| {
            security(container)
                .seccomp
                .get_or_insert_default()
                .profile_type = 9;
        }),
        case("a device by a relative path", "devices[0]", |container| {
            container.devices.push(Device {
                host_path: "dev/null".to_owned(),
                ..Device::default()
            });
        }),
        case(
            "read-only all the way down, and writable",
            "recursive_read_only",
            |container| {
                container.mounts.push(Mount {
                    host_path: "/tmp".to_owned(),
                    container_path: "/mnt".to_owned(),
                    recursive_read_only: true,
                    ..Mount::default()
                });
            },
        ),
        case(
            "an image as a volume that is not there",
            "no/volume",
            |container: &mut ContainerConfig| {
                container.mounts.push(Mount {
                    container_path: "/mnt".to_owned(),
                    readonly: true,
                    image: Some(ImageSpec {
                        image: "127.0.0.1:1/no/volume:1".to_owned(),
                        ..ImageSpec::default()
                    }),
                    ..Mount::default()
                });
            },
        )
        .with(Code::NotFound),
        case("a variable without a name", "envs[0]", |container| {
            container.envs.push(KeyValue::default());
        }),
        case("a relative working directory", "working_dir", |container| {
            container.working_dir = "srv".to_owned();
        }),
        case("a signal that does not exist", "stop_signal", |container| {
            container.stop_signal = 4711;
        }),
        case("no CPU by that number", "cpuset_cpus", |container| {
            let linux = container.linux.get_or_insert_default();
            linux.resources.get_or_insert_default().cpuset_cpus = "first".to_owned();
        }),
    ]);
    cases
}

#[tokio::test]
async fn what_is_unknown_is_not_found() {
    let world = world!();
    let unknown = "0".repeat(64);
    let pod = world.node.pod("unknown");
    let spec = world.container("main");
    let cri = &world.cri;
    let errors = [
        ("pod status", cri.pod_status(&unknown).await.map(drop)),
        ("container status", cri.status(&unknown).await.map(drop)),
        ("create", cri.create(&unknown, &pod, &spec).await.map(drop)),
        ("start", cri.start(&unknown).await),
        ("exec", cri.exec(&unknown, &["true"]).await.map(drop)),
    ];
    for (what, answer) in errors {
        let error = answer.expect_err(what);
        assert_eq!(error.code(), Code::NotFound, "{what}: {error}");
    }
    world.finish().await;
}

#[tokio::test]
async fn ten_thousand_variables_are_carried() {
    let world = world!();
    let mut spec = world.container("main").shell("env | grep -c ^VARIABLE_");
    for n in 0..10_000 {
        spec = spec.env(&format!("VARIABLE_{n}"), "value");
    }
    let (code, output) = world.output("many", &spec).await;
    assert_eq!((code, output.as_str()), (0, "10000\n"));
    world.finish().await;
}

/// containerd 1.6 does not look at these: it panics inside, or fails at start, or not at all.
const UNCHECKED_BY_REFERENCE: &[&str] = &["metadata", "image", "container_path", "log_path", "FLY"];

/// The reference has other codes and words; there an error is all that is asked for.
fn check(node: &Node, what: &str, error: &Status, code: Code, word: &str) {
    if node.is_peer() {
        return;
    }
    assert_eq!(error.code(), code, "{what}: {error}");
    assert!(
        error.message().contains(word),
        "{what}: {word} is not named: {error}"
    );
}

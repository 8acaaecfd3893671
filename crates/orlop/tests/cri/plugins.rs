//! Plugins of the Node Resource Interface: what they hear of, what they change, and what becomes
//! of a node whose plugins misbehave.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use orlop_cri::v1::{
    ContainerState, LinuxContainerResources, PodSandboxState, UpdateContainerResourcesRequest,
    UpdatePodSandboxResourcesRequest,
};
use orlop_testkit::machine::is_cgroup_v2;
use orlop_testkit::nri::Events;
use orlop_testkit::nri::v1alpha1::{
    Container, ContainerAdjustment, ContainerEviction, ContainerUpdate, CreateContainerRequest,
    CreateContainerResponse, Event, Hook, Hooks, KeyValue, LinuxContainerAdjustment,
    LinuxContainerUpdate, LinuxCpu, LinuxMemory, LinuxPids, LinuxResources, Mount, OptionalInt64,
    OptionalUInt64, PosixRlimit, StopContainerResponse, SynchronizeResponse,
    UpdateContainerResponse,
};
use orlop_testkit::{Manners, Node, Plugin};

use crate::world::{World, world};

/// Other tests give plugins more time than they need on a busy machine; here it has to run out.
const HASTY: &str = "[nri]\nrequest_timeout = \"3s\"";

async fn plugin(world: &World, index: &str, name: &str, manners: Manners) -> Plugin {
    let plugin = manners
        .connect(&world.node.plugin_socket(), index, name)
        .await;
    taking_part(world, &format!("{index}-{name}"), true).await;
    plugin
}

/// Waits until a plugin takes part, or does no more.
async fn taking_part(world: &World, name: &str, expected: bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while names(world).await.contains(&name.to_owned()) != expected {
        assert!(Instant::now() < end, "{name}: {}", world.node.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The plugins that the daemon says take part.
async fn names(world: &World) -> Vec<String> {
    let request = orlop_cri::v1::StatusRequest { verbose: true };
    let status = world.cri.runtime.clone().status(request).await;
    let info = status.expect("status").into_inner().info;
    let state: serde_json::Value = serde_json::from_str(&info["nri"]).expect("JSON");
    let plugins = state["plugins"].as_array().expect("a list").iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    plugins
        .map(|one| format!("{}-{}", text(&one["index"]), text(&one["name"])))
        .collect()
}

fn adjustment(adjust: ContainerAdjustment) -> CreateContainerResponse {
    CreateContainerResponse {
        adjust: Some(adjust),
        ..CreateContainerResponse::default()
    }
}

fn variable(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

fn adds(key: &'static str, value: &'static str) -> Manners {
    Manners::default().creates(move |_| {
        adjustment(ContainerAdjustment {
            env: vec![variable(key, value)],
            ..ContainerAdjustment::default()
        })
    })
}

fn shares(value: u64) -> LinuxResources {
    LinuxResources {
        cpu: Some(LinuxCpu {
            shares: Some(OptionalUInt64 { value }),
            ..LinuxCpu::default()
        }),
        ..LinuxResources::default()
    }
}

fn update(container: &str, resources: LinuxResources) -> ContainerUpdate {
    ContainerUpdate {
        container_id: container.to_owned(),
        linux: Some(LinuxContainerUpdate {
            resources: Some(resources),
        }),
        ignore_failure: false,
    }
}

async fn shares_of(world: &World, container: &str) -> i64 {
    let status = world.cri.status(container).await.expect("status");
    let linux = status.resources.and_then(|resources| resources.linux);
    linux.expect("resources").cpu_shares
}

/// What the kernel has of it.
async fn kernel_shares(world: &World, container: &str) -> String {
    let file = if is_cgroup_v2() {
        "/sys/fs/cgroup/cpu.weight"
    } else {
        "/sys/fs/cgroup/cpu/cpu.shares"
    };
    let output = world.cri.exec(container, &["cat", file]).await;
    String::from_utf8_lossy(&output.expect("exec").stdout)
        .trim()
        .to_owned()
}

fn expected_shares(value: u64) -> String {
    match (is_cgroup_v2(), value) {
        (false, value) => value.to_string(),
        // By the kernel's curve.
        (true, 512) => "59".to_owned(),
        (true, 1024) => "100".to_owned(),
        (true, other) => panic!("no weight is known for {other}"),
    }
}

#[tokio::test]
async fn a_plugin_hears_of_all_in_order_and_of_each_once() {
    let world = world!(Node::orlop());
    let listener = plugin(&world, "10", "listener", Manners::default()).await;
    let spec = world.container("main").shell("sleep 600");
    let pod = world
        .node
        .pod("told")
        .label("app", "web")
        .annotation("note", "x");
    let pod_id = world.run_pod(&pod).await;
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let request = UpdateContainerResourcesRequest {
        container_id: id.clone(),
        linux: Some(LinuxContainerResources {
            cpu_shares: 512,
            ..LinuxContainerResources::default()
        }),
        ..UpdateContainerResourcesRequest::default()
    };
    let mut client = world.cri.runtime.clone();
    client
        .update_container_resources(request)
        .await
        .expect("update");
    let request = UpdatePodSandboxResourcesRequest {
        pod_sandbox_id: pod_id.clone(),
        resources: Some(LinuxContainerResources {
            cpu_shares: 600,
            ..LinuxContainerResources::default()
        }),
        ..UpdatePodSandboxResourcesRequest::default()
    };
    client
        .update_pod_sandbox_resources(request)
        .await
        .expect("update");
    world.cri.stop(&id, 0).await.expect("stop");
    world.cri.stop(&id, 0).await.expect("stop again");
    world.cri.remove(&id).await.expect("remove");
    world.cri.stop_pod(&pod_id).await.expect("stop the pod");
    world
        .cri
        .stop_pod(&pod_id)
        .await
        .expect("stop the pod again");
    world.cri.remove_pod(&pod_id).await.expect("remove the pod");

    let calls = listener.calls();
    let methods: Vec<_> = calls.iter().map(|call| call.method.as_str()).collect();
    assert_eq!(
        methods,
        [
            "RunPodSandbox",
            "CreateContainer",
            "ValidateContainerAdjustment",
            "PostCreateContainer",
            "StartContainer",
            "PostStartContainer",
            "UpdateContainer",
            "PostUpdateContainer",
            "UpdatePodSandbox",
            "PostUpdatePodSandbox",
            "StopContainer",
            "RemoveContainer",
            "StopPodSandbox",
            "RemovePodSandbox",
        ]
    );
    let first = &calls[0].pod;
    assert_eq!(
        (first.id.as_str(), first.name.as_str()),
        (pod_id.as_str(), "told")
    );
    assert_eq!(
        (
            first.labels["app"].as_str(),
            first.annotations["note"].as_str()
        ),
        ("web", "x")
    );
    assert_ne!(first.pid, 0);
    for call in &calls[1..8] {
        let own = &call.container;
        assert_eq!((own.id.as_str(), own.name.as_str()), (id.as_str(), "main"));
        assert_eq!(own.pod_sandbox_id, pod_id);
        assert!(own.args.contains(&"sleep 600".to_owned()), "{own:?}");
        assert!(
            own.env.iter().any(|one| one.starts_with("PATH=")),
            "{own:?}"
        );
        assert!(!own.mounts.is_empty());
    }
    let after = &calls[7].container;
    let resources = after
        .linux
        .clone()
        .expect("linux")
        .resources
        .expect("resources");
    assert_eq!(
        resources.cpu.expect("cpu").shares.expect("shares").value,
        512
    );
    assert_ne!(calls[5].container.pid, 0, "it runs when its start is told");
    assert_eq!(calls[10].container.exit_code, 137);
    assert_eq!(calls[11].container.name, "main");
    world.finish().await;
}

#[tokio::test]
async fn what_a_plugin_adjusts_is_seen_in_the_container() {
    let world = world!(Node::orlop());
    let given = world.node.scratch().subdir("given");
    std::fs::write(given.join("file"), "from the plugin").expect("write a file");
    let traces = world.node.scratch().path("hook-ran");
    let (source, trace) = (
        given.to_string_lossy().into_owned(),
        traces.to_string_lossy().into_owned(),
    );
    let adjust = move |_: CreateContainerRequest| {
        adjustment(ContainerAdjustment {
            annotations: [("example.com/added".to_owned(), "yes".to_owned())].into(),
            env: vec![variable("ADDED", "1"), variable("-GONE", "")],
            mounts: vec![Mount {
                destination: "/given".to_owned(),
                r#type: "bind".to_owned(),
                source: source.clone(),
                options: vec!["rbind".to_owned(), "ro".to_owned()],
            }],
            hooks: Some(Hooks {
                create_runtime: vec![Hook {
                    path: "/bin/touch".to_owned(),
                    args: vec!["touch".to_owned(), trace.clone()],
                    ..Hook::default()
                }],
                ..Hooks::default()
            }),
            rlimits: vec![PosixRlimit {
                r#type: "RLIMIT_NOFILE".to_owned(),
                hard: 321,
                soft: 123,
            }],
            linux: Some(LinuxContainerAdjustment {
                resources: Some(LinuxResources {
                    memory: Some(LinuxMemory {
                        limit: Some(OptionalInt64 { value: 48 << 20 }),
                        ..LinuxMemory::default()
                    }),
                    pids: Some(LinuxPids { limit: 33 }),
                    ..shares(512)
                }),
                ..LinuxContainerAdjustment::default()
            }),
            ..ContainerAdjustment::default()
        })
    };
    let manners = Manners::default().creates(adjust);
    let adjuster = plugin(&world, "10", "adjuster", manners).await;
    let script = "echo added=$ADDED gone=$GONE kept=$KEPT; cat /given/file; echo; \
                  touch /given/x 2>/dev/null || echo read-only; ulimit -n; sleep 600";
    let spec = world.container("main").shell(script).with(|config| {
        for (key, value) in [("GONE", "here"), ("KEPT", "2")] {
            config.envs.push(orlop_cri::v1::KeyValue {
                key: key.to_owned(),
                value: value.to_owned().into(),
            });
        }
    });
    let running = world.run_container("adjusted", &spec).await;
    let expected = [
        "added=1 gone= kept=2",
        "from the plugin",
        "read-only",
        "123",
    ];
    let end = Instant::now() + Duration::from_secs(20);
    while running.stdout().lines().count() < expected.len() {
        assert!(Instant::now() < end, "{}", running.stdout());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(running.stdout().lines().collect::<Vec<_>>(), expected);
    assert!(traces.exists(), "the hook ran");
    assert_eq!(shares_of(&world, &running.id).await, 512);
    assert_eq!(
        kernel_shares(&world, &running.id).await,
        expected_shares(512)
    );
    let status = world.cri.status(&running.id).await.expect("status");
    let linux = status
        .resources
        .and_then(|resources| resources.linux)
        .expect("resources");
    assert_eq!(linux.memory_limit_in_bytes, 48 << 20);
    let (v1, v2) = ("/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max");
    let file = if is_cgroup_v2() { v2 } else { v1 };
    let pids = world
        .cri
        .exec(&running.id, &["cat", file])
        .await
        .expect("exec");
    assert_eq!(String::from_utf8_lossy(&pids.stdout).trim(), "33");
    // Commands run in the container have its environment.
    let command = ["sh", "-c", "echo $ADDED"];
    let output = world.cri.exec(&running.id, &command).await.expect("exec");
    assert_eq!(output.stdout, b"1\n");
    let seen = adjuster
        .wait_for("PostStartContainer", &running.id)
        .await
        .container;
    assert_eq!(seen.annotations["example.com/added"], "yes");
    assert!(seen.env.contains(&"ADDED=1".to_owned()), "{:?}", seen.env);
    world.finish().await;
}

#[tokio::test]
async fn adjustments_hold_over_a_restart_and_the_plugin_is_told_all_again() {
    let mut world = world!(Node::orlop());
    let adjuster = plugin(&world, "10", "adjuster", adds("ADDED", "1")).await;
    let running = world.run_script("kept", "sleep 600").await;
    let created = world.container("created").shell("echo got $ADDED");
    let created_id = world
        .cri
        .create(&running.pod_id, &running.pod, &created)
        .await;
    let created_id = created_id.expect("create");
    world.node.kill9();
    adjuster.stub().closed().await;
    world.node.start_again().await;
    world.cri = world.node.cri().await;
    // Without the plugin.
    world.cri.start(&created_id).await.expect("start");
    world.cri.wait_exited(&created_id).await;
    let log = orlop_testkit::cri::read_log(&running.pod.logs().join("created.log"));
    assert_eq!(log[0].content, b"got 1");

    let resources = running.id.clone();
    let manners = Manners::default().synchronizes(move |state| SynchronizeResponse {
        update: vec![update(&resources, shares(512))],
        more: state.more,
    });
    let again = plugin(&world, "10", "adjuster", manners).await;
    let state = again.synchronized().expect("it was told");
    let pods: Vec<_> = state.pods.iter().map(|pod| pod.id.as_str()).collect();
    assert_eq!(pods, [running.pod_id.as_str()]);
    let containers: Vec<&Container> = state.containers.iter().collect();
    assert_eq!(
        containers.len(),
        1,
        "what has ended is not told: {containers:?}"
    );
    assert_eq!(containers[0].id, running.id);
    assert!(containers[0].env.contains(&"ADDED=1".to_owned()));
    assert_ne!(containers[0].pid, 0);
    let end = Instant::now() + Duration::from_secs(20);
    while shares_of(&world, &running.id).await != 512 {
        assert!(Instant::now() < end, "{}", world.node.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        kernel_shares(&world, &running.id).await,
        expected_shares(512)
    );
    world.finish().await;
}

#[tokio::test]
async fn updates_reach_other_containers_whatever_they_come_with() {
    let world = world!(Node::orlop());
    let first = world.run_script("first", "sleep 600").await;
    let target = first.id.clone();
    let with_creation = target.clone();
    let with_update = target.clone();
    let with_stop = target.clone();
    let manners = Manners::default()
        .creates(move |_| CreateContainerResponse {
            update: vec![update(&with_creation, shares(512))],
            ..CreateContainerResponse::default()
        })
        .updates(move |request| {
            let own = request.container.expect("a container").id;
            UpdateContainerResponse {
                update: vec![
                    update(&own, shares(1024)),
                    update(&with_update, shares(1024)),
                ],
                ..UpdateContainerResponse::default()
            }
        })
        .stops(move |_| StopContainerResponse {
            update: vec![update(&with_stop, shares(512))],
        });
    let updater = plugin(&world, "10", "updater", manners).await;

    let second = world.run_script("second", "sleep 600").await;
    assert_eq!(kernel_shares(&world, &target).await, expected_shares(512));
    let request = UpdateContainerResourcesRequest {
        container_id: second.id.clone(),
        linux: Some(LinuxContainerResources {
            cpu_shares: 300,
            memory_limit_in_bytes: 64 << 20,
            ..LinuxContainerResources::default()
        }),
        ..UpdateContainerResourcesRequest::default()
    };
    let mut client = world.cri.runtime.clone();
    client
        .update_container_resources(request)
        .await
        .expect("update");
    assert_eq!(kernel_shares(&world, &target).await, expected_shares(1024));
    assert_eq!(
        kernel_shares(&world, &second.id).await,
        expected_shares(1024),
        "the plugin's word goes before the client's"
    );
    let status = world.cri.status(&second.id).await.expect("status");
    let linux = status
        .resources
        .and_then(|all| all.linux)
        .expect("resources");
    assert_eq!(
        linux.memory_limit_in_bytes,
        64 << 20,
        "the client's word holds, too"
    );
    world.cri.stop(&second.id, 0).await.expect("stop");
    assert_eq!(kernel_shares(&world, &target).await, expected_shares(512));

    // Of its own accord; what is not there is passed over, what cannot be is said.
    let impossible = LinuxResources {
        cpu: Some(LinuxCpu {
            cpus: "nonsense".to_owned(),
            ..LinuxCpu::default()
        }),
        ..LinuxResources::default()
    };
    let updates = vec![
        update("nobody", shares(2)),
        update(&target, shares(1024)),
        update(&target, impossible.clone()),
    ];
    let failed = updater
        .stub()
        .update(updates, Vec::new())
        .await
        .expect("update");
    assert_eq!(failed, [update(&target, impossible)]);
    assert_eq!(kernel_shares(&world, &target).await, expected_shares(1024));

    let eviction = ContainerEviction {
        container_id: target.clone(),
        reason: "the test wants room".to_owned(),
    };
    let evicted = updater.stub().update(Vec::new(), vec![eviction]).await;
    assert!(evicted.expect("evict").is_empty());
    let status = world.cri.wait_exited(&target).await;
    assert_eq!(status.exit_code, 137);
    assert!(world.node.log().contains("the test wants room"));
    world.finish().await;
}

#[tokio::test]
async fn a_refused_pod_or_container_leaves_nothing_and_can_be_tried_again() {
    let world = world!(Node::orlop());
    let manners = Manners::default().refuses("RunPodSandbox");
    let refuser = plugin(&world, "10", "refuser", manners).await;
    let pod = world.node.pod("refused");
    let error = world.cri.run_pod(&pod).await.expect_err("it is refused");
    for word in ["10-refuser", "RunPodSandbox", "the test refuses"] {
        assert!(error.message().contains(word), "{error}");
    }
    assert!(world.cri.pods().await.expect("list").is_empty());
    let methods: Vec<_> = refuser
        .calls()
        .into_iter()
        .map(|call| call.method)
        .collect();
    assert_eq!(
        methods,
        ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]
    );
    refuser.leave();
    taking_part(&world, "10-refuser", false).await;
    let pod_id = world.run_pod(&pod).await;

    for method in ["CreateContainer", "ValidateContainerAdjustment"] {
        let refuser = plugin(&world, "10", "refuser", Manners::default().refuses(method)).await;
        let spec = world.container("main").shell("sleep 600");
        let error = world.cri.create(&pod_id, &pod, &spec).await;
        let error = error.expect_err("it is refused");
        assert!(error.message().contains("the test refuses"), "{error}");
        assert!(world.cri.containers().await.expect("list").is_empty());
        let methods: Vec<_> = refuser
            .calls()
            .into_iter()
            .map(|call| call.method)
            .collect();
        assert_eq!(
            methods[methods.len() - 2..],
            ["StopContainer", "RemoveContainer"]
        );
        refuser.leave();
        taking_part(&world, "10-refuser", false).await;
    }

    let manners = Manners::default().refuses("StartContainer");
    let refuser = plugin(&world, "10", "refuser", manners).await;
    let spec = world.container("main").shell("sleep 600");
    let id = world
        .cri
        .create(&pod_id, &pod, &spec)
        .await
        .expect("create");
    let error = world.cri.start(&id).await.expect_err("it is refused");
    assert!(error.message().contains("the test refuses"), "{error}");
    let status = world.cri.status(&id).await.expect("status");
    assert_eq!(status.state(), ContainerState::ContainerExited);
    assert_eq!(
        (status.exit_code, status.reason.as_str()),
        (128, "StartError")
    );
    refuser.wait_for("StopContainer", &id).await;
    world.finish().await;
}

#[tokio::test]
async fn a_plugin_that_hangs_or_dies_is_left_behind() {
    let world = world!(Node::orlop().drop_in(HASTY));
    let manners = Manners::default().hangs_in("CreateContainer");
    let hanging = plugin(&world, "10", "hanging", manners).await;
    let _good = plugin(&world, "20", "good", adds("GOOD", "1")).await;
    let spec = world.container("main").shell("echo good=$GOOD");
    let begun = Instant::now();
    let (code, output) = world.output("hung", &spec).await;
    assert_eq!((code, output.as_str()), (0, "good=1\n"));
    assert!(begun.elapsed() < Duration::from_secs(20));
    hanging.stub().closed().await;
    assert_eq!(names(&world).await, ["20-good"]);
    let log = world.node.log();
    let line = log
        .lines()
        .find(|line| line.contains("an NRI plugin is gone"));
    let line = line.expect("a line in the log");
    assert!(
        line.contains("10-hanging") && line.contains("CreateContainer"),
        "{line}"
    );

    // One that hangs up in the middle.
    let manners = Manners::default().hangs_in("StartContainer");
    let dying = plugin(&world, "30", "dying", manners).await;
    let pod = world.node.pod("orphaned");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("sleep 600");
    let id = world
        .cri
        .create(&pod_id, &pod, &spec)
        .await
        .expect("create");
    let starting = {
        let (cri, id) = (world.cri.clone(), id.clone());
        tokio::spawn(async move { cri.start(&id).await })
    };
    dying.wait_for("StartContainer", &id).await;
    dying.leave();
    starting.await.expect("a task").expect("start");
    taking_part(&world, "30-dying", false).await;
    let status = world.cri.pod_status(&pod_id).await.expect("status");
    assert_eq!(status.state(), PodSandboxState::SandboxReady);
    world.finish().await;
}

#[tokio::test]
async fn rubbish_on_the_socket_harms_nobody() {
    use tokio::io::AsyncWriteExt as _;
    let world = world!(Node::orlop());
    let _good = plugin(&world, "20", "good", adds("GOOD", "1")).await;
    for bytes in [
        &[0xff; 64][..],
        &[0; 64][..],
        // A message of the largest size that never comes.
        &[
            0, 0, 0, 2, 0, 0, 0, 10, 0, 0x3f, 0xff, 0xff, 0, 0, 0, 1, 1, 0,
        ][..],
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let socket = tokio::net::UnixStream::connect(world.node.plugin_socket()).await;
        let mut socket = socket.expect("connect");
        // The daemon may hang up at once.
        let _ = socket.write_all(bytes).await;
    }
    let spec = world.container("main").shell("echo good=$GOOD");
    assert_eq!(
        world.output("calm", &spec).await,
        (0, "good=1\n".to_owned())
    );
    let mode = std::fs::metadata(world.node.plugin_socket()).expect("a socket");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    world.finish().await;
}

#[tokio::test]
async fn two_plugins_that_want_the_same_are_told_apart() {
    let world = world!(Node::orlop());
    let _one = plugin(&world, "10", "one", adds("SAME", "1")).await;
    let two = plugin(&world, "20", "two", adds("SAME", "2")).await;
    let pod = world.node.pod("contested");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("true");
    let error = world.cri.create(&pod_id, &pod, &spec).await;
    let error = error.expect_err("they do not agree");
    assert_eq!(error.code(), tonic::Code::FailedPrecondition, "{error}");
    for word in ["10-one", "20-two", "Env SAME"] {
        assert!(error.message().contains(word), "{error}");
    }
    two.leave();
    taking_part(&world, "20-two", false).await;
    world
        .cri
        .create(&pod_id, &pod, &spec)
        .await
        .expect("create");
    world.finish().await;
}

#[tokio::test]
async fn a_node_can_require_plugins_and_forbid_adjustments() {
    let rules = "[nri]\nvalidator = true\nreject_oci_hooks = true\nrequired_plugins = [\"guard\"]\n\
                 tolerate_missing_annotation = \"example.com/alone\"";
    let world = world!(Node::orlop().drop_in(rules));
    let pod = world.node.pod("guarded");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("main").shell("true");
    let error = world.cri.create(&pod_id, &pod, &spec).await;
    let error = error.expect_err("the plugin is missing");
    assert!(error.message().contains("guard"), "{error}");
    let alone = world
        .node
        .pod("alone")
        .annotation("example.com/alone", "true");
    let alone_id = world.run_pod(&alone).await;
    world
        .cri
        .create(&alone_id, &alone, &spec)
        .await
        .expect("create");

    let quiet = Manners::default().listens_to(Events::NONE.and(Event::RunPodSandbox));
    let _guard = plugin(&world, "50", "guard", quiet).await;
    world
        .cri
        .create(&pod_id, &pod, &spec)
        .await
        .expect("create");
    let hooks = Manners::default().creates(|_| {
        adjustment(ContainerAdjustment {
            hooks: Some(Hooks {
                poststop: vec![Hook {
                    path: "/bin/true".to_owned(),
                    ..Hook::default()
                }],
                ..Hooks::default()
            }),
            ..ContainerAdjustment::default()
        })
    });
    let _hooks = plugin(&world, "60", "hooks", hooks).await;
    let other = world.container("other").shell("true");
    let error = world.cri.create(&pod_id, &pod, &other).await;
    let error = error.expect_err("hooks are forbidden");
    assert!(error.message().contains("60-hooks"), "{error}");
    world.finish().await;
}

/// Not a test: the program of the next one, when it is started as a plugin.
#[tokio::test]
async fn as_a_plugin() {
    if std::env::var_os("NRI_PLUGIN_SOCKET").is_none() {
        return;
    }
    adds("PREINSTALLED", "1").serve_inherited().await;
}

#[tokio::test]
async fn a_pre_installed_plugin_is_there_before_the_first_container() {
    let programs = tempfile::tempdir().expect("a directory");
    let program = programs.path().join("05-first");
    let own = std::env::current_exe().expect("the test's own path");
    let script = format!(
        "#!/bin/sh\n[ \"$NRI_PLUGIN_NAME-$NRI_PLUGIN_IDX\" = first-05 ] || exit 7\n\
         exec {} --exact plugins::as_a_plugin --nocapture\n",
        own.display()
    );
    std::fs::write(&program, script).expect("write a script");
    let broken = programs.path().join("90-broken");
    std::fs::write(&broken, "#!/bin/sh\necho out of order >&2\nexit 3\n").expect("write a script");
    for path in [&program, &broken] {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("make it executable");
    }
    let config = format!("[nri]\nplugin_dir = {:?}", programs.path());
    let mut world = world!(Node::orlop().drop_in(&config));
    assert_eq!(names(&world).await, ["05-first"]);
    assert!(world.node.log().contains("out of order"));
    let spec = world.container("main").shell("echo $PREINSTALLED");
    assert_eq!(world.output("first", &spec).await, (0, "1\n".to_owned()));
    // It ends with the daemon, and comes back with it.
    let pid = plugin_pid(&world).await;
    world.node.stop();
    let end = Instant::now() + Duration::from_secs(10);
    while std::path::Path::new(&format!("/proc/{pid}/fd/0")).exists() {
        assert!(Instant::now() < end, "plugin {pid} outlives its daemon");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.node.start_again().await;
    world.cri = world.node.cri().await;
    assert_eq!(names(&world).await, ["05-first"]);
    world.finish().await;
}

async fn plugin_pid(world: &World) -> u64 {
    let request = orlop_cri::v1::StatusRequest { verbose: true };
    let status = world.cri.runtime.clone().status(request).await;
    let info: HashMap<String, String> = status.expect("status").into_inner().info;
    let state: serde_json::Value = serde_json::from_str(&info["nri"]).expect("JSON");
    state["plugins"][0]["pid"].as_u64().expect("a process")
}

#[tokio::test]
async fn hooks_from_a_directory_run_for_the_containers_they_are_meant_for() {
    let hooks = tempfile::tempdir().expect("a directory");
    let trace = hooks.path().join("ran");
    let definition = serde_json::json!({
        "version": "1.0.0",
        "hook": {
            "path": "/bin/sh",
            "args": ["sh", "-c", format!("cat >> {}", trace.display())],
        },
        "when": { "annotations": { "^example\\.com/traced$": "^yes$" } },
        "stages": ["createRuntime"],
    });
    let file = hooks.path().join("10-trace.json");
    std::fs::write(&file, definition.to_string()).expect("write a definition");
    let config = format!("[hooks]\ndirs = [{:?}]", hooks.path());
    let world = world!(Node::orlop().drop_in(&config));
    let spec = world.container("main").shell("true");
    assert_eq!(world.output("untraced", &spec).await.0, 0);
    assert!(!trace.exists());
    let traced = world.container("main").shell("true").with(|config| {
        let annotation = ("example.com/traced".to_owned(), "yes".to_owned());
        config.annotations.extend([annotation]);
    });
    let running = world.run_container("traced", &traced).await;
    world.cri.wait_exited(&running.id).await;
    let state = std::fs::read_to_string(&trace).expect("the hook ran");
    assert!(
        state.contains(&running.id),
        "it is told the container's state: {state}"
    );

    std::fs::write(&file, "{}").expect("break the definition");
    let pod = world.node.pod("unguarded");
    let pod_id = world.run_pod(&pod).await;
    let error = world.cri.create(&pod_id, &pod, &spec).await;
    let error = error.expect_err("what guards containers cannot be read");
    assert!(error.message().contains("10-trace.json"), "{error}");
    world.finish().await;
}

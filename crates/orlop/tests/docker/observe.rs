//! What an operator can see: the steps of a start, metrics, what is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::Output;
use std::time::{Duration, Instant};

use orlop_cri_api::inspection::inspection_client::InspectionClient;
use orlop_cri_api::inspection::{GetStateRequest, ListTracesRequest, Trace};
use orlop_testkit::{DockerEngine, assert_contains};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::world::{World, world};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn trace_of(world: &World, pod: &str) -> Trace {
    let request = ListTracesRequest {
        pod_sandbox_id: pod.to_owned(),
        ..ListTracesRequest::default()
    };
    let channel = world.cri.channel();
    let answer = InspectionClient::new(channel).list_traces(request).await;
    let mut traces = answer.unwrap().into_inner().traces;
    assert_eq!(traces.len(), 1, "{traces:?}");
    traces.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_asked_for_images_is_for_the_engine_to_say() {
    let world = world!();
    let output = world.node.client().run(&["image", "resolve", "busybox"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the Docker Engine resolves them"), "{said}");
    assert_eq!(text(&output), "");
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_told_step_by_step() {
    let world = world!();
    let (_, pod_id, _) = world.run_script("told", "sleep 600").await;
    let trace = trace_of(&world, &pod_id).await;
    assert!(trace.name.ends_with("/told"), "{trace:?}");
    assert_eq!(trace.runtime_handler, "runc");
    let mut steps = BTreeMap::new();
    for call in &trace.calls {
        assert!(!call.failed && !call.running, "{call:?}");
        // Some steps are taken at the same time.
        let longest = call.steps.iter().map(|step| step.took_us).max().unwrap();
        assert!(longest <= call.took_us, "{call:?}");
        let names: BTreeSet<_> = call.steps.iter().map(|step| step.name.as_str()).collect();
        steps.insert(call.name.as_str(), (call.container.as_str(), names));
    }
    let told = |container: &'static str, names: &[&'static str]| {
        (container, names.iter().copied().collect::<BTreeSet<_>>())
    };
    let of_sandbox = [
        "queue",
        "info",
        "image",
        "create",
        "checkpoint",
        "start",
        "inspect",
        "network",
    ];
    assert_eq!(
        steps,
        BTreeMap::from([
            ("RunPodSandbox", told("", &of_sandbox)),
            (
                "CreateContainer",
                told("main", &["queue", "sandbox", "config", "create"])
            ),
            (
                "StartContainer",
                told("main", &["queue", "container", "start", "log"])
            ),
        ])
    );

    // A failed start is told, too, and of a pod that is gone as well.
    let pod = world.node.pod("fails");
    let pod_id = world.cri.run_pod(&pod).await.unwrap();
    let spec = world.container("none").command(&["/no/such/program"]);
    world.cri.run(&pod_id, &pod, &spec).await.unwrap_err();
    world.cri.stop_pod(&pod_id).await.unwrap();
    world.cri.remove_pod(&pod_id).await.unwrap();
    let shown = text(&world.node.client().run(&["trace", &pod_id]));
    assert_contains!(shown, "StartContainer none", "FAILED");
    let slowest = text(&world.node.client().run(&["trace", "--slowest", "5"]));
    assert_eq!(slowest.lines().count(), 2, "{slowest}");
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_to_the_engine_are_told_by_cri_dockerds_names() {
    let sockets = tempfile::tempdir().unwrap();
    let socket = sockets.path().join("m.sock");
    let config = format!(
        "[metrics]\ndocker_names = true\nlisten = \"unix://{}\"",
        socket.display()
    );
    let world = world!(DockerEngine::start(), &config);
    world.run_script("counted", "sleep 600").await;
    let mut stream = UnixStream::connect(&socket).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).await.unwrap();
    let mut values = BTreeMap::new();
    for line in metrics.lines() {
        if let Some((name, value)) = line.rsplit_once(' ') {
            values.insert(name, value);
        }
    }
    // The sandbox and the container.
    for (name, value) in [
        ("total{operation_type=\"start_container\"}", "2"),
        ("total{operation_type=\"create_container\"}", "2"),
        (
            "duration_seconds_count{operation_type=\"create_container\"}",
            "2",
        ),
        (
            "duration_seconds_bucket{le=\"+Inf\",operation_type=\"start_container\"}",
            "2",
        ),
    ] {
        let name = format!("kubelet_docker_operations_{name}");
        assert_eq!(
            values.get(name.as_str()),
            Some(&value),
            "{name}:\n{metrics}"
        );
    }
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_counted_and_the_state_can_be_seen() {
    let sockets = tempfile::tempdir().unwrap();
    let socket = sockets.path().join("m.sock");
    let config = format!("[metrics]\nlisten = \"unix://{}\"", socket.display());
    let world = world!(DockerEngine::start(), &config);
    let (_, pod_id, id) = world.run_script("counted", "sleep 600").await;
    let mut stream = UnixStream::connect(&socket).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).await.unwrap();
    for line in [
        "orlop_pod_calls_total{handler=\"runc\",call=\"StartContainer\",outcome=\"done\"} 1",
        "orlop_step_duration_seconds_count{handler=\"runc\",step=\"network\"} 1",
        "orlop_step_duration_seconds_count{handler=\"runc\",step=\"create\"} 2",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}:\n{metrics}"
        );
    }
    assert!(!metrics.contains("kubelet_docker"), "{metrics}");
    // What only the native engine can count is not said to be none.
    assert!(!metrics.contains("orlop_leaks_found"), "{metrics}");

    let mut inspection = InspectionClient::new(world.cri.channel());
    let state = inspection.get_state(GetStateRequest {}).await;
    let state = state.unwrap().into_inner().json;
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let pod = &state["pods"][0];
    assert_eq!(pod["id"], pod_id.as_str());
    assert_eq!(pod["containers"][0]["id"], id.as_str());
    assert_eq!(pod["containers"][0]["log_followed"], true);
    assert_eq!(state["checkpoints"][0], pod_id.as_str());
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_an_engine_that_hangs_is_refused_with_the_reason() {
    let sockets = tempfile::tempdir().unwrap();
    let socket = sockets.path().join("m.sock");
    let config = format!("[metrics]\nlisten = \"unix://{}\"", socket.display());
    let mut world = world!(DockerEngine::start(), &config);
    let state = async || {
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        let request = b"GET /debug/state HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = state().await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    world.engine.signal(Signal::STOP);
    let begun = Instant::now();
    let answer = state().await;
    let took = begun.elapsed();
    world.engine.signal(Signal::CONT);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert_contains!(answer, "the Docker Engine did not report");
    assert!(took < Duration::from_secs(20), "{took:?}");
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_what_was_removed_behind_our_back_and_mends_it() {
    let mut world = world!();
    let (_, pod_id, _) = world.run_script("gone", "sleep 600").await;
    world.engine.docker(&["rm", "-f", &pod_id]);
    let socket = format!("unix://{}", world.node.socket().display());
    let mut config = tempfile::NamedTempFile::new().unwrap();
    config.write_all(b"backend = \"docker\"\n").unwrap();
    let config = config.path().to_str().unwrap();
    let doctor = |world: &World, more: &[&str]| {
        let line: Vec<_> = [
            "doctor",
            "--json",
            "--socket",
            &socket,
            "--daemon-config",
            config,
        ]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
        text(&world.node.client().run(&line))
    };
    let found = doctor(&world, &[]);
    assert_contains!(found, "Docker Engine", &pod_id);
    // What the native backend alone needs is nobody's concern here.
    assert!(found.contains("cgroups"), "{found}");
    assert!(!found.contains("keeper"), "{found}");
    let mended = doctor(&world, &["--repair"]);
    assert!(mended.contains(&pod_id), "{mended}");
    let after = doctor(&world, &[]);
    assert!(!after.contains(&pod_id), "{after}");
    assert!(!world.checkpoints().join(&pod_id).exists());

    world.engine.stop();
    let away = doctor(&world, &[]);
    assert!(away.contains("start the Docker Engine"), "{away}");
    world.engine.start_again();
    world.wait_ready(true).await;
    world.node.finish().await;
}

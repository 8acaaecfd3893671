//! What an operator can see: the steps of a start, metrics, the daemon's state, what is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use orlop_cri_api::inspection::inspection_client::InspectionClient;
use orlop_cri_api::inspection::{ListTracesRequest, Trace};
use orlop_cri_api::v1::GetEventsRequest;
use orlop_testkit::{Node, assert_contains, node};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tonic::Code;

use crate::world::{World, cgroup_of, ours, world};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

async fn traces(world: &World, request: ListTracesRequest) -> Vec<Trace> {
    let channel = world.cri.channel();
    let answer = InspectionClient::new(channel).list_traces(request).await;
    answer.expect("list the traces").into_inner().traces
}

#[tokio::test]
async fn a_start_is_told_step_by_step() {
    let world = ours!();
    let client = world.node.client();
    let running = world.run_script("told", "sleep 600").await;
    let of_pod = ListTracesRequest {
        pod_sandbox_id: running.pod_id.clone(),
        ..ListTracesRequest::default()
    };
    let found = traces(&world, of_pod).await;
    assert_eq!(found.len(), 1);
    let trace = &found[0];
    let mut steps = BTreeMap::new();
    for call in &trace.calls {
        assert!(!call.failed && !call.running, "{call:?}");
        let inside: u64 = call.steps.iter().map(|step| step.took_us).sum();
        assert!(inside <= call.took_us + 1000, "{call:?}");
        // What is not told of a call is little.
        assert!(inside * 2 >= call.took_us, "{call:?}");
        let names: BTreeSet<_> = call.steps.iter().map(|step| step.name.as_str()).collect();
        steps.insert(call.name.as_str(), (call.container.as_str(), names));
    }
    assert_eq!(
        steps,
        BTreeMap::from([
            (
                "RunPodSandbox",
                ("", BTreeSet::from(["queue", "keeper", "files", "record"]))
            ),
            (
                "CreateContainer",
                (
                    "main",
                    BTreeSet::from(["queue", "record", "lease", "rootfs"])
                )
            ),
            (
                "StartContainer",
                (
                    "main",
                    BTreeSet::from(["queue", "record", "mounts", "runtime"])
                )
            ),
        ])
    );
    let waited: u64 = trace.calls.iter().map(|call| call.took_us).sum();
    assert!(trace.waited_us.abs_diff(waited) < 10, "{trace:?}");

    // A failed start is told, too, and of a pod that is gone as well.
    let pod = world.node.pod("fails");
    let pod_id = world.run_pod(&pod).await;
    let spec = world.container("none").command(&["/no/such/program"]);
    let refused = world.cri.run(&pod_id, &pod, &spec).await;
    refused.expect_err("no program");
    world.cri.stop_pod(&pod_id).await.expect("stop");
    world.cri.remove_pod(&pod_id).await.expect("remove");
    let shown = client.run(&["trace", &pod_id]);
    assert!(shown.status.success(), "{shown:?}");
    let shown = text(&shown);
    assert_contains!(shown, "StartContainer none", "FAILED");
    assert!(
        shown.contains("  keeper ") && shown.contains('━'),
        "{shown}"
    );

    let slowest = text(&client.run(&["trace", "--slowest", "5"]));
    assert_eq!(slowest.lines().count(), 2, "{slowest}");
    let json = text(&client.run(&["trace", "--slowest", "1", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["traces"].as_array().expect("a list").len(), 1);
    let pulls = text(&client.run(&["trace", "--pulls", "--json"]));
    assert!(pulls.contains(&world.busybox), "{pulls}");
    let pulls: serde_json::Value = serde_json::from_str(&pulls).expect("JSON");
    let call = &pulls["traces"][0]["calls"][0];
    let steps = call["steps"].as_array().expect("steps");
    // Which of downloading and unpacking begins first is chance: each waits for the other.
    let names: BTreeSet<_> = steps.iter().filter_map(|it| it["name"].as_str()).collect();
    let expected = [
        "queue", "resolve", "manifest", "download", "unpack", "publish", "record",
    ];
    assert_eq!(names, BTreeSet::from(expected));
    let unknown = client.run(&["trace", "0000"]);
    assert_eq!(unknown.status.code(), Some(1));
    world.finish().await;
}

/// Asks the metrics endpoint, a unix socket.
pub(crate) async fn get(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).await.expect("connect");
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("ask");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("read");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    body.to_owned()
}

#[tokio::test]
async fn metrics_count_what_happened_and_pass_a_lint() {
    let sockets = tempfile::tempdir().expect("a directory");
    let socket = sockets.path().join("m.sock");
    let listen = format!("unix://{}", socket.display());
    let world = world!(Node::orlop().arg("--metrics-listen").arg(&listen));
    let spec = world
        .container("main")
        .command(&["sleep", "600"])
        .with(|config| {
            config.envs.push(orlop_cri_api::v1::KeyValue {
                key: "SECRET".into(),
                value: "hush-hush".into(),
            });
        });
    let running = world.run_container("counted", &spec).await;
    assert_eq!(get(&socket, "/healthz").await, "ok\n");
    let metrics = get(&socket, "/metrics").await;
    let families = lint(&metrics);
    for wanted in [
        "orlop_rpc_duration_seconds",
        "orlop_step_duration_seconds",
        "orlop_pod_calls",
        "orlop_pods",
        "orlop_containers",
        "orlop_keepers",
        "orlop_pulls",
        "orlop_pull_bytes",
        "orlop_image_store_bytes",
        "orlop_lazy_fetched_bytes",
        "orlop_lazy_layers",
        "orlop_lazy_reads_failed",
        "orlop_lazy_reads_timed_out",
        "orlop_leaks_found",
        "orlop_gc_freed_bytes",
        "process_resident_memory_bytes",
    ] {
        assert!(families.contains(wanted), "{wanted} is missing:\n{metrics}");
    }
    for line in [
        "orlop_pods{state=\"ready\"} 1",
        "orlop_containers{state=\"running\"} 1",
        "orlop_keepers 1",
        "orlop_lazy_layers 0",
        "orlop_lazy_reads_failed_total 0",
        "orlop_pulls_total{outcome=\"done\"} 1",
        "orlop_pod_calls_total{handler=\"test\",call=\"StartContainer\",outcome=\"done\"} 1",
        "orlop_step_duration_seconds_count{handler=\"test\",step=\"runtime\"} 1",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}:\n{metrics}"
        );
    }

    let state = get(&socket, "/debug/state").await;
    let parsed: serde_json::Value = serde_json::from_str(&state).expect("JSON");
    let pod = &parsed["pods"][0];
    assert_eq!(pod["id"], running.pod_id.as_str());
    assert_eq!(pod["phase"], "Ready");
    assert_eq!(pod["containers"][0]["id"], running.id.as_str());
    assert_eq!(pod["containers"][0]["phase"], "Running");
    assert_eq!(parsed["leases"].as_array().map(Vec::len), Some(1));
    assert!(!state.contains("hush-hush"), "{state}");
    world.finish().await;
}

/// What promtool complains of, and what OpenMetrics demands. Returns the families.
fn lint(text: &str) -> BTreeSet<String> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let mut families: BTreeMap<String, &str> = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut samples = BTreeSet::new();
    let mut buckets: BTreeMap<String, f64> = BTreeMap::new();
    let mut current = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" {
            assert!(lines.peek().is_none(), "text after the end");
            break;
        }
        assert!(lines.peek().is_some(), "the end is missing");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help");
            assert!(helped.insert(name.to_owned()), "{name} has two helps");
            assert!(!help.is_empty(), "{line}");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert!(is_name(name), "{name}");
            assert!(
                families.insert(name.to_owned(), kind).is_none(),
                "{name} comes twice"
            );
            assert!(
                !["_total", "_count", "_sum", "_bucket"]
                    .iter()
                    .any(|end| name.ends_with(end)),
                "{name}"
            );
            for unit in ["_ms", "_milliseconds", "_kb", "_minutes", "_percent"] {
                assert!(!name.ends_with(unit), "{name}: no base unit");
            }
            name.clone_into(&mut current);
            continue;
        }
        if line.starts_with("# UNIT ") {
            continue;
        }
        assert!(!line.starts_with('#'), "{line}");
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let value: f64 = value.parse().expect("a number");
        assert!(samples.insert(series.to_owned()), "{series} comes twice");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let kind = families.get(&current).copied().unwrap_or_default();
        let suffix = name
            .strip_prefix(&current)
            .unwrap_or_else(|| panic!("{name} has no type"));
        let allowed: &[&str] = match kind {
            "counter" => &["_total", "_created"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_sum", "_count"],
            "info" => &["_info"],
            other => panic!("{current} is {other:?}"),
        };
        assert!(allowed.contains(&suffix), "{name} is no {kind}'s");
        if kind == "counter" {
            assert!(value >= 0.0, "{line}");
        }
        if suffix == "_bucket" {
            let labels: Vec<&str> = labels.trim_end_matches('}').split(',').collect();
            let others: Vec<&str> = labels
                .iter()
                .copied()
                .filter(|label| !label.starts_with("le="))
                .collect();
            let others = others.join(",");
            let last = buckets.entry(format!("{current}{{{others}}}")).or_default();
            assert!(value >= *last, "{line}: not cumulative");
            *last = value;
            if labels.contains(&"le=\"+Inf\"") {
                let count = if others.is_empty() {
                    format!("{current}_count ")
                } else {
                    format!("{current}_count{{{others}}} ")
                };
                let count = text.lines().find_map(|line| line.strip_prefix(&count));
                assert_eq!(
                    count.and_then(|text| text.parse().ok()),
                    Some(value),
                    "{line}"
                );
            }
        }
    }
    for family in families.keys() {
        assert!(helped.contains(family), "{family} has no help");
    }
    families.into_keys().collect()
}

#[tokio::test]
async fn the_doctor_finds_orphans_and_mends_them() {
    let world = ours!();
    let running = world.run_script("healthy", "sleep 600").await;
    let config = world.node.scratch().path("config.toml");
    let config = config.to_string_lossy().into_owned();
    let socket = format!("unix://{}", world.node.socket().display());
    let doctor = |more: &[&str]| {
        let mut line = vec![
            "doctor",
            "--daemon-config",
            &config,
            "--socket",
            &socket,
            "--json",
        ];
        line.extend(more);
        world.node.client().run(&line)
    };
    let orphans = |output: &Output| -> Vec<(String, String)> {
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let list = list.as_array().expect("a list").clone();
        let field =
            |one: &serde_json::Value, key: &str| one[key].as_str().expect("text").to_owned();
        list.iter()
            .filter(|one| one["area"] == "orphans" && one["state"] != "ok")
            // Daemons of other tests share the parent of cgroups.
            .filter(|one| {
                !one["text"]
                    .as_str()
                    .is_some_and(|text| text.contains("cgroup"))
            })
            .map(|one| (field(one, "state"), field(one, "text")))
            .collect()
    };
    let clean = doctor(&[]);
    assert_eq!(orphans(&clean), [], "{}", text(&clean));
    assert!(
        text(&clean).contains("\"area\": \"runtimes\""),
        "{}",
        text(&clean)
    );

    // What crashes of other programs might leave.
    let nobody = "d".repeat(64);
    let state = world.node.state();
    std::fs::write(state.join("netns").join(&nobody), "").expect("write");
    std::fs::create_dir(state.join("pods").join(&nobody)).expect("mkdir");
    let found = doctor(&[]);
    assert_eq!(found.status.code(), Some(1));
    let listed = orphans(&found);
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(
        listed
            .iter()
            .all(|(state, text)| state == "problem" && text.contains(&nobody))
    );
    let mended = doctor(&["--repair"]);
    let listed = orphans(&mended);
    assert!(
        listed.iter().all(|(state, _)| state == "mended"),
        "{listed:?}"
    );
    assert_eq!(listed.len(), 2);
    assert!(!state.join("pods").join(&nobody).exists());
    assert_eq!(orphans(&doctor(&[])), []);
    // The pod that is somebody's is left alone.
    world.cri.exec(&running.id, &["true"]).await.expect("exec");
    world.finish().await;
}

#[tokio::test]
async fn the_doctor_needs_no_daemon_to_look_at_the_host() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.toml");
    std::fs::write(&config, "").expect("write");
    let output = Command::new(node::binary())
        .args([
            "doctor",
            "--socket",
            "unix:///nowhere/orlop.sock",
            "--daemon-config",
        ])
        .arg(&config)
        .output()
        .expect("run orlop");
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output);
    assert_contains!(
        shown,
        "no daemon answers on unix:///nowhere/orlop.sock",
        "kernel",
        "disk"
    );
}

#[tokio::test]
async fn the_doctor_asks_the_daemon_that_the_endpoint_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("config.toml");
    std::fs::write(&config, "").expect("write");
    let endpoint = "unix:///elsewhere/orlop.sock";
    let doctor = |more: &[&str]| {
        let output = Command::new(node::binary())
            .args(["-r", endpoint, "doctor", "--daemon-config"])
            .arg(&config)
            .args(more)
            .output();
        text(&output.expect("run orlop"))
    };
    let named = doctor(&[]);
    assert_contains!(named, &format!("no daemon answers on {endpoint}"));
    let socket = "unix:///nowhere/orlop.sock";
    let own = doctor(&["--socket", socket]);
    assert_contains!(own, &format!("no daemon answers on {socket}"));
}

/// How many pods come and go; `ORLOP_EVENT_PODS=1000` for the long form.
fn event_pods() -> usize {
    std::env::var("ORLOP_EVENT_PODS").map_or(40, |text| text.parse().expect("a number"))
}

#[tokio::test]
async fn a_stalled_subscriber_costs_nothing_and_others_miss_nothing() {
    let world = ours!();
    let subscribe = async || {
        let mut client = world.cri.runtime();
        let events = client
            .get_container_events(GetEventsRequest::default())
            .await;
        events.expect("subscribe").into_inner()
    };
    let mut stalled = subscribe().await;
    let mut reader = subscribe().await;
    let reading = tokio::spawn(async move {
        let mut seen: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        let mut last = 0;
        while let Ok(Some(event)) = reader.message().await {
            assert!(event.created_at >= last, "out of order");
            last = event.created_at;
            let kinds = seen.entry(event.container_id).or_default();
            kinds.push(event.container_event_type);
            // The sentinel has come and gone.
            let done = seen.values().filter(|kinds| kinds.len() == 4).count();
            if done == event_pods() {
                break;
            }
        }
        seen
    });
    let before = resident_kb(world.node.pid());
    for n in 0..event_pods() {
        let pod = world.run_pod(&world.node.pod(&format!("brief-{n}"))).await;
        world.cri.stop_pod(&pod).await.expect("stop");
        world.cri.remove_pod(&pod).await.expect("remove");
    }
    let seen = tokio::time::timeout(Duration::from_secs(10), reading).await;
    let seen = seen.expect("in time").expect("no panic");
    assert_eq!(seen.len(), event_pods());
    // Created, started, stopped, deleted.
    assert!(
        seen.values().all(|kinds| *kinds == [0, 1, 2, 3]),
        "{seen:?}"
    );
    let grown = resident_kb(world.node.pid()).saturating_sub(before);
    assert!(grown < 24 * 1024, "the daemon grew by {grown} kB");
    // Who did not read has all from the beginning, or is told where it ends.
    let mut got = 0;
    loop {
        let next = tokio::time::timeout(Duration::from_secs(1), stalled.message()).await;
        match next {
            Ok(Ok(Some(_))) => got += 1,
            Ok(Err(status)) => {
                assert_eq!(status.code(), Code::DataLoss);
                break;
            }
            Ok(Ok(None)) => panic!("the stream ended without a word"),
            Err(_) => {
                assert_eq!(got, event_pods() * 4);
                break;
            }
        }
    }
    world.finish().await;
}

fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|text| text.parse().ok()).expect("VmRSS")
}

#[tokio::test]
async fn statistics_are_those_of_the_cgroup() {
    let world = ours!();
    let script = "dd if=/dev/zero of=/dev/shm/ballast bs=1M count=24 2>/dev/null; \
                  i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; sleep 600";
    let running = world.run_script("measured", script).await;
    while running.stdout() != "done\n" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The shell sleeps from here on: nothing changes between two looks.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let cgroup = |controller: &str, file: &str| -> u64 {
        let path = cgroup_of(&world, &running.id, controller).join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        text.trim().parse().expect("a number")
    };
    let stats = world.cri.stats(&running.id).await;
    let stats = stats.expect("stats");
    let cpu = stats
        .cpu
        .expect("cpu")
        .usage_core_nano_seconds
        .expect("usage")
        .value;
    let memory = stats.memory.expect("memory");
    let usage = memory.usage_bytes.expect("usage").value;
    let (cpu_file, memory_file) = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        let path = cgroup_of(&world, &running.id, "").join("cpu.stat");
        let text = std::fs::read_to_string(path).expect("cpu.stat");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "));
        let micros: u64 = line.and_then(|text| text.parse().ok()).expect("usage_usec");
        (micros * 1000, cgroup("", "memory.current"))
    } else {
        (
            cgroup("cpuacct", "cpuacct.usage"),
            cgroup("memory", "memory.usage_in_bytes"),
        )
    };
    within_two_percent("cpu", cpu, cpu_file);
    within_two_percent("memory", usage, memory_file);
    assert!(usage > 24 << 20, "{usage}");
    let working_set = memory.working_set_bytes.expect("working set").value;
    assert!(
        working_set <= usage && working_set > 20 << 20,
        "{working_set} of {usage}"
    );

    world.cri.stop(&running.id, 0).await.expect("stop");
    let stats = world.cri.stats(&running.id).await.expect("stats");
    assert!(stats.cpu.is_none());
    world.finish().await;
}

fn within_two_percent(what: &str, ours: u64, theirs: u64) {
    let difference = ours.abs_diff(theirs);
    assert!(
        difference * 50 <= theirs,
        "{what}: {ours}, the kernel says {theirs}"
    );
}

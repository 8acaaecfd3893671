//! Runs on orlop alone.

use super::*;
use crate::world::ours;

#[tokio::test]
async fn metrics_are_cadvisors_by_name_labels_and_type() {
    // containerd 1.6 has no metrics.
    let world = ours!();
    let pod = world.node.pod("measured").own_network();
    let pod_id = world.run_pod(&pod).await;
    let script = "sleep 600 & sleep 600 & nc -l -p 4000 & \
                  dd if=/dev/zero of=/written bs=1k count=100 2>/dev/null; \
                  i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; exec sleep 600";
    let spec = world.container("main").shell(script).with(|config| {
        let linux = config.linux.get_or_insert_default();
        linux.resources = Some(orlop_cri_api::v1::LinuxContainerResources {
            cpu_period: 100_000,
            cpu_quota: 90_000,
            cpu_shares: 512,
            memory_limit_in_bytes: 128 << 20,
            ..Default::default()
        });
    });
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let log = pod.logs().join("main.log");
    let is_done = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("done"));
    orlop_testkit::wait_until!(Duration::from_mins(1), is_done(), "the script runs");

    let mut client = world.cri.runtime();
    let answer = client
        .list_metric_descriptors(ListMetricDescriptorsRequest::default())
        .await;
    let descriptors: BTreeMap<String, Vec<String>> = answer
        .expect("descriptors")
        .into_inner()
        .descriptors
        .into_iter()
        .map(|one| (one.name, one.label_keys))
        .collect();
    let listed = metrics(&world).await;
    let pod_metrics = listed
        .iter()
        .find(|one| one.pod_sandbox_id == pod_id)
        .expect("the pod");
    let [container] = &pod_metrics.container_metrics[..] else {
        panic!("one container: {pod_metrics:?}");
    };
    assert_eq!(container.container_id, id);
    let all = || pod_metrics.metrics.iter().chain(&container.metrics);
    for (name, labels, kind) in OF_CADVISOR {
        let keys = descriptors.get(*name).unwrap_or_else(|| panic!("{name}"));
        let wanted: Vec<&str> = COMMON.iter().chain(*labels).copied().collect();
        assert_eq!(*keys, wanted, "{name}");
        let mut found = all().filter(|metric| metric.name == *name).peekable();
        assert!(found.peek().is_some() || may_lack(name), "{name}");
        for metric in found {
            assert_eq!(metric.metric_type(), *kind, "{name}");
            assert_eq!(metric.label_values.iter().count(), keys.len(), "{metric:?}");
            assert!(metric.timestamp > 1_700_000_000_000_000_000, "{metric:?}");
        }
    }
    for metric in all() {
        assert!(descriptors.contains_key(&*metric.name), "{metric:?}");
    }

    let of = |name| value(&container.metrics, name);
    assert_eq!(of("container_processes"), 4);
    assert_eq!(of("container_threads"), 4);
    assert_eq!(of("container_sockets"), 1);
    assert!(of("container_file_descriptors") >= 12);
    assert_eq!(of("container_spec_cpu_period"), 100_000);
    assert_eq!(of("container_spec_cpu_quota"), 90_000);
    assert_eq!(of("container_spec_cpu_shares"), 512);
    assert_eq!(of("container_spec_memory_limit_bytes"), 128 << 20);
    assert!(of("container_memory_max_usage_bytes") >= of("container_memory_working_set_bytes"));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.expect("after 1970").as_secs();
    assert!(now - of("container_last_seen") < 60);
    assert!(now - of("container_start_time_seconds") < 120);
    let tasks = values(&container.metrics, "container_tasks_state");
    assert_eq!(tasks[&vec!["sleeping"]], 4, "{tasks:?}");
    let failures = values(&container.metrics, "container_memory_failures_total");
    assert!(failures[&vec!["pgfault", "hierarchy"]] > 0, "{failures:?}");
    assert_eq!(failures.len(), 4);
    let limits = values(&container.metrics, "container_ulimits_soft");
    assert!(limits[&vec!["max_open_files"]] > 0);
    let written = values(&container.metrics, "container_fs_usage_bytes");
    assert!(
        written.values().all(|bytes| *bytes >= 100 << 10),
        "{written:?}"
    );
    let network = values(
        &pod_metrics.metrics,
        "container_network_receive_bytes_total",
    );
    assert_eq!(network.keys().collect::<Vec<_>>(), [&vec!["eth0"]]);

    // The stream has the same.
    let request = StreamPodSandboxMetricsRequest::default();
    let stream = client.stream_pod_sandbox_metrics(request).await;
    let streamed = gather(stream.expect("stream").into_inner(), |one| {
        one.pod_sandbox_metrics
    })
    .await;
    let names = |all: &[PodSandboxMetrics]| -> BTreeSet<String> {
        let metrics = all.iter().flat_map(|one| &one.metrics);
        metrics.map(|metric| metric.name.to_string()).collect()
    };
    assert_eq!(names(&streamed), names(&listed));

    // Nothing of the pod stays open once it has ended, least of all its network namespace.
    let open = || {
        let links = std::fs::read_dir(format!("/proc/{}/fd", world.node.pid())).expect("fds");
        let targets = links
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok());
        targets
            .filter(|path| path.to_string_lossy().ends_with("/net/dev"))
            .count()
    };
    assert_eq!(open(), 1, "it is read by a handle that is held");
    world.cri.stop_pod(&pod_id).await.expect("stop");
    assert_eq!(open(), 0);
    world.finish().await;
}

//! The metrics that a kubelet hands on in cAdvisor's place, and statistics as lists and streams.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use orlop_cri::v1::{
    ContainerStatsFilter, ListContainerStatsRequest, ListMetricDescriptorsRequest,
    ListPodSandboxMetricsRequest, ListPodSandboxStatsRequest, Metric, MetricType,
    PodSandboxMetrics, PodSandboxStatsFilter, StreamContainerStatsRequest,
    StreamPodSandboxMetricsRequest, StreamPodSandboxStatsRequest,
};
use orlop_testkit::machine::is_cgroup_v2;
use orlop_testkit::{Node, skip};
use tonic::Streaming;

use crate::world::{World, world};

/// What a kubelet's `/metrics/cadvisor` has of pods and containers, with the labels beyond the
/// common ones. What cAdvisor tells of whole disks alone (`container_fs_io_time_seconds_total` and
/// the like) the kernel keeps for no cgroup.
const OF_CADVISOR: &[(&str, &[&str], MetricType)] = {
    use MetricType::{Counter, Gauge};
    &[
        (
            "container_blkio_device_usage_total",
            &["device", "major", "minor", "operation"],
            Counter,
        ),
        ("container_cpu_cfs_burst_periods_total", &[], Counter),
        ("container_cpu_cfs_burst_seconds_total", &[], Counter),
        ("container_cpu_cfs_periods_total", &[], Counter),
        ("container_cpu_cfs_throttled_periods_total", &[], Counter),
        ("container_cpu_cfs_throttled_seconds_total", &[], Counter),
        ("container_cpu_load_average_10s", &[], Gauge),
        ("container_cpu_load_d_average_10s", &[], Gauge),
        ("container_cpu_system_seconds_total", &[], Counter),
        ("container_cpu_usage_seconds_total", &["cpu"], Counter),
        ("container_cpu_user_seconds_total", &[], Counter),
        ("container_file_descriptors", &[], Gauge),
        ("container_fs_inodes_free", &["device"], Gauge),
        ("container_fs_inodes_total", &["device"], Gauge),
        ("container_fs_limit_bytes", &["device"], Gauge),
        ("container_fs_reads_bytes_total", &["device"], Counter),
        ("container_fs_reads_total", &["device"], Counter),
        ("container_fs_usage_bytes", &["device"], Gauge),
        ("container_fs_writes_bytes_total", &["device"], Counter),
        ("container_fs_writes_total", &["device"], Counter),
        ("container_hugetlb_max_usage_bytes", &["pagesize"], Gauge),
        ("container_hugetlb_usage_bytes", &["pagesize"], Gauge),
        ("container_last_seen", &[], Gauge),
        ("container_memory_cache", &[], Gauge),
        ("container_memory_failcnt", &[], Counter),
        (
            "container_memory_failures_total",
            &["failure_type", "scope"],
            Counter,
        ),
        ("container_memory_kernel_usage", &[], Gauge),
        ("container_memory_mapped_file", &[], Gauge),
        ("container_memory_max_usage_bytes", &[], Gauge),
        ("container_memory_rss", &[], Gauge),
        ("container_memory_swap", &[], Gauge),
        ("container_memory_total_active_file_bytes", &[], Gauge),
        ("container_memory_total_inactive_file_bytes", &[], Gauge),
        ("container_memory_usage_bytes", &[], Gauge),
        ("container_memory_working_set_bytes", &[], Gauge),
        (
            "container_network_receive_bytes_total",
            &["interface"],
            Counter,
        ),
        (
            "container_network_receive_errors_total",
            &["interface"],
            Counter,
        ),
        (
            "container_network_receive_packets_dropped_total",
            &["interface"],
            Counter,
        ),
        (
            "container_network_receive_packets_total",
            &["interface"],
            Counter,
        ),
        (
            "container_network_transmit_bytes_total",
            &["interface"],
            Counter,
        ),
        (
            "container_network_transmit_errors_total",
            &["interface"],
            Counter,
        ),
        (
            "container_network_transmit_packets_dropped_total",
            &["interface"],
            Counter,
        ),
        (
            "container_network_transmit_packets_total",
            &["interface"],
            Counter,
        ),
        ("container_oom_events_total", &[], Counter),
        ("container_pressure_cpu_stalled_seconds_total", &[], Counter),
        ("container_pressure_cpu_waiting_seconds_total", &[], Counter),
        ("container_pressure_io_stalled_seconds_total", &[], Counter),
        ("container_pressure_io_waiting_seconds_total", &[], Counter),
        (
            "container_pressure_memory_stalled_seconds_total",
            &[],
            Counter,
        ),
        (
            "container_pressure_memory_waiting_seconds_total",
            &[],
            Counter,
        ),
        ("container_processes", &[], Gauge),
        ("container_sockets", &[], Gauge),
        ("container_spec_cpu_period", &[], Gauge),
        ("container_spec_cpu_quota", &[], Gauge),
        ("container_spec_cpu_shares", &[], Gauge),
        ("container_spec_memory_limit_bytes", &[], Gauge),
        ("container_spec_memory_reservation_limit_bytes", &[], Gauge),
        ("container_spec_memory_swap_limit_bytes", &[], Gauge),
        ("container_start_time_seconds", &[], Gauge),
        ("container_tasks_state", &["state"], Gauge),
        ("container_threads", &[], Gauge),
        ("container_threads_max", &[], Gauge),
        ("container_ulimits_soft", &["ulimit"], Gauge),
    ]
};

/// What a machine may lack: huge pages, devices that a container used, numbers of version 2.
fn may_lack(name: &str) -> bool {
    let devices = [
        "container_blkio_",
        "container_fs_reads",
        "container_fs_writes",
    ];
    name.starts_with("container_hugetlb_")
        || devices.iter().any(|prefix| name.starts_with(prefix))
        || (name.starts_with("container_pressure_") && !is_cgroup_v2())
}

const COMMON: [&str; 6] = ["id", "name", "image", "container", "namespace", "pod"];

async fn metrics(world: &World) -> Vec<PodSandboxMetrics> {
    let mut client = world.cri.runtime.clone();
    let request = ListPodSandboxMetricsRequest::default();
    let answer = client.list_pod_sandbox_metrics(request).await;
    answer.expect("metrics").into_inner().pod_metrics
}

/// The values of one container, by name and labels of their own.
fn values<'a>(metrics: &'a [Metric], name: &str) -> BTreeMap<Vec<&'a str>, u64> {
    let of_name = metrics.iter().filter(|metric| metric.name == name);
    of_name
        .map(|metric| {
            let own = metric.label_values.iter().skip(COMMON.len()).collect();
            (own, metric.value.expect("a value").value)
        })
        .collect()
}

/// The value of a metric without labels of its own.
fn value(metrics: &[Metric], name: &str) -> u64 {
    let values = values(metrics, name);
    *values.get(&Vec::new()).unwrap_or_else(|| panic!("{name}"))
}

#[tokio::test]
async fn metrics_are_cadvisors_by_name_labels_and_type() {
    let world = world!(Node::any());
    if world.node.is_peer() {
        skip!("containerd 1.6 has no metrics");
    }
    let pod = world.node.pod("measured").own_network();
    let pod_id = world.run_pod(&pod).await;
    let script = "sleep 600 & sleep 600 & nc -l -p 4000 & \
                  dd if=/dev/zero of=/written bs=1k count=100 2>/dev/null; \
                  i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; exec sleep 600";
    let spec = world.container("main").shell(script).with(|config| {
        let linux = config.linux.get_or_insert_default();
        linux.resources = Some(orlop_cri::v1::LinuxContainerResources {
            cpu_period: 100_000,
            cpu_quota: 90_000,
            cpu_shares: 512,
            memory_limit_in_bytes: 128 << 20,
            ..Default::default()
        });
    });
    let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
    let log = pod.logs().join("main.log");
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while !std::fs::read_to_string(&log).is_ok_and(|log| log.contains("done")) {
        assert!(tokio::time::Instant::now() < deadline, "the script runs");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let mut client = world.cri.runtime.clone();
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

async fn gather<M, T>(mut stream: Streaming<M>, items: impl Fn(M) -> Vec<T>) -> Vec<T> {
    let mut all = Vec::new();
    while let Some(message) = stream.message().await.expect("a message") {
        all.extend(items(message));
    }
    all
}

#[tokio::test]
async fn statistics_are_listed_streamed_and_filtered_alike() {
    let world = world!(Node::any());
    let mut pods = Vec::new();
    for color in ["red", "green"] {
        let pod = world.node.pod(color).own_network().label("color", color);
        let pod_id = world.run_pod(&pod).await;
        let spec = world
            .container("main")
            .command(&["sleep", "600"])
            .with(|config| {
                config.labels.insert("color".into(), color.into());
            });
        let id = world.cri.run(&pod_id, &pod, &spec).await.expect("run");
        pods.push((pod_id, id));
    }
    let (red_pod, red) = &pods[0];
    let mut client = world.cri.runtime.clone();
    let labels = || std::collections::HashMap::from([("color".to_owned(), "red".to_owned())]);
    let mut filters = vec![(ContainerStatsFilter::default(), 2)];
    filters.push((
        ContainerStatsFilter {
            id: red.clone(),
            ..Default::default()
        },
        1,
    ));
    filters.push((
        ContainerStatsFilter {
            pod_sandbox_id: red_pod.clone(),
            ..Default::default()
        },
        1,
    ));
    filters.push((
        ContainerStatsFilter {
            label_selector: labels(),
            ..Default::default()
        },
        1,
    ));
    for (filter, count) in filters {
        let request = ListContainerStatsRequest {
            filter: Some(filter.clone()),
        };
        let listed = client.list_container_stats(request).await.expect("stats");
        let listed = listed.into_inner().stats;
        let ids = |stats: &[orlop_cri::v1::ContainerStats]| -> BTreeSet<String> {
            let attributes = stats.iter().filter_map(|one| one.attributes.clone());
            attributes.map(|attributes| attributes.id).collect()
        };
        assert_eq!(listed.len(), count, "{filter:?}");
        assert!(ids(&listed).contains(red), "{filter:?}");
        if !world.node.is_peer() {
            let request = StreamContainerStatsRequest {
                filter: Some(filter),
            };
            let stream = client.stream_container_stats(request).await;
            let streamed = gather(stream.expect("stream").into_inner(), |one| {
                one.container_stats
            })
            .await;
            assert_eq!(ids(&streamed), ids(&listed));
        }
    }
    let filters = [
        (PodSandboxStatsFilter::default(), 2),
        (
            PodSandboxStatsFilter {
                id: red_pod.clone(),
                ..Default::default()
            },
            1,
        ),
        (
            PodSandboxStatsFilter {
                label_selector: labels(),
                ..Default::default()
            },
            1,
        ),
    ];
    for (filter, count) in filters {
        let request = ListPodSandboxStatsRequest {
            filter: Some(filter.clone()),
        };
        let listed = client.list_pod_sandbox_stats(request).await.expect("stats");
        let listed = listed.into_inner().stats;
        assert_eq!(listed.len(), count, "{filter:?}");
        for stats in &listed {
            let linux = stats.linux.as_ref().expect("of Linux");
            let network = linux.network.as_ref().expect("a network");
            let own = network.default_interface.as_ref().expect("eth0");
            assert_eq!(own.name, "eth0");
            assert_eq!(linux.containers.len(), 1);
            assert!(linux.cpu.is_some() && linux.memory.is_some());
            let processes = linux.process.as_ref().and_then(|it| it.process_count);
            assert!(processes.is_some_and(|it| it.value >= 1), "{linux:?}");
        }
        if !world.node.is_peer() {
            let request = StreamPodSandboxStatsRequest {
                filter: Some(filter),
            };
            let stream = client.stream_pod_sandbox_stats(request).await;
            let streamed = gather(stream.expect("stream").into_inner(), |one| {
                one.pod_sandbox_stats
            })
            .await;
            assert_eq!(streamed.len(), count);
        }
    }
    world.finish().await;
}

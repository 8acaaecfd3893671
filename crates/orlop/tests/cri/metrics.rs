//! The metrics that a kubelet hands on in cAdvisor's place, and statistics as lists and streams.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use orlop_cri_api::v1::{
    ContainerStatsFilter, ListContainerStatsRequest, ListMetricDescriptorsRequest,
    ListPodSandboxMetricsRequest, ListPodSandboxStatsRequest, Metric, MetricType,
    PodSandboxMetrics, PodSandboxStatsFilter, StreamContainerStatsRequest,
    StreamPodSandboxMetricsRequest, StreamPodSandboxStatsRequest,
};
use orlop_testkit::Node;
use orlop_testkit::machine::is_cgroup_v2;
use tonic::Streaming;

use crate::world::{World, world};

mod ours;

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

const _: () = assert!(OF_CADVISOR.len() == 63);

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
    let mut client = world.cri.runtime();
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
    let mut client = world.cri.runtime();
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
        let ids = |stats: &[orlop_cri_api::v1::ContainerStats]| -> BTreeSet<String> {
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

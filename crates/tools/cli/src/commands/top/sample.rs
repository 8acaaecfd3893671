//! Current resource usage of pods and containers, computed from the counters of the runtime.

use std::collections::{HashMap, VecDeque};

use orlop_cri_api::client::RuntimeClient;
use orlop_cri_api::images::ImageHere;
use orlop_cri_api::images::images_client::ImagesClient;
use orlop_cri_api::v1::{
    Container, ContainerState, ContainerStats, PodSandboxMetrics, PodSandboxState, PodSandboxStats,
};
use tonic::Code;
use tonic::transport::Channel;

use crate::families::here;
use crate::families::usage::number;

/// Number of samples to keep.
pub(super) const REMEMBERED: usize = 60;

/// State of the node at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) pods: Vec<Pod>,
    /// Images with missing data, by name.
    pub(super) images: Vec<ImageHere>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Pod {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) ready: bool,
    pub(super) created_at: i64,
    pub(super) usage: Usage,
    pub(super) containers: Vec<One>,
}

/// A container.
#[derive(Debug, Clone, Default)]
pub(super) struct One {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) attempt: u32,
    pub(super) running: bool,
    pub(super) created_at: i64,
    pub(super) usage: Usage,
}

/// Resource usage; unknown values are `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Usage {
    /// In per cent of one core.
    pub(super) cpu: Option<f64>,
    /// Bytes of the working set.
    pub(super) memory: Option<u64>,
    /// The memory limit.
    pub(super) memory_limit: Option<u64>,
    /// Bytes per second.
    pub(super) received: Option<f64>,
    pub(super) sent: Option<f64>,
    pub(super) read: Option<f64>,
    pub(super) written: Option<f64>,
    /// Earlier values, oldest first.
    pub(super) cpu_before: Vec<f64>,
    pub(super) memory_before: Vec<f64>,
}

/// Takes samples and keeps earlier values.
pub(super) struct Sampler {
    client: RuntimeClient,
    /// False if the runtime does not support pod statistics.
    pods_tell: bool,
    metrics_tell: bool,
    images: Option<ImagesClient<Channel>>,
    memory: HashMap<String, Memory>,
}

/// Earlier values of a pod or container.
#[derive(Debug, Default)]
struct Memory {
    cpu: Option<Count>,
    received: Option<Count>,
    sent: Option<Count>,
    read: Option<Count>,
    written: Option<Count>,
    cpu_rate: Option<f64>,
    cpus: VecDeque<f64>,
    memories: VecDeque<f64>,
    seen: bool,
}

/// Value of a counter at a time in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Count {
    at: i64,
    value: u64,
}

impl Sampler {
    pub(super) fn new(client: RuntimeClient, images: ImagesClient<Channel>) -> Self {
        Self {
            client,
            pods_tell: true,
            metrics_tell: true,
            images: Some(images),
            memory: HashMap::new(),
        }
    }

    /// Takes one sample.
    pub(super) async fn look(&mut self) -> anyhow::Result<Node> {
        let (pods, containers, stats) = tokio::try_join!(
            self.client.list_pod_sandbox(None),
            self.client.list_containers(None),
            self.client.list_container_stats(None),
        )?;
        let (pod_stats, metrics) = (self.pod_stats().await?, self.metrics().await?);
        let stats: HashMap<&str, &ContainerStats> = stats
            .iter()
            .filter_map(|one| Some((one.attributes.as_ref()?.id.as_str(), one)))
            .collect();
        let pod_stats: HashMap<&str, &PodSandboxStats> = pod_stats
            .iter()
            .filter_map(|one| Some((one.attributes.as_ref()?.id.as_str(), one)))
            .collect();
        let io = io_by_container(&metrics);
        let mut by_pod: HashMap<String, Vec<&Container>> = HashMap::new();
        for container in &containers {
            let of_pod = by_pod.entry(container.pod_sandbox_id.clone()).or_default();
            of_pod.push(container);
        }
        for memory in self.memory.values_mut() {
            memory.seen = false;
        }
        let mut node = Node::default();
        for pod in pods {
            let metadata = pod.metadata.clone().unwrap_or_default();
            let own = by_pod.remove(&pod.id).unwrap_or_default();
            let mut ones: Vec<One> = own
                .into_iter()
                .map(|container| {
                    let stats = stats.get(container.id.as_str()).copied();
                    self.container(container, stats, io.get(container.id.as_str()).copied())
                })
                .collect();
            ones.sort_by(|a, b| a.name.cmp(&b.name).then(b.attempt.cmp(&a.attempt)));
            let usage = self.pod(&pod.id, pod_stats.get(pod.id.as_str()).copied(), &ones);
            node.pods.push(Pod {
                ready: pod.state() == PodSandboxState::SandboxReady,
                id: pod.id,
                name: metadata.name,
                namespace: metadata.namespace,
                created_at: pod.created_at,
                usage,
                containers: ones,
            });
        }
        self.memory.retain(|_, memory| memory.seen);
        node.images = self.images().await;
        Ok(node)
    }

    /// Returns the lazily pulled images, or none if the runtime does not report them.
    async fn images(&mut self) -> Vec<ImageHere> {
        let Some(client) = &mut self.images else {
            return Vec::new();
        };
        match here::look(client, "").await {
            Ok(mut images) => {
                images.sort_by(|a, b| here::name(a).cmp(here::name(b)));
                images
            }
            Err(Code::Unimplemented) => {
                self.images = None;
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }

    async fn pod_stats(&mut self) -> anyhow::Result<Vec<PodSandboxStats>> {
        if !self.pods_tell {
            return Ok(Vec::new());
        }
        match self.client.list_pod_sandbox_stats(None).await {
            Err(error) if error.code() == Code::Unimplemented => {
                self.pods_tell = false;
                Ok(Vec::new())
            }
            answer => Ok(answer?),
        }
    }

    async fn metrics(&mut self) -> anyhow::Result<Vec<PodSandboxMetrics>> {
        if !self.metrics_tell {
            return Ok(Vec::new());
        }
        match self.client.list_pod_sandbox_metrics().await {
            Err(error) if error.code() == Code::Unimplemented => {
                self.metrics_tell = false;
                Ok(Vec::new())
            }
            answer => Ok(answer?),
        }
    }

    fn container(
        &mut self,
        container: &Container,
        stats: Option<&ContainerStats>,
        io: Option<Io>,
    ) -> One {
        let memory = self.memory.entry(container.id.clone()).or_default();
        let running = container.state() == ContainerState::ContainerRunning;
        let mut usage = Usage::default();
        if let Some(stats) = stats.filter(|_| running) {
            if let Some(cpu) = &stats.cpu {
                let count = Count {
                    at: cpu.timestamp,
                    value: number(cpu.usage_core_nano_seconds),
                };
                usage.cpu = memory.cpu_use(count);
            }
            if let Some(used) = &stats.memory {
                let working_set = number(used.working_set_bytes);
                usage.memory = Some(working_set);
                let available = used.available_bytes.map(|value| value.value);
                // For "no limit", runtimes report a number larger than any memory.
                usage.memory_limit = available
                    .filter(|available| *available > 0)
                    .and_then(|available| available.checked_add(working_set))
                    .filter(|limit| *limit < 1 << 50);
            }
            if let Some(io) = io {
                usage.read = rate(&mut memory.read, io.read);
                usage.written = rate(&mut memory.written, io.written);
            }
        }
        memory.remember(&mut usage);
        let metadata = container.metadata.clone().unwrap_or_default();
        One {
            id: container.id.clone(),
            name: metadata.name,
            attempt: metadata.attempt,
            running,
            created_at: container.created_at,
            usage,
        }
    }

    /// Returns the usage of a pod: CPU and memory are sums of its containers, the network is its own.
    fn pod(&mut self, id: &str, stats: Option<&PodSandboxStats>, ones: &[One]) -> Usage {
        let memory = self.memory.entry(id.to_owned()).or_default();
        let mut usage = Usage {
            cpu: sum(ones.iter().map(|one| one.usage.cpu)),
            memory: ones
                .iter()
                .filter_map(|one| one.usage.memory)
                .reduce(|a, b| a + b),
            read: sum(ones.iter().map(|one| one.usage.read)),
            written: sum(ones.iter().map(|one| one.usage.written)),
            ..Usage::default()
        };
        let network = stats.and_then(|stats| stats.linux.as_ref()?.network.as_ref());
        if let Some(network) = network {
            let interfaces = || {
                let all = network.default_interface.iter().chain(&network.interfaces);
                all.filter(|one| one.name != "lo")
            };
            let received = interfaces().map(|one| number(one.rx_bytes)).sum();
            let sent = interfaces().map(|one| number(one.tx_bytes)).sum();
            // CRI-O reports no time of measurement, so the current time is used.
            let at = match network.timestamp {
                0 => nanos_now(),
                at => at,
            };
            usage.received = rate(
                &mut memory.received,
                Count {
                    at,
                    value: received,
                },
            );
            usage.sent = rate(&mut memory.sent, Count { at, value: sent });
        }
        memory.remember(&mut usage);
        usage
    }
}

impl Memory {
    /// Returns the CPU usage. The runtime measures at its own interval: between two measurements the last rate is kept.
    fn cpu_use(&mut self, count: Count) -> Option<f64> {
        if self.cpu.is_none_or(|before| before.at != count.at) {
            self.cpu_rate = rate(&mut self.cpu, count).map(|rate| rate / 1e7);
        }
        self.cpu_rate
    }

    fn remember(&mut self, usage: &mut Usage) {
        self.seen = true;
        for (series, value) in [
            (&mut self.cpus, usage.cpu.unwrap_or(0.0)),
            (&mut self.memories, usage.memory.unwrap_or(0) as f64),
        ] {
            series.push_back(value);
            while series.len() > REMEMBERED {
                series.pop_front();
            }
        }
        usage.cpu_before = self.cpus.iter().copied().collect();
        usage.memory_before = self.memories.iter().copied().collect();
    }
}

/// Returns the rate of a counter per second. A counter that decreased was reset.
fn rate(before: &mut Option<Count>, now: Count) -> Option<f64> {
    let then = before.replace(now)?;
    let passed = now.at.checked_sub(then.at).filter(|passed| *passed > 0)?;
    let grown = now.value.checked_sub(then.value)?;
    Some(grown as f64 / (passed as f64 / 1e9))
}

fn sum(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().reduce(|a, b| a + b)
}

#[derive(Debug, Clone, Copy)]
struct Io {
    read: Count,
    written: Count,
}

fn nanos_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(0))
}

/// Returns block device bytes by container: the CRI has them only in the metrics.
fn io_by_container(metrics: &[PodSandboxMetrics]) -> HashMap<&str, Io> {
    let now = nanos_now();
    let mut found = HashMap::new();
    for container in metrics.iter().flat_map(|pod| &pod.container_metrics) {
        let count = |name: &str| {
            let mut own = container
                .metrics
                .iter()
                .filter(|one| one.name == name)
                .peekable();
            let at = own.peek().map_or(now, |one| one.timestamp);
            Count {
                // Cached metrics have no time of measurement.
                at: if at == 0 { now } else { at },
                value: own.map(|one| number(one.value)).sum(),
            }
        };
        let io = Io {
            read: count("container_fs_reads_bytes_total"),
            written: count("container_fs_writes_bytes_total"),
        };
        found.insert(container.container_id.as_str(), io);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_growth_over_time() {
        let mut before = None;
        let mut at = |seconds: i64, value: u64| {
            rate(
                &mut before,
                Count {
                    at: seconds * 1_000_000_000,
                    value,
                },
            )
        };
        assert_eq!(at(1, 1000), None, "the first tells nothing");
        assert_eq!(at(3, 5000), Some(2000.0));
        assert_eq!(at(3, 6000), None, "no time has passed");
        assert_eq!(at(4, 10), None, "it began anew");
        assert_eq!(at(5, 20), Some(10.0));
    }

    #[test]
    fn between_two_measurements_the_last_rate_holds() {
        let mut memory = Memory::default();
        let count = |at: i64, value: u64| Count { at, value };
        assert_eq!(memory.cpu_use(count(1_000_000_000, 0)), None);
        assert_eq!(
            memory.cpu_use(count(2_000_000_000, 500_000_000)),
            Some(50.0)
        );
        assert_eq!(
            memory.cpu_use(count(2_000_000_000, 500_000_000)),
            Some(50.0)
        );
    }
}

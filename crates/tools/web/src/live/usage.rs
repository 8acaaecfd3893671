//! Resource usage of pods and of the node, computed from the counters of the runtime.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cri_api::client::{ImageClient, RuntimeClient};
use orlop_cri_api::v1::{
    ContainerStats, CpuUsage, MemoryUsage, NetworkUsage, PodSandboxStats, UInt64Value,
};

use super::figures::{Disk, Figures, NodeFigures};
use super::history::Point;
use super::machine::{Machine, capacity};
use super::pods::Seen;
use super::time::now;
use crate::asked::AskError;
use crate::bounded::MOST_PODS;

/// Interval of disk usage queries.
const DISK: Duration = Duration::from_secs(30);

/// Queries usage and keeps earlier counters.
pub(super) struct Usage {
    client: RuntimeClient,
    images: ImageClient,
    /// The call for the next sample.
    asked: Asked,
    before: HashMap<Arc<str>, Before>,
    machine: Machine,
    disk: Option<(Instant, Option<Disk>)>,
}

/// Statistics call that the runtime supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Pods,
    Containers,
    Nobody,
}

/// Earlier counters of a pod.
#[derive(Debug, Default)]
struct Before {
    cpu: Option<Count>,
    received: Option<Count>,
    sent: Option<Count>,
    /// CPU usage. The runtime measures at its own interval: in between the last rate is kept.
    cores: Option<f64>,
}

/// Value of a counter at a time in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Count {
    at: i64,
    value: u64,
}

impl Usage {
    pub(super) fn new(client: RuntimeClient, images: ImageClient) -> Self {
        Self {
            client,
            images,
            asked: Asked::Pods,
            before: HashMap::new(),
            machine: Machine::default(),
            disk: None,
        }
    }

    /// Returns whether the runtime reports usage of pods.
    pub(super) fn is_told(&self) -> bool {
        self.asked != Asked::Nobody
    }

    /// Takes a sample.
    pub(super) async fn look(&mut self, seen: &Seen) -> Result<Point, AskError> {
        let pods = self.pods(seen).await?;
        let mut used = self.machine.look();
        let sum = |value: fn(&Figures) -> f64| {
            let known = pods.iter().map(|(_, figures)| value(figures));
            known.filter(|value| value.is_finite()).sum::<f64>()
        };
        if !used.cpu.is_finite() && !used.memory.is_finite() {
            used.cpu = sum(|figures| figures.cpu.into()) as f32;
            used.memory = sum(|figures| figures.memory);
        }
        let node = NodeFigures {
            used,
            disk: self.disk().await?,
            pods: seen.pods,
            containers: seen.containers,
        };
        Ok(Point {
            time: now(),
            node,
            pods,
        })
    }

    async fn pods(&mut self, seen: &Seen) -> Result<Vec<(Arc<str>, Figures)>, AskError> {
        let counted = match self.asked {
            Asked::Nobody => return Ok(Vec::new()),
            Asked::Pods => match self.client.list_pod_sandbox_stats(None).await {
                Ok(stats) => of_pods(&stats),
                Err(error) => {
                    self.next(error.into(), Asked::Containers)?;
                    return Ok(Vec::new());
                }
            },
            Asked::Containers => match self.client.list_container_stats(None).await {
                Ok(stats) => of_containers(&stats, &seen.pod_of),
                Err(error) => {
                    self.next(error.into(), Asked::Nobody)?;
                    return Ok(Vec::new());
                }
            },
        };
        let there: HashSet<&str> = counted.iter().map(|(id, _)| id.as_str()).collect();
        self.before.retain(|id, _| there.contains(&**id));
        let mut all = Vec::with_capacity(counted.len());
        for (id, counted) in counted.iter().take(MOST_PODS) {
            let known = self.before.get_key_value(id.as_str());
            let id: Arc<str> = match known {
                Some((id, _)) => Arc::clone(id),
                None => id.as_str().into(),
            };
            let before = self.before.entry(Arc::clone(&id)).or_default();
            all.push((id, before.figures(counted)));
        }
        Ok(all)
    }

    /// Switches to another call if the runtime does not know this one.
    fn next(&mut self, error: AskError, asked: Asked) -> Result<(), AskError> {
        if error.is_gone() || error.is_late() {
            return Err(error);
        }
        if error.is_unknown() {
            self.asked = asked;
        }
        Ok(())
    }

    async fn disk(&mut self) -> Result<Option<Disk>, AskError> {
        if let Some((when, disk)) = self.disk
            && when.elapsed() < DISK
        {
            return Ok(disk);
        }
        let disk = match self.images.image_fs_info().await.map_err(AskError::from) {
            Ok(info) => match info.image_filesystems.into_iter().next() {
                Some(first) => {
                    let place = first.fs_id.unwrap_or_default().mountpoint;
                    let asked = orlop_pool::blocking(move || capacity(&place));
                    Some(Disk {
                        used: value(first.used_bytes.as_ref()),
                        inodes: value(first.inodes_used.as_ref()),
                        capacity: asked.await.unwrap_or(0),
                    })
                }
                None => None,
            },
            Err(error) if error.is_gone() => return Err(error),
            Err(_) => None,
        };
        self.disk = Some((Instant::now(), disk));
        Ok(disk)
    }
}

/// Counters of one pod.
#[derive(Debug, Default)]
struct Counted {
    cpu: Option<Count>,
    memory: Option<u64>,
    network: Option<(i64, u64, u64)>,
}

impl Counted {
    fn add_cpu(&mut self, of: &ContainerStats) {
        let Some(more) = of.cpu.as_ref().and_then(cpu) else {
            return;
        };
        let so_far = self.cpu.map_or(0, |cpu| cpu.value);
        let at = self.cpu.map_or(i64::MIN, |cpu| cpu.at);
        self.cpu = Some(Count {
            at: at.max(more.at),
            value: so_far.saturating_add(more.value),
        });
    }

    fn add_memory(&mut self, of: &ContainerStats) {
        if let Some(more) = of.memory.as_ref().and_then(working_set) {
            self.memory = Some(self.memory.unwrap_or(0).saturating_add(more));
        }
    }
}

impl Before {
    fn figures(&mut self, counted: &Counted) -> Figures {
        let mut figures = Figures::default();
        if let Some(cpu) = counted.cpu {
            if self.cpu.is_none_or(|before| before.at != cpu.at) {
                self.cores = rate(&mut self.cpu, cpu).map(|rate| rate / 1e9);
            }
            figures.cpu = self.cores.map_or(f32::NAN, |cores| cores as f32);
        }
        if let Some(memory) = counted.memory {
            figures.memory = memory as f64;
        }
        if let Some((at, received, sent)) = counted.network {
            let rate = |before: &mut Option<Count>, value: u64| {
                rate(before, Count { at, value }).map_or(f32::NAN, |rate| rate as f32)
            };
            figures.received = rate(&mut self.received, received);
            figures.sent = rate(&mut self.sent, sent);
        }
        figures
    }
}

fn of_pods(stats: &[PodSandboxStats]) -> Vec<(String, Counted)> {
    let of = |stats: &PodSandboxStats| {
        let id = stats.attributes.as_ref()?.id.clone();
        let linux = stats.linux.as_ref()?;
        let mut counted = Counted {
            cpu: linux.cpu.as_ref().and_then(cpu),
            memory: linux.memory.as_ref().and_then(working_set),
            network: linux.network.as_ref().map(traffic),
        };
        // CRI-O omits them if it does not find the pod's own cgroup.
        let (no_cpu, no_memory) = (counted.cpu.is_none(), counted.memory.is_none());
        for container in &linux.containers {
            if no_cpu {
                counted.add_cpu(container);
            }
            if no_memory {
                counted.add_memory(container);
            }
        }
        Some((id, counted))
    };
    stats.iter().filter_map(of).collect()
}

/// Returns the time of measurement and the bytes received and sent, without the pod's loopback.
fn traffic(network: &NetworkUsage) -> (i64, u64, u64) {
    let all = || {
        let all = network.default_interface.iter().chain(&network.interfaces);
        all.filter(|one| one.name != "lo")
    };
    let add = |sum: u64, value: u64| sum.saturating_add(value);
    let received = all().map(|one| value(one.rx_bytes.as_ref()));
    let sent = all().map(|one| value(one.tx_bytes.as_ref()));
    // CRI-O reports no time of measurement, so the current time is used.
    let at = match network.timestamp {
        0 => (now() * 1e6) as i64,
        at => at,
    };
    (at, received.fold(0, add), sent.fold(0, add))
}

/// Sums up container statistics for runtimes without pod statistics.
fn of_containers(
    stats: &[ContainerStats],
    pod_of: &HashMap<String, String>,
) -> Vec<(String, Counted)> {
    let mut pods: HashMap<&str, Counted> = HashMap::new();
    for stats in stats {
        let pod = stats
            .attributes
            .as_ref()
            .and_then(|its| pod_of.get(&its.id));
        let Some(pod) = pod else { continue };
        let counted = pods.entry(pod).or_default();
        counted.add_cpu(stats);
        counted.add_memory(stats);
    }
    let pods = pods.into_iter();
    pods.map(|(id, counted)| (id.to_owned(), counted)).collect()
}

fn cpu(usage: &CpuUsage) -> Option<Count> {
    Some(Count {
        at: usage.timestamp,
        value: usage.usage_core_nano_seconds.as_ref()?.value,
    })
}

fn working_set(usage: &MemoryUsage) -> Option<u64> {
    Some(usage.working_set_bytes.as_ref()?.value)
}

fn value(value: Option<&UInt64Value>) -> u64 {
    value.map_or(0, |value| value.value)
}

/// Returns the rate of a counter per second. A counter that decreased was reset.
fn rate(before: &mut Option<Count>, now: Count) -> Option<f64> {
    let then = before.replace(now)?;
    let passed = now.at.checked_sub(then.at).filter(|passed| *passed > 0)?;
    let grown = now.value.checked_sub(then.value)?;
    Some(grown as f64 / (passed as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_growth_over_time_and_hold_between_measurements() {
        let mut before = Before::default();
        let mut at = |seconds: i64, cpu: u64, received: u64| {
            let at = seconds * 1_000_000_000;
            before.figures(&Counted {
                cpu: Some(Count { at, value: cpu }),
                memory: Some(7),
                network: Some((at, received, 0)),
            })
        };
        let first = at(1, 0, 0);
        assert!(first.cpu.is_nan() && first.received.is_nan());
        let second = at(3, 500_000_000, 4000);
        assert_eq!(
            (second.cpu, second.received, second.sent),
            (0.25, 2000.0, 0.0)
        );
        let same = at(3, 500_000_000, 4000);
        assert_eq!(same.cpu.to_string(), "0.25");
        let mut text = String::new();
        second.write(&mut text);
        assert_eq!(text, "[0.2500,7,2000,0]");
        assert!(at(5, 1, 1).cpu.is_nan(), "it began anew");
    }

    /// As CRI-O reports a pod whose cgroup parent is no slice.
    #[test]
    fn a_pod_without_figures_of_its_own_has_its_containers_and_its_network_without_lo() {
        use orlop_cri_api::v1::{
            LinuxPodSandboxStats, MemoryUsage, NetworkInterfaceUsage, PodSandboxAttributes,
        };
        let some = |value| Some(UInt64Value { value });
        let container = |nanos, bytes| ContainerStats {
            cpu: Some(CpuUsage {
                timestamp: 5,
                usage_core_nano_seconds: some(nanos),
                ..Default::default()
            }),
            memory: Some(MemoryUsage {
                working_set_bytes: some(bytes),
                ..Default::default()
            }),
            ..Default::default()
        };
        let interface = |name: &str, bytes| NetworkInterfaceUsage {
            name: name.into(),
            rx_bytes: some(bytes),
            tx_bytes: some(2 * bytes),
            ..Default::default()
        };
        let network = NetworkUsage {
            timestamp: 0,
            default_interface: Some(interface("lo", 1000)),
            interfaces: vec![interface("eth0", 7)],
        };
        let stats = PodSandboxStats {
            attributes: Some(PodSandboxAttributes::default()),
            linux: Some(LinuxPodSandboxStats {
                network: Some(network),
                containers: vec![container(1, 10), container(2, 20)],
                ..Default::default()
            }),
            ..Default::default()
        };
        let mut told = of_pods(&[stats]);
        let (_, counted) = told.remove(0);
        assert_eq!(counted.cpu.unwrap().value, 3);
        assert_eq!(counted.memory, Some(30));
        let (at, received, sent) = counted.network.unwrap();
        assert_eq!((received, sent), (7, 14));
        assert!(at > 1_600_000_000_000_000_000, "{at}: it is now");
    }

    #[test]
    fn pods_that_nobody_tells_of_use_what_their_containers_use() {
        use orlop_cri_api::v1::{ContainerAttributes, MemoryUsage};
        let stats = |id: &str, nanos, bytes| ContainerStats {
            attributes: Some(ContainerAttributes {
                id: id.into(),
                ..Default::default()
            }),
            cpu: Some(CpuUsage {
                timestamp: 5,
                usage_core_nano_seconds: Some(UInt64Value { value: nanos }),
                ..Default::default()
            }),
            memory: Some(MemoryUsage {
                working_set_bytes: Some(UInt64Value { value: bytes }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let pod_of = HashMap::from([("a".into(), "pod".into()), ("b".into(), "pod".into())]);
        let all = [
            stats("a", 1, 10),
            stats("b", 2, u64::MAX),
            stats("other", 9, 9),
        ];
        let told = of_containers(&all, &pod_of);
        let (id, counted) = &told[0];
        assert_eq!((told.len(), id.as_str()), (1, "pod"));
        assert_eq!(counted.cpu.unwrap().value, 3);
        assert_eq!(counted.memory, Some(u64::MAX));
    }
}

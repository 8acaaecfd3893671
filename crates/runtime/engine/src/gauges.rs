//! Gauges of the engine, for metrics.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::record::container::Phase;
use crate::record::pod;

/// Current numbers of objects.
#[derive(Debug, Clone, Default)]
pub struct Gauges {
    /// Pods by state.
    pub pods: BTreeMap<&'static str, i64>,
    /// Containers by state.
    pub containers: BTreeMap<&'static str, i64>,
    /// Connected keepers.
    pub keepers: i64,
    /// Commands that run in containers.
    pub commands: i64,
    /// Subscribers of events.
    pub subscribers: i64,
    /// Images.
    pub images: i64,
    /// Leases on images.
    pub leases: i64,
    /// Pulls in progress.
    pub pulls: i64,
    /// Bytes used by images.
    pub store_bytes: i64,
    /// Inodes used by images.
    pub store_inodes: i64,
    /// Lazy layers that are not completely fetched.
    pub lazy_layers: i64,
    /// Bytes of lazy layers fetched so far.
    pub lazy_fetched_bytes: u64,
    /// Failed reads of lazy layers.
    pub lazy_reads_failed: u64,
    /// Failed reads of lazy layers that timed out.
    pub lazy_reads_timed_out: u64,
}

impl Engine {
    /// Counts the engine's objects.
    pub fn gauges(&self) -> Gauges {
        let Self(node) = self;
        let mut gauges = Gauges {
            pods: BTreeMap::from([
                ("creating", 0),
                ("ready", 0),
                ("not_ready", 0),
                ("removing", 0),
            ]),
            containers: BTreeMap::from([
                ("creating", 0),
                ("created", 0),
                ("running", 0),
                ("exited", 0),
                ("removing", 0),
            ]),
            commands: number(node.commands.count()),
            subscribers: number(node.events.count()),
            images: number(node.images.list().len()),
            leases: number(node.images.leases().len()),
            pulls: number(node.pulls.under_way().len()),
            ..Gauges::default()
        };
        for pod in node.pods.all() {
            let state = match pod.phase() {
                pod::Phase::Creating => "creating",
                pod::Phase::Ready => "ready",
                pod::Phase::NotReady => "not_ready",
                pod::Phase::Removing => "removing",
            };
            *gauges.pods.entry(state).or_default() += 1;
            let connected = pod.now().keeper.is_some_and(|keeper| keeper.is_connected());
            gauges.keepers += i64::from(connected);
        }
        for container in node.containers.all() {
            let state = match container.phase() {
                Phase::Creating => "creating",
                Phase::Created => "created",
                Phase::Running => "running",
                Phase::Exited => "exited",
                Phase::Removing => "removing",
            };
            *gauges.containers.entry(state).or_default() += 1;
        }
        let store = node.images.fs_info();
        gauges.store_bytes = i64::try_from(store.used_bytes).unwrap_or(i64::MAX);
        gauges.store_inodes = i64::try_from(store.inodes_used).unwrap_or(i64::MAX);
        let lazy = node.images.lazy_counts();
        gauges.lazy_layers = number(lazy.layers);
        gauges.lazy_fetched_bytes = lazy.fetched;
        gauges.lazy_reads_failed = lazy.failed;
        gauges.lazy_reads_timed_out = lazy.timed_out;
        gauges
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

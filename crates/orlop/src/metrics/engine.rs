//! Gauges of pods, images and similar objects, collected at scrape time.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use orlop_engine::Engine;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::docker_shim::{Shim, encode_operations};

/// The backend, set when it runs.
pub(crate) type Running = Arc<OnceLock<Backend>>;

/// The backend that the gauges query.
#[derive(Debug)]
pub(crate) enum Backend {
    /// The native engine.
    Native(Engine),
    /// The service over a Docker Engine.
    Docker(Shim),
}

/// Gauges of the engine.
#[derive(Debug)]
pub(super) struct EngineGauges(pub(super) Running);

impl Collector for EngineGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(Backend::Native(engine)) = self.0.get() else {
            return Ok(());
        };
        let gauges = engine.gauges();
        for (name, help, values) in [
            ("orlop_pods", "Pods", &gauges.pods),
            ("orlop_containers", "Containers", &gauges.containers),
        ] {
            let kind = ConstGauge::new(0_i64).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (state, count) in values {
                let labels = [("state", *state)];
                ConstGauge::new(*count).encode(family.encode_family(&labels)?)?;
            }
        }
        for (name, help, value) in [
            (
                "orlop_keepers",
                "Number of connected keepers",
                gauges.keepers,
            ),
            (
                "orlop_commands_in_flight",
                "Number of running exec commands in containers",
                gauges.commands,
            ),
            (
                "orlop_event_subscribers",
                "Number of clients that receive events",
                gauges.subscribers,
            ),
            ("orlop_images", "Number of images", gauges.images),
            (
                "orlop_image_leases",
                "Number of images leased by containers",
                gauges.leases,
            ),
            (
                "orlop_pulls_in_flight",
                "Number of running image pulls",
                gauges.pulls,
            ),
            (
                "orlop_image_store_bytes",
                "Disk usage of images in bytes",
                gauges.store_bytes,
            ),
            (
                "orlop_image_store_inodes",
                "Inode usage of images",
                gauges.store_inodes,
            ),
            (
                "orlop_lazy_layers",
                "Number of lazy layers with missing data",
                gauges.lazy_layers,
            ),
        ] {
            let gauge = ConstGauge::new(value);
            let descriptor = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(descriptor)?;
        }
        for (name, help, value) in [
            (
                "orlop_lazy_fetched_bytes",
                "Bytes of lazy layers that were downloaded",
                gauges.lazy_fetched_bytes,
            ),
            (
                "orlop_lazy_reads_failed",
                "Number of reads of lazy layers that failed because the data could not be fetched",
                gauges.lazy_reads_failed,
            ),
            (
                "orlop_lazy_reads_timed_out",
                "Number of reads of lazy layers that failed because of a timeout",
                gauges.lazy_reads_timed_out,
            ),
        ] {
            let counter = ConstCounter::new(value);
            let descriptor = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(descriptor)?;
        }
        Ok(())
    }
}

/// Metrics of Docker Engine calls under the names of cri-dockerd and older kubelets, if enabled.
#[derive(Debug)]
pub(super) struct DockerNames {
    pub(super) running: Running,
    pub(super) wanted: Arc<AtomicBool>,
}

impl Collector for DockerNames {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        match self.running.get() {
            Some(Backend::Docker(shim)) if self.wanted.load(Ordering::Relaxed) => {
                encode_operations(shim, &mut encoder)
            }
            _ => Ok(()),
        }
    }
}

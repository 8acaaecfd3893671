//! Collecting values under the labels of one pod or container.

use orlop_cri::v1::Metric;

use super::descriptors::{LABELS, shape};
use crate::stats::meter::value;

/// The values of one pod or container.
#[derive(Debug)]
pub(super) struct Samples {
    labels: [String; LABELS.len()],
    at: i64,
    metrics: Vec<Metric>,
}

impl Samples {
    pub(super) fn new(labels: [String; LABELS.len()], at: i64) -> Self {
        Self {
            labels,
            at,
            metrics: Vec::new(),
        }
    }

    /// Adds a value of a metric with no labels of its own.
    pub(super) fn add(&mut self, name: &str, number: u64) {
        self.add_with(name, &[], number);
    }

    /// Adds a value of a metric with these labels of its own.
    pub(super) fn add_with(&mut self, name: &str, extra: &[&str], number: u64) {
        let shape = shape(name);
        debug_assert_eq!(shape.map(|(count, _)| count), Some(extra.len()), "{name}");
        let Some((_, kind)) = shape else { return };
        let extra = extra.iter().map(ToString::to_string);
        self.metrics.push(Metric {
            name: name.to_owned(),
            timestamp: self.at,
            metric_type: kind.into(),
            label_values: self.labels.iter().cloned().chain(extra).collect(),
            value: value(number),
        });
    }

    pub(super) fn finish(self) -> Vec<Metric> {
        self.metrics
    }
}

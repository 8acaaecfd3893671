//! A pod's life, call by call.

use std::time::{Duration, Instant};

use crate::report::Report;

/// What the calls of a pod's life took.
pub(crate) struct Life {
    laps: Vec<(&'static str, Duration)>,
    last: Instant,
}

impl Life {
    pub(crate) fn new() -> Self {
        Self {
            laps: Vec::new(),
            last: Instant::now(),
        }
    }

    /// What was done since the last lap, or since [`Life::go_on`], is this step.
    pub(crate) fn lap(&mut self, step: &'static str) {
        self.laps.push((step, self.last.elapsed()));
        self.last = Instant::now();
    }

    /// What was done since the last lap does not count.
    pub(crate) fn go_on(&mut self) {
        self.last = Instant::now();
    }

    /// A step that was measured otherwise.
    pub(crate) fn add(&mut self, step: &'static str, took: Duration) {
        self.laps.push((step, took));
    }

    /// Some steps together are one of another name.
    pub(crate) fn add_sum(&mut self, name: &'static str, steps: &[&str]) {
        let laps = self.laps.iter();
        let of_these = laps.filter(|(step, _)| steps.contains(step));
        let took = of_these.map(|(_, took)| *took).sum();
        self.add(name, took);
    }

    /// Tells it, each step in a row that has its name as `row` makes it.
    pub(crate) fn tell(
        &self,
        subject: &'static str,
        report: &mut Report,
        row: impl Fn(&'static str) -> &'static str,
    ) {
        for (step, took) in &self.laps {
            report.time(row(step), subject, *took);
        }
    }
}

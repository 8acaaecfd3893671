//! Open steps of a trace.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A step that has not finished.
#[derive(Debug, Clone)]
pub struct OpenStep {
    /// The step's name.
    pub name: &'static str,
    /// The container of the step; empty for the pod itself.
    pub container: String,
    /// How long the step has been open.
    pub since: Duration,
}

/// The open steps of one trace.
#[derive(Debug, Default)]
pub(super) struct OpenSteps(Mutex<Vec<Open>>);

#[derive(Debug)]
struct Open {
    name: &'static str,
    container: Box<str>,
    begun: Instant,
    number: u64,
}

/// Ends its step when dropped, also if the step is cancelled.
pub(super) struct Ending<'a>(&'a OpenSteps, u64);

impl OpenSteps {
    pub(super) fn begin(&self, name: &'static str, container: &str, begun: Instant) -> Ending<'_> {
        let mut open = self.0.lock();
        let number = open.last().map_or(0, |last| last.number + 1);
        open.push(Open {
            name,
            container: container.into(),
            begun,
            number,
        });
        Ending(self, number)
    }

    pub(super) fn all(&self) -> Vec<OpenStep> {
        let open = self.0.lock();
        let told = open.iter().map(|step| OpenStep {
            name: step.name,
            container: step.container.to_string(),
            since: step.begun.elapsed(),
        });
        told.collect()
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Self(steps, number) = self;
        steps.0.lock().retain(|step| step.number != *number);
    }
}

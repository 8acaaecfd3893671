//! Steps that go on.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A step that goes on.
#[derive(Debug, Clone)]
pub struct OpenStep {
    /// The step's name.
    pub name: &'static str,
    /// The container that it is for; empty for the pod itself.
    pub container: String,
    /// For how long it has gone on.
    pub since: Duration,
}

/// Those of one trace.
#[derive(Debug, Default)]
pub(super) struct OpenSteps(Mutex<Vec<Open>>);

#[derive(Debug)]
struct Open {
    name: &'static str,
    container: Box<str>,
    begun: Instant,
    number: u64,
}

/// Ends its step when it is dropped, as it is where nobody waits for the step any more.
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

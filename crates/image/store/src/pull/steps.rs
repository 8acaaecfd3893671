//! Durations of the steps of a pull. Layers are pulled in parallel, so a step lasts from the start of its first part
//! to the end of its last part.

use std::time::Instant;

use parking_lot::Mutex;

/// A step of a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullStep {
    /// `resolve`, `manifest`, `signatures`, `download`, `unpack`, `publish` or `record`.
    pub name: &'static str,
    /// Start of its first part.
    pub start: Instant,
    /// End of its last part; `None` while it runs.
    pub end: Option<Instant>,
    /// Whether a part of it failed.
    pub failed: bool,
}

/// The steps so far, in the order of their start.
#[derive(Debug, Default)]
pub(crate) struct Steps(Mutex<Vec<Noted>>);

#[derive(Debug)]
struct Noted {
    step: PullStep,
    /// Number of parts that are running.
    open: usize,
}

impl Steps {
    /// Runs a part of a step and records its duration.
    pub(crate) async fn during<T, E>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut part = self.begin(name);
        let result = work.await;
        part.failed = Some(result.is_err());
        result
    }

    fn begin(&self, name: &'static str) -> Part<'_> {
        let mut steps = self.0.lock();
        match steps.iter_mut().find(|noted| noted.step.name == name) {
            Some(noted) => noted.open += 1,
            None => steps.push(Noted {
                step: PullStep {
                    name,
                    start: Instant::now(),
                    end: None,
                    failed: false,
                },
                open: 1,
            }),
        }
        Part {
            steps: self,
            name,
            failed: None,
        }
    }

    /// Returns a copy of the steps so far.
    pub(crate) fn so_far(&self) -> Vec<PullStep> {
        let steps = self.0.lock();
        steps.iter().map(|noted| noted.step).collect()
    }
}

/// A running part of a step. A part that is dropped early was cancelled because another part failed.
struct Part<'a> {
    steps: &'a Steps,
    name: &'static str,
    failed: Option<bool>,
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        let mut steps = self.steps.0.lock();
        let of_name = |noted: &&mut Noted| noted.step.name == self.name;
        if let Some(noted) = steps.iter_mut().find(of_name) {
            noted.open -= 1;
            noted.step.failed |= self.failed == Some(true);
            // A layer that starts later reopens the step.
            noted.step.end = (noted.open == 0).then(Instant::now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_step_lasts_from_its_first_part_to_the_end_of_its_last() {
        let steps = Steps::default();
        let part = |millis| {
            steps.during("download", async move {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok::<_, ()>(())
            })
        };
        let (first, second) = tokio::join!(part(1), part(30));
        first.and(second).unwrap();
        let failed = steps.during("unpack", async { Err::<(), _>(()) });
        failed.await.unwrap_err();
        let [download, unpack] = steps.so_far()[..] else {
            panic!("{steps:?}");
        };
        let took = download.end.unwrap() - download.start;
        assert!(took >= Duration::from_millis(30), "{took:?}");
        assert_eq!((download.name, download.failed), ("download", false));
        assert_eq!((unpack.name, unpack.failed), ("unpack", true));
    }
}

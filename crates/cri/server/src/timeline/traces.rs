//! The list of the latest traces.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::facts::{Kind, NewFacts, TraceFacts};
use super::finished::FinishedCalls;
use super::listeners::Listeners;
use super::metrics::Metrics;
use super::sampling::Sampling;
use super::trace::Trace;

/// Maximum number of traces kept; each takes some kilobytes.
const KEPT: usize = 256;

/// The latest traces, including those of removed pods.
#[derive(Debug)]
pub struct Traces {
    /// The traces, oldest first.
    kept: Mutex<VecDeque<Arc<Trace>>>,
    metrics: Metrics,
    listeners: Arc<Listeners>,
}

impl Traces {
    /// Creates an empty list.
    pub fn new(metrics: Metrics) -> Self {
        Self {
            kept: Mutex::default(),
            metrics,
            listeners: Arc::default(),
        }
    }

    /// Returns the trace of the pod with this id, display name and handler. For a pod of an earlier daemon run, it
    /// starts now.
    pub fn of_pod(&self, id: &str, name: impl FnOnce() -> String, handler: &str) -> Arc<Trace> {
        let mut kept = self.lock();
        // There are a few hundred at most, and usually a recent one is requested.
        let mut latest = kept.iter().rev();
        if let Some(trace) = latest.find(|trace| trace.is_of_pod(id)) {
            return Arc::clone(trace);
        }
        self.add(
            &mut kept,
            &NewFacts {
                kind: Kind::Pod,
                id,
                name: &name(),
                handler,
            },
        )
    }

    /// Creates the trace of a pull.
    pub fn pull(&self, image: &str) -> Arc<Trace> {
        self.add(
            &mut self.lock(),
            &NewFacts {
                kind: Kind::Pull,
                id: image,
                name: image,
                handler: "",
            },
        )
    }

    /// Adds a trace. It replaces the oldest one and reuses its memory.
    fn add(&self, kept: &mut VecDeque<Arc<Trace>>, facts: &NewFacts<'_>) -> Arc<Trace> {
        let oldest = if kept.len() < KEPT {
            None
        } else {
            kept.pop_front()
        };
        let taken_over = oldest.and_then(|mut oldest| {
            Arc::get_mut(&mut oldest)?.begin_anew(facts);
            Some(oldest)
        });
        let trace = taken_over.unwrap_or_else(|| {
            let listeners = Arc::clone(&self.listeners);
            let facts = TraceFacts::new(facts);
            Arc::new(Trace::new(facts, self.metrics.clone(), listeners))
        });
        kept.push_back(Arc::clone(&trace));
        trace
    }

    /// Returns all traces, latest first.
    pub fn latest(&self) -> Vec<Arc<Trace>> {
        self.lock().iter().rev().cloned().collect()
    }

    /// Subscribes to finished calls that `sampling` selects. Calls that exceed the queue are dropped and counted.
    pub fn listen(&self, sampling: Arc<Sampling>) -> FinishedCalls {
        self.listeners.add(sampling)
    }

    /// Returns the metrics of all traces.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Trace>>> {
        self.kept.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::finished::{FinishedCall, QUEUE};
    use super::*;
    use crate::timeline::{Early, Origin, TraceParent};

    fn all() -> Arc<Sampling> {
        let sampling = Sampling::off();
        sampling.set(Some(1_000_000));
        Arc::new(sampling)
    }

    #[tokio::test]
    async fn steps_belong_to_the_open_call_of_their_container() {
        let traces = Traces::new(Metrics::default());
        let mut ended = traces.listen(all());
        let trace = traces.pull("busybox");
        let origin = Origin {
            caller: None,
            arrived: Instant::now().checked_sub(Duration::from_millis(5)),
            parent: None,
        };
        let pod = trace.begin("RunPodSandbox", "", origin);
        let container = trace.begin("StartContainer", "main", Origin::default());
        let step = trace.step("runtime", "main", async {
            tokio::time::sleep(Duration::from_millis(3)).await;
            let open = trace.open_steps();
            assert_eq!(
                (open[0].name, open[0].container.as_str()),
                ("runtime", "main")
            );
            assert!(open.len() == 1 && open[0].since >= Duration::from_millis(3));
            Ok::<_, ()>(())
        });
        step.await.unwrap();
        assert!(trace.open_steps().is_empty());
        trace
            .step("keeper", "", async { Err::<(), _>(()) })
            .await
            .unwrap_err();
        container.end(&Ok::<_, ()>(()));
        drop(pod);

        let spans = trace.spans();
        let shape: Vec<_> = spans
            .iter()
            .map(|span| (span.name, span.call, span.failed))
            .collect();
        assert_eq!(
            shape,
            [
                ("RunPodSandbox", None, true),
                ("queue", Some(0), false),
                ("StartContainer", None, false),
                ("runtime", Some(2), false),
                ("keeper", Some(0), true),
            ]
        );
        assert!(spans[1].took.unwrap() >= Duration::from_millis(5));
        assert!(spans[3].took.unwrap() >= Duration::from_millis(3));
        assert!(trace.waited() >= Duration::from_millis(8));
        let names =
            |call: &FinishedCall| call.spans.iter().map(|span| span.name).collect::<Vec<_>>();
        assert_eq!(
            names(&ended.recv().await.unwrap()),
            ["StartContainer", "runtime"]
        );
        let last = ended.recv().await.unwrap();
        assert_eq!(names(&last), ["RunPodSandbox", "queue", "keeper"]);
    }

    #[tokio::test]
    async fn early_steps_are_no_waiting() {
        let traces = Traces::new(Metrics::default());
        let origin = Origin {
            caller: None,
            arrived: Some(Instant::now()),
            parent: None,
        };
        let mut early = Early::begin();
        let step = early.step("image", async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok::<_, ()>(())
        });
        step.await.unwrap();
        let trace = traces.of_pod("1", || "ns/pod".to_owned(), "runc");
        let call = trace.begin_after(early, "RunPodSandbox", "", origin);
        call.end(&Ok::<_, ()>(()));
        let spans = trace.spans();
        let names: Vec<_> = spans.iter().map(|span| span.name).collect();
        assert_eq!(names, ["RunPodSandbox", "queue", "image"]);
        assert!(spans[0].took >= spans[2].took);
        assert!(spans[1].took.unwrap() < Duration::from_millis(300));
        assert!(spans[2].took.unwrap() >= Duration::from_millis(300));
    }

    #[tokio::test]
    async fn spans_share_the_name_of_their_container() {
        let traces = Traces::new(Metrics::default());
        let trace = traces.pull("busybox");
        for _ in 0..2 {
            let call = trace.begin("StartContainer", "main", Origin::default());
            let step = trace.step("runtime", "main", async { Ok::<_, ()>(()) });
            step.await.unwrap();
            call.end(&Ok::<_, ()>(()));
        }
        let spans = trace.spans();
        assert_eq!(spans.len(), 4);
        let first = &spans[0].container;
        assert!(spans.iter().all(|span| Arc::ptr_eq(&span.container, first)));
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let traces = Traces::new(Metrics::default());
        for number in 0..256 + 10 {
            traces.pull(&number.to_string());
        }
        let latest = traces.latest();
        assert_eq!(latest.len(), 256);
        assert_eq!(latest[0].facts.name, "265");
        for _ in 0..1000 {
            latest[0]
                .step("many", "", async { Ok::<_, ()>(()) })
                .await
                .unwrap();
        }
        assert_eq!(latest[0].spans().len(), 256);
        assert_eq!(latest[0].left_out(), 1000 - 256);
    }

    #[tokio::test]
    async fn a_new_trace_takes_the_memory_of_the_oldest_over_and_nothing_else() {
        let traces = Traces::new(Metrics::default());
        let pod = |number: usize| traces.of_pod(&number.to_string(), || format!("ns/{number}"), "");
        let parent = TraceParent {
            trace: [1; 16],
            span: [2; 8],
            sampled: true,
            state: None,
        };
        let origin = || Origin {
            caller: None,
            arrived: None,
            parent: Some(parent.clone()),
        };
        drop(pod(0).begin("RunPodSandbox", "main", origin()));
        assert_eq!(pod(0).spans()[0].parent.as_ref(), Some(&parent));
        let held = pod(1);
        let first = Arc::as_ptr(&pod(0));
        for number in 0..KEPT {
            pod(number)
                .step("keeper", "", async { Ok::<_, ()>(()) })
                .await
                .unwrap();
        }
        // A new trace reuses the memory of the dropped one, unless that is still in use.
        let next = pod(KEPT);
        assert_eq!(Arc::as_ptr(&next), first);
        assert_eq!(next.facts.name, format!("ns/{KEPT}"));
        assert!(next.spans().is_empty() && next.left_out() == 0);
        drop(next.begin("RunPodSandbox", "other", Origin::default()));
        assert_eq!(&*next.spans()[0].container, "other");
        assert_eq!(next.spans()[0].parent, None);
        assert_ne!(Arc::as_ptr(&pod(KEPT + 1)), Arc::as_ptr(&held));
        assert_eq!(held.spans().len(), 1);
        assert_eq!(traces.latest().len(), KEPT);
    }

    #[tokio::test]
    async fn a_listener_that_does_not_listen_costs_nothing() {
        let traces = Traces::new(Metrics::default());
        let mut lagging = traces.listen(all());
        for _ in 0..QUEUE + 10 {
            drop(traces.pull("x").begin("PullImage", "", Origin::default()));
        }
        let mut got = 0;
        while lagging.try_recv().is_ok() {
            got += 1;
        }
        assert_eq!(got, QUEUE);
        assert_eq!(traces.metrics.spans_lost(), 10);
        assert_eq!(lagging.take_overrun(), 10);
        assert_eq!(lagging.take_overrun(), 0);
        drop(lagging);
        drop(traces.pull("x").begin("PullImage", "", Origin::default()));
        assert!(traces.listeners.are_deaf());
    }
}

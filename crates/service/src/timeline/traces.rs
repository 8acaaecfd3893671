//! The latest traces.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::metrics::Metrics;
use super::trace::{Kind, Span, Trace, TraceFacts};
use crate::clock;

/// Traces kept; some kilobytes each, and pages of their own between what comes and goes.
const KEPT: usize = 256;

/// Calls that a listener may lag behind.
const QUEUE: usize = 256;

/// The latest traces, of pods that are gone too.
#[derive(Debug)]
pub struct Traces {
    kept: Mutex<Kept>,
    metrics: Metrics,
    listeners: Arc<Listeners>,
}

#[derive(Debug, Default)]
struct Kept {
    order: VecDeque<Arc<Trace>>,
    /// Pods alone: an image may be pulled many times.
    by_pod: HashMap<String, Arc<Trace>>,
}

/// A call that has ended, with its steps; the call is the first.
#[derive(Debug, Clone)]
pub struct FinishedCall {
    /// What the trace is about.
    pub facts: TraceFacts,
    /// When the trace began, by the wall clock: nanoseconds since 1970.
    pub begun_at: i64,
    /// The call and its steps.
    pub spans: Vec<Span>,
}

impl Traces {
    /// None yet.
    pub fn new(metrics: Metrics) -> Self {
        Self {
            kept: Mutex::default(),
            metrics,
            listeners: Arc::default(),
        }
    }

    /// The trace of the pod with this id, name for people and handler; one made by an earlier run
    /// of the daemon begins now.
    pub fn of_pod(&self, id: &str, name: impl FnOnce() -> String, handler: &str) -> Arc<Trace> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = kept.by_pod.get(id) {
            return Arc::clone(trace);
        }
        let trace = self.begin(Kind::Pod, id.to_owned(), name(), handler.to_owned());
        kept.add(Arc::clone(&trace));
        kept.by_pod.insert(id.to_owned(), Arc::clone(&trace));
        trace
    }

    /// A trace of a pull that begins.
    pub fn pull(&self, image: &str) -> Arc<Trace> {
        let image = image.to_owned();
        let trace = self.begin(Kind::Pull, image.clone(), image, String::new());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.add(Arc::clone(&trace));
        trace
    }

    fn begin(&self, kind: Kind, id: String, name: String, handler: String) -> Arc<Trace> {
        let facts = TraceFacts {
            kind,
            id,
            name,
            handler,
            started_at: clock::now(),
        };
        let listeners = Arc::clone(&self.listeners);
        Arc::new(Trace::new(facts, self.metrics.clone(), listeners))
    }

    /// All that are kept, the latest first.
    pub fn latest(&self) -> Vec<Arc<Trace>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.order.iter().rev().cloned().collect()
    }

    /// Calls that end from now on. What comes faster than it is taken is dropped.
    pub fn listen(&self) -> mpsc::Receiver<FinishedCall> {
        let (tell, calls) = mpsc::channel(QUEUE);
        self.listeners.lock().push(tell);
        calls
    }
}

impl Kept {
    fn add(&mut self, trace: Arc<Trace>) {
        self.order.push_back(trace);
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
            && oldest.facts.kind == Kind::Pod
        {
            self.by_pod.remove(&oldest.facts.id);
        }
    }
}

/// Who wants to know of calls that have ended.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<Vec<mpsc::Sender<FinishedCall>>>);

impl Listeners {
    pub(super) fn wanted(&self) -> bool {
        !self.lock().is_empty()
    }

    pub(super) fn tell(&self, call: &FinishedCall) {
        self.lock().retain(|listener| {
            let sent = listener.try_send(call.clone());
            !matches!(sent, Err(mpsc::error::TrySendError::Closed(_)))
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<mpsc::Sender<FinishedCall>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::timeline::{Early, Origin};

    #[tokio::test]
    async fn steps_belong_to_the_open_call_of_their_container() {
        let traces = Traces::new(Metrics::default());
        let mut ended = traces.listen();
        let trace = traces.pull("busybox");
        let origin = Origin {
            arrived: Instant::now().checked_sub(Duration::from_millis(5)),
            parent: None,
        };
        let pod = trace.begin("RunPodSandbox", "", origin);
        let container = trace.begin("StartContainer", "main", Origin::default());
        let step = trace.step("runtime", "main", async {
            tokio::time::sleep(Duration::from_millis(3)).await;
            Ok::<_, ()>(())
        });
        step.await.unwrap();
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
        for number in 0..KEPT + 10 {
            traces.pull(&number.to_string());
        }
        let latest = traces.latest();
        assert_eq!(latest.len(), KEPT);
        assert_eq!(latest[0].facts.name, (KEPT + 9).to_string());
        for _ in 0..1000 {
            latest[0]
                .step("many", "", async { Ok::<_, ()>(()) })
                .await
                .unwrap();
        }
        assert!(latest[0].spans().len() < 1000);
        assert_eq!(latest[0].spans().len() as u64 + latest[0].left_out(), 1000);
    }

    #[tokio::test]
    async fn a_listener_that_does_not_listen_costs_nothing() {
        let traces = Traces::new(Metrics::default());
        let mut lagging = traces.listen();
        for _ in 0..QUEUE + 10 {
            drop(traces.pull("x").begin("PullImage", "", Origin::default()));
        }
        let mut got = 0;
        while lagging.try_recv().is_ok() {
            got += 1;
        }
        assert_eq!(got, QUEUE);
        drop(lagging);
        drop(traces.pull("x").begin("PullImage", "", Origin::default()));
        assert!(!traces.listeners.wanted());
    }
}

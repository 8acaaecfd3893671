//! Sending spans to the collector that the configuration names.

use std::sync::Arc;
use std::time::Duration;

use orlop_service::timeline::{FinishedCall, Metrics, Sampling, Traces};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::collector::Collector;
use super::spans::request;
use crate::config;

/// Calls that end within this time go together.
const PAUSE: Duration = Duration::from_secs(1);

/// Calls that go together at most.
const BATCH: usize = 128;

/// Traces that go to a collector, which may become another one.
#[derive(Debug)]
pub(crate) struct Traced {
    sampling: Arc<Sampling>,
    to: watch::Sender<Option<Arc<Collector>>>,
    sending: JoinHandle<()>,
}

impl Traced {
    /// From now on, as the configuration says. Blocks on files.
    pub(crate) fn start(config: &config::Traces, traces: &Traces) -> anyhow::Result<Self> {
        let collector = Collector::of(config)?;
        let sampling = Arc::new(Sampling::off());
        let to = watch::Sender::new(None);
        let calls = traces.listen(Arc::clone(&sampling));
        let sending = send_all(to.subscribe(), calls, traces.metrics().clone());
        let traced = Self {
            sampling,
            to,
            sending: tokio::spawn(sending),
        };
        traced.send_to(collector, config);
        Ok(traced)
    }

    /// Calls that end from now on go there, and those that wait.
    pub(crate) fn send_to(&self, collector: Option<Collector>, config: &config::Traces) {
        let rate = collector.as_ref().map(|_| config.sample.per_million());
        self.to.send_replace(collector.map(Arc::new));
        self.sampling.set(rate);
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.sampling.set(None);
        self.sending.abort();
    }
}

async fn send_all(
    to: watch::Receiver<Option<Arc<Collector>>>,
    mut calls: mpsc::Receiver<FinishedCall>,
    metrics: Metrics,
) {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    let mut spell = Spell::default();
    let mut batch = Vec::new();
    while calls.recv_many(&mut batch, BATCH).await > 0 {
        // Where more are there than go together, nothing is waited for.
        if batch.len() < BATCH {
            sleep(PAUSE).await;
        }
        while batch.len() < BATCH
            && let Ok(call) = calls.try_recv()
        {
            batch.push(call);
        }
        let count = batch.iter().map(|call| call.spans.len()).sum();
        let collector = to.borrow().clone();
        let outcome = match collector {
            Some(collector) => collector.send(&request(&batch, &host)).await,
            None => Err(anyhow::anyhow!("there is no collector any more")),
        };
        batch.clear();
        let lost = match &outcome {
            Ok(rejected) => rejected.spans.min(count),
            Err(_) => count,
        };
        metrics.sent(count - lost);
        metrics.lost(lost);
        match outcome {
            Ok(rejected) if lost > 0 => spell.lost(&rejected.why),
            Ok(_) => spell.sent(),
            Err(error) => spell.lost(&format!("{error:#}")),
        }
    }
}

/// What the log was told: a collector that is away would fill it.
#[derive(Default)]
struct Spell {
    is_told: bool,
}

impl Spell {
    fn lost(&mut self, why: &str) {
        if self.is_told {
            tracing::debug!(why, "traces are lost");
        } else {
            tracing::warn!(
                why,
                "traces are lost until the collector takes them: see traces.otlp, and \
                 orlop_trace_spans_total in /metrics"
            );
        }
        self.is_told = true;
    }

    fn sent(&mut self) {
        if self.is_told {
            tracing::info!("the collector takes traces again");
        }
        self.is_told = false;
    }
}

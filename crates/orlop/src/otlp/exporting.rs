//! Export of spans to the configured collector.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cri_server::timeline::{FinishedCalls, Metrics, Sampling, Traces};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::collector::Collector;
use super::spans::request;
use crate::config;

/// Calls that end within this time are sent together.
const PAUSE: Duration = Duration::from_secs(1);

/// Time limit of the last export when the daemon stops.
const LAST: Duration = Duration::from_secs(1);

/// Interval between log lines about dropped spans.
const MINUTE: Duration = Duration::from_mins(1);

/// Maximum number of calls in one request.
const BATCH: usize = 128;

/// Export of traces; the collector can be replaced.
#[derive(Debug)]
pub(crate) struct Traced {
    sampling: Arc<Sampling>,
    to: watch::Sender<Option<Arc<Collector>>>,
    sending: Mutex<Option<JoinHandle<()>>>,
    stop: CancellationToken,
}

impl Traced {
    /// Starts the export. Blocks on files.
    pub(crate) fn start(config: &config::Traces, traces: &Traces) -> anyhow::Result<Self> {
        let collector = Collector::of(config)?;
        let sampling = Arc::new(Sampling::off());
        let to = watch::Sender::new(None);
        let calls = traces.listen(Arc::clone(&sampling));
        let stop = CancellationToken::new();
        let metrics = traces.metrics().clone();
        let sending = send_all(to.subscribe(), calls, metrics, stop.clone());
        let traced = Self {
            sampling,
            to,
            sending: Mutex::new(Some(tokio::spawn(sending))),
            stop,
        };
        traced.send_to(collector, config);
        Ok(traced)
    }

    /// Replaces the collector for queued and future calls.
    pub(crate) fn send_to(&self, collector: Option<Collector>, config: &config::Traces) {
        let rate = collector.as_ref().map(|_| config.sample.per_million());
        self.to.send_replace(collector.map(Arc::new));
        self.sampling.set(rate);
    }

    /// Sends the queued spans, within the time limit of a stop.
    pub(crate) async fn finish(&self) {
        self.sampling.set(None);
        self.stop.cancel();
        let Some(mut sending) = self.sending.lock().take() else {
            return;
        };
        if timeout(LAST, &mut sending).await.is_err() {
            tracing::warn!(
                "dropped the last traces, because the collector did not accept them in time"
            );
            sending.abort();
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.sampling.set(None);
        if let Some(sending) = self.sending.lock().take() {
            sending.abort();
        }
    }
}

async fn send_all(
    to: watch::Receiver<Option<Arc<Collector>>>,
    mut calls: FinishedCalls,
    metrics: Metrics,
    stop: CancellationToken,
) {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    let mut spell = Spell::default();
    let mut overrun = Overrun::default();
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            count = calls.recv_many(&mut batch, BATCH) => if count == 0 {
                return;
            },
            () = stop.cancelled() => {}
            () = sleep(overrun.pause()) => {}
        }
        // No pause if more than one batch is queued, or if these are the last spans.
        if !batch.is_empty() && batch.len() < BATCH {
            let _ = timeout(PAUSE, stop.cancelled()).await;
        }
        while batch.len() < BATCH
            && let Ok(call) = calls.try_recv()
        {
            batch.push(call);
        }
        overrun.see(calls.take_overrun(), Instant::now());
        if batch.is_empty() {
            if stop.is_cancelled() {
                return;
            }
            continue;
        }
        let count = batch.iter().map(|call| call.spans.len()).sum();
        let collector = to.borrow().clone();
        let outcome = match collector {
            Some(collector) => collector.send(&request(&batch, &host)).await,
            None => Err(anyhow::anyhow!("no collector is configured any longer")),
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

/// Spans dropped because the queue was full, and not yet logged.
#[derive(Default)]
struct Overrun {
    spans: u64,
    told: Option<Instant>,
}

impl Overrun {
    /// Adds dropped spans. Returns their number if it is time to log it.
    fn add(&mut self, spans: u64, now: Instant) -> Option<u64> {
        self.spans += spans;
        let is_time = self
            .told
            .is_none_or(|told| now.saturating_duration_since(told) >= MINUTE);
        (is_time && self.spans > 0).then(|| {
            self.told = Some(now);
            std::mem::take(&mut self.spans)
        })
    }

    fn see(&mut self, spans: u64, now: Instant) {
        if let Some(spans) = self.add(spans, now) {
            tracing::warn!(
                spans,
                "dropping traces, because the collector is too slow for the number of calls; lower \
                 traces.sample, or use a closer collector"
            );
        }
    }

    /// Returns the time until the next log line is due.
    fn pause(&self) -> Duration {
        let Some(told) = self.told.filter(|_| self.spans > 0) else {
            return MINUTE;
        };
        MINUTE.saturating_sub(told.elapsed())
    }
}

/// State of the log about a failing collector, which would fill the log otherwise.
#[derive(Default)]
struct Spell {
    is_told: bool,
}

impl Spell {
    fn lost(&mut self, why: &str) {
        if self.is_told {
            tracing::debug!(why, "dropping traces");
        } else {
            tracing::warn!(
                why,
                "dropping traces until the collector accepts them; check traces.otlp, and \
                 orlop_trace_spans_total in /metrics"
            );
        }
        self.is_told = true;
    }

    fn sent(&mut self) {
        if self.is_told {
            tracing::info!("the collector accepts traces again");
        }
        self.is_told = false;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use orlop_cri_server::timeline::Origin;

    use super::*;

    /// Starts a collector that takes one request. It responds only if `answers` is set.
    fn collector(answers: bool) -> (config::Traces, std::thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let config = config::Traces {
            otlp: Some(format!("http://{address}").parse().unwrap()),
            ..config::Traces::default()
        };
        let takes = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            let mut taken = Vec::new();
            let mut part = [0; 4096];
            loop {
                let length = stream.read(&mut part).unwrap_or(0);
                taken.extend_from_slice(&part[..length]);
                let is_whole = taken.windows(9).any(|window| window == b"PullImage");
                if length == 0 || is_whole && answers {
                    break;
                }
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            taken
        });
        (config, takes)
    }

    /// Measures how long the daemon takes to end after a call that has just ended.
    async fn ended(config: &config::Traces) -> Duration {
        let traces = Traces::new(Metrics::default());
        let traced = Traced::start(config, &traces).unwrap();
        let call = traces
            .pull("busybox")
            .begin("PullImage", "", Origin::default());
        call.end(&Ok::<_, ()>(()));
        let begun = Instant::now();
        traced.finish().await;
        begun.elapsed()
    }

    #[tokio::test]
    async fn the_last_traces_are_sent_before_the_end() {
        let (config, takes) = collector(true);
        let took = ended(&config).await;
        let taken = tokio::task::spawn_blocking(|| takes.join().unwrap());
        let taken = String::from_utf8_lossy(&taken.await.unwrap()).into_owned();
        assert!(taken.contains("PullImage"), "{taken}");
        let limit = Duration::from_secs(1);
        assert!(took < limit, "nothing is waited for: {took:?}");
    }

    #[tokio::test]
    async fn a_collector_that_does_not_answer_holds_no_end_up() {
        let (config, takes) = collector(false);
        let took = ended(&config).await;
        let limit = Duration::from_secs(1);
        assert!(took >= limit && took < limit * 3 / 2, "{took:?}");
        tokio::task::spawn_blocking(|| takes.join().unwrap())
            .await
            .unwrap();
    }

    #[test]
    fn lost_traces_are_told_once_a_minute_with_their_number() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut overrun = Overrun::default();
        assert_eq!(overrun.add(0, start), None);
        assert_eq!(overrun.pause(), MINUTE);
        assert_eq!(overrun.add(3, start), Some(3));
        assert_eq!(overrun.add(2, after(1)), None);
        assert_eq!(overrun.add(2, after(59)), None);
        assert!(overrun.pause() <= MINUTE);
        assert_eq!(overrun.add(0, after(60)), Some(4));
        assert_eq!(overrun.add(0, after(130)), None);
        assert_eq!(overrun.add(1, after(131)), Some(1));
    }
}

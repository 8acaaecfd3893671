//! The open pages and their messages.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use orlop_cri_api::client::Connection;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::history::{History, Point};
use super::sampler;
use crate::answer::{self, Answer};
use crate::events::{self, event};

/// Maximum number of open pages.
const MOST: usize = 8;

/// Limit of messages that wait for a page, and of their bytes. If the queue is full, messages that repeat or can be
/// missed are dropped; for any other message the page is disconnected.
const BEHIND: usize = 64;
const BEHIND_BYTES: usize = 16 << 20;

/// The open pages, and the sampler that runs for them.
///
/// ```text
///   idle ──page opens──► sampling ──last page closes──► sampling, data kept ──grace──► idle
///                           ▲──────────────── page opens ───────────┘
/// ```
pub(crate) struct Hub {
    pub(super) cri: Connection,
    pub(super) interval: Duration,
    /// How long the sampler runs on after the last page is closed, so that a reloaded page has the history.
    grace: Duration,
    pub(super) has_manifests: bool,
    pub(super) shows_environment: bool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    pages: Vec<Open>,
    next: u64,
    sampler: Option<JoinHandle<()>>,
    /// Time since which no page is open, while the sampler runs.
    left: Option<Instant>,
    opening: Opening,
    is_closed: bool,
}

/// An open page.
struct Open {
    number: u64,
    to: Sender<Bytes>,
    /// Number of bytes that wait for it.
    waiting: Arc<AtomicUsize>,
}

/// A waiting message, counted until it is dropped.
struct Waiting {
    bytes: Bytes,
    waiting: Arc<AtomicUsize>,
}

/// Messages that a new page gets first.
#[derive(Default)]
struct Opening {
    /// Last message of each kind, in order of arrival.
    last: Vec<(&'static str, Bytes)>,
    history: History,
    /// Whether the endpoint responds and was sampled.
    is_there: bool,
}

/// Kinds of messages that each new page gets, in this order.
const FIRST: [&str; 3] = ["hello", "node", "pods"];

impl Hub {
    pub(crate) fn new(
        cri: Connection,
        (interval, grace): (Duration, Duration),
        has_manifests: bool,
        shows_environment: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            cri,
            interval,
            grace,
            has_manifests,
            shows_environment,
            inner: Mutex::default(),
        })
    }

    /// Opens an event stream for one more page.
    pub(crate) fn open(self: &Arc<Self>, is_head: bool) -> Answer {
        if is_head {
            return answer::events(events::none());
        }
        match self.listen() {
            Some((receiver, page)) => answer::events(events::body(receiver, page)),
            None => answer::failure(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!("the limit of {MOST} open pages is reached; close one of them"),
            ),
        }
    }

    pub(super) fn listen(self: &Arc<Self>) -> Option<(Receiver<Bytes>, Page)> {
        let mut inner = self.inner.lock();
        if inner.pages.len() >= MOST || inner.is_closed {
            return None;
        }
        let (to, receiver) = mpsc::channel(BEHIND);
        inner.next += 1;
        let number = inner.next;
        let open = Open {
            number,
            to,
            waiting: Arc::default(),
        };
        // The new queue has room for this.
        open.send(&inner.opening.told());
        inner.pages.push(open);
        inner.left = None;
        if inner.sampler.is_none() {
            inner.sampler = Some(tokio::spawn(look(Arc::clone(self))));
        }
        let page = Page {
            hub: Arc::clone(self),
            number,
        };
        Some((receiver, page))
    }

    /// Sends a message to all pages.
    pub(super) fn tell(&self, kind: &'static str, data: &str) {
        let bytes = event(kind, data);
        let mut inner = self.inner.lock();
        if inner.sampler.is_none() {
            return;
        }
        inner.opening.note(kind, &bytes);
        inner.send(&bytes);
    }

    /// Sends events to all pages, as formatted by [`event`].
    pub(super) fn tell_events(&self, events: String) {
        if !events.is_empty() {
            self.inner.lock().offer(&events.into());
        }
    }

    /// Sends the usage to all pages, and adds it to the history.
    pub(super) fn tell_usage(&self, point: Point) {
        let bytes = event("usage", &point.to_json());
        let mut inner = self.inner.lock();
        if inner.sampler.is_none() {
            return;
        }
        inner.opening.history.add(point);
        inner.offer(&bytes);
    }

    /// Sends the first messages to all pages, and to each new page: one of each kind in [`FIRST`].
    pub(super) fn is_there(&self, first: [&str; FIRST.len()]) {
        let mut inner = self.inner.lock();
        if inner.sampler.is_none() {
            return;
        }
        inner.opening.last.clear();
        for (kind, data) in FIRST.iter().zip(first) {
            inner.opening.note(kind, &event(kind, data));
        }
        inner.opening.is_there = true;
        let told = inner.opening.told();
        inner.send(&told);
    }

    /// Tells all pages that the endpoint does not respond.
    pub(super) fn is_gone(&self, data: &str) {
        let mut inner = self.inner.lock();
        inner.opening.is_there = false;
        inner.opening.last.clear();
        drop(inner);
        self.tell("gone", data);
    }

    /// Stops the sampler and closes all pages, with the server. Further pages are refused.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.is_closed = true;
        inner.pages.clear();
        if let Some(sampler) = inner.rest() {
            sampler.abort();
        }
    }

    fn leave(&self, number: u64) {
        let mut inner = self.inner.lock();
        inner.pages.retain(|page| page.number != number);
        inner.note_leaving();
    }

    /// Waits until no page has been open for the grace period.
    async fn is_left(&self) {
        loop {
            // While a page is open, a late check is sufficient.
            let left = self
                .inner
                .lock()
                .left
                .map_or(Duration::ZERO, |left| left.elapsed());
            let Some(rest) = self.grace.checked_sub(left).filter(|rest| !rest.is_zero()) else {
                return;
            };
            sleep(rest).await;
        }
    }

    /// Stops sampling if still no page is open, and returns whether it did.
    fn rest_if_left(&self) -> bool {
        let mut inner = self.inner.lock();
        if inner.left.is_none() {
            return false;
        }
        // The task is the caller, and ends by itself.
        drop(inner.rest());
        true
    }
}

/// Samples the endpoint until no page has been open for the grace period.
async fn look(hub: Arc<Hub>) {
    let mut looking = pin!(sampler::run(Arc::clone(&hub)));
    loop {
        tokio::select! {
            () = &mut looking => return,
            () = hub.is_left() => if hub.rest_if_left() {
                return;
            },
        }
    }
}

impl Inner {
    /// Sends a message; disconnects pages with a full queue.
    fn send(&mut self, bytes: &Bytes) {
        self.pages.retain(|page| page.send(bytes));
        self.note_leaving();
    }

    /// Sends a message; pages with a full queue miss it.
    fn offer(&self, bytes: &Bytes) {
        for page in &self.pages {
            page.send(bytes);
        }
    }

    fn note_leaving(&mut self) {
        if self.pages.is_empty() && self.sampler.is_some() && self.left.is_none() {
            self.left = Some(Instant::now());
        }
    }

    /// Drops all data, as no page is open. The caller must end the returned sampler task.
    fn rest(&mut self) -> Option<JoinHandle<()>> {
        self.left = None;
        self.opening = Opening::default();
        self.sampler.take()
    }
}

impl Open {
    /// Queues a message. Returns whether there was room.
    fn send(&self, bytes: &Bytes) -> bool {
        if bytes.is_empty() {
            return true;
        }
        if self.waiting.load(Ordering::Relaxed) >= BEHIND_BYTES {
            return false;
        }
        self.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        let waiting = Waiting {
            bytes: bytes.clone(),
            waiting: Arc::clone(&self.waiting),
        };
        self.to.try_send(Bytes::from_owner(waiting)).is_ok()
    }
}

impl AsRef<[u8]> for Waiting {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

impl Opening {
    fn note(&mut self, kind: &'static str, bytes: &Bytes) {
        if kind == "pulls" || kind == "gone" || FIRST.contains(&kind) {
            self.last.retain(|(its, _)| *its != kind);
            self.last.push((kind, bytes.clone()));
        }
    }

    /// Returns the first messages as one.
    fn told(&self) -> Bytes {
        let of = |kind: &str| {
            let found = self.last.iter().find(|(its, _)| *its == kind);
            found.map(|(_, bytes)| bytes.clone())
        };
        if !self.is_there {
            // The first sample of the endpoint will be sent to all pages.
            return of("gone").unwrap_or_default();
        }
        let mut told: Vec<Bytes> = FIRST.iter().filter_map(|kind| of(kind)).collect();
        told.push(event("history", &self.history.to_json()));
        told.extend(of("pulls"));
        told.concat().into()
    }
}

/// An open page. The sampler ends some time after the last one is dropped.
pub(crate) struct Page {
    hub: Arc<Hub>,
    number: u64,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.hub.leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::NodeFigures;
    use super::*;
    use crate::asked;

    const GRACE: Duration = Duration::from_millis(300);

    fn hub(grace: Duration) -> Arc<Hub> {
        let endpoint = "unix:///nowhere/at.sock".parse().unwrap();
        Hub::new(
            asked::connect(endpoint),
            (Duration::from_secs(1), grace),
            false,
            false,
        )
    }

    /// Returns the sampler task, if there is one.
    fn sampler(hub: &Hub) -> Option<tokio::task::AbortHandle> {
        let inner = hub.inner.lock();
        inner.sampler.as_ref().map(JoinHandle::abort_handle)
    }

    fn point(time: f64) -> Point {
        Point {
            time,
            node: NodeFigures::default(),
            pods: Vec::new(),
        }
    }

    /// Waits until a task has ended, however busy the machine is.
    async fn end_of(task: &tokio::task::AbortHandle) {
        let begun = Instant::now();
        while !task.is_finished() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it goes on");
            sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn the_sampler_runs_while_a_page_is_open_and_some_time_after() {
        let hub = hub(GRACE);
        assert!(sampler(&hub).is_none());
        let (first, second) = (hub.listen().unwrap(), hub.listen().unwrap());
        let running = sampler(&hub).unwrap();
        sleep(3 * GRACE).await;
        drop(first);
        sleep(2 * GRACE).await;
        assert!(!running.is_finished(), "one is open");
        // The page is reloaded: no other task can run between the two.
        drop(second);
        let again = hub.listen().unwrap();
        sleep(2 * GRACE).await;
        assert!(!running.is_finished(), "the one that came is open");
        let left = Instant::now();
        drop(again);
        end_of(&running).await;
        assert!(left.elapsed() >= GRACE, "it may be loaded again");
        assert!(sampler(&hub).is_none());
    }

    #[tokio::test]
    async fn a_page_that_is_loaded_again_is_told_what_was_before_it() {
        // Longer than the test takes.
        let hub = hub(Duration::from_mins(10));
        let first = hub.listen().unwrap();
        hub.is_there(["1", "1", "1"]);
        hub.tell_usage(point(1.0));
        drop(first);
        hub.tell_usage(point(2.0));
        hub.tell("pods", "2");
        let (mut again, _page) = hub.listen().unwrap();
        let told = again.try_recv().unwrap();
        let told = std::str::from_utf8(&told).unwrap();
        assert!(told.contains("event: pods\ndata: 2\n"), "{told}");
        assert!(
            told.contains("\"time\":1,") && told.contains("\"time\":2,"),
            "{told}"
        );
    }

    #[tokio::test]
    async fn nothing_is_kept_where_no_page_comes_in_time() {
        let hub = hub(GRACE);
        let page = hub.listen().unwrap();
        let running = sampler(&hub).unwrap();
        hub.is_there(["1", "1", "1"]);
        hub.tell_usage(point(1.0));
        drop(page);
        end_of(&running).await;
        hub.tell_usage(point(2.0));
        assert_eq!(
            hub.inner.lock().opening.history.to_json(),
            "{\"points\":[]}"
        );
        assert!(hub.listen().unwrap().0.try_recv().is_err());
    }

    #[tokio::test]
    async fn with_the_server_all_ends_at_once() {
        let hub = hub(Duration::from_mins(10));
        let page = hub.listen().unwrap();
        let running = sampler(&hub).unwrap();
        hub.close();
        end_of(&running).await;
        drop(page);
        assert!(hub.listen().is_none());
        assert!(sampler(&hub).is_none());
    }

    #[tokio::test]
    async fn so_many_pages_are_served_and_a_closed_one_makes_room() {
        let hub = hub(GRACE);
        let mut pages: Vec<_> = (0..8).map(|_| hub.listen().unwrap()).collect();
        assert!(hub.listen().is_none());
        assert_eq!(hub.open(false).status(), StatusCode::SERVICE_UNAVAILABLE);
        pages.pop();
        assert!(hub.listen().is_some());
    }

    #[tokio::test]
    async fn a_page_that_reads_nothing_is_left_and_the_others_are_not() {
        let hub = hub(GRACE);
        let (slow, mut quick) = (hub.listen().unwrap(), hub.listen().unwrap());
        for number in 0..=BEHIND {
            hub.tell("pods", &number.to_string());
            assert!(quick.0.recv().await.is_some());
        }
        assert_eq!(hub.inner.lock().pages.len(), 1);
        drop(slow);
        hub.tell("pods", "{}");
        assert!(quick.0.recv().await.is_some());
    }

    #[tokio::test]
    async fn a_page_far_behind_misses_events_and_is_not_left_for_them() {
        let hub = hub(GRACE);
        let (mut receiver, _page) = hub.listen().unwrap();
        for _ in 0..2 * BEHIND {
            hub.tell_events("event: event\ndata: {}\n\n".into());
        }
        assert_eq!(hub.inner.lock().pages.len(), 1);
        assert_eq!(receiver.len(), BEHIND);
        assert!(receiver.recv().await.is_some());
        hub.tell("pods", "{}");
        assert_eq!(receiver.len(), BEHIND);
    }

    #[tokio::test]
    async fn bytes_that_wait_are_bounded_and_one_message_of_any_size_is_not() {
        let hub = hub(GRACE);
        let (mut receiver, _page) = hub.listen().unwrap();
        let large = "x".repeat(2 * BEHIND_BYTES);
        hub.tell("pods", &large);
        let held = receiver.recv().await.unwrap();
        assert!(held.len() > large.len());
        hub.tell_events("1".into());
        assert!(receiver.try_recv().is_err(), "the large one is still held");
        drop(held);
        hub.tell_events("2".into());
        assert_eq!(receiver.recv().await.unwrap(), "2");
        hub.tell("pods", &large);
        assert_eq!(hub.inner.lock().pages.len(), 1);
        hub.tell("pods", "{}");
        assert!(hub.inner.lock().pages.is_empty());
    }

    #[tokio::test]
    async fn who_comes_later_is_told_all_that_is_told_first() {
        let hub = hub(GRACE);
        let _first = hub.listen().unwrap();
        assert!(
            hub.listen().unwrap().0.try_recv().is_err(),
            "it is not known yet"
        );
        hub.is_there(["1", "1", "1"]);
        hub.tell("node", "2");
        hub.tell("event", "3");
        let (mut later, _page) = hub.listen().unwrap();
        let mut told = String::new();
        while let Ok(bytes) = later.try_recv() {
            told.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        let lines: Vec<_> = told.lines().filter(|line| !line.is_empty()).collect();
        let expected = [
            "event: hello",
            "data: 1",
            "event: node",
            "data: 2",
            "event: pods",
            "data: 1",
            "event: history",
            "data: {\"points\":[]}",
        ];
        assert_eq!(lines, expected);
        hub.is_gone("4");
        let (mut last, _page) = hub.listen().unwrap();
        let told = last.try_recv().unwrap();
        assert_eq!(&told[..], b"event: gone\ndata: 4\n\n");
        assert!(last.try_recv().is_err());
    }
}

//! Who listens, and what they are told first.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use orlop_cri::client::Connection;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

use super::history::{History, Point};
use super::sampler;
use crate::answer::{self, Answer};
use crate::events::{self, event};

/// Pages that are open at once.
const MOST: usize = 8;

/// Events that wait for a page. One that does not read so many is left.
const BEHIND: usize = 64;

/// The pages that are open, and the sampler that runs for them.
pub(crate) struct Hub {
    pub(super) cri: Connection,
    pub(super) interval: Duration,
    pub(super) has_manifests: bool,
    pub(super) shows_environment: bool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    pages: Vec<(u64, Sender<Bytes>)>,
    next: u64,
    sampler: Option<JoinHandle<()>>,
    opening: Opening,
}

/// What a page is told first.
#[derive(Default)]
struct Opening {
    /// By their kind, in the order of the first.
    last: Vec<(&'static str, Bytes)>,
    history: History,
    /// Whether the endpoint is there, and was looked at.
    is_there: bool,
}

/// What is told again to each page that comes, in this order.
const FIRST: [&str; 3] = ["hello", "node", "pods"];

impl Hub {
    pub(crate) fn new(
        cri: Connection,
        interval: Duration,
        has_manifests: bool,
        shows_environment: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            cri,
            interval,
            has_manifests,
            shows_environment,
            inner: Mutex::default(),
        })
    }

    /// The events for one more page.
    pub(crate) fn open(self: &Arc<Self>, is_head: bool) -> Answer {
        if is_head {
            return answer::events(events::none());
        }
        match self.listen() {
            Some((receiver, page)) => answer::events(events::body(receiver, page)),
            None => answer::failure(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!("{MOST} pages are open, and no more are served: close one of them"),
            ),
        }
    }

    fn listen(self: &Arc<Self>) -> Option<(Receiver<Bytes>, Page)> {
        let mut inner = self.inner.lock();
        if inner.pages.len() >= MOST {
            return None;
        }
        let (sender, receiver) = mpsc::channel(BEHIND);
        for bytes in inner.opening.told() {
            // There is room for these.
            let _ = sender.try_send(bytes);
        }
        inner.next += 1;
        let number = inner.next;
        inner.pages.push((number, sender));
        if inner.sampler.is_none() {
            inner.sampler = Some(tokio::spawn(sampler::run(Arc::clone(self))));
        }
        let page = Page {
            hub: Arc::clone(self),
            number,
        };
        Some((receiver, page))
    }

    /// Tells all pages.
    pub(super) fn tell(&self, kind: &'static str, data: &str) {
        let bytes = event(kind, data);
        let mut inner = self.inner.lock();
        if inner.pages.is_empty() {
            return;
        }
        inner.opening.note(kind, &bytes);
        inner.send(&bytes);
    }

    /// Tells all pages what is used now, and remembers it.
    pub(super) fn tell_usage(&self, point: Point) {
        let bytes = event("usage", &point.to_json());
        let mut inner = self.inner.lock();
        if inner.pages.is_empty() {
            return;
        }
        inner.opening.history.add(point);
        inner.send(&bytes);
    }

    /// Tells all pages, and each that comes, what is told first: of each kind in [`FIRST`].
    pub(super) fn is_there(&self, first: [&str; FIRST.len()]) {
        let mut inner = self.inner.lock();
        if inner.pages.is_empty() {
            return;
        }
        inner.opening.last.clear();
        for (kind, data) in FIRST.iter().zip(first) {
            inner.opening.note(kind, &event(kind, data));
        }
        inner.opening.is_there = true;
        for bytes in inner.opening.told() {
            inner.send(&bytes);
        }
    }

    /// Tells all pages that the endpoint does not answer.
    pub(super) fn is_gone(&self, data: &str) {
        let mut inner = self.inner.lock();
        inner.opening.is_there = false;
        inner.opening.last.clear();
        drop(inner);
        self.tell("gone", data);
    }

    fn leave(&self, number: u64) {
        let mut inner = self.inner.lock();
        inner.pages.retain(|(its, _)| *its != number);
        inner.rest();
    }
}

impl Inner {
    /// Who is too far behind is left.
    fn send(&mut self, bytes: &Bytes) {
        self.pages
            .retain(|(_, page)| page.try_send(bytes.clone()).is_ok());
        self.rest();
    }

    /// Nobody listens: nothing is looked at, nothing is kept.
    fn rest(&mut self) {
        if !self.pages.is_empty() {
            return;
        }
        if let Some(sampler) = self.sampler.take() {
            sampler.abort();
        }
        self.opening = Opening::default();
    }
}

impl Opening {
    fn note(&mut self, kind: &'static str, bytes: &Bytes) {
        if kind == "pulls" || kind == "gone" || FIRST.contains(&kind) {
            self.last.retain(|(its, _)| *its != kind);
            self.last.push((kind, bytes.clone()));
        }
    }

    fn told(&self) -> Vec<Bytes> {
        let of = |kind: &str| {
            let found = self.last.iter().find(|(its, _)| *its == kind);
            found.map(|(_, bytes)| bytes.clone())
        };
        if !self.is_there {
            // What is known of an endpoint that is being looked at comes to all at once.
            return of("gone").into_iter().collect();
        }
        let mut told: Vec<Bytes> = FIRST.iter().filter_map(|kind| of(kind)).collect();
        told.push(event("history", &self.history.to_json()));
        told.extend(of("pulls"));
        told
    }
}

/// A page's place. The last one that goes ends the sampler.
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
    use super::*;
    use crate::asked;

    fn hub() -> Arc<Hub> {
        let endpoint = "unix:///nowhere/at.sock".parse().unwrap();
        Hub::new(
            asked::connect(endpoint),
            Duration::from_secs(1),
            false,
            false,
        )
    }

    fn is_sampled(hub: &Hub) -> bool {
        hub.inner.lock().sampler.is_some()
    }

    #[tokio::test]
    async fn the_sampler_runs_while_a_page_is_open() {
        let hub = hub();
        assert!(!is_sampled(&hub));
        let (first, second) = (hub.listen().unwrap(), hub.listen().unwrap());
        let sampler = hub.inner.lock().sampler.as_ref().unwrap().abort_handle();
        drop(first);
        assert!(is_sampled(&hub));
        drop(second);
        assert!(!is_sampled(&hub));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(sampler.is_finished());
    }

    #[tokio::test]
    async fn so_many_pages_are_served_and_a_closed_one_makes_room() {
        let hub = hub();
        let mut pages: Vec<_> = (0..MOST).map(|_| hub.listen().unwrap()).collect();
        assert!(hub.listen().is_none());
        assert_eq!(hub.open(false).status(), StatusCode::SERVICE_UNAVAILABLE);
        pages.pop();
        assert!(hub.listen().is_some());
    }

    #[tokio::test]
    async fn a_page_that_reads_nothing_is_left_and_the_others_are_not() {
        let hub = hub();
        let (slow, mut quick) = (hub.listen().unwrap(), hub.listen().unwrap());
        for number in 0..=BEHIND {
            hub.tell("event", &number.to_string());
            assert!(quick.0.recv().await.is_some());
        }
        assert_eq!(hub.inner.lock().pages.len(), 1);
        drop(slow);
        hub.tell("event", "{}");
        assert!(quick.0.recv().await.is_some());
    }

    #[tokio::test]
    async fn who_comes_later_is_told_all_that_is_told_first() {
        let hub = hub();
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

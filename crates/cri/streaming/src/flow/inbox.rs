//! Receive queue of one stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Maximum buffer that an idle stream keeps, on either side of its queue.
pub(super) const IDLE_CAPACITY: usize = 16 * 1024;

/// Memory limit for all streams of one connection together.
pub(crate) struct Budget {
    used: AtomicUsize,
    limit: usize,
    freed: Notify,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            limit,
            freed: Notify::new(),
        })
    }

    fn available(&self) -> usize {
        self.limit.saturating_sub(self.used.load(Ordering::Acquire))
    }

    fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }

    fn release(&self, bytes: usize) {
        if bytes > 0 {
            self.used.fetch_sub(bytes, Ordering::AcqRel);
        }
        self.freed.notify_waiters();
    }
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer ended the stream.
    Eof,
    /// The peer reset the stream or vanished: data may be missing.
    Lost,
}

/// The bounded queue between a connection's reader and the consumer of a stream.
///
/// Bytes are copied into a ring instead of kept as slices of the read buffer. A peer therefore cannot keep a whole
/// buffer alive with a single byte.
pub(crate) struct Inbox {
    state: Mutex<State>,
    budget: Arc<Budget>,
    capacity: usize,
}

struct State {
    data: VecDeque<u8>,
    end: Option<End>,
    discarding: bool,
    taker: Option<Waker>,
}

impl Inbox {
    pub(crate) fn new(budget: Arc<Budget>, capacity: usize) -> Arc<Self> {
        let state = State {
            data: VecDeque::new(),
            end: None,
            discarding: false,
            taker: None,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            budget,
            capacity,
        })
    }

    /// Queues `piece`, waiting for space. Returns the number of bytes that have no consumer.
    pub(crate) async fn deliver(&self, mut piece: &[u8]) -> usize {
        loop {
            match self.push(piece) {
                Push::Discarded => return piece.len(),
                Push::Queued(taken) if taken == piece.len() => return 0,
                Push::Queued(taken) => piece = &piece[taken..],
            }
            let mut freed = std::pin::pin!(self.budget.freed.notified());
            // Registered before the queue is checked again, so that no wake-up is lost.
            freed.as_mut().enable();
            match self.push(piece) {
                Push::Queued(0) => freed.await,
                Push::Queued(taken) => piece = &piece[taken..],
                Push::Discarded => return piece.len(),
            }
            if piece.is_empty() {
                return 0;
            }
        }
    }

    fn push(&self, piece: &[u8]) -> Push {
        let mut state = self.lock();
        if state.discarding || state.end.is_some() {
            return Push::Discarded;
        }
        let room = self
            .capacity
            .saturating_sub(state.data.len())
            .min(self.budget.available());
        let taken = room.min(piece.len());
        if taken > 0 {
            state.data.extend(&piece[..taken]);
            self.budget.take(taken);
            if let Some(taker) = state.taker.take() {
                drop(state);
                taker.wake();
            }
        }
        Push::Queued(taken)
    }

    /// Marks the end; only the first call counts.
    pub(crate) fn end(&self, end: End) {
        let mut state = self.lock();
        if state.end.is_none() {
            state.end = Some(end);
        }
        if let Some(taker) = state.taker.take() {
            drop(state);
            taker.wake();
        }
        self.budget.freed.notify_waiters();
    }

    /// Swaps all queued data into `empty` and returns its size.
    pub(crate) fn poll_take(
        &self,
        cx: &mut Context<'_>,
        empty: &mut VecDeque<u8>,
    ) -> Poll<Result<usize, End>> {
        debug_assert!(
            empty.is_empty(),
            "the reader consumes all data before it asks for more"
        );
        let mut state = self.lock();
        let arrived = state.data.len();
        if arrived > 0 {
            std::mem::swap(&mut state.data, empty);
            drop(state);
            self.budget.release(arrived);
            return Poll::Ready(Ok(arrived));
        }
        if let Some(end) = state.end {
            return Poll::Ready(Err(end));
        }
        if state.data.capacity() > IDLE_CAPACITY {
            state.data = VecDeque::new();
        }
        state.taker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Discards queued and future data after the consumer is dropped; returns the freed bytes.
    pub(crate) fn discard(&self) -> usize {
        let mut state = self.lock();
        state.discarding = true;
        let dropped = std::mem::take(&mut state.data).len();
        drop(state);
        self.budget.release(dropped);
        dropped
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

enum Push {
    Queued(usize),
    Discarded,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn take(inbox: &Inbox) -> Result<Vec<u8>, End> {
        let mut held = VecDeque::new();
        std::future::poll_fn(|cx| inbox.poll_take(cx, &mut held)).await?;
        Ok(held.into())
    }

    #[tokio::test]
    async fn a_full_queue_holds_the_reader_until_it_is_taken() {
        let inbox = Inbox::new(Budget::new(100), 4);
        let writer = tokio::spawn({
            let inbox = inbox.clone();
            async move { inbox.deliver(b"abcdefghij").await }
        });
        let mut got = Vec::new();
        while got.len() < 10 {
            let piece = take(&inbox).await.expect("no end was said");
            assert!(piece.len() <= 4, "more than the capacity was queued");
            got.extend(piece);
        }
        assert_eq!(got, b"abcdefghij");
        assert_eq!(writer.await.expect("the writer ends"), 0);
    }

    #[tokio::test]
    async fn streams_share_one_budget() {
        let budget = Budget::new(6);
        let (one, two) = (Inbox::new(budget.clone(), 100), Inbox::new(budget, 100));
        one.deliver(b"12345").await;
        let blocked = tokio::time::timeout(Duration::from_millis(50), two.deliver(b"abc")).await;
        assert!(
            blocked.is_err(),
            "the second stream took more than what was left"
        );
        assert_eq!(take(&one).await.expect("data"), b"12345");
        assert_eq!(take(&two).await.expect("data"), b"a");
    }

    #[tokio::test]
    async fn an_idle_stream_keeps_nothing_of_what_it_has_carried() {
        for size in [1 << 20, 17 << 10] {
            let inbox = Inbox::new(Budget::new(1 << 20), 1 << 20);
            let mut held = VecDeque::new();
            // Twice, so that the buffer that the consumer emptied is in the queue.
            for _ in 0..2 {
                inbox.deliver(&vec![7; size]).await;
                let taken = std::future::poll_fn(|cx| inbox.poll_take(cx, &mut held)).await;
                assert_eq!(taken, Ok(size));
                held.clear();
            }
            let more = std::future::poll_fn(|cx| inbox.poll_take(cx, &mut held));
            let more = tokio::time::timeout(Duration::from_millis(10), more).await;
            assert!(more.is_err(), "there is no more");
            let kept = inbox.lock().data.capacity();
            assert!(kept <= 16 << 10, "{kept} bytes");
        }
    }

    #[tokio::test]
    async fn what_came_before_the_end_is_still_read() {
        let inbox = Inbox::new(Budget::new(100), 100);
        inbox.deliver(b"last").await;
        inbox.end(End::Eof);
        inbox.end(End::Lost);
        assert_eq!(take(&inbox).await.expect("data"), b"last");
        assert_eq!(take(&inbox).await, Err(End::Eof));
    }

    #[tokio::test]
    async fn a_taker_that_left_holds_nobody() {
        let inbox = Inbox::new(Budget::new(4), 4);
        inbox.deliver(b"1234").await;
        let waiting = tokio::spawn({
            let inbox = inbox.clone();
            async move { inbox.deliver(b"56").await }
        });
        tokio::task::yield_now().await;
        assert_eq!(inbox.discard(), 4);
        assert_eq!(waiting.await.expect("the writer ends"), 2);
    }
}

//! SPDY flow control: windows for sending and receiving.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::frame::FrameError;

/// The initial window of a stream and of the connection, by default.
const DEFAULT_WINDOW: i64 = 64 * 1024;
const MAX_WINDOW: i64 = i32::MAX as i64;

/// The peer's windows for our data. They are stored as spent bytes, so that a change of the initial size applies to
/// all streams at once.
pub(crate) struct SendWindows {
    state: Mutex<SendState>,
    changed: Notify,
    kept: AtomicBool,
}

struct SendState {
    initial: i64,
    session_kept: bool,
    session_spent: i64,
}

impl SendWindows {
    pub(crate) fn new() -> Self {
        let state = SendState {
            initial: DEFAULT_WINDOW,
            session_kept: false,
            session_spent: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
            kept: AtomicBool::new(false),
        }
    }

    /// Whether the peer has shown that it uses flow control.
    pub(crate) fn kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    /// Sets the initial window of streams that the peer announced.
    pub(crate) fn set_initial(&self, window: u32) {
        self.lock().initial = i64::from(window);
        self.note_change();
    }

    /// Refills the window of a stream by `delta` bytes; `spent` is the stream's counter.
    pub(crate) fn refill_stream(
        &self,
        stream: u32,
        spent: &AtomicI64,
        delta: u32,
    ) -> Result<(), FrameError> {
        let state = self.lock();
        let left = spent.fetch_sub(i64::from(delta), Ordering::AcqRel) - i64::from(delta);
        if state.initial - left > MAX_WINDOW {
            return Err(FrameError::WindowOverflow(stream));
        }
        drop(state);
        self.note_change();
        Ok(())
    }

    /// Refills the connection's window by `delta` bytes.
    pub(crate) fn refill_session(&self, delta: u32) -> Result<(), FrameError> {
        let mut state = self.lock();
        state.session_kept = true;
        state.session_spent -= i64::from(delta);
        if DEFAULT_WINDOW - state.session_spent > MAX_WINDOW {
            return Err(FrameError::WindowOverflow(0));
        }
        drop(state);
        self.note_change();
        Ok(())
    }

    /// Takes up to `want` bytes out of the windows; waits for at least one byte.
    pub(crate) async fn reserve(&self, spent: &AtomicI64, want: usize) -> usize {
        loop {
            let granted = self.try_reserve(spent, want);
            if granted > 0 {
                return granted;
            }
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let granted = self.try_reserve(spent, want);
            if granted > 0 {
                return granted;
            }
            changed.await;
        }
    }

    fn try_reserve(&self, spent: &AtomicI64, want: usize) -> usize {
        let mut state = self.lock();
        let mut granted = want as i64;
        if self.kept() {
            granted = granted.min(state.initial - spent.load(Ordering::Acquire));
            if state.session_kept {
                granted = granted.min(DEFAULT_WINDOW - state.session_spent);
            }
        }
        if granted <= 0 {
            return 0;
        }
        spent.fetch_add(granted, Ordering::AcqRel);
        state.session_spent += granted;
        granted as usize
    }

    fn note_change(&self) {
        self.kept.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, SendState> {
        self.state.lock()
    }
}

/// A window that this side announced: received and refilled bytes.
pub(crate) struct ReceiveWindow {
    size: usize,
    outstanding: AtomicUsize,
    taken: AtomicUsize,
    overrun: AtomicBool,
    doubted: AtomicBool,
}

/// A peer with flow control may stop up to this far before the end of a window, if it does not split its frames.
const LARGEST_UNDIVIDED: usize = 64 * 1024;

impl ReceiveWindow {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            outstanding: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            overrun: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
        }
    }

    /// Counts received bytes; returns whether they were within the window.
    pub(crate) fn arrived(&self, bytes: usize) -> bool {
        let within = self.outstanding.fetch_add(bytes, Ordering::AcqRel) + bytes <= self.size;
        if !within {
            self.overrun.store(true, Ordering::Release);
        }
        within
    }

    /// Counts consumed bytes; returns the refill to send now, if it is worth a frame. `kept` says whether the peer has
    /// shown that it uses flow control.
    ///
    /// A peer without flow control gets no refills. It closes when it has sent everything, and with an unread frame of
    /// ours its kernel would discard data that is still on its way to us. While nothing is known of a peer, it gets
    /// time to show what it is.
    pub(crate) fn taken(&self, bytes: usize, kept: bool) -> Refill {
        let taken = self.taken.fetch_add(bytes, Ordering::AcqRel) + bytes;
        if taken < self.size / 2 {
            return Refill::No;
        }
        if kept {
            return self.refill();
        }
        let full = self.size.saturating_sub(LARGEST_UNDIVIDED);
        let may_wait = !self.overrun.load(Ordering::Acquire)
            && self.outstanding.load(Ordering::Acquire) > full;
        if may_wait && !self.doubted.swap(true, Ordering::AcqRel) {
            return Refill::Perhaps;
        }
        Refill::No
    }

    /// Returns the refill some time after [`Refill::Perhaps`]: a peer that has not sent more is waiting for it.
    pub(crate) fn after_doubt(&self) -> Refill {
        if !self.doubted.swap(false, Ordering::AcqRel) || self.overrun.load(Ordering::Acquire) {
            return Refill::No;
        }
        self.refill()
    }

    fn refill(&self) -> Refill {
        let credit = self.taken.swap(0, Ordering::AcqRel);
        self.outstanding.fetch_sub(credit, Ordering::AcqRel);
        match credit {
            0 => Refill::No,
            credit => Refill::By(credit as u32),
        }
    }
}

/// The refill of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refill {
    /// No refill yet.
    No,
    /// It is too early to decide.
    Perhaps,
    /// A refill of this many bytes.
    By(u32),
}

/// Returns by how much the connection's window must grow at the start to reach `size`.
pub(crate) fn session_growth(size: usize) -> u32 {
    (size as i64 - DEFAULT_WINDOW).max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_peer_without_flow_control_is_never_waited_for() {
        let (windows, spent) = (SendWindows::new(), AtomicI64::new(0));
        for _ in 0..100 {
            assert_eq!(windows.reserve(&spent, 1 << 20).await, 1 << 20);
        }
    }

    #[tokio::test]
    async fn windows_hold_once_the_peer_keeps_them() {
        let (windows, spent) = (SendWindows::new(), AtomicI64::new(0));
        windows.set_initial(10);
        assert_eq!(windows.reserve(&spent, 100).await, 10);
        let full = tokio::time::timeout(Duration::from_millis(30), windows.reserve(&spent, 1));
        assert!(full.await.is_err(), "sent beyond the window");
        windows.refill_stream(1, &spent, 4).expect("a small refill");
        assert_eq!(windows.reserve(&spent, 100).await, 4);
        // A larger initial window applies to streams that are already open.
        windows.set_initial(15);
        assert_eq!(windows.reserve(&spent, 100).await, 5);
    }

    #[tokio::test]
    async fn the_session_window_limits_all_streams_together() {
        let windows = SendWindows::new();
        windows.set_initial(1 << 20);
        windows.refill_session(1).expect("a small refill");
        let (one, two) = (AtomicI64::new(0), AtomicI64::new(0));
        assert_eq!(windows.reserve(&one, 60_000).await, 60_000);
        assert_eq!(windows.reserve(&two, 60_000).await, 5_537);
    }

    #[test]
    fn a_window_can_not_be_grown_without_end() {
        let (windows, spent) = (SendWindows::new(), AtomicI64::new(0));
        let most = i32::MAX as u32;
        assert_eq!(
            windows.refill_stream(3, &spent, most),
            Err(FrameError::WindowOverflow(3))
        );
        assert_eq!(
            windows.refill_session(most),
            Err(FrameError::WindowOverflow(0))
        );
    }

    #[test]
    fn credit_is_given_in_halves_and_excess_is_seen() {
        let window = ReceiveWindow::new(100);
        assert!(window.arrived(100));
        assert_eq!(window.taken(49, true), Refill::No);
        assert_eq!(window.taken(1, true), Refill::By(50));
        assert!(window.arrived(50));
        assert!(!window.arrived(1));
    }

    #[test]
    fn who_ignores_windows_is_given_none_and_who_may_wait_is() {
        const SIZE: usize = 1 << 20;
        let most = SIZE - SIZE / 4;
        let unknown = ReceiveWindow::new(SIZE);
        assert!(unknown.arrived(most));
        assert_eq!(unknown.taken(most, false), Refill::No, "it goes on sending");
        assert!(unknown.arrived(SIZE / 4 - 100));
        assert_eq!(unknown.taken(SIZE / 4 - 100, false), Refill::Perhaps);
        assert_eq!(unknown.taken(0, false), Refill::No, "asked once");
        assert_eq!(unknown.after_doubt(), Refill::By((SIZE - 100) as u32));
        let careless = ReceiveWindow::new(SIZE);
        assert!(careless.arrived(SIZE));
        assert_eq!(careless.taken(SIZE, false), Refill::Perhaps);
        assert!(!careless.arrived(SIZE));
        assert_eq!(careless.after_doubt(), Refill::No);
        assert_eq!(careless.taken(SIZE, false), Refill::No);
    }
}

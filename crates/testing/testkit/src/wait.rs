//! Waiting for conditions.

use std::time::Duration;

/// Poll interval.
#[doc(hidden)]
pub const POLL: Duration = Duration::from_millis(5);

/// Waits until a condition holds. After the time limit, the test fails with the message.
#[macro_export]
macro_rules! wait_until {
    ($limit:expr, $holds:expr, $($message:tt)+) => {{
        let deadline = ::std::time::Instant::now() + $limit;
        while !$holds {
            assert!(::std::time::Instant::now() < deadline, $($message)+);
            $crate::wait::a_moment().await;
        }
    }};
}

/// Like `wait_until!`, for a test without a reactor.
#[macro_export]
macro_rules! block_until {
    ($limit:expr, $holds:expr, $($message:tt)+) => {{
        let deadline = ::std::time::Instant::now() + $limit;
        while !$holds {
            assert!(::std::time::Instant::now() < deadline, $($message)+);
            ::std::thread::sleep($crate::wait::POLL);
        }
    }};
}

/// Sleeps for one poll interval.
#[doc(hidden)]
pub async fn a_moment() {
    tokio::time::sleep(POLL).await;
}

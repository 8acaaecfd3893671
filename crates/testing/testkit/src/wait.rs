//! Waiting for what takes a moment.

use std::time::Duration;

/// How often it is looked at.
#[doc(hidden)]
pub const POLL: Duration = Duration::from_millis(5);

/// Waits until a condition holds, for so long at most. A test that waits longer fails with the message.
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

/// The same for a test that has no reactor.
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

/// Between two looks.
#[doc(hidden)]
pub async fn a_moment() {
    tokio::time::sleep(POLL).await;
}

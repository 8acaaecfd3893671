//! Keep-alive messages to the service manager, if it requests them.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::service_manager::{Notifier, State};

/// Reports twice within each period from a thread that serves requests, so that a hang also stops the reports. Never
/// returns.
pub(super) async fn report(notifier: Notifier, period: Option<Duration>) {
    let Some(period) = period else {
        return std::future::pending().await;
    };
    let mut ticks = interval((period / 2).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        notifier.tell(State::Watchdog);
    }
}

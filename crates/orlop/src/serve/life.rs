//! The life of a daemon:
//!
//! ```text
//! starting ── sockets open, backend up ──► serving ── SIGTERM ──► draining ──► end
//!     │                                     │   ▲                    │
//!     └─ SIGTERM: end                       └───┘ SIGHUP: reload     └─ second SIGTERM, or
//!                                                                       drain_timeout: end
//! ```

use std::pin::pin;
use std::time::Duration;

use super::admin::describe;
use super::control::Control;
use super::serving::{Beginning, Serving};
use super::signals::{Signals, Wish};
use super::watchdog;
use crate::memory;
use crate::service_manager::{Notifier, State};

/// Serves until a signal stops the daemon.
pub(super) async fn live(
    beginning: Beginning,
    notifier: Notifier,
    watchdog: Option<Duration>,
) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let mut serving = tokio::select! {
        started = Serving::start(beginning) => started?,
        () = stop_asked(&mut signals) => {
            tracing::info!("received a stop signal during startup");
            return Ok(());
        }
    };
    memory::forget_the_start();
    notifier.tell(State::Ready);
    let control = serving.control.clone();

    let outcome = tokio::select! {
        () = heed(&mut signals, &control, &notifier) => Ok(()),
        () = watchdog::report(notifier.clone(), watchdog) => Ok(()),
        error = serving.failure() => Err(error),
    };

    notifier.tell(State::Stopping);
    if outcome.is_ok() {
        tracing::info!("stopping the daemon; waiting for running calls");
        serving.finish(stop_asked(&mut signals)).await?;
        tracing::info!("stopped the daemon; pods keep running");
    }
    outcome
}

async fn stop_asked(signals: &mut Signals) {
    while signals.next().await != Wish::Stop {}
}

/// Handles signals until one requests a stop.
async fn heed(signals: &mut Signals, control: &Control, notifier: &Notifier) {
    let mut wish = signals.next().await;
    while wish == Wish::Reload {
        notifier.tell(State::Reloading);
        // A stop does not wait for the reload, which continues without being polled.
        let mut reload = pin!(control.reload());
        let mut again = None;
        let outcome = loop {
            tokio::select! {
                outcome = &mut reload => break outcome,
                wish = signals.next() => match wish {
                    Wish::Stop => return,
                    Wish::Reload => again = Some(Wish::Reload),
                },
            }
        };
        match outcome {
            Ok(changes) => tracing::info!("reloaded the configuration: {}", describe(&changes)),
            Err(error) => tracing::error!("keeping the old configuration: {error:#}"),
        }
        notifier.tell(State::Ready);
        wish = match again {
            Some(wish) => wish,
            None => signals.next().await,
        };
    }
}

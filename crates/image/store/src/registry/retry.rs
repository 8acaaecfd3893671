//! Retries requests at the hosts of a registry, with pauses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::attempt::Attempt;
use super::host::Host;
use super::remote::Remote;
use crate::{Error, Result};

/// A permission of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capability {
    /// The host may serve content by digest.
    Pull,
    /// The host may resolve tags.
    Resolve,
}

impl Capability {
    fn is_met_by(self, host: &Host) -> bool {
        match self {
            Self::Pull => host.pull,
            Self::Resolve => host.resolve,
        }
    }
}

/// A task that is tried at a host.
pub(crate) trait Try: Sync {
    /// The result of a success.
    type Done;

    /// Tries the task once at `host`.
    fn once(
        &self,
        remote: &Remote,
        host: &Host,
    ) -> impl Future<Output = Result<Self::Done, Attempt>> + Send;
}

/// Maximum pause, even if a registry asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Maximum number of rounds in total. Progress resets the number of retries, but not this one.
const MOST_ROUNDS: u32 = 1000;
/// Maximum number of attempts at a host that has never answered. The client repeats the pull later, and should soon
/// know that the registry is down.
const MOST_UNREACHED: u32 = 2;

impl Remote {
    /// Tries `task` at each host with the capability, in order. Repeats that after a pause, until it succeeds, fails
    /// permanently at all hosts, or the retries are used up. `progress` must grow when an attempt makes progress.
    pub(crate) async fn attempt<T: Try>(
        &self,
        need: Capability,
        progress: &AtomicU64,
        task: &T,
    ) -> Result<T::Done> {
        let mut given_up = vec![None; self.hosts.len()];
        let mut unreached = vec![0; self.hosts.len()];
        let mut failures = 0;
        let mut quiet_since = Instant::now();
        for _ in 0..MOST_ROUNDS {
            let before = progress.load(Ordering::Relaxed);
            let mut pause = None;
            let mut last = None;
            let mut slow = false;
            // A mirror that is down must not delay each request by its timeout.
            let spare_down = self
                .hosts
                .iter()
                .any(|host| need.is_met_by(host) && host.standing.has_answered());
            let state = given_up.iter_mut().zip(&mut unreached);
            for (host, (given_up, unreached)) in self.hosts.iter().zip(state) {
                let spared = spare_down && host.standing.is_down();
                let is_off = spared || host.is_replaced();
                if !need.is_met_by(host) || is_off || given_up.is_some() {
                    continue;
                }
                match task.once(self, host).await {
                    Ok(done) => return Ok(done),
                    Err(Attempt::Abort(error)) => return Err(error),
                    Err(Attempt::Final(error)) => {
                        tracing::debug!(host = host.name(), %error, "a registry host failed and is not tried again");
                        *given_up = Some(error);
                    }
                    Err(Attempt::Transient(error, wanted)) => {
                        tracing::debug!(host = host.name(), %error, "a registry host failed and is tried again");
                        pause = pause.max(wanted);
                        last = Some(error);
                    }
                    Err(Attempt::Slow(error)) => {
                        tracing::debug!(host = host.name(), %error, "a registry host is too slow");
                        slow = true;
                        last = Some(error);
                    }
                    Err(Attempt::Unreachable(error)) => {
                        tracing::debug!(host = host.name(), %error, "cannot reach a registry host");
                        host.standing.note_unreachable();
                        *unreached += 1;
                        if host.standing.is_down() && *unreached >= MOST_UNREACHED {
                            *given_up = Some(error);
                        } else {
                            last = Some(error);
                        }
                    }
                }
            }
            let Some(last) = last else {
                // The registry's own error is more useful than that of a mirror.
                let answer = given_up.into_iter().flatten().next_back();
                return Err(answer.unwrap_or_else(|| Error::Configuration {
                    path: format!("hosts of {}", self.repository),
                    reason: format!(
                        "no host is allowed to {}",
                        match need {
                            Capability::Pull => "serve content (\"pull\")",
                            Capability::Resolve => "resolve tags (\"resolve\")",
                        }
                    ),
                }));
            };
            if progress.load(Ordering::Relaxed) > before && !slow {
                failures = 1;
                quiet_since = Instant::now();
            } else {
                failures += 1;
            }
            let pause = self.pause(failures, pause);
            let too_long = quiet_since.elapsed() + pause > self.settings.patience;
            if failures > self.settings.retries || too_long {
                return Err(last);
            }
            tokio::time::sleep(pause).await;
        }
        Err(Error::Cancelled(format!(
            "fetching from {} after {MOST_ROUNDS} tries",
            self.repository
        )))
    }

    /// Returns the pause before a retry. It doubles with each failure and is randomized, so that many nodes do not
    /// retry at the same time.
    fn pause(&self, failures: u32, wanted: Option<Duration>) -> Duration {
        let doubled = self
            .settings
            .retry_pause
            .saturating_mul(1 << (failures - 1).min(16));
        let jittered = doubled.mul_f64(rand::random_range(0.5..1.0));
        wanted.unwrap_or_default().max(jittered).min(LONGEST_PAUSE)
    }
}

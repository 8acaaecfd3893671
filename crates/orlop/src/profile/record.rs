//! Recording of a CPU profile for some seconds.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::recording::Profile;
use super::sampler::Sampler;
use super::stacks::Stacks;

/// Maximum length of a recording in seconds.
pub(crate) const MOST_SECONDS: u64 = 600;

/// Interval between two reads of the samples.
const PAUSE: Duration = Duration::from_millis(100);

/// Records this process for some seconds, or until `stop`. The recording also ends if its future is dropped.
pub(crate) async fn record(seconds: u64, stop: &CancellationToken) -> anyhow::Result<Profile> {
    if !(1..=MOST_SECONDS).contains(&seconds) {
        bail!("a profile lasts from 1 to {MOST_SECONDS} seconds, not {seconds}");
    }
    let sampler = Sampler::start().context("cannot record a profile")?;
    let Some(mut sampler) = sampler else {
        bail!("another profile is being recorded: try again when it is complete");
    };
    let begun = Instant::now();
    let end = begun + Duration::from_secs(seconds);
    let mut stacks = Stacks::default();
    while Instant::now() < end && !stop.is_cancelled() {
        tokio::select! {
            () = sleep_until(end.min(Instant::now() + PAUSE)) => {}
            () = stop.cancelled() => {}
        }
        sampler.drain(&mut stacks);
    }
    let took = begun.elapsed();
    sampler.stop();
    sampler.drain(&mut stacks);
    let recorded = Profile {
        pid: std::process::id(),
        period_ns: Sampler::period().as_nanos() as u64,
        took_ms: took.as_millis() as u64,
        lost: sampler.lost(),
        ..Profile::default()
    };
    Ok(orlop_pool::blocking(move || stacks.named(recorded)).await?)
}

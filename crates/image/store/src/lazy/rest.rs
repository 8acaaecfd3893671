//! Background downloads: fetch lazy layers one window at a time while no reader waits.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::SemaphorePermit;

use super::Lazies;
use super::layer::Layer;
use crate::blocking::blocking;
use crate::{Digest, Error, Result};

/// Size of a window of an image.
const WINDOW: u64 = 4 << 20;
/// Maximum number of prioritized windows, because the maker of a layer can prioritize any number of files.
const MOST_FIRST: usize = 32;
/// Number of windows fetched at the same time if a caller waits for the whole layer.
const WINDOWS: usize = 4;
/// Pause after a failed fetch.
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// Number of fetched bytes after which the layer is synced to disk.
const SYNC: u64 = 256 << 20;

impl Lazies {
    /// Fetches a layer until it is complete: first the prioritized files, then all other data when no reader waits.
    pub(super) async fn rest(self: Arc<Self>, key: Digest) {
        if let Some(layer) = self.layer(&key) {
            let first = {
                let _wanted = self.demand.wanted();
                self.prioritized(&key, &layer).await
            };
            if let Err(error) = first {
                tracing::debug!(layer = %key, %error, "cannot fetch the prioritized files of a lazy layer yet");
            }
        }
        let mut pause = PAUSE;
        let mut unsynced = 0;
        loop {
            let changed = self.room.notified();
            // A reader may have fetched the last missing part.
            let Some(next) = self.next_window(&key).await else {
                return;
            };
            let window = match next {
                Ok(Some(window)) => window,
                Ok(None) => {
                    match self.promote(&key).await {
                        Ok(true) => return,
                        Ok(false) => tokio::time::sleep(PAUSE).await,
                        Err(error) => {
                            let error = orlop_text::with_causes(&error);
                            tracing::warn!(layer = %key, error, "cannot convert a completely fetched lazy layer; it stays lazy until the next start");
                            return;
                        }
                    }
                    continue;
                }
                Err(error) => {
                    tracing::warn!(layer = %key, %error, "stopped fetching a lazy layer");
                    return;
                }
            };
            // The loop holds no reference to the layer while it waits.
            let leave = tokio::select! {
                leave = self.leave() => leave,
                () = changed => continue,
            };
            let Some((layer, turn)) = self.layer(&key).zip(leave) else {
                return;
            };
            match self.fetch_window(&key, &layer, window).await {
                Ok(fetched) => {
                    self.budget.spend(fetched);
                    pause = PAUSE;
                    unsynced += fetched;
                }
                Err(error) => {
                    let error = orlop_text::with_causes(&error);
                    tracing::info!(layer = %key, error, pause = ?pause, "cannot fetch more of a lazy layer; retrying after a pause");
                    drop((layer, turn));
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            }
            drop(turn);
            if unsynced >= SYNC {
                unsynced = 0;
                let synced = blocking(move || {
                    let synced = layer.parts().sync();
                    synced.map_err(|error| Error::io("writing a layer to disk", error))
                });
                if let Err(error) = synced.await {
                    tracing::warn!(layer = %key, %error, "cannot write a layer to disk; parts of it may be fetched again");
                }
            }
        }
    }

    fn layer(&self, key: &Digest) -> Option<Arc<Layer>> {
        self.layers.lock().get(key).cloned()
    }

    async fn prioritized(&self, key: &Digest, layer: &Arc<Layer>) -> Result<()> {
        let range = layer.prioritized()?;
        if range.is_empty() {
            return Ok(());
        }
        let remotes = self.remotes_of(key, None).await?;
        for window in windows(range).take(MOST_FIRST) {
            self.spent(layer.fetch(&remotes, window).await?);
        }
        Ok(())
    }

    /// Returns the first missing window, or `None` if the layer is no longer lazy.
    async fn next_window(&self, key: &Digest) -> Option<Result<Option<Range<u64>>>> {
        let layer = self.layer(key)?;
        let looked = blocking(move || {
            let first = layer.missing(0..u64::MAX)?.into_iter().next();
            Ok(first.and_then(|range| windows(range).next()))
        });
        Some(looked.await)
    }

    /// Waits until a background download may run. Returns `None` at shutdown.
    async fn leave(&self) -> Option<SemaphorePermit<'_>> {
        loop {
            let room = self.room.notified();
            let turn = self.turn.acquire().await.ok()?;
            self.budget.wait().await;
            self.demand.quiet().await;
            if !self.is_full().await {
                return Some(turn);
            }
            drop(turn);
            // The cache is full until a layer is removed or complete.
            room.await;
        }
    }

    async fn fetch_window(
        &self,
        key: &Digest,
        layer: &Arc<Layer>,
        window: Range<u64>,
    ) -> Result<u64> {
        let remotes = self.remotes_of(key, None).await?;
        let fetched = self.spent(layer.fetch(&remotes, window).await?);
        self.let_rest(layer);
        Ok(fetched)
    }

    /// Fetches all missing data of a layer for a caller that waits.
    pub(super) async fn fetch_windows(&self, key: &Digest, layer: &Arc<Layer>) -> Result<()> {
        let looked_at = Arc::clone(layer);
        let missing = blocking(move || looked_at.missing(0..u64::MAX)).await?;
        let remotes = self.remotes_of(key, None).await?;
        let windows = missing.into_iter().flat_map(windows);
        let fetches = windows.map(|window| layer.fetch(&remotes, window));
        let mut fetches = stream::iter(fetches).buffer_unordered(WINDOWS);
        while let Some(fetched) = fetches.next().await {
            self.spent(fetched?);
        }
        Ok(())
    }

    /// Returns whether lazy layers have reached the limit of their disk space.
    async fn is_full(&self) -> bool {
        let most = self.settings.read().cache;
        if most == 0 {
            return false;
        }
        let layers: Vec<Arc<Layer>> = self.layers.lock().values().cloned().collect();
        let taken = blocking(move || Ok(layers.iter().map(|layer| layer.taken()).sum::<u64>()));
        taken.await.is_ok_and(|taken| taken >= most)
    }

    fn spent(&self, bytes: u64) -> u64 {
        self.fetched.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }
}

fn windows(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    let starts = std::iter::successors(Some(range.start), |start| start.checked_add(WINDOW));
    let starts = starts.take_while(move |start| *start < end);
    starts.map(move |start| start..start.saturating_add(WINDOW).min(end))
}

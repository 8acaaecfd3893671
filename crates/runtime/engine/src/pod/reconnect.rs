//! Reconnects to a keeper that may be busy, stopped or short of CPU time.
//!
//! Taking a live keeper for dead would kill its pod. So a keeper is given up only if its process has exited or nothing
//! listens on its socket. If it just does not answer, the daemon waits.

use std::time::Duration;

use orlop_launch::{FoundKeeper, Keeper, KeeperEvents};

use crate::record::pod::Pod;

/// Timeout of the first attempt; each further attempt doubles it.
const FIRST: Duration = Duration::from_secs(1);

/// Longest timeout of one attempt.
const LONGEST: Duration = Duration::from_secs(30);

/// Connects to the pod's keeper, however long that takes. Returns `None` if the keeper has exited or `wanted` returns
/// false. `former` is the earlier handle on the keeper, if there is one.
pub async fn reach(
    pod: &Pod,
    former: Option<&Keeper>,
    wanted: impl Fn() -> bool,
) -> Option<(Keeper, KeeperEvents)> {
    let mut patience = FIRST;
    let mut found: Option<FoundKeeper> = None;
    while wanted() {
        if former.is_some_and(Keeper::has_ended) {
            return None;
        }
        let error = match found.take().map_or_else(|| Keeper::find(&pod.run), Ok) {
            Ok(mut one) => match one.greet(patience).await {
                Ok(reached) => return Some(reached),
                Err(_) if one.has_ended() => return None,
                Err(error) => {
                    // Reuse the connection: a keeper that hangs accepts only a few.
                    found = Some(one).filter(FoundKeeper::is_connected);
                    error
                }
            },
            // If the process is known, its exit decides.
            Err(error) if error.is_nobody() && former.is_none() => return None,
            Err(error) => error,
        };
        tracing::warn!(
            pod = %pod.id,
            %error,
            "the pod's keeper runs but does not respond; trying again in {:?}",
            patience / 2
        );
        tokio::select! {
            () = tokio::time::sleep(patience / 2) => {}
            () = ended(former) => {}
        }
        patience = (patience * 2).min(LONGEST);
    }
    None
}

async fn ended(keeper: Option<&Keeper>) {
    match keeper {
        Some(keeper) => keeper.ended().await,
        None => std::future::pending().await,
    }
}

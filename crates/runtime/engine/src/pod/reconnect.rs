//! Reaching a keeper again that may be busy, stopped or starved.
//!
//! A keeper taken for dead costs its pod's life. So it is given up only when its process is known to
//! have ended, or nobody listens where it would; one that merely does not answer is waited for.

use std::time::Duration;

use orlop_launch::{FoundKeeper, Keeper, KeeperEvents};

use crate::record::pod::Pod;

/// How long the first try waits for an answer; each further one waits twice as long.
const FIRST: Duration = Duration::from_secs(1);

/// As long as a try waits at most.
const LONGEST: Duration = Duration::from_secs(30);

/// Connects to the pod's keeper, however long that takes. `None` if it has ended, or if it is not
/// `wanted` any more. `former` is what was known of it before, if anything was.
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
                    // The same connection goes on: a keeper that hangs has room for few.
                    found = Some(one).filter(FoundKeeper::is_connected);
                    error
                }
            },
            // Where its process is known, that has the last word.
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

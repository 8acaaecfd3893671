//! Single-use URLs: requests from the CRI, stored until the client connects.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::session::{AttachRequest, ExecRequest, PortForwardRequest};

/// The request behind a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    Exec(ExecRequest),
    Attach(AttachRequest),
    PortForward(PortForwardRequest),
}

/// The limit of unused URLs is reached; they expire within a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit of {0} pending streaming sessions is reached; try again in a minute")]
pub struct TooManyPending(pub usize);

/// Pending requests by token, until they expire.
pub(crate) struct Tokens {
    pending: Mutex<Waiting>,
    /// Notified when the first request is added.
    came: Notify,
    life: Duration,
    limit: usize,
}

#[derive(Default)]
struct Waiting {
    by_token: HashMap<String, Pending>,
    /// All tokens have the same lifetime, so the oldest expire first. Used tokens remain in the queue.
    by_age: VecDeque<(Instant, String)>,
}

impl Tokens {
    pub(crate) fn new(life: Duration, limit: usize) -> Self {
        Self {
            pending: Mutex::default(),
            came: Notify::new(),
            life,
            limit,
        }
    }

    /// Stores a request and returns an unguessable token for it.
    pub(crate) fn insert(&self, request: Pending) -> Result<String, TooManyPending> {
        let token = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>());
        let mut pending = self.lock();
        if pending.by_token.len() >= self.limit {
            return Err(TooManyPending(pending.by_token.len()));
        }
        pending.by_age.push_back((Instant::now(), token.clone()));
        pending.by_token.insert(token.clone(), request);
        self.came.notify_one();
        Ok(token)
    }

    /// Returns the request of a valid token.
    pub(crate) fn peek(&self, token: &str) -> Option<Pending> {
        self.lock().by_token.get(token).cloned()
    }

    /// Takes the request of a token, which becomes invalid.
    pub(crate) fn take(&self, token: &str) -> Option<Pending> {
        self.lock().by_token.remove(token)
    }

    /// Waits until a request expires, and removes it. Nothing wakes up while there are no requests.
    pub(crate) async fn some_expire(&self) {
        loop {
            let oldest = self.lock().by_age.front().map(|(made, _)| *made);
            match oldest {
                None => self.came.notified().await,
                Some(made) => {
                    tokio::time::sleep_until((made + self.life).into()).await;
                    return drop(self.lock());
                }
            }
        }
    }

    /// Locks the requests and removes expired ones.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        let mut waiting = self.pending.lock();
        while let Some((made, _)) = waiting.by_age.front()
            && made.elapsed() >= self.life
            && let Some((_, token)) = waiting.by_age.pop_front()
        {
            waiting.by_token.remove(&token);
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Pending {
        Pending::Exec(ExecRequest {
            container_id: "c".into(),
            ..ExecRequest::default()
        })
    }

    #[test]
    fn a_token_is_good_once() {
        let tokens = Tokens::new(Duration::from_mins(1), 10);
        let token = tokens.insert(request()).expect("room");
        assert_eq!(tokens.peek(&token), Some(request()));
        assert_eq!(tokens.take(&token), Some(request()));
        assert_eq!(tokens.take(&token), None);
        assert_eq!(tokens.peek("unknown"), None);
    }

    #[test]
    fn old_tokens_are_void_and_make_room() {
        let tokens = Tokens::new(Duration::from_millis(20), 2);
        let old = tokens.insert(request()).expect("room");
        tokens.insert(request()).expect("room");
        assert_eq!(tokens.insert(request()), Err(TooManyPending(2)));
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(tokens.peek(&old), None);
        let kept = tokens.pending.lock();
        assert_eq!((kept.by_token.len(), kept.by_age.len()), (0, 0));
        drop(kept);
        tokens.insert(request()).expect("the old ones made room");
        assert_eq!(tokens.take(&old), None);
    }

    #[tokio::test]
    async fn what_nobody_comes_for_is_forgotten_by_itself() {
        let tokens = Tokens::new(Duration::from_millis(20), 2);
        for _ in 0..2 {
            tokens.insert(request()).expect("room");
        }
        let held = || {
            let kept = tokens.pending.lock();
            kept.by_token.len() + kept.by_age.len()
        };
        let forgetting = async {
            while held() > 0 {
                tokens.some_expire().await;
            }
        };
        let forgotten = tokio::time::timeout(Duration::from_secs(20), forgetting).await;
        forgotten.expect("they stay");
    }
}

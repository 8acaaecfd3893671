//! One-time URLs: what was asked for over CRI, until the client comes for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::session::{AttachRequest, ExecRequest, PortForwardRequest};

/// What an URL stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    Exec(ExecRequest),
    Attach(AttachRequest),
    PortForward(PortForwardRequest),
}

/// Too many URLs wait for their clients; those expire within a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} streaming requests wait for their clients already: try again in a minute")]
pub struct TooManyPending(pub usize);

/// Requests by their tokens. Nothing runs in the background: what is out of date is dropped when
/// room is needed.
pub(crate) struct Tokens {
    pending: Mutex<HashMap<String, (Instant, Pending)>>,
    life: Duration,
    limit: usize,
}

impl Tokens {
    pub(crate) fn new(life: Duration, limit: usize) -> Self {
        Self {
            pending: Mutex::default(),
            life,
            limit,
        }
    }

    /// Keeps a request and answers the token for it, which can't be guessed.
    pub(crate) fn insert(&self, request: Pending) -> Result<String, TooManyPending> {
        let token = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>());
        let mut pending = self.lock();
        if pending.len() >= self.limit {
            pending.retain(|_, (made, _)| made.elapsed() < self.life);
            if pending.len() >= self.limit {
                return Err(TooManyPending(pending.len()));
            }
        }
        pending.insert(token.clone(), (Instant::now(), request));
        Ok(token)
    }

    /// The request of a token that is still good.
    pub(crate) fn peek(&self, token: &str) -> Option<Pending> {
        let pending = self.lock();
        let (made, request) = pending.get(token)?;
        (made.elapsed() < self.life).then(|| request.clone())
    }

    /// The request of a token, which is void from now on.
    pub(crate) fn take(&self, token: &str) -> Option<Pending> {
        let (made, request) = self.lock().remove(token)?;
        (made.elapsed() < self.life).then_some(request)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, Pending)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
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
        tokens.insert(request()).expect("the old ones made room");
        assert_eq!(tokens.take(&old), None);
    }
}

//! Fetches small files from a web server that the administrator configured, which is not a registry.

use std::time::Duration;

use reqwest::{StatusCode, Url};

use super::address::authority;
use super::answers::{redirect_target, retry_after};
use super::attempt::Attempt;
use super::body::{ReadError, read_bounded};
use super::failure::{Failure, unavailable};
use super::remote::Remote;
use super::tls::Tls;
use crate::{Error, Result};

const MAX_REDIRECTS: usize = 5;
/// Maximum number of attempts; the client repeats the pull later.
const MAX_TRIES: u32 = 3;

impl Remote {
    /// Fetches a file of at most `limit` bytes, or `None` if it does not exist. Sends no credentials.
    pub(crate) async fn lookaside(
        &self,
        what: &str,
        url: Url,
        limit: u64,
    ) -> Result<Option<Vec<u8>>> {
        let mut pause = self.settings.retry_pause;
        let tries = self.settings.retries.saturating_add(1).min(MAX_TRIES);
        let mut tried = 1;
        loop {
            let (error, wanted) = match self.lookaside_once(what, &url, limit).await {
                Ok(found) => return Ok(found),
                Err(Attempt::Transient(error, wait)) => (error, wait),
                Err(Attempt::Unreachable(error)) => (error, None),
                Err(Attempt::Final(error) | Attempt::Abort(error) | Attempt::Slow(error)) => {
                    return Err(error);
                }
            };
            if tried == tries {
                return Err(error);
            }
            tried += 1;
            let longest = Duration::from_secs(10);
            tokio::time::sleep(wanted.unwrap_or(pause).min(longest)).await;
            pause = pause.saturating_mul(2);
        }
    }

    async fn lookaside_once(
        &self,
        what: &str,
        url: &Url,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, Attempt> {
        let against = |place: &Url, reason: String| {
            Attempt::Final(Error::Protocol {
                what: what.to_owned(),
                host: authority(place),
                reason,
            })
        };
        let transport = &self.transport;
        let host = authority(url);
        let _connection = transport.connections.to(&host, self.pull).await?;
        let mut place = url.clone();
        let mut within = None;
        for _ in 0..MAX_REDIRECTS {
            let client = transport
                .client(&place, within.as_ref(), &Tls::default(), None)
                .await?;
            let name = authority(&place);
            let late = || {
                let reason = format!("no answer within {:?}", transport.progress_timeout);
                Attempt::Transient(unavailable(what, &name, reason), None)
            };
            let asked = client.get(place.clone()).send();
            let response = tokio::time::timeout(transport.progress_timeout, asked).await;
            let response = response.map_err(|_| late())?;
            let response = response.map_err(|error| Failure::of(error).attempt(what, &name))?;
            let status = response.status();
            if status == StatusCode::NOT_FOUND {
                return Ok(None);
            }
            if status.is_redirection() {
                let target = redirect_target(&place, &response)
                    .filter(|target| place.scheme() == "http" || target.scheme() == "https")
                    .ok_or_else(|| {
                        against(
                            &place,
                            "it redirects to an invalid address or from https to http".to_owned(),
                        )
                    })?;
                let checked = transport.reach.check(url, &target).await;
                within = checked.map_err(|reason| {
                    against(&place, format!("its redirect is not allowed: {reason}"))
                })?;
                place = target;
                continue;
            }
            if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                let wait = retry_after(&response);
                let error = unavailable(what, &name, status.to_string());
                return Err(Attempt::Transient(error, wait));
            }
            if matches!(status.as_u16(), 401 | 403) {
                return Err(Attempt::Final(Error::PermissionDenied {
                    what: what.to_owned(),
                    host: name,
                    reason: status.to_string(),
                }));
            }
            if status != StatusCode::OK {
                return Err(against(&place, status.to_string()));
            }
            let body = read_bounded(response, limit);
            let body = tokio::time::timeout(transport.progress_timeout, body).await;
            return match body.map_err(|_| late())? {
                Ok(bytes) => Ok(Some(bytes)),
                Err(ReadError::TooLong(limit)) => Err(Attempt::Final(Error::too_large(
                    format!("one of {what}"),
                    format!("{limit} bytes"),
                ))),
                Err(ReadError::Http(error)) => {
                    let reason = orlop_text::with_causes(&error.without_url());
                    Err(Attempt::Transient(unavailable(what, &name, reason), None))
                }
            };
        }
        Err(against(&place, "it redirects too often".to_owned()))
    }
}

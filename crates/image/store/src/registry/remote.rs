//! One repository at its registry: sends requests, follows redirects and interprets responses.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{AUTHORIZATION, RANGE, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use reqwest::{Response, Url};

use super::address::authority;
use super::answers::{explanation, range_start, redirect_target, retry_after};
use super::attempt::Attempt;
use super::auth::Authorizer;
use super::body::{Body, ReadError, read_bounded};
use super::connections::Connection;
use super::failure::{Failure, unavailable};
use super::host::Host;
use super::keyring::Keyring;
use super::reach::Within;
use super::settings::Settings;
use super::sources::hosts_of;
use super::tls::Tls;
use super::transport::Transport;
use crate::blocking::answering;
use crate::registries::Asking;
use crate::{Digest, Error, Repository, Result};

const MAX_REDIRECTS: usize = 10;
/// Number of progress timeouts without any progress before a pull fails.
const PATIENCE: u32 = 5;
/// Maximum number of bytes read of an error body.
const MAX_ERROR_BODY: u64 = 8 << 10;

/// Limits of retries and of manifests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Persistence {
    pub(super) retries: u32,
    pub(super) retry_pause: Duration,
    /// A request is not retried after this time without progress.
    pub(super) patience: Duration,
    pub(super) manifest_bytes: u64,
}

/// The target of a redirect, and the zone it must stay in.
type Redirect = (Url, Option<Within>);

/// A repository and the hosts that serve it.
pub(crate) struct Remote {
    pub(super) transport: Arc<Transport>,
    /// Number of the pull whose share of the connections is used.
    pub(super) pull: u64,
    pub(super) settings: Persistence,
    pub(super) repository: Repository,
    pub(super) hosts: Vec<Host>,
    authorizer: Authorizer,
    /// Redirect targets of blobs, so that each piece of a large blob does not repeat the redirect.
    redirects: Mutex<HashMap<(String, Digest), Redirect>>,
    /// Whether the registry refused the credentials.
    refused: AtomicBool,
    /// Whether another source of the same layer was faster.
    slow: AtomicBool,
}

impl Remote {
    /// Reads the registry's settings and prepares requests.
    pub(crate) async fn open(
        transport: Arc<Transport>,
        settings: &Settings,
        repository: Repository,
        asking: Asking,
        keyring: Keyring,
        pull: u64,
    ) -> Result<Self> {
        let (dirs, file) = (settings.dirs.clone(), settings.registries.clone());
        let named = repository.clone();
        let read = answering(move || {
            let registries = file.read()?;
            let sources = registries.sources(&named, &asking)?;
            let asked = sources.iter().filter(|source| source.serves(&asking));
            Ok((hosts_of(&dirs, asked)?, registries.helpers()))
        });
        let (hosts, helpers) = read.await?;
        Ok(Self {
            transport,
            pull,
            settings: Persistence {
                retries: settings.retries,
                retry_pause: settings.retry_pause,
                patience: settings.progress_timeout.saturating_mul(PATIENCE),
                manifest_bytes: settings.manifest_bytes,
            },
            repository,
            hosts,
            authorizer: Authorizer::new(keyring, settings.credential_files.clone(), helpers),
            redirects: Mutex::default(),
            refused: AtomicBool::new(false),
            slow: AtomicBool::new(false),
        })
    }

    /// Starts to fetch `start..end` of a blob from one host. The host may send the whole blob.
    pub(crate) async fn blob(
        &self,
        what: &str,
        host: &Host,
        digest: Digest,
        start: u64,
        end: u64,
        size: u64,
    ) -> Result<Body, Attempt> {
        let mut headers = HeaderMap::new();
        if start > 0 || end < size {
            let range = format!("bytes={start}-{}", end.saturating_sub(1));
            headers.insert(RANGE, range.parse().map_err(|_| unreachable_range(what))?);
        }
        let connection = self.connection(host).await?;
        let place = (host.name(), digest);
        let known = self.redirects().get(&place).cloned();
        let mut response = None;
        if let Some((url, within)) = known {
            // The target may have expired; then the registry returns a new one.
            let to = (&url, within.as_ref());
            match self.send_once(what, host, to, &headers, None).await {
                Ok(answer) if answer.status().is_success() => response = Some(answer),
                _ => drop(self.redirects().remove(&place)),
            }
        }
        let response = if let Some(response) = response {
            response
        } else {
            let url = self.url(host, &format!("blobs/{digest}"));
            let (response, came_from) = self.send(what, host, url, &headers).await?;
            let response = self.check(what, host, response).await?;
            if let Some(url) = came_from {
                self.redirects().insert(place, url);
            }
            response
        };
        let is_part = response.status() == StatusCode::PARTIAL_CONTENT;
        let offset = if is_part {
            range_start(&response)
                .filter(|offset| *offset == start)
                .ok_or_else(|| {
                    Attempt::Final(protocol(
                        what,
                        host,
                        "it sent a different range than requested",
                    ))
                })?
        } else {
            0
        };
        Ok(Body {
            response,
            offset,
            is_part,
            pace: self.transport.pace(),
            what: what.to_owned(),
            host: host.name(),
            _connection: connection,
        })
    }

    /// Fetches a blob from a URL in the manifest, outside the registry. Sends no credentials.
    pub(crate) async fn foreign_blob(&self, what: &str, url: &str) -> Result<Body, Attempt> {
        let refuse = |reason: &str| {
            Attempt::Final(Error::invalid(
                what,
                format!("its address {url:?} {reason}"),
            ))
        };
        let parsed = Url::parse(url).map_err(|_| refuse("is not a valid URL"))?;
        if parsed.scheme() != "https" {
            return Err(refuse("is not an https address"));
        }
        let connection = self
            .transport
            .connections
            .to(&authority(&parsed), self.pull)
            .await?;
        let mut place = parsed;
        for _ in 0..MAX_REDIRECTS {
            let within = self.reachable(&place).await.map_err(|why| refuse(&why))?;
            let client = self
                .transport
                .client(&place, within.as_ref(), &Tls::default(), None)
                .await?;
            let name = authority(&place);
            let response = self
                .timed(what, &name, client.get(place.clone()).send())
                .await?;
            if response.status().is_redirection() {
                place = redirect_target(&place, &response)
                    .filter(|target| target.scheme() == "https")
                    .ok_or_else(|| refuse("redirects to an address that is not https"))?;
                continue;
            }
            if !response.status().is_success() {
                return Err(refuse(&format!("answers {}", response.status())));
            }
            return Ok(Body {
                response,
                offset: 0,
                is_part: false,
                pace: self.transport.pace(),
                what: what.to_owned(),
                host: name,
                _connection: connection,
            });
        }
        Err(refuse("redirects too often"))
    }

    /// Checks whether the registry's manifests may refer to an address, and returns the zone it must stay in.
    async fn reachable(&self, url: &Url) -> Result<Option<Within>, String> {
        // The registry itself comes last, after its mirrors.
        let Some(own) = self.hosts.last() else {
            return Ok(None);
        };
        let checked = self.transport.reach.check(&own.base, url).await;
        checked.map_err(|reason| format!("is not allowed: {reason}"))
    }

    /// Records that the registry refused the credentials.
    pub(crate) fn note_refusal(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Records that another source of the same layer was faster.
    pub(crate) fn note_slow(&self) {
        self.slow.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }

    pub(crate) fn repository(&self) -> &Repository {
        &self.repository
    }

    pub(super) async fn connection(&self, host: &Host) -> Result<Connection> {
        self.transport.connections.to(&host.name(), self.pull).await
    }

    /// Returns the domain of the repository's registry.
    pub(crate) fn domain(&self) -> &str {
        self.repository.domain()
    }

    fn redirects(&self) -> parking_lot::MutexGuard<'_, HashMap<(String, Digest), Redirect>> {
        self.redirects.lock()
    }

    pub(super) fn url(&self, host: &Host, rest: &str) -> Url {
        let mut url = host.base.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        let repository = self.repository_at(host);
        url.set_path(&format!("{base}/{}/{rest}", repository.path()));
        if !host.is_own {
            // Mirrors of several registries need the name of the registry.
            url.query_pairs_mut().append_pair("ns", repository.domain());
        }
        url
    }

    /// Returns the repository's name at a host.
    fn repository_at<'s>(&'s self, host: &'s Host) -> &'s Repository {
        let source = host.source.as_ref();
        source.map_or(&self.repository, |source| &source.repository)
    }

    /// Sends a request, answers authentication challenges and follows redirects. Also returns the final address, if
    /// there was a redirect.
    pub(super) async fn send(
        &self,
        what: &str,
        host: &Host,
        url: Url,
        headers: &HeaderMap,
    ) -> Result<(Response, Option<Redirect>), Attempt> {
        let origin = url.origin();
        let mut place = url;
        let mut within = None;
        let mut redirected = false;
        let mut logins = 0;
        for _ in 0..MAX_REDIRECTS {
            let at_home = place.origin() == origin;
            let authorization = if at_home {
                self.authorizer
                    .current(self.repository_at(host), host)
                    .await
            } else {
                None
            };
            let response = self
                .send_once(
                    what,
                    host,
                    (&place, within.as_ref()),
                    headers,
                    authorization.as_ref(),
                )
                .await?;
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED && at_home && logins < 2 {
                logins += 1;
                let demands: Vec<String> = response
                    .headers()
                    .get_all(WWW_AUTHENTICATE)
                    .iter()
                    .filter_map(|value| value.to_str().ok().map(str::to_owned))
                    .collect();
                // The body is not read, so the connection cannot be reused.
                drop(response);
                match self
                    .authorizer
                    .answer(
                        &self.transport,
                        self.repository_at(host),
                        host,
                        &demands,
                        authorization.as_ref(),
                    )
                    .await
                {
                    Ok(_) => continue,
                    Err(failed) => return Err(failed),
                }
            }
            let moved = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
            if !moved {
                return Ok((response, redirected.then_some((place, within))));
            }
            let target = redirect_target(&place, &response).ok_or_else(|| {
                Attempt::Final(protocol(what, host, "it redirects to an invalid address"))
            })?;
            if place.scheme() == "https" && target.scheme() != "https" {
                return Err(Attempt::Final(protocol(
                    what,
                    host,
                    "it redirects from https to http",
                )));
            }
            within = if target.origin() == origin {
                None
            } else {
                let allowed = self.transport.reach.check(&host.base, &target).await;
                allowed.map_err(|reason| {
                    let reason = format!("its redirect is not allowed: {reason}");
                    Attempt::Final(protocol(what, host, &reason))
                })?
            };
            place = target;
            redirected = true;
        }
        Err(Attempt::Final(protocol(
            what,
            host,
            "it redirects too often",
        )))
    }

    /// Sends one request. The host's headers, TLS settings and credentials are sent only to the host itself.
    async fn send_once(
        &self,
        what: &str,
        host: &Host,
        (url, within): (&Url, Option<&Within>),
        headers: &HeaderMap,
        authorization: Option<&http::HeaderValue>,
    ) -> Result<Response, Attempt> {
        let at_home = url.origin() == host.base.origin();
        let foreign = Tls::default();
        let tls = if at_home { &host.tls } else { &foreign };
        let client = self
            .transport
            .client(url, within, tls, host.connect_timeout)
            .await?;
        let mut request = client.get(url.clone()).headers(headers.clone());
        if at_home {
            request = request.headers(host.headers.clone());
            if let Some(value) = authorization {
                request = request.header(AUTHORIZATION, value.clone());
            }
        }
        let answer = self.timed(what, &authority(url), request.send()).await;
        if at_home && answer.is_ok() {
            host.standing.note_answer();
        }
        answer
    }

    async fn timed(
        &self,
        what: &str,
        host: &str,
        sending: impl Future<Output = reqwest::Result<Response>>,
    ) -> Result<Response, Attempt> {
        let reason = match tokio::time::timeout(self.transport.progress_timeout, sending).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => return Err(Failure::of(error).attempt(what, host)),
            Err(_) => format!("no answer within {:?}", self.transport.progress_timeout),
        };
        Err(Attempt::Transient(unavailable(what, host, reason), None))
    }

    /// Converts an unsuccessful response to an error.
    pub(super) async fn check(
        &self,
        what: &str,
        host: &Host,
        response: Response,
    ) -> Result<Response, Attempt> {
        let status = response.status();
        if matches!(status, StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
            return Ok(response);
        }
        let wait = retry_after(&response);
        let name = host.name();
        let said = tokio::time::timeout(
            self.transport.progress_timeout,
            read_bounded(response, MAX_ERROR_BODY),
        );
        let said = said
            .await
            .ok()
            .and_then(Result::ok)
            .map(|body| explanation(&body))
            .unwrap_or_default();
        let reason = if said.is_empty() {
            status.to_string()
        } else {
            format!("{status}: {said}")
        };
        let what = what.to_owned();
        Err(match status.as_u16() {
            401 => Attempt::Final(Error::Unauthenticated {
                what,
                host: name,
                reason,
            }),
            403 => Attempt::Final(Error::PermissionDenied {
                what,
                host: name,
                reason,
            }),
            404 | 410 => Attempt::Final(Error::NotInRegistry {
                what,
                host: name,
                reason,
            }),
            408 | 425 | 429 | 500..=599 => Attempt::Transient(
                Error::RegistryUnavailable {
                    what,
                    host: name,
                    reason,
                },
                wait,
            ),
            _ => Attempt::Final(Error::Protocol {
                what,
                host: name,
                reason,
            }),
        })
    }

    pub(super) async fn small_body(
        &self,
        what: &str,
        host: &Host,
        response: Response,
    ) -> Result<Vec<u8>, Attempt> {
        let limit = self.settings.manifest_bytes;
        match tokio::time::timeout(
            self.transport.progress_timeout,
            read_bounded(response, limit),
        )
        .await
        {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(ReadError::TooLong(_))) => Err(Attempt::Abort(Error::too_large(
                format!("the manifest or configuration of {what}"),
                format!("{limit} bytes"),
            ))),
            Ok(Err(ReadError::Http(error))) => Err(Attempt::Transient(
                unavailable(
                    what,
                    &host.name(),
                    orlop_text::with_causes(&error.without_url()),
                ),
                None,
            )),
            Err(_) => Err(Attempt::Transient(
                unavailable(what, &host.name(), "the response stalled".to_owned()),
                None,
            )),
        }
    }
}

fn protocol(what: &str, host: &Host, reason: &str) -> Error {
    Error::Protocol {
        what: what.to_owned(),
        host: host.name(),
        reason: reason.to_owned(),
    }
}

fn unreachable_range(what: &str) -> Attempt {
    Attempt::Abort(Error::invalid(what, "its size is out of range"))
}

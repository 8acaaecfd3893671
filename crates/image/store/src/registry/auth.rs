//! Answers a registry's authentication challenge: basic authentication, and tokens from a token server.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use orlop_credentials::Helpers;
use reqwest::Url;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::address::{authority, is_loopback};
use super::answers::retry_after;
use super::attempt::Attempt;
use super::body::read_bounded;
use super::challenge::{self, Challenge};
use super::credentials::Login;
use super::failure::{Failure, unavailable};
use super::host::Host;
use super::keyring::Keyring;
use super::node_credentials::{self, Known, NodeCredentials};
use super::tls::Tls;
use super::transport::Transport;
use crate::{Error, Repository, Result};

/// Maximum size of a token server's response.
const MAX_ANSWER: u64 = 1 << 20;

/// The credentials for one repository, and a cache of the tokens received for them.
pub(super) struct Authorizer {
    keyring: Keyring,
    node: NodeCredentials,
    /// Authorization headers by host and repository. Locked while a token is requested, so that parallel requests
    /// share it.
    headers: Mutex<HashMap<String, HeaderValue>>,
}

impl Authorizer {
    pub(super) fn new(keyring: Keyring, files: Vec<PathBuf>, helpers: Vec<String>) -> Self {
        Self {
            keyring,
            node: NodeCredentials {
                files,
                helpers,
                programs: Helpers::default(),
            },
            headers: Mutex::default(),
        }
    }

    /// Returns the cached authorization header for `host` and `repository`.
    pub(super) async fn current(
        &self,
        repository: &Repository,
        host: &Host,
    ) -> Option<HeaderValue> {
        let headers = self.headers.lock().await;
        headers.get(&place(repository, host)).cloned()
    }

    /// Answers a 401 of `host`, which came in spite of the header `rejected`.
    pub(super) async fn answer(
        &self,
        transport: &Transport,
        repository: &Repository,
        host: &Host,
        demands: &[String],
        rejected: Option<&HeaderValue>,
    ) -> Result<HeaderValue, Attempt> {
        let name = host.name();
        let refuse = |reason: String| {
            Attempt::Final(Error::Unauthenticated {
                what: repository.to_string(),
                host: name.clone(),
                reason,
            })
        };
        let mut headers = self.headers.lock().await;
        let place = place(repository, host);
        if let Some(known) = headers.get(&place)
            && Some(known) != rejected
        {
            return Ok(known.clone());
        }
        let login = self.login(repository, host).await?;
        let challenge = demands
            .iter()
            .filter_map(|demand| challenge::parse(demand))
            .max_by_key(|challenge| matches!(challenge, Challenge::Bearer { .. }))
            .ok_or_else(|| refuse("it requires an unknown authentication scheme".to_owned()))?;
        let value = match (challenge, login) {
            (_, Some(Login::Token(token))) => format!("Bearer {token}"),
            (Challenge::Basic, Some(Login::Basic { username, password })) => {
                basic(&username, &password)
            }
            (Challenge::Basic, Some(Login::Identity(_))) => {
                return Err(refuse(
                    "it requires a password, not an identity token".to_owned(),
                ));
            }
            (Challenge::Basic, None) => {
                return Err(refuse("no credentials are known for it".to_owned()));
            }
            (
                Challenge::Bearer {
                    realm,
                    service,
                    scope,
                    error: _,
                },
                login,
            ) => {
                let scope =
                    scope.unwrap_or_else(|| format!("repository:{}:pull", repository.path()));
                let question = Question {
                    realm,
                    service,
                    scope,
                };
                let token = question
                    .ask(transport, host, login.as_ref())
                    .await
                    .map_err(|error| match error {
                        TokenError::Refused(reason) => refuse(reason),
                        TokenError::Failed(reason, wait) => Attempt::Transient(
                            unavailable(&repository.to_string(), &name, reason),
                            wait,
                        ),
                        TokenError::Unanswered(failure, server) => failure
                            .of_token_server(&server)
                            .attempt(&repository.to_string(), &name),
                        TokenError::Other(error) => Attempt::Abort(error),
                    })?;
                format!("Bearer {token}")
            }
        };
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| refuse("its credentials cannot be sent in an HTTP header".to_owned()))?;
        value.set_sensitive(true);
        if rejected == Some(&value) {
            return Err(refuse("the credentials are not accepted".to_owned()));
        }
        headers.insert(place, value.clone());
        Ok(value)
    }

    async fn login(&self, repository: &Repository, host: &Host) -> Result<Option<Login>> {
        let found = self.known(repository, host).await?;
        found.map_or(Ok(None), |known| known.credentials.login())
    }

    /// Returns the credentials for a host: those of the request, otherwise those of the pod's namespace, otherwise
    /// those of the node.
    pub(super) async fn known(
        &self,
        repository: &Repository,
        host: &Host,
    ) -> Result<Option<Known>> {
        if let Some(given) = &self.keyring.given
            && given.are_for(&host.name(), host.is_home())
            && given.login()?.is_some()
        {
            return Ok(Some(Known {
                credentials: given.clone(),
                source: "the request".to_owned(),
            }));
        }
        let (name, path) = (host.name(), repository.path());
        let own = node_credentials::lookup(&self.keyring.files, &name, path).await?;
        match own {
            Some(own) => Ok(Some(own)),
            None => self.node.known(&name, path).await,
        }
    }
}

fn place(repository: &Repository, host: &Host) -> String {
    format!("{}/{}", host.base, repository.path())
}

struct Question {
    realm: String,
    service: Option<String>,
    scope: String,
}

enum TokenError {
    Refused(String),
    Failed(String, Option<Duration>),
    Unanswered(Failure, String),
    Other(Error),
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

impl Question {
    async fn ask(
        &self,
        transport: &Transport,
        host: &Host,
        login: Option<&Login>,
    ) -> Result<String, TokenError> {
        let mut url = Url::parse(&self.realm).map_err(|_| {
            TokenError::Refused(format!(
                "its token server {:?} is not a valid URL",
                self.realm
            ))
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(TokenError::Refused(
                "its token server is not an http or https URL".to_owned(),
            ));
        }
        let server = authority(&url);
        let own = url.host_str() == host.base.host_str();
        let plain = url.scheme() == "http" && !is_loopback(&url);
        if plain && host.base.scheme() == "https" {
            return Err(TokenError::Refused(format!(
                "its token server {server} uses http, but the registry uses https"
            )));
        }
        if plain && !own && login.is_some() {
            return Err(TokenError::Refused(format!(
                "its token server {server} uses http, and credentials must not be sent unencrypted"
            )));
        }
        let within = transport
            .reach
            .check(&host.base, &url)
            .await
            .map_err(|reason| TokenError::Refused(format!("its token server {reason}")))?;
        // The host's TLS settings are for that host; the token server uses them only if it is the same machine.
        let tls = if own {
            host.tls.clone()
        } else {
            Tls::default()
        };
        let failed = |reason| TokenError::Failed(reason, None);
        let client = transport
            .client(&url, within.as_ref(), &tls, host.connect_timeout)
            .await
            .map_err(TokenError::Other)?;
        let mut form = vec![("scope", self.scope.as_str())];
        if let Some(service) = &self.service {
            form.push(("service", service));
        }
        let request = if let Some(Login::Identity(token)) = login {
            form.extend([
                ("grant_type", "refresh_token"),
                ("refresh_token", token.as_str()),
                ("client_id", "orlop"),
            ]);
            client
                .post(url)
                .header(
                    http::header::CONTENT_TYPE,
                    "application/x-www-form-urlencoded",
                )
                .body(
                    form_urlencoded::Serializer::new(String::new())
                        .extend_pairs(form)
                        .finish(),
                )
        } else {
            url.query_pairs_mut().extend_pairs(&form);
            match login {
                Some(Login::Basic { username, password }) => {
                    client.get(url).basic_auth(username, Some(password))
                }
                _ => client.get(url),
            }
        };
        let answer = tokio::time::timeout(transport.progress_timeout, async {
            let response = request
                .send()
                .await
                .map_err(|error| TokenError::Unanswered(Failure::of(error), server.clone()))?;
            let (status, wait) = (response.status(), retry_after(&response));
            let body = read_bounded(response, MAX_ANSWER)
                .await
                .map_err(|error| failed(error.to_string()))?;
            Ok((status, wait, body))
        });
        let (status, wait, body) = answer
            .await
            .map_err(|_| failed("its token server does not answer".to_owned()))??;
        if status.is_client_error() && status != http::StatusCode::TOO_MANY_REQUESTS {
            return Err(TokenError::Refused(format!(
                "its token server responds with {status}"
            )));
        }
        if !status.is_success() {
            return Err(TokenError::Failed(
                format!("its token server responds with {status}"),
                wait,
            ));
        }
        let answer: TokenAnswer = serde_json::from_slice(&body)
            .map_err(|_| failed("the response of its token server is malformed".to_owned()))?;
        answer
            .token
            .filter(|token| !token.is_empty())
            .or(answer.access_token)
            .ok_or_else(|| failed("its token server returned no token".to_owned()))
    }
}

fn basic(username: &str, password: &str) -> String {
    format!(
        "Basic {}",
        STANDARD.encode(format!("{username}:{password}"))
    )
}

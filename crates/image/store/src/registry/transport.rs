//! HTTP clients, one per set of TLS settings.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use orlop_text::duration::Timeout;
use parking_lot::Mutex;
use reqwest::{Certificate, Client, Identity, Url};

use super::address::{authority, is_loopback};
use super::connections::Connections;
use super::reach::{Anywhere, Reach, Within};
use super::settings::Settings;
use super::tls::Tls;
use crate::blocking::answering;
use crate::{Error, Pace, Result};

/// What tells clients apart: the contents of the files, so that a new certificate gets a new
/// client.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    https: bool,
    /// Loopback is never behind a proxy.
    direct: bool,
    skip_verify: bool,
    authorities: Vec<Vec<u8>>,
    client: Vec<Vec<u8>>,
    connect_timeout: Duration,
    within: Option<Within>,
}

/// More different settings than this at a time are no node's.
const MAX_CLIENTS: usize = 32;
/// No bundle of authorities is longer.
const MAX_CERTIFICATES: u64 = 4 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an idle connection is kept for the next request.
const IDLE_TIMEOUT: Timeout = Timeout::from_secs(30);

/// Makes and keeps HTTP clients, and bounds how many requests are in flight.
pub(crate) struct Transport {
    clients: Mutex<HashMap<Key, Client>>,
    pub(super) connections: Connections,
    /// Longest wait for an answer or for the next bytes of one.
    pub(super) progress_timeout: Duration,
    /// Bytes per second that a body must bring on average over that time.
    min_speed: u64,
    pub(super) reach: Reach,
}

impl Transport {
    pub(crate) fn new(settings: &Settings) -> Self {
        static PROVIDER: Once = Once::new();
        // Another part of the process may have chosen one already; that one is good too.
        PROVIDER
            .call_once(|| drop(rustls::crypto::aws_lc_rs::default_provider().install_default()));
        Self {
            clients: Mutex::default(),
            connections: Connections::new(settings.max_connections),
            progress_timeout: settings.progress_timeout,
            min_speed: settings.min_speed,
            reach: Reach {
                internal_hosts: settings.internal_hosts.clone(),
            },
        }
    }

    /// Whether other settings make the same of it.
    pub(crate) fn is_alike(one: &Settings, other: &Settings) -> bool {
        let parts = |settings: &Settings| {
            (
                settings.max_connections,
                settings.progress_timeout,
                settings.min_speed,
                settings.internal_hosts.clone(),
            )
        };
        parts(one) == parts(other)
    }

    /// Watches over the speed of a body that begins.
    pub(super) fn pace(&self) -> Pace {
        Pace::new(self.min_speed, self.progress_timeout)
    }

    /// A client for `url` that goes no further than was found good.
    pub(super) async fn client(
        &self,
        url: &Url,
        within: Option<&Within>,
        tls: &Tls,
        connect_timeout: Option<Duration>,
    ) -> Result<Client> {
        let https = url.scheme() == "https";
        let (authorities, client) = if https {
            tls.files()
        } else {
            Default::default()
        };
        let key = Key {
            https,
            direct: is_loopback(url),
            skip_verify: https && tls.skip_verify,
            authorities: read_all(authorities).await?,
            client: read_all(client).await?,
            connect_timeout: connect_timeout
                .unwrap_or(CONNECT_TIMEOUT)
                .min(self.progress_timeout),
            within: within.cloned(),
        };
        if let Some(client) = self.clients().get(&key) {
            return Ok(client.clone());
        }
        let building = key.clone();
        // Loads the system's certificates.
        let client = answering(move || Ok(build(&building)))
            .await?
            .map_err(|error| Error::Configuration {
                path: format!("TLS settings for {}", authority(url)),
                reason: orlop_text::with_causes(&error),
            })?;
        let mut clients = self.clients();
        if clients.len() >= MAX_CLIENTS {
            clients.clear();
        }
        Ok(clients.entry(key).or_insert(client).clone())
    }

    fn clients(&self) -> parking_lot::MutexGuard<'_, HashMap<Key, Client>> {
        self.clients.lock()
    }
}

fn build(key: &Key) -> reqwest::Result<Client> {
    let builder = || {
        let mut builder = Client::builder()
            .user_agent(concat!("orlop/", env!("CARGO_PKG_VERSION")))
            // Redirects are followed by hand, so that credentials stay behind.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(key.connect_timeout)
            .pool_idle_timeout(IDLE_TIMEOUT.get())
            .tcp_keepalive(Duration::from_secs(30));
        if key.direct {
            builder = builder.no_proxy();
        }
        match &key.within {
            Some(within) => builder.dns_resolver(within.clone()),
            None => builder.dns_resolver(Anywhere),
        }
    };
    if !key.https {
        // No TLS, no certificates: a node without any can still use such a registry.
        return builder().tls_certs_only([]).build();
    }
    let mut authorities = Vec::new();
    for pem in &key.authorities {
        authorities.extend(Certificate::from_pem_bundle(pem)?);
    }
    let identity = match key.client.concat() {
        pem if pem.is_empty() => None,
        pem => Some(Identity::from_pem(&pem)?),
    };
    let finish = |mut builder: reqwest::ClientBuilder| {
        if let Some(identity) = &identity {
            builder = builder.identity(identity.clone());
        }
        builder
            .tls_danger_accept_invalid_certs(key.skip_verify)
            .build()
    };
    let system = finish(builder().tls_certs_merge(authorities.clone()));
    match system {
        // The system may have no certificates at all; those given are enough.
        Err(_) if !authorities.is_empty() => finish(builder().tls_certs_only(authorities)),
        other => other,
    }
}

async fn read_all(paths: Vec<PathBuf>) -> Result<Vec<Vec<u8>>> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    answering(move || paths.iter().map(|path| read(path)).collect()).await
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut content =
        orlop_fs::read_file(path, MAX_CERTIFICATES).map_err(|error| Error::Configuration {
            path: path.display().to_string(),
            reason: error.to_string(),
        })?;
    // A certificate and a key may be put one behind the other.
    content.push(b'\n');
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_goes_no_further_than_was_found_good() {
        let transport = Transport::new(&crate::Config::new("/nowhere").registry());
        let url = Url::parse("http://localhost:9/").unwrap();
        let public = Within::public("localhost");
        let tls = Tls::default();
        let client = transport.client(&url, Some(&public), &tls, None);
        let asked = client.await.unwrap().get(url).send().await;
        let reason = orlop_text::with_causes(&asked.unwrap_err());
        assert!(reason.contains("loopback address"), "{reason}");
    }
}

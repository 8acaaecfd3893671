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

/// Settings that require a separate client. Contains the content of the certificate files, so that a new certificate
/// leads to a new client.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    https: bool,
    /// Loopback addresses never use a proxy.
    direct: bool,
    skip_verify: bool,
    authorities: Vec<Vec<u8>>,
    client: Vec<Vec<u8>>,
    connect_timeout: Duration,
    within: Option<Within>,
}

/// Maximum number of clients, more than a node needs at a time.
const MAX_CLIENTS: usize = 32;
/// Maximum size of a certificate bundle.
const MAX_CERTIFICATES: u64 = 4 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that an idle connection is kept for the next request.
const IDLE_TIMEOUT: Timeout = Timeout::from_secs(30);

/// Factory and cache of HTTP clients, with the limits of connections.
pub(crate) struct Transport {
    clients: Mutex<HashMap<Key, Client>>,
    pub(super) connections: Connections,
    /// Timeout for a response, or for the next bytes of one.
    pub(super) progress_timeout: Duration,
    /// Minimum average speed of a body over that time, in bytes per second.
    min_speed: u64,
    pub(super) reach: Reach,
}

impl Transport {
    pub(crate) fn new(settings: &Settings) -> Self {
        static PROVIDER: Once = Once::new();
        // Another part of the process may have installed a provider already, which works too.
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

    /// Returns whether two settings lead to the same transport.
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

    /// Returns a watch over the speed of a new body.
    pub(super) fn pace(&self) -> Pace {
        Pace::new(self.min_speed, self.progress_timeout)
    }

    /// Returns a client for `url` that connects only within the allowed zone.
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
        // Loading the system's certificates blocks.
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
            // The caller follows redirects, so that credentials are not sent to other hosts.
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
        // Plain HTTP needs no certificates, so it also works on a node without any.
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
        // The system may have no certificates; the configured ones are sufficient.
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
    // The certificate and the key may be concatenated.
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

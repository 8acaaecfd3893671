//! The page of `[web]`, which moves where the configuration says so. It is a client of the daemon's own socket,
//! as any other is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use orlop_cri::Endpoint;
use orlop_disk::{Outlives, write_file};
use orlop_door::{Listener, Tls, TlsFiles, TlsRules, TlsTerms};
use orlop_web::{Extras, Token, Web, WebOptions};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::endpoints::Endpoints;
use crate::config::values::MetricsEndpoint;
use crate::config::{self, Config};

/// The file in the state directory that has the address with the token.
const ADDRESS: &str = "web.url";

/// The page, or the place where it may come to be.
pub(super) struct Pages {
    /// The daemon's own; none where clients have no address for it.
    endpoint: Option<Endpoint>,
    config: watch::Receiver<Arc<Config>>,
    now: Mutex<Option<Served>>,
}

struct Served {
    task: JoinHandle<()>,
    _stop: DropGuard,
    listener: Arc<Listener>,
    /// Removed with the page.
    address: Option<PathBuf>,
}

/// What the daemon knows beside what it tells its clients.
struct Known(watch::Receiver<Arc<Config>>);

impl Extras for Known {
    fn settings(&self) -> Option<String> {
        Some(config::in_force(&self.0.borrow()))
    }
}

impl Pages {
    /// Serves the page of the daemon that listens at this address, where the configuration wants it.
    pub(super) fn start(own: &str, config: watch::Receiver<Arc<Config>>) -> anyhow::Result<Self> {
        let now = Arc::clone(&config.borrow());
        // Of a daemon that was killed.
        let _ = std::fs::remove_file(now.daemon.state.join(ADDRESS));
        let pages = Self {
            endpoint: own.parse().ok(),
            config,
            now: Mutex::default(),
        };
        if let Some(moving) = Moving::to(&now, None)? {
            pages.open(moving, &now, None)?;
        }
        Ok(pages)
    }

    /// Gets ready to move to where a new configuration wants it. Nothing where that is where it is. Blocks
    /// on the file system.
    pub(super) fn prepare(old: &Config, new: &Config) -> anyhow::Result<Option<Moving>> {
        if old.web == new.web {
            return Ok(None);
        }
        let moving = Moving::to(new, old.web.listen.as_ref())?;
        Ok(Some(moving.unwrap_or(Moving {
            tls: None,
            place: Place::Nowhere,
        })))
    }

    /// Moves there. Sessions end.
    pub(super) async fn move_to(&self, moving: Moving, config: &Config) {
        let before = self.finish().await;
        if let Err(error) = self.open(moving, config, before) {
            tracing::error!("the page is served no more: {error:#}");
        }
    }

    /// Ends with all who look at it. What it listened on is left.
    pub(super) async fn finish(&self) -> Option<Arc<Listener>> {
        let served = self.now.lock().take();
        let Served {
            task,
            _stop: stop,
            listener,
            address,
        } = served?;
        drop(stop);
        let _ = task.await;
        if let Some(address) = address {
            let _ = std::fs::remove_file(address);
        }
        Some(listener)
    }

    fn open(
        &self,
        moving: Moving,
        config: &Config,
        before: Option<Arc<Listener>>,
    ) -> anyhow::Result<()> {
        let listener = match moving.place {
            Place::Nowhere => return Ok(()),
            Place::There(listener) => Arc::new(listener),
            Place::Same => match before {
                Some(listener) => listener,
                // It was not served.
                None => match Endpoints::web_of(config)? {
                    Some(listener) => Arc::new(listener),
                    None => return Ok(()),
                },
            },
        };
        let Some(endpoint) = self.endpoint.clone() else {
            tracing::warn!(
                "no page is served: the socket that the daemon was given for the CRI has no path that a client \
                 could use; let the service manager listen at one, or the daemon itself"
            );
            return Ok(());
        };
        let token = match &config.web.token_file {
            Some(path) => Token::File(path.to_path_buf()),
            None => Token::random(),
        };
        let options = WebOptions {
            endpoint,
            token,
            names: config.web.names.clone(),
            shows_environment: false,
            extras: Some(Arc::new(Known(self.config.clone()))),
        };
        let web = Web::new(Arc::clone(&listener), moving.tls, options)
            .context("cannot serve the page")?;
        let address = config
            .web
            .token_file
            .is_none()
            .then(|| note(&web, &config.daemon.state))
            .transpose()?;
        if let Some(path) = &address {
            tracing::info!(address = %path.display(), "serving the page at the address in this file");
        } else {
            tracing::info!(address = web.address(), "serving the page");
        }
        let stop = CancellationToken::new();
        *self.now.lock() = Some(Served {
            task: tokio::spawn(web.serve(stop.clone())),
            _stop: stop.drop_guard(),
            listener,
            address,
        });
        Ok(())
    }
}

/// Writes the address down in a directory, for root alone.
pub(crate) fn note(web: &Web, dir: &Path) -> anyhow::Result<PathBuf> {
    let path = dir.join(ADDRESS);
    let text = format!("{}\n", web.address());
    write_file(&path, 0o600, Outlives::Kill, text.as_bytes())
        .with_context(|| format!("cannot write the page's address to {}", path.display()))?;
    Ok(path)
}

/// What is to hold, and a socket that is listened on and not yet served, if it is another one.
pub(super) struct Moving {
    tls: Option<Arc<Tls>>,
    place: Place,
}

/// Where the page is served from now on.
enum Place {
    Nowhere,
    /// Where it is, on the same socket.
    Same,
    There(Listener),
}

impl Moving {
    /// Nothing where no page is wanted.
    fn to(config: &Config, from: Option<&MetricsEndpoint>) -> anyhow::Result<Option<Self>> {
        let web = &config.web;
        if web.listen.is_none() {
            return Ok(None);
        }
        let files = web.tls_cert.as_ref().zip(web.tls_key.as_ref());
        let tls = files.map(|(certificate, key)| {
            let files = TlsFiles {
                certificate: certificate.to_path_buf(),
                key: key.to_path_buf(),
                client_ca: None,
            };
            let rules = TlsRules {
                whom: "a browser",
                certificate_is_optional: true,
                terms: TlsTerms::default(),
            };
            Tls::load(files, rules).map(Arc::new)
        });
        let tls = tls.transpose().context("cannot serve the page")?;
        let place = if web.listen.as_ref() == from {
            Place::Same
        } else {
            match Endpoints::web_of(config)? {
                Some(listener) => Place::There(listener),
                None => Place::Nowhere,
            }
        };
        Ok(Some(Self { tls, place }))
    }
}

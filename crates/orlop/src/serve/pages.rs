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
    /// The daemon's own.
    endpoint: Endpoint,
    config: watch::Receiver<Arc<Config>>,
    now: Mutex<Option<Served>>,
}

struct Served {
    task: JoinHandle<()>,
    _stop: DropGuard,
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
    /// Serves the page where the configuration wants it.
    pub(super) fn start(
        endpoint: Endpoint,
        config: watch::Receiver<Arc<Config>>,
    ) -> anyhow::Result<Self> {
        let now = Arc::clone(&config.borrow());
        let pages = Self {
            endpoint,
            config,
            now: Mutex::default(),
        };
        if let Some(moving) = Moving::to(&now, None)? {
            pages.open(moving, &now)?;
        }
        Ok(pages)
    }

    /// Gets ready to move to where a new configuration wants it. Nothing where that is where it is. Blocks
    /// on the file system.
    pub(super) fn prepare(&self, old: &Config, new: &Config) -> anyhow::Result<Option<Moving>> {
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
        self.finish().await;
        if let Err(error) = self.open(moving, config) {
            tracing::error!("the page is served no more: {error:#}");
        }
    }

    /// Ends with all who look at it.
    pub(super) async fn finish(&self) {
        let served = self.now.lock().take();
        if let Some(Served {
            task,
            _stop: stop,
            address,
        }) = served
        {
            drop(stop);
            let _ = task.await;
            if let Some(address) = address {
                let _ = std::fs::remove_file(address);
            }
        }
    }

    fn open(&self, moving: Moving, config: &Config) -> anyhow::Result<()> {
        let listener = match moving.place {
            Place::Nowhere => return Ok(()),
            Place::There(listener) => listener,
            Place::Same => match Endpoints::web_of(config)? {
                Some(listener) => listener,
                None => return Ok(()),
            },
        };
        let token = match &config.web.token_file {
            Some(path) => Token::File(path.to_path_buf()),
            None => Token::random(),
        };
        let options = WebOptions {
            endpoint: self.endpoint.clone(),
            token,
            names: config.web.names.clone(),
            shows_environment: false,
            extras: Some(Arc::new(Known(self.config.clone()))),
        };
        let web = Web::new(listener, moving.tls, options).context("cannot serve the page")?;
        let address = config
            .web
            .token_file
            .is_none()
            .then(|| note(&web, &config.daemon.state))
            .transpose()?;
        match &address {
            Some(path) => {
                tracing::info!(address = %path.display(), "serving the page at the address in this file")
            }
            None => tracing::info!(address = web.address(), "serving the page"),
        }
        let stop = CancellationToken::new();
        *self.now.lock() = Some(Served {
            task: tokio::spawn(web.serve(stop.clone())),
            _stop: stop.drop_guard(),
            address,
        });
        Ok(())
    }
}

/// Writes the address down for root alone.
fn note(web: &Web, state: &Path) -> anyhow::Result<PathBuf> {
    let path = state.join(ADDRESS);
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
    /// Where it is: that socket has to be closed first.
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

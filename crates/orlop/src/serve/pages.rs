//! The web page of `[web]`, whose address can change at a reload. It is a client of the daemon's own socket.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use orlop_cri_api::Endpoint;
use orlop_fs::{Draft, Outlives};
use orlop_listen::{Listener, Tls, TlsError, TlsFiles, TlsRules, TlsTerms};
use orlop_web::{Extras, Token, Web, WebOptions};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::endpoints::Endpoints;
use crate::config::{self, Config};

/// File in the state directory with the URL and its token.
const ADDRESS: &str = "web.url";

/// The web page, if one is served.
pub(super) struct Pages {
    /// Endpoint of the daemon; `None` if clients have no address for it.
    endpoint: Option<Endpoint>,
    config: watch::Receiver<Arc<Config>>,
    now: Mutex<Option<Served>>,
}

struct Served {
    task: JoinHandle<()>,
    _stop: DropGuard,
    listener: Arc<Listener>,
    /// File with the URL, removed with the page.
    address: Option<PathBuf>,
}

/// Data of the daemon that the CRI does not provide.
struct Known(watch::Receiver<Arc<Config>>);

impl Extras for Known {
    fn settings(&self) -> Option<String> {
        Some(config::in_force(&self.0.borrow()))
    }
}

impl Pages {
    /// Serves the page of the daemon at endpoint `own`, if configured.
    pub(super) fn start(own: &str, config: watch::Receiver<Arc<Config>>) -> anyhow::Result<Self> {
        let now = Arc::clone(&config.borrow());
        // Left over from a daemon that was killed.
        let _ = std::fs::remove_file(now.daemon.state.join(ADDRESS));
        let pages = Self {
            endpoint: own.parse().ok(),
            config,
            now: Mutex::default(),
        };
        if let Some(next) = pages.next(&now, None)? {
            pages.serve(next);
        }
        Ok(pages)
    }

    /// Prepares the change to a new configuration. `None` if nothing changes. All fallible steps are here, while the
    /// old page still runs. Blocks on the file system; needs a reactor.
    pub(super) fn prepare(&self, old: &Config, new: &Config) -> anyhow::Result<Option<Moving>> {
        if old.web == new.web {
            return Ok(None);
        }
        let stays = old.web.listen == new.web.listen;
        let now = self.now.lock();
        let now = now.as_ref().filter(|_| stays);
        let socket = now.map(|served| Arc::clone(&served.listener));
        Ok(Some(Moving(self.next(new, socket)?)))
    }

    /// Applies a prepared change. Sessions end.
    pub(super) async fn move_to(&self, Moving(next): Moving) {
        self.finish().await;
        if let Some(next) = next {
            self.serve(next);
        }
    }

    /// Stops the page and closes its sessions.
    pub(super) async fn finish(&self) {
        let served = self.now.lock().take();
        let Some(Served {
            task,
            _stop: stop,
            address,
            ..
        }) = served
        else {
            return;
        };
        drop(stop);
        let _ = task.await;
        if let Some(address) = address {
            let _ = std::fs::remove_file(address);
        }
    }

    /// Prepares the configured page, on `socket` if it is given.
    fn next(&self, config: &Config, socket: Option<Arc<Listener>>) -> anyhow::Result<Option<Next>> {
        if config.web.listen.is_none() {
            return Ok(None);
        }
        let Some(endpoint) = self.endpoint.clone() else {
            tracing::warn!(
                "the web page is disabled, because the CRI socket that the service manager passed \
                 has no path for clients; configure a path in the socket unit, or let the daemon \
                 open the socket"
            );
            return Ok(None);
        };
        let tls = tls(config).context("cannot serve the web page")?;
        let listener = match socket {
            Some(listener) => listener,
            None => match Endpoints::web_of(config)? {
                Some(listener) => Arc::new(listener),
                None => return Ok(None),
            },
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
        let web =
            Web::new(Arc::clone(&listener), tls, options).context("cannot serve the web page")?;
        let address = config
            .web
            .token_file
            .is_none()
            .then(|| Address::of(&web, &config.daemon.state))
            .transpose()?;
        Ok(Some(Next {
            web,
            listener,
            address,
        }))
    }

    fn serve(&self, next: Next) {
        let Next {
            web,
            listener,
            address,
        } = next;
        let first = web.address();
        let mut noted = None;
        match address.map(Address::keep) {
            None => tracing::info!(address = first, "serving the web page"),
            Some(Ok(path)) => {
                tracing::info!(address = %path.display(), "serving the web page; its address is in this file");
                noted = Some(path);
            }
            Some(Err(error)) => tracing::error!("the web page is not reachable: {error:#}"),
        }
        let stop = CancellationToken::new();
        *self.now.lock() = Some(Served {
            task: tokio::spawn(web.serve(stop.clone())),
            _stop: stop.drop_guard(),
            listener,
            address: noted,
        });
    }
}

/// Writes the URL to a file in a directory, readable by root only.
#[cfg(feature = "node")]
pub(crate) fn note(web: &Web, dir: &Path) -> anyhow::Result<PathBuf> {
    Address::of(web, dir)?.keep()
}

/// A file with the URL that is written but not yet renamed into place.
struct Address {
    path: PathBuf,
    draft: Draft<'static>,
}

impl Address {
    fn of(web: &Web, dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(ADDRESS);
        let write = || {
            let draft = Draft::of(path.clone(), 0o600)?;
            writeln!(draft.file(), "{}", web.address())?;
            Ok(draft)
        };
        let draft = write().map_err(|error| cannot_write(error, &path))?;
        Ok(Self { path, draft })
    }

    fn keep(self) -> anyhow::Result<PathBuf> {
        let Self { path, draft } = self;
        let kept = draft.keep(Outlives::Kill);
        kept.map_err(|error| cannot_write(error, &path))?;
        Ok(path)
    }
}

fn cannot_write(error: io::Error, path: &Path) -> anyhow::Error {
    let text = format!(
        "cannot write the address of the web page to {}",
        path.display()
    );
    anyhow::Error::new(error).context(text)
}

/// The page to serve from now on; `None` for no page.
pub(super) struct Moving(Option<Next>);

/// A page that listens but is not served yet.
struct Next {
    web: Web,
    listener: Arc<Listener>,
    /// `None` if the token is in a file.
    address: Option<Address>,
}

fn tls(config: &Config) -> Result<Option<Arc<Tls>>, TlsError> {
    let web = &config.web;
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
    tls.transpose()
}

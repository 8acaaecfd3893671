//! The page of `[web]`, which moves where the configuration says so. It is a client of the daemon's own socket,
//! as any other is.

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
        if let Some(next) = pages.next(&now, None)? {
            pages.serve(next);
        }
        Ok(pages)
    }

    /// Gets ready to move to where a new configuration wants it. Nothing where that is where it is. Whatever may
    /// fail does so here, with the page where it was. Blocks on the file system; needs a reactor.
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

    /// Moves there. Sessions end.
    pub(super) async fn move_to(&self, Moving(next): Moving) {
        self.finish().await;
        if let Some(next) = next {
            self.serve(next);
        }
    }

    /// Ends with all who look at it.
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

    /// The page that a configuration wants, on a socket that is listened on already where there is one.
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

/// Writes the address down in a directory, for root alone.
pub(crate) fn note(web: &Web, dir: &Path) -> anyhow::Result<PathBuf> {
    Address::of(web, dir)?.keep()
}

/// The address of a page, written and not yet in its place.
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

/// Where the page is to be served from now on; nowhere where there is nothing in it.
pub(super) struct Moving(Option<Next>);

/// A page that is listened for and not yet served.
struct Next {
    web: Web,
    listener: Arc<Listener>,
    /// None where the token is in a file.
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

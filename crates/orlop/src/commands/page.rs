//! `--web` of commands that run an agent: the node's web page with the state of the manifests.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use orlop_agent::AgentHandle;
use orlop_listen::Listener;
use orlop_web::{Extras, Token, Web, WebOptions};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::serve::pages;

/// Flags of the web page.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct PageFlags {
    /// Serve the web page of the node at this address, and print its URL
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:0"
    )]
    web: Option<SocketAddr>,
}

/// A web page that is served until this is dropped.
pub(crate) struct Page {
    /// URL to open in a browser, with the token.
    pub(crate) address: String,
    /// File that contains the URL, readable by root only.
    pub(crate) file: PathBuf,
    serving: JoinHandle<()>,
    stop: DropGuard,
}

/// State of the agent and, if available, the configuration of the daemon.
struct Known {
    agent: AgentHandle,
    settings: Option<String>,
}

impl Extras for Known {
    fn settings(&self) -> Option<String> {
        self.settings.clone()
    }

    fn manifests(&self) -> Option<Value> {
        Some(self.agent.manifests())
    }

    fn has_manifests(&self) -> bool {
        true
    }
}

/// The listener of a requested page, and the directory for the file with its URL.
pub(crate) struct Place {
    listener: Listener,
    dir: PathBuf,
}

impl PageFlags {
    /// Listens if the page is requested, so that errors come before anything is started. The file with the URL is
    /// created in `dir`.
    pub(crate) fn listen(&self, dir: &Path) -> anyhow::Result<Option<Place>> {
        let Some(address) = self.web else {
            return Ok(None);
        };
        let listener = Listener::tcp(address)
            .with_context(|| format!("cannot listen on {address}"))
            .context("cannot serve the web page")?;
        let dir = dir.to_path_buf();
        Ok(Some(Place { listener, dir }))
    }
}

impl Place {
    /// Serves the page for the agent's endpoint.
    pub(crate) fn serve(
        self,
        endpoint: &str,
        agent: AgentHandle,
        settings: Option<String>,
    ) -> anyhow::Result<Page> {
        let Self { listener, dir } = self;
        let endpoint = endpoint.parse().context("cannot serve the web page")?;
        let options = WebOptions {
            endpoint,
            token: Token::random(),
            names: Vec::new(),
            shows_environment: false,
            extras: Some(Arc::new(Known { agent, settings })),
        };
        let web = Web::new(listener, None, options).context("cannot serve the web page")?;
        let address = web.address();
        let file = pages::note(&web, &dir)?;
        let stop = CancellationToken::new();
        Ok(Page {
            address,
            file,
            serving: tokio::spawn(web.serve(stop.clone())),
            stop: stop.drop_guard(),
        })
    }
}

impl Page {
    /// Describes where the URL is. The URL itself stays in the file, as it contains the token.
    pub(crate) fn whereabouts(&self) -> String {
        format!("the address of the web page is in {}", self.file.display())
    }

    /// Stops the page and closes its sessions.
    pub(crate) async fn finish(self) {
        drop(self.stop);
        let _ = self.serving.await;
        let _ = std::fs::remove_file(self.file);
    }
}

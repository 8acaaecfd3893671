//! `--web` of commands that run an agent: the node's page, with what the agent knows of manifests.

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

/// Whether and where the page is served.
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

/// A page that is served until it is dropped.
pub(crate) struct Page {
    /// What a browser begins with.
    pub(crate) address: String,
    /// Where that is written, for root alone.
    pub(crate) file: PathBuf,
    serving: JoinHandle<()>,
    stop: DropGuard,
}

/// What the agent knows, and where it has it the configuration of the daemon beneath.
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

/// A page that is wanted, with its port and the directory for its address.
pub(crate) struct Place {
    listener: Listener,
    dir: PathBuf,
}

impl PageFlags {
    /// Listens if the page is wanted: what fails does so before anything is started. Its address is to be in a
    /// file of this directory.
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
    /// Serves the page, of the agent's endpoint.
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
    /// Where its address is. The address itself is for who reads that file.
    pub(crate) fn whereabouts(&self) -> String {
        format!("the address of the web page is in {}", self.file.display())
    }

    /// Ends with all who look at it.
    pub(crate) async fn finish(self) {
        drop(self.stop);
        let _ = self.serving.await;
        let _ = std::fs::remove_file(self.file);
    }
}

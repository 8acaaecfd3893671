//! `--web` of commands that run an agent: the node's page, with what the agent knows of manifests.

use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use orlop_agent::AgentHandle;
use orlop_disk::{Outlives, write_file};
use orlop_door::Listener;
use orlop_web::{Extras, Token, Web, WebOptions};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The file that has the address with the token.
const ADDRESS: &str = "web.url";

/// Whether and where the page is served.
#[derive(Debug, Default, Clone, clap::Args)]
pub(in crate::commands) struct PageFlags {
    /// Serve the node as pages of a browser, at this address of this machine, and print where; `orlop node`
    /// without a terminal writes that to `web.url` in its `--root-dir`
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
pub(in crate::commands) struct Page {
    /// What a browser begins with.
    pub(in crate::commands) address: String,
    /// Where that is written down; removed with the page.
    file: Option<PathBuf>,
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

impl PageFlags {
    /// Serves the page if it is wanted, of the agent's endpoint.
    pub(in crate::commands) fn serve(
        &self,
        endpoint: &str,
        agent: AgentHandle,
        settings: Option<String>,
    ) -> anyhow::Result<Option<Page>> {
        let Some(address) = self.web else {
            return Ok(None);
        };
        let endpoint = endpoint.parse().context("cannot serve the page")?;
        let listener = Listener::tcp(address)
            .with_context(|| format!("cannot listen on {address}"))
            .context("cannot serve the page")?;
        let options = WebOptions {
            endpoint,
            token: Token::random(),
            names: Vec::new(),
            shows_environment: false,
            extras: Some(Arc::new(Known { agent, settings })),
        };
        let web = Web::new(listener, None, options).context("cannot serve the page")?;
        let stop = CancellationToken::new();
        Ok(Some(Page {
            address: web.address(),
            file: None,
            serving: tokio::spawn(web.serve(stop.clone())),
            stop: stop.drop_guard(),
        }))
    }
}

impl Page {
    /// Prints the address to a terminal. What else reads it may be a journal that others read too: for that it
    /// is written to a file for root alone.
    pub(in crate::commands) fn announce(&mut self, dir: &Path) -> anyhow::Result<()> {
        if io::stdout().is_terminal() {
            writeln!(io::stdout(), "{}", self.address)?;
            return Ok(());
        }
        let path = dir.join(ADDRESS);
        let text = format!("{}\n", self.address);
        write_file(&path, 0o600, Outlives::Kill, text.as_bytes())
            .with_context(|| format!("cannot write the page's address to {}", path.display()))?;
        tracing::info!(address = %path.display(), "serving the page at the address in this file");
        self.file = Some(path);
        Ok(())
    }

    /// Ends with all who look at it.
    pub(in crate::commands) async fn finish(self) {
        drop(self.stop);
        let _ = self.serving.await;
        if let Some(file) = self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

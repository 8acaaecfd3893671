//! `--web` of commands that run an agent: the node's page, with what the agent knows of manifests.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use orlop_agent::AgentHandle;
use orlop_door::Listener;
use orlop_web::{Extras, Token, Web, WebOptions};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Whether and where the page is served.
#[derive(Debug, Default, Clone, clap::Args)]
pub(in crate::commands) struct PageFlags {
    /// Serve the node as pages of a browser, at this address of this machine, and print where
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
            serving: tokio::spawn(web.serve(stop.clone())),
            stop: stop.drop_guard(),
        }))
    }
}

impl Page {
    /// Ends with all who look at it.
    pub(in crate::commands) async fn finish(self) {
        drop(self.stop);
        let _ = self.serving.await;
    }
}

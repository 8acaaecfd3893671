//! `up`: runs the daemon, the node agent and the pods of a directory in one command, and shows the pods.

mod lines;
mod view;

use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use orlop_agent::{Agent, AgentHandle, AgentOptions, AtEnd, read_configuration};
use orlop_cli::say;
use rustix::fs::Mode;
use rustix::process::umask;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::node;
use super::page::{Page, PageFlags};
use crate::serve::{Embedded, Plan, ServeArgs};
use crate::service_manager::{Inherited, Notifier, State};
use crate::{config, log, threads};

/// Arguments of `up`.
#[derive(Debug, clap::Args)]
pub(crate) struct UpArgs {
    /// Directory of manifests, or one manifest file; changes are applied automatically
    #[arg(value_name = "DIR")]
    manifests: PathBuf,

    #[command(flatten)]
    serve: ServeArgs,

    /// KubeletConfiguration file for the node agent; it also enables the HTTPS server of the agent
    #[arg(long, value_name = "FILE")]
    node_config: Option<PathBuf>,

    /// Name of the node [default: the host name]
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,

    /// Directory for persistent data of the node agent [default: ROOT/node]
    #[arg(long, value_name = "DIR")]
    node_root: Option<PathBuf>,

    /// Control socket for `orlop apply`, `delete` and `node status` [default: STATE/node.sock]
    #[arg(long, value_name = "PATH")]
    control_socket: Option<PathBuf>,

    /// Directory for pod logs [default: /var/log/pods]
    #[arg(long, value_name = "DIR")]
    pod_logs_dir: Option<PathBuf>,

    /// Parent cgroup of the pods [default: /]
    #[arg(long, value_name = "CGROUP")]
    cgroup_root: Option<String>,

    /// Keep the pods running when this command exits
    #[arg(long)]
    keep: bool,

    #[command(flatten)]
    page: PageFlags,
}

impl UpArgs {
    pub(crate) fn run(mut self, inherited: Inherited) -> anyhow::Result<ExitCode> {
        if !self.manifests.exists() {
            bail!(
                "{} does not exist; create the directory and put manifests into it",
                self.manifests.display()
            );
        }
        // The flattened flags go to the daemon, the rest to the agent.
        let plan = Plan::read(self.serve.clone())?;
        let shows = std::io::stdout().is_terminal();
        umask(Mode::from_raw_mode(0o022));
        let options = self.options(&plan)?;
        let logging = &plan.config().log;
        let (levels, log_file) = if shows {
            std::fs::create_dir_all(&options.root_dir)
                .with_context(|| format!("cannot create {}", options.root_dir.display()))?;
            let path = options.root_dir.join("up.log");
            let file = OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(true)
                .mode(0o640)
                .open(&path)
                .with_context(|| format!("cannot write the log {}", path.display()))?;
            (log::start_in_file(logging, file)?, Some(path))
        } else {
            (log::start(logging, inherited.journal)?, None)
        };
        log::log_panics();
        let written = &options.configuration;
        node::spare_from_oom(written.oom_score_adj);
        node::open_files(written.max_open_files);
        let page = (self.page.clone(), config::in_force(plan.config()));
        let runtime = threads::serving(plan.config().daemon.worker_threads)?;
        let outcome = runtime.block_on(async {
            let embedded = Box::pin(Embedded::start(plan, levels)).await?;
            live(embedded, options, inherited.notifier, log_file, page).await
        });
        threads::end(runtime);
        outcome.map(|()| ExitCode::SUCCESS)
    }

    fn options(&mut self, plan: &Plan) -> anyhow::Result<AgentOptions> {
        let daemon = &plan.config().daemon;
        let root = self
            .node_root
            .take()
            .unwrap_or_else(|| daemon.root.join("node"));
        let name = self.node_name.take().unwrap_or_else(node::name);
        let mut options = AgentOptions::new(&name.to_lowercase(), root);
        if let Some(path) = &self.node_config {
            let (configuration, idle) = read_configuration(path)?;
            for remark in idle {
                say!("{remark}");
            }
            options.configuration = configuration;
        } else {
            // The ports are not requested, and a kubelet may use them.
            options.configuration.enable_server = false;
            options.configuration.healthz_port = 0;
        }
        let manifests = std::path::absolute(&self.manifests)
            .with_context(|| format!("cannot use {}", self.manifests.display()))?;
        let manifests = manifests
            .to_str()
            .context("the path of the manifests is not valid UTF-8")?;
        manifests.clone_into(&mut options.configuration.static_pod_path);
        if let Some(logs) = &self.pod_logs_dir {
            let logs = logs
                .to_str()
                .context("the path of the logs is not valid UTF-8")?;
            logs.clone_into(&mut options.configuration.pod_logs_dir);
            options.container_logs_dir = None;
        }
        if let Some(cgroup) = &self.cgroup_root {
            options.configuration.cgroup_root.clone_from(cgroup);
        }
        options.node_ip = node::address();
        let socket = self.control_socket.take();
        options.control_socket = Some(socket.unwrap_or_else(|| daemon.state.join("node.sock")));
        options.at_end = if self.keep { AtEnd::Leave } else { AtEnd::Stop };
        Ok(options)
    }
}

async fn live(
    mut embedded: Embedded,
    mut options: AgentOptions,
    notifier: Notifier,
    log_file: Option<PathBuf>,
    (page, settings): (PageFlags, String),
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    options.configuration.container_runtime_endpoint =
        format!("unix://{}", embedded.socket().display());
    let keeps = options.at_end == AtEnd::Leave;
    let place = page.listen(&options.root_dir)?;
    let agent = Agent::start(options).await?;
    let handle = agent.handle();
    let endpoint = format!("unix://{}", embedded.socket().display());
    let page = place.map(|place| place.serve(&endpoint, handle.clone(), Some(settings)));
    let page = page.transpose()?;
    let whereabouts = page.as_ref().map(Page::whereabouts);
    notifier.tell(State::Ready);
    let stop = CancellationToken::new();
    let mut running = tokio::spawn(agent.run(stop.clone()));
    let showing = CancellationToken::new();
    let shown = tokio::spawn(show(
        handle,
        (log_file, whereabouts),
        showing.clone(),
        keeps,
    ));

    let outcome = tokio::select! {
        error = embedded.failure() => Err(error),
        ended = &mut running => Err(match ended {
            Ok(()) => anyhow::anyhow!("the node agent exited unexpectedly"),
            Err(error) => anyhow::Error::from(error).context("the node agent panicked"),
        }),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    notifier.tell(State::Stopping);
    stop.cancel();
    if outcome.is_ok() {
        tokio::select! {
            _ = &mut running => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
    showing.cancel();
    let _ = shown.await;
    if let Some(page) = page {
        page.finish().await;
    }
    embedded.finish().await?;
    outcome
}

/// Shows the pods: a live table on a terminal, else one line for each change.
async fn show(
    handle: AgentHandle,
    (log_file, page): (Option<PathBuf>, Option<String>),
    stop: CancellationToken,
    keeps: bool,
) {
    let shown = match log_file {
        Some(path) => {
            let above = page.unwrap_or_default();
            view::show(&handle, (&path, &above), &stop, keeps).await
        }
        None => lines::show(&handle, page.as_deref(), &stop).await,
    };
    if let Err(error) = shown {
        tracing::debug!(%error, "the terminal is closed");
    }
}

//! Start of the node agent from the command line.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use orlop_agent::{Agent, AgentOptions};
use rustix::fs::{Mode, statfs};
use rustix::process::umask;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::super::page::PageFlags;
use super::flags::NodeFlags;
use super::own;
use crate::service_manager::{Inherited, Notifier, State};
use crate::{log, threads};

/// Worker threads: an agent waits far more than it computes.
const WORKERS: u16 = 2;

/// Runs the agent until a signal stops it.
pub(super) fn run(flags: NodeFlags, inherited: Inherited) -> anyhow::Result<ExitCode> {
    let asked = flags.logging.clone();
    let without_effect = asked.remarks();
    let page = flags.page.clone();
    let (options, idle) = flags.read()?;
    let logging = asked.over(&options.configuration.logging)?;
    let _levels = log::start(&logging, inherited.journal)?;
    log::log_panics();
    for remark in idle {
        tracing::warn!("{remark}");
    }
    for remark in without_effect {
        tracing::warn!("{remark}");
    }
    fits(&options)?;
    // Code that creates a file sets its mode; an inherited umask must not narrow it.
    umask(Mode::from_raw_mode(0o022));
    own::spare_from_oom(options.configuration.oom_score_adj);
    own::open_files(options.configuration.max_open_files);

    let runtime = threads::serving(WORKERS)?;
    let outcome = runtime.block_on(live(options, inherited.notifier, page));
    threads::end(runtime);
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn live(options: AgentOptions, notifier: Notifier, page: PageFlags) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        node = options.node_name,
        runtime = options.configuration.container_runtime_endpoint,
        "starting the node agent",
    );
    let endpoint = options.configuration.container_runtime_endpoint.clone();
    let place = page.listen(&options.root_dir)?;
    let agent = tokio::select! {
        started = Agent::start(options) => started?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let page = place.map(|place| place.serve(&endpoint, agent.handle(), None));
    let page = page.transpose()?;
    if let Some(page) = &page {
        // If standard output is no terminal, it may be a journal that others read.
        let mut out = io::stdout();
        let _ = if out.is_terminal() {
            writeln!(out, "{}", page.address)
        } else {
            writeln!(out, "{}", page.whereabouts())
        };
    }
    notifier.tell(State::Ready);
    let stop = CancellationToken::new();
    let running = tokio::spawn(agent.run(stop.clone()));
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => {
            ended.context("the node agent panicked")?;
            bail!("the node agent exited unexpectedly");
        }
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    notifier.tell(State::Stopping);
    tracing::info!("stopping the node agent");
    if let Some(page) = page {
        page.finish().await;
    }
    stop.cancel();
    tokio::select! {
        ended = &mut running => ended.context("the node agent panicked")?,
        _ = terminate.recv() => tracing::warn!(
            "received a second stop signal; not waiting for the pods"),
        _ = interrupt.recv() => tracing::warn!(
            "received a second stop signal; not waiting for the pods"),
    }
    Ok(())
}

/// Checks whether the machine meets the requirements of the configuration.
fn fits(options: &AgentOptions) -> anyhow::Result<()> {
    let written = &options.configuration;
    if written.fail_swap_on {
        let swaps = orlop_fs::read_kernel_text("/proc/swaps").unwrap_or_default();
        if swaps.lines().count() > 1 {
            bail!(
                "swap is enabled on the node and failSwapOn is true; disable swap (swapoff -a), or \
                 set failSwapOn to false"
            );
        }
    }
    // CGROUP2_SUPER_MAGIC of statfs(2).
    let is_v2 = statfs("/sys/fs/cgroup").is_ok_and(|found| found.f_type == 0x6367_7270);
    if written.fail_cgroup_v1 && !is_v2 {
        bail!("the node uses cgroup v1 and failCgroupV1 is true; set failCgroupV1 to false");
    }
    Ok(())
}

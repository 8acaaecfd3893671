//! The commands and the flags they share.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, Subcommand};

use crate::threads;

use super::flags::Span;
use super::session::{Dialect, Session};
use super::{
    advice, attach, checkpoint, cp, create, diff, doctor, events, exec, image, imagefsinfo, images,
    info, inspect, inspecti, inspectp, logs, metricdescs, metricsp, network, pods, port_forward,
    prune, ps, pull, restore, rm, rmi, rmp, run, runp, runtime_config, start, stats, statsp, stop,
    stopp, top, trace, tree, update, update_runtime_config, version, wait,
};

/// Flags of all client commands; they stand before the command.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ClientFlags {
    /// The client configuration, in crictl's format [default: /etc/crictl.yaml, where it exists]
    #[arg(short, long, value_name = "FILE", env = "CRI_CONFIG_FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The CRI endpoint, as unix:///path [default: the first socket of a known runtime]
    #[arg(
        short,
        long,
        value_name = "ENDPOINT",
        env = "CONTAINER_RUNTIME_ENDPOINT"
    )]
    pub(crate) runtime_endpoint: Option<String>,

    /// The endpoint of the image service [default: that of the runtime]
    #[arg(short, long, value_name = "ENDPOINT", env = "IMAGE_SERVICE_ENDPOINT")]
    pub(crate) image_endpoint: Option<String>,

    /// How long to wait for an answer [default: 2s; 2m for calls that change something]
    #[arg(short, long, value_name = "TIME")]
    pub(crate) timeout: Option<Span>,

    /// Show the calls that are made
    #[arg(short = 'D', long)]
    pub(crate) debug: bool,

    /// How often to try again to connect to a given endpoint (negative: for ever) [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_retries: Option<i32>,
}

/// What a client can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Join the streams of a running container
    Attach(attach::Args),
    /// Write running containers to archives, or those of a pod to a directory
    Checkpoint(checkpoint::Args),
    /// Copy files to or from a container
    Cp(cp::Args),
    /// Create a container in a pod
    Create(create::Args),
    /// Show what a container has changed in its root file system
    Diff(diff::Args),
    /// Tell what is wrong with this node, and how to mend it
    Doctor(doctor::Args),
    /// Show what happens to containers, as it happens
    #[command(visible_alias = "event")]
    Events(events::Args),
    /// Run a command in a container
    Exec(exec::Args),
    /// Import, export, verify and clean up images; without a word of these, list them
    Image(image::Args),
    /// Show how full the image file systems are
    Imagefsinfo(imagefsinfo::Args),
    /// List images
    #[command(visible_alias = "img")]
    Images(images::Args),
    /// Show the state of the runtime
    #[command(visible_alias = "status")]
    Info(info::Args),
    /// Show containers in full
    Inspect(inspect::Args),
    /// Show images in full
    Inspecti(inspecti::Args),
    /// Show pods in full
    Inspectp(inspectp::Args),
    /// Show the log of a container, or of all containers of a pod
    Logs(logs::Args),
    /// List what metricsp can report
    Metricdescs(metricdescs::Args),
    /// Show the metrics of pods
    Metricsp(metricsp::Args),
    /// Show what pods have of the networks, and what is orphaned
    Network(network::Args),
    /// Have local ports lead into a pod
    PortForward(port_forward::Args),
    /// List pods
    Pods(pods::Args),
    /// Remove what has ended
    Prune(prune::Args),
    /// List containers
    Ps(ps::Args),
    /// Fetch an image
    Pull(pull::Args),
    /// Let a pod go on from a checkpoint
    Restore(restore::Args),
    /// Remove containers
    Rm(rm::Args),
    /// Remove images, with all their names
    Rmi(rmi::Args),
    /// Remove pods
    Rmp(rmp::Args),
    /// Run a container in a pod of its own
    Run(run::Args),
    /// Run a pod
    Runp(runp::Args),
    /// Show the settings that the kubelet and the runtime share
    RuntimeConfig(runtime_config::Args),
    /// Start created containers
    Start(start::Args),
    /// Show what containers use
    Stats(stats::Args),
    /// Show what pods use
    Statsp(statsp::Args),
    /// Stop containers
    Stop(stop::Args),
    /// Stop pods
    Stopp(stopp::Args),
    /// Watch what pods and containers use, with logs and shells at a key
    Top(top::Args),
    /// Show where the time of a pod's start went
    Trace(trace::Args),
    /// Show pods, their containers and the processes of these
    Tree(tree::Args),
    /// Change the limits of containers
    Update(update::Args),
    /// Tell the runtime the addresses for pods
    UpdateRuntimeConfig(update_runtime_config::Args),
    /// Show who the runtime is
    Version(version::Args),
    /// Wait until containers and pods are in a state
    Wait(wait::Args),
}

impl Command {
    /// Does it, on one thread.
    pub(crate) fn run(self, flags: ClientFlags, dialect: Dialect) -> anyhow::Result<ExitCode> {
        let session = Session::open(flags, dialect)?;
        let runtime = threads::client()?;
        let result = runtime.block_on(self.call(&session));
        // A read of the terminal may still be under way; nobody waits for it.
        runtime.shutdown_background();
        let result = forgive_deaf_reader(result);
        if let (Err(error), Dialect::Orlop) = (&result, dialect)
            && let Some(advice) = advice::on(error)
        {
            return Err(anyhow!("{error:#}\n  {advice}"));
        }
        result
    }

    async fn call(self, session: &Session) -> anyhow::Result<ExitCode> {
        match self {
            Self::Exec(args) => return exec::run(args, session).await,
            Self::Attach(args) => attach::run(args, session).await,
            Self::Checkpoint(args) => checkpoint::run(args, session).await,
            Self::Cp(args) => cp::run(args, session).await,
            Self::Doctor(args) => return doctor::run(args, session).await,
            Self::Create(args) => create::run(args, session).await,
            Self::Diff(args) => diff::run(args, session).await,
            Self::Events(args) => events::run(args, session).await,
            Self::Image(args) => return image::run(args, session).await,
            Self::Imagefsinfo(args) => imagefsinfo::run(args, session).await,
            Self::Images(args) => images::run(args, session).await,
            Self::Info(args) => info::run(args, session).await,
            Self::Inspect(args) => inspect::run(args, session).await,
            Self::Inspecti(args) => inspecti::run(args, session).await,
            Self::Inspectp(args) => inspectp::run(args, session).await,
            Self::Logs(args) => logs::run(args, session).await,
            Self::Metricdescs(args) => metricdescs::run(args, session).await,
            Self::Metricsp(args) => metricsp::run(args, session).await,
            Self::Network(args) => return network::run(args, session).await,
            Self::Pods(args) => pods::run(args, session).await,
            Self::PortForward(args) => port_forward::run(args, session).await,
            Self::Prune(args) => prune::run(args, session).await,
            Self::Ps(args) => ps::run(args, session).await,
            Self::Pull(args) => pull::run(args, session).await,
            Self::Restore(args) => restore::run(args, session).await,
            Self::Rm(args) => rm::run(args, session).await,
            Self::Rmi(args) => rmi::run(args, session).await,
            Self::Rmp(args) => rmp::run(args, session).await,
            Self::Run(args) => run::run(args, session).await,
            Self::Runp(args) => runp::run(args, session).await,
            Self::RuntimeConfig(args) => runtime_config::run(args, session).await,
            Self::Start(args) => start::run(args, session).await,
            Self::Stats(args) => stats::run(args, session).await,
            Self::Statsp(args) => statsp::run(args, session).await,
            Self::Stop(args) => stop::run(args, session).await,
            Self::Stopp(args) => stopp::run(args, session).await,
            Self::Top(args) => top::run(args, session).await,
            Self::Trace(args) => trace::run(args, session).await,
            Self::Tree(args) => tree::run(args, session).await,
            Self::Update(args) => update::run(args, session).await,
            Self::UpdateRuntimeConfig(args) => update_runtime_config::run(args, session).await,
            Self::Wait(args) => return wait::run(args, session).await,
            Self::Version(args) => version::run(args, session).await,
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A reader that has seen enough is no error.
pub(crate) fn forgive_deaf_reader(result: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    match result {
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        result => result,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause
            .downcast_ref::<serde_json::Error>()
            .and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}

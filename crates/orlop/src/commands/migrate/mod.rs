//! `orlop migrate`: moves a node from containerd, CRI-O or Docker.

mod from;
mod images;
mod node;
mod report;
mod write;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use orlop_cli::reactor;
use orlop_migrate::{CriDockerd, Machine, Plan, containerd_plan, crio_plan, docker_plan};

use crate::serve::DaemonArgs;
use from::From;
use report::Format;

/// Arguments of `migrate`. The command reads another runtime's configuration, reports the result for each line and
/// the needs of the node, and writes a configuration of orlop. It changes nothing of the other runtime.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Container runtime to migrate from
    #[arg(long, value_enum)]
    from: From,

    /// Configuration file of that runtime [default: /etc/containerd/config.toml,
    /// /etc/crio/crio.conf or /etc/docker/daemon.json]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Write the configuration of orlop to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,

    /// Flags of cri-dockerd, for --from docker: the flags, or a file that contains them (a systemd
    /// unit or /proc/PID/cmdline) [default: the flags in its systemd unit, if it exists]
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    cri_dockerd_flags: Option<String>,

    /// Import the images of that runtime through the running daemon
    #[arg(long)]
    images: bool,

    /// Root directory of that runtime, with its images [default: from its configuration]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// Configuration file of the kubelet
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/lib/kubelet/config.yaml"
    )]
    kubelet_config: PathBuf,

    /// Format of the report
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,

    #[command(flatten)]
    daemon: DaemonArgs,
}

impl MigrateArgs {
    /// Runs the migration. Returns exit code 1 if an image could not be imported.
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        if let Some(file) = &mut self.write {
            *file = std::path::absolute(&*file).with_context(|| {
                format!("cannot determine the absolute path of {}", file.display())
            })?;
        }
        let plan = self.plan()?;
        let root = self.root.clone().or_else(|| plan.root.clone());
        let root = root.unwrap_or_default();
        let reactor = reactor::client()?;
        let findings = reactor.block_on(node::look(self.from, &plan, &self.kubelet_config));
        report::print(self.output, &plan, &findings)?;
        if let Some(file) = &self.write {
            write::write(file, &plan, self.from.name())?;
        }
        let mut all_here = true;
        if self.images {
            all_here =
                reactor.block_on(images::take_over(self.from, &root, self.daemon.socket()))?;
        }
        Ok(ExitCode::from(u8::from(!all_here)))
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let file = self.config.as_deref().unwrap_or(self.from.usual_config());
        let machine = Machine {
            find: node::find_program,
            target: self
                .write
                .as_deref()
                .and_then(Path::parent)
                .unwrap_or(Path::new("/etc/orlop")),
            root: Path::new("/"),
        };
        let plan = match self.from {
            From::Containerd => containerd_plan(file, machine),
            From::Crio => crio_plan(file, machine),
            From::Docker => self
                .cri_dockerd()
                .and_then(|flags| docker_plan(file, flags.as_ref(), machine)),
        };
        plan.context("cannot read the configuration of the other runtime")
    }

    fn cri_dockerd(&self) -> orlop_migrate::Result<Option<CriDockerd>> {
        match &self.cri_dockerd_flags {
            Some(said) => CriDockerd::given(said).map(Some),
            None => CriDockerd::installed(),
        }
    }
}

//! `node`: the node agent, which runs pods from manifests on any CRI endpoint, and its status commands.

mod fields;
mod flags;
mod logging;
mod machine;
mod own;
pub(super) mod socket;
mod start;
mod status;

use std::process::ExitCode;

use clap::Subcommand;

use crate::memory;
use crate::service_manager::Inherited;

pub(super) use machine::{address, name};
pub(super) use own::{open_files, spare_from_oom};
pub(super) use status::summary_line;

/// Arguments of `node`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    question: Option<Question>,

    #[command(flatten)]
    flags: Box<flags::NodeFlags>,
}

#[derive(Debug, Subcommand)]
enum Question {
    /// Show the node, its pods and problems with manifests
    Status(status::Args),
    /// Show the events of the pods
    Events(status::EventsArgs),
}

impl NodeArgs {
    pub(crate) fn run(self, inherited: Inherited) -> anyhow::Result<ExitCode> {
        match self.question {
            None => {
                memory::disable_core_dumps();
                start::run(*self.flags, inherited)
            }
            Some(Question::Status(args)) => status::run(args),
            Some(Question::Events(args)) => status::events(args),
        }
    }
}

//! From `main` to the command that was asked for.
#![allow(unsafe_code)]

use std::env;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::completion::{CompleteArgs, CompletionArgs};
use super::config::ConfigCommand;
use super::log_level::LogLevelArgs;
use super::man::ManArgs;
use crate::serve::ServeArgs;
use crate::service_manager::Inherited;
use crate::{commands, memory, serve};

/// A Kubernetes node's container runtime.
#[derive(Debug, Parser)]
#[command(name = "orlop", version)]
struct Cli {
    #[command(flatten)]
    client: commands::ClientFlags,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon that serves the CRI
    Serve(ServeArgs),
    /// Run pods from manifests on any CRI endpoint, without a cluster
    Node(commands::NodeArgs),
    /// Run the daemon and the pods of a directory of manifests, all in one
    Up(Box<commands::UpArgs>),
    /// Have a running node agent take manifests in, and keep them
    Apply(commands::ApplyArgs),
    /// Have a running node agent end what was applied, and forget it
    Delete(commands::DeleteArgs),
    /// Look at, check or reload the daemon's configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show or change what a running daemon logs
    LogLevel(LogLevelArgs),
    /// Print what makes a shell complete commands, flags, names and ids
    Completion(CompletionArgs),
    /// Write the manual pages to a directory
    Man(ManArgs),
    #[command(name = "__complete", hide = true)]
    Complete(CompleteArgs),
    #[command(flatten)]
    Client(commands::Command),
}

/// Runs the command line; never returns without having said why it failed.
pub(crate) fn main() -> ExitCode {
    // SAFETY: this is the first thing that happens: no other thread exists and no
    // file has been opened.
    let inherited = unsafe { Inherited::take() };
    memory::tune_allocator();
    let program = env::args_os().next();
    // What can't be read ends the process with 2 and the usage; crictl has its own ways.
    if commands::Crictl::is_called(program.as_deref()) {
        return commands::Crictl::main(env::args_os().skip(1));
    }
    match run(Cli::parse(), inherited) {
        Ok(code) => code,
        Err(error) => {
            say!("orlop: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli, inherited: Inherited) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(args) => serve::run(args, inherited).map(|()| ExitCode::SUCCESS),
        Command::Node(args) => args.run(inherited),
        Command::Up(args) => args.run(inherited),
        Command::Apply(args) => args.run(),
        Command::Delete(args) => args.run(),
        Command::Config(command) => command.run(),
        Command::LogLevel(args) => args.run().map(|()| ExitCode::SUCCESS),
        Command::Completion(args) => args.run("orlop"),
        Command::Man(args) => args.run::<Cli>().map(|()| ExitCode::SUCCESS),
        Command::Complete(args) => args.run::<Cli>(),
        Command::Client(command) => command.run(cli.client, commands::Dialect::Orlop),
    }
}

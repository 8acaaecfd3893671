//! From `main` to the command that was asked for.
#![allow(unsafe_code)]

use std::env;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use orlop_cli::{ClientFlags, CompleteArgs, CompletionArgs, Crictl, Dialect, ManArgs, say};

use crate::commands::{ApplyArgs, ConfigCommand, DeleteArgs, LogLevelArgs, NodeArgs, UpArgs};
use crate::serve::ServeArgs;
use crate::service_manager::Inherited;
use crate::{doctor, memory, serve};

/// A Kubernetes node's container runtime.
#[derive(Debug, Parser)]
#[command(name = "orlop", version)]
struct Cli {
    #[command(flatten)]
    client: ClientFlags,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon that serves the CRI
    Serve(ServeArgs),
    /// Run pods from manifests on any CRI endpoint, without a cluster
    Node(NodeArgs),
    /// Run the daemon and the pods of a directory of manifests, all in one
    Up(Box<UpArgs>),
    /// Have a running node agent take manifests in, and keep them
    Apply(ApplyArgs),
    /// Have a running node agent end what was applied, and forget it
    Delete(DeleteArgs),
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
    Client(orlop_cli::Command),
}

/// Runs the command line; never returns without having said why it failed.
pub(crate) fn main() -> ExitCode {
    // SAFETY: this is the first thing that happens: no other thread exists and no
    // file has been opened.
    let inherited = unsafe { Inherited::take() };
    memory::tune_allocator();
    let program = env::args_os().next();
    // What can't be read ends the process with 2 and the usage; crictl has its own ways.
    if Crictl::is_called(program.as_deref()) {
        return Crictl::main(env::args_os().skip(1), doctor::HOST);
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
        Command::Client(command) => command.run(cli.client, Dialect::Orlop, doctor::HOST),
    }
}

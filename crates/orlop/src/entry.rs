//! From `main` to the command that was asked for.
#![allow(unsafe_code)]

use std::env;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use orlop_cli::{ClientFlags, CompleteArgs, CompletionArgs, Crictl, Dialect, ManArgs, say};

use crate::commands::{
    ApplyArgs, ConfigCommand, DebugCommand, DeleteArgs, LogLevelArgs, MigrateArgs, NodeArgs, UpArgs,
};
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

/// Lists the commands that are not clients once: what each is for, its arguments, what it does.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($arguments:ty) = $run:expr,)*) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            $($(#[$attribute])* $name($arguments),)*
            #[command(flatten)]
            Client(orlop_cli::Command),
        }

        fn run(cli: Cli, inherited: Inherited) -> anyhow::Result<ExitCode> {
            match cli.command {
                $(Command::$name(arguments) => {
                    let run: fn($arguments, Inherited) -> anyhow::Result<ExitCode> = $run;
                    run(arguments, inherited)
                })*
                Command::Client(command) => {
                    command.run(cli.client, Dialect::Orlop, doctor::HOST)
                }
            }
        }
    };
}

commands! {
    /// Run the daemon that serves the CRI
    Serve(ServeArgs) = |args, inherited| {
        memory::disable_core_dumps();
        well(serve::run(args, inherited))
    },
    /// Run pods from manifests on any CRI endpoint, without a cluster
    Node(NodeArgs) = |args, inherited| args.run(inherited),
    /// Run the daemon and the pods of a directory of manifests, all in one
    Up(Box<UpArgs>) = |args, inherited| {
        memory::disable_core_dumps();
        args.run(inherited)
    },
    /// Have a running node agent take manifests in, and keep them
    Apply(ApplyArgs) = |args, _| args.run(),
    /// Have a running node agent end what was applied, and forget it
    Delete(DeleteArgs) = |args, _| args.run(),
    /// Look at, check or reload the daemon's configuration
    #[command(subcommand)]
    Config(ConfigCommand) = |command, _| command.run(),
    /// Move a node from containerd, CRI-O or Docker: its configuration and its images
    Migrate(MigrateArgs) = |args, _| args.run(),
    /// Show or change what a running daemon logs
    LogLevel(LogLevelArgs) = |args, _| well(args.run()),
    /// Look at what a running daemon does, for support
    #[command(subcommand)]
    Debug(DebugCommand) = |command, _| well(command.run()),
    /// Print what makes a shell complete commands, flags, names and ids
    Completion(CompletionArgs) = |args, _| args.run("orlop"),
    /// Write the manual pages to a directory
    Man(ManArgs) = |args, _| well(args.run::<Cli>()),
    #[command(name = "__complete", hide = true)]
    Complete(CompleteArgs) = |args, _| args.run::<Cli>(),
}

/// A command that has nothing to say by its exit code.
fn well(done: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    done.map(|()| ExitCode::SUCCESS)
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

//! From `main` to the command that was asked for.
#![allow(unsafe_code)]

use std::env;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};
use orlop_cli::{ClientFlags, CompleteArgs, CompletionArgs, Crictl, Dialect, ManArgs, say};

use crate::commands::{
    ApplyArgs, ConfigCommand, DebugCommand, DeleteArgs, LogLevelArgs, MigrateArgs, NodeArgs, UpArgs,
};
use crate::serve::ServeArgs;
use crate::service_manager::Inherited;
use crate::{doctor, memory, serve};

/// The version. A build without some of the cargo features lists them.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let features = [
        ("docker", cfg!(feature = "docker")),
        ("node", cfg!(feature = "node")),
        ("migrate", cfg!(feature = "migrate")),
    ];
    let missing = features.iter().filter(|(_, is_built_in)| !is_built_in);
    let missing: Vec<&str> = missing.map(|(name, _)| *name).collect();
    let version = env!("CARGO_PKG_VERSION");
    if missing.is_empty() {
        return version.to_owned();
    }
    format!("{version} (without {})", missing.join(", "))
});

/// Container runtime for Kubernetes nodes.
#[derive(Debug, Parser)]
#[command(name = "orlop", version = VERSION.as_str())]
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
    /// Run the node agent, which runs pods from manifests on any CRI runtime without a cluster
    Node(NodeArgs) = |args, inherited| args.run(inherited),
    /// Run the daemon, the node agent and the pods of a manifest directory in one process
    Up(Box<UpArgs>) = |args, inherited| {
        memory::disable_core_dumps();
        args.run(inherited)
    },
    /// Apply manifests to the running node agent
    Apply(ApplyArgs) = |args, _| args.run(),
    /// Delete applied objects from the running node agent
    Delete(DeleteArgs) = |args, _| args.run(),
    /// Show, check or reload the configuration of the daemon
    #[command(subcommand)]
    Config(ConfigCommand) = |command, _| command.run(),
    /// Migrate configuration and images from containerd, CRI-O or Docker
    Migrate(MigrateArgs) = |args, _| args.run(),
    /// Show or change the log level of the running daemon
    LogLevel(LogLevelArgs) = |args, _| well(args.run()),
    /// Debug the running daemon
    #[command(subcommand)]
    Debug(DebugCommand) = |command, _| well(command.run()),
    /// Print a shell completion script for commands, flags, names and IDs
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

#[cfg(test)]
mod tests;

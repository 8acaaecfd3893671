//! The client commands, one file each.
//!
//! A command is a struct of `clap` arguments with a `run(self) ->
//! anyhow::Result<ExitCode>`; it is declared as a module here and gets a variant
//! and an arm below.

use std::process::ExitCode;

use clap::Subcommand;

/// A client command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {}
    }
}

//! `orlop config`: look at, check or reload the daemon's configuration.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use orlop_cli::{reactor, say};
use orlop_engine::doctor::{registry_problems, runtime_problems};

use crate::backend::engine_config;
use crate::config::values::Backend;
use crate::config::{Config, Flags, Location, default_file, effective, load, reference};
use crate::serve::{DaemonArgs, admin_client};

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a file with every key, its default and what it does
    Default,
    /// Print the reference of all keys, in Markdown
    #[command(hide = true)]
    Reference,
    /// Print the values in force and where each comes from
    Show(FileArgs),
    /// Name everything that is wrong with the configuration
    Check(FileArgs),
    /// Have a running daemon read its configuration again
    Reload(DaemonArgs),
}

/// The configuration in question.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// The configuration file; its drop-ins are FILE.d/*.toml
    /// [default: /etc/orlop/config.toml, where it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Default => print(&default_file())?,
            Self::Reference => print(&reference())?,
            Self::Show(args) => {
                print(&effective(&load(
                    &Location::new(args.config),
                    &Flags::default(),
                )?))?;
            }
            Self::Check(args) => return check(args),
            Self::Reload(args) => {
                let reloading = admin_client::call(args.socket(), "Reload", String::new());
                print(&format!("{}\n", reactor::client()?.block_on(reloading)?))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn check(args: FileArgs) -> anyhow::Result<ExitCode> {
    match load(&Location::new(args.config), &Flags::default()) {
        Ok(loaded) if loaded.files.is_empty() => print("no files, all defaults\n")?,
        Ok(loaded) => {
            for file in &loaded.files {
                print(&format!("{}: valid\n", file.display()))?;
            }
            warn_of_the_node(&loaded.config)?;
        }
        Err(problems) => {
            for problem in &problems.0 {
                say!("{problem}");
            }
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A file may be for another machine than this one: what is missing here is no mistake of it.
fn warn_of_the_node(config: &Config) -> anyhow::Result<()> {
    if config.daemon.backend != Backend::Native {
        return Ok(());
    }
    let Ok(config) = engine_config(config) else {
        return Ok(());
    };
    let mut problems = reactor::client()?.block_on(runtime_problems(&config));
    problems.extend(registry_problems(&config.images));
    for problem in problems {
        say!("warning: {problem}");
    }
    Ok(())
}

/// Prints, and takes no offence at a reader that has seen enough.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

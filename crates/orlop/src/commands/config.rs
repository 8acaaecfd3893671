//! `orlop config`: shows, checks, migrates or reloads the configuration of the daemon.

use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use orlop_cli::{reactor, say};
use orlop_engine::doctor::{registry_problems, runtime_problems};
use orlop_fs::{Outlives, write_file, write_new_file};

use crate::backend::engine_config;
use crate::config::values::Backend;
use crate::config::{
    Config, EARLIER, Flags, Location, Migrated, default_file, effective, load, migrate, read,
    reference,
};
use crate::serve::{DaemonArgs, admin_client};

/// Subcommands of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a configuration file with all keys, their defaults and descriptions
    Default,
    /// Print the reference of all keys, in Markdown
    #[command(hide = true)]
    Reference,
    /// Print the effective values and their origins
    Show(FileArgs),
    /// Check the configuration and print all errors
    Check(FileArgs),
    /// Convert configuration files of an earlier version
    Migrate(MigrateArgs),
    /// Reload the configuration of the running daemon
    Reload(DaemonArgs),
}

/// Flag that selects the configuration file.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// Configuration file; its drop-ins are FILE.d/*.toml [default: /etc/orlop/config.toml, if it
    /// exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Arguments of `config migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    files: FileArgs,
    /// Write the converted files and keep the originals as FILE.before; without it, only print the
    /// changes
    #[arg(long)]
    write: bool,
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
            Self::Migrate(args) => return migrate_all(&args),
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
        Ok(loaded) if loaded.files.is_empty() => {
            print("no configuration files; all keys have their default values\n")?;
        }
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

/// Migrates the file and its drop-ins. Fails if a change must be made by hand.
fn migrate_all(args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let location = Location::new(args.files.config.clone());
    let mut is_left = false;
    for file in location.files()? {
        let name = file.display();
        let text = read(&file).with_context(|| format!("{name}: cannot read the file"))?;
        let Some(migrated) = migrate(&text, EARLIER) else {
            say!("{name}: not valid TOML; run `orlop config check` to see the line");
            is_left = true;
            continue;
        };
        tell(&name.to_string(), &migrated)?;
        is_left |= !migrated.left.is_empty();
        if args.write && migrated.text != text {
            replace(&file, &text, &migrated.text)?;
        }
    }
    if is_left {
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(name: &str, migrated: &Migrated) -> io::Result<()> {
    if migrated.done.is_empty() && migrated.left.is_empty() {
        return print(&format!("{name}: up to date\n"));
    }
    for (line, what) in &migrated.done {
        print(&format!("{name}:{line}: {what}\n"))?;
    }
    for (line, what) in &migrated.left {
        say!("{name}:{line}: {what}");
    }
    Ok(())
}

/// Replaces a file and keeps its mode. The original is saved next to it first.
fn replace(file: &Path, before: &str, text: &str) -> anyhow::Result<()> {
    // A symbolic link is resolved, so that it stays and its target is replaced.
    let file = &file.canonicalize()?;
    let meta = file.metadata()?;
    let mode = meta.permissions().mode() & 0o777;
    let mut kept = file.as_os_str().to_owned();
    kept.push(".before");
    let kept = PathBuf::from(kept);
    let outlives = Outlives::PowerCut;
    write_new_file(&kept, mode, outlives, before.as_bytes()).with_context(|| {
        format!(
            "nothing was changed, because the original file cannot be kept as {}; remove that file \
             first",
            kept.display()
        )
    })?;
    write_file(file, mode, outlives, text.as_bytes())
        .with_context(|| format!("cannot write {}", file.display()))?;
    for written in [file, &kept] {
        std::os::unix::fs::chown(written, Some(meta.uid()), Some(meta.gid()))
            .with_context(|| format!("cannot set the owner of {}", written.display()))?;
    }
    Ok(())
}

/// Warns about files missing on this machine. They are no error: the configuration may be for another machine.
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

/// Prints to standard output. A reader that closes the pipe early is no error.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

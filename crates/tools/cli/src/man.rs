//! `man`: manual pages, generated from the clap definitions.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory to write to; it is created if it does not exist. The program and each command get
    /// one page
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl ManArgs {
    /// Writes the pages of a program.
    pub fn run<C: CommandFactory>(self) -> anyhow::Result<()> {
        let directory = &self.directory;
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let mut root = C::command();
        root.build();
        write(&root, root.get_name(), directory)
    }
}

/// Writes the page of a command and of its subcommands.
fn write(command: &Command, name: &str, directory: &Path) -> anyhow::Result<()> {
    let page = command
        .clone()
        .display_name(name.to_owned())
        .version(env!("CARGO_PKG_VERSION"));
    let mut text = Vec::new();
    // Without a date, the pages are reproducible.
    Man::new(page)
        .manual("orlop")
        .source(concat!("orlop ", env!("CARGO_PKG_VERSION")))
        .date("")
        .render(&mut text)?;
    let path = directory.join(format!("{name}.1"));
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    for below in command.get_subcommands() {
        if !below.is_hide_set() && below.get_name() != "help" {
            write(below, &format!("{name}-{}", below.get_name()), directory)?;
        }
    }
    Ok(())
}

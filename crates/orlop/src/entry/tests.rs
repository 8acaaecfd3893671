//! The help texts of all commands are in `docs/reference/help.md`, so that a change of one is seen in review.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use orlop_cli::Crictl;

use super::Cli;

const HEAD: &str = "# Help texts\n\n\
    The help texts of `orlop`, and of the same program when it is called as `crictl`. [Commands](commands.md) explains\n\
    how the commands work together. A test compares this page with the program.\n";

#[test]
fn the_help_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/help.md");
    let mut page = HEAD.to_owned();
    for mut command in [Cli::command(), Crictl::command()] {
        command = command.term_width(100);
        command.build();
        let name = command.get_name().to_owned();
        describe(&mut command, &name, &mut page);
    }
    if std::env::var_os("ORLOP_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/help.md differs from the help texts: run this test with ORLOP_BLESS=1 to write it again"
    );
}

/// Appends the help text of a command, and those of its subcommands.
fn describe(command: &mut Command, name: &str, page: &mut String) {
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let help = lines.join("\n");
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.trim_end()).unwrap();
    for below in command.get_subcommands_mut() {
        if !below.is_hide_set() && below.get_name() != "help" {
            let name = format!("{name} {}", below.get_name());
            describe(below, &name, page);
        }
    }
}

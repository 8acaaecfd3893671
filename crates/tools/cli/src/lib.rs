//! Commands that are clients of a CRI endpoint: those of crictl under the same names, and those for orlop's own
//! services. They work with any runtime that serves the CRI.
//!
//! | module | content |
//! |---|---|
//! | `commands` | a file or directory for each command, and the table that lists them |
//! | `table`, `run` | the macro behind that table; execution of a command |
//! | `crictl` | crictl mode: its flag syntax, exit codes and messages |
//! | `connect` | the endpoint with its flags and file, TLS, hints after failures |
//! | `input` | parsers of arguments |
//! | `families` | common parts of commands that do the same to different kinds of objects |
//! | `output` | tables, JSON, YAML, templates, values for people |
//! | `terminal` | keys, interrupts, passwords, progress |
//! | `completion`, `man` | shell completion and manual pages |
//! | `host` | information about the local machine |
//! | `reactor` | the tokio runtime of a command |
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read what they wrote themselves"
    )
)]

#[macro_use]
mod say;
#[macro_use]
mod table;

mod commands;
mod completion;
mod connect;
mod crictl;
mod families;
mod host;
mod input;
mod man;
mod output;
pub mod reactor;
mod run;
mod terminal;

pub use commands::{Command, import_archive};
pub use completion::{CompleteArgs, CompletionArgs};
pub use connect::{ClientFlags, Dialect};
pub use crictl::Crictl;
pub use host::{Examined, Host};
pub use input::Span;
pub use man::ManArgs;
pub use output::{Table, stdout};
